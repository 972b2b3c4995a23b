"""Compute over all providers: each call goes to the one whose region it names.

This is where an adapter is registered, under the word of its settings (`resources/providers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from labfleet.interfaces.compute import (
    Checks,
    Compute,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
    Taken,
)
from labfleet.kernel import errors
from labfleet.resources import providers
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.trouble import Trouble


class Providers(Compute):
    """Routes by region; settings name their region themselves."""

    def __init__(self, **adapters: Any) -> None:
        self._adapters: Mapping[str, Compute] = adapters

    def at(self, region: str) -> Compute:
        """Return the provider's adapter; Invalid when the installation has none for the region."""
        found = self._adapters.get(providers.serving(region) or "")
        if found is None:
            raise errors.Invalid(
                f"no provider here has a region {region[:64]!r}", reason="NoRegion"
            )
        return found

    def turn(self, action: str, region: str, instance_id: str | None = None) -> float:
        """Take a turn at the provider."""
        return self.at(region).turn(action, region, instance_id)

    def trouble(self, region: str, problem: errors.LabfleetError) -> Trouble | None:
        """Return what a call's error says of the region's provider."""
        found = self._adapters.get(providers.serving(region) or "")
        return None if found is None else found.trouble(region, problem)

    def held(
        self, settings: ProviderSettings, choice: Mapping[str, str] | None = None
    ) -> errors.Temporary | None:
        """Return why nothing can be launched now."""
        return self.at(settings.region).held(settings, choice)

    async def image(self, settings: ProviderSettings) -> str | None:
        """Return the image of the next machine."""
        return await self.at(settings.region).image(settings)

    async def choose(self, settings: ProviderSettings, taken: Taken) -> Mapping[str, str]:
        """Return what a launch is to ask for."""
        return await self.at(settings.region).choose(settings, taken)

    async def launch(self, request: LaunchRequest) -> Instance:
        """Start one machine."""
        return await self.at(request.region).launch(request)

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Return the machines of this worker and attempt."""
        return await self.at(request.region).find_launched(request)

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine."""
        return await self.at(region).describe(region, instance_id)

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return our machines of a region."""
        return await self.at(region).list_owned(region)

    async def start(self, region: str, instance_id: str) -> None:
        """Ask a stopped machine to start."""
        await self.at(region).start(region, instance_id)

    async def stop(self, region: str, instance_id: str) -> None:
        """Ask a running machine to stop."""
        await self.at(region).stop(region, instance_id)

    async def terminate(self, region: str, instance_id: str) -> None:
        """Ask to end the machine."""
        await self.at(region).terminate(region, instance_id)

    async def console_output(self, region: str, instance_id: str) -> str:
        """Return the last console text."""
        return await self.at(region).console_output(region, instance_id)

    async def checks(self, region: str) -> Mapping[str, Checks]:
        """Return the machines whose checks are not all ok."""
        return await self.at(region).checks(region)

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        """Return the images whose name matches."""
        return await self.at(region).images(region, pattern, owners)

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return every machine of these images."""
        return await self.at(region).candidates(region, image_ids)

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        """Make a machine ours."""
        await self.at(region).claim(region, instance_id, worker, worker_uid)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on a machine of ours."""
        await self.at(region).set_tags(region, instance_id, tags)

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        """Remove tags from a machine of ours."""
        await self.at(region).remove_tags(region, instance_id, keys)

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        """Return what is attached to nothing."""
        return await self.at(region).leftovers(region)

    async def remove(self, leftover: Leftover) -> None:
        """Remove a leftover."""
        await self.at(leftover.region).remove(leftover)

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        """Return the provider's measurements."""
        return await self.at(region).metrics(region, instance_ids, start, end, period)

    async def close(self) -> None:
        """Release what the adapters hold."""
        for each in self._adapters.values():
            await each.close()
