"""EC2 with a pace and a memory: what one process asks of it, how fast, and what it refused.

Wraps the calls of any EC2 (boto's, the rehearsal's) into `Compute`. The rates are `pace`'s, the
refusals `offers`'; both are told of each call's outcome here, so that no caller has to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from labfleet.adapters.aws import errors as translation
from labfleet.adapters.aws.launches import own
from labfleet.adapters.aws.offers import Offers, Option
from labfleet.adapters.aws.pace import token_buckets
from labfleet.interfaces.compute import (
    Checks,
    Compute,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    Machines,
    MetricPoint,
    Taken,
)
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.trouble import Trouble

HELD_SECONDS = 60.0
"""The longest a worker waits unseen for its start, since its deadlines still run."""


class Ec2Calls(Machines, Protocol):
    """The calls of EC2 alone, with the two that only a choice needs."""

    async def find_image(self, region: str, settings: AwsSettings) -> Image:
        """Return the newest image that the settings name; Invalid when none matches."""
        ...

    async def check_network(self, region: str, settings: AwsSettings) -> None:
        """Raise Invalid (VpcMismatch) when a named VPC is not that of subnets and groups."""
        ...


class PacedEc2(Compute):
    """Compute of EC2 for one process."""

    def __init__(self, ec2: Ec2Calls, clock: Clock) -> None:
        self.ec2 = ec2
        self.offers = Offers()
        self._clock = clock
        self._buckets = token_buckets()

    # --- what to ask for, and when ---------------------------------------------------------

    def turn(self, action: str, region: str, instance_id: str | None = None) -> float:
        """Take a token of the action's bucket; a refused start waits for its own time first."""
        clock, bucket = self._clock, self._buckets.get(action)
        if action == "start":
            now = clock.now()
            at = self.offers.starts.opens((region, instance_id), now)
            if at is not None:
                return min((at - now).total_seconds(), HELD_SECONDS)
        if bucket is None:
            return 0.0
        return bucket.wait(clock.monotonic() / clock.rate) * clock.rate

    def trouble(self, region: str, problem: errors.LabfleetError) -> Trouble | None:
        """Return what an error says of EC2, its credentials and permissions."""
        del region
        return translation.trouble(problem)

    def held(
        self, settings: ProviderSettings, choice: Mapping[str, str] | None = None
    ) -> errors.Temporary | None:
        """Return the account limit or the lack of stock that blocks a launch."""
        option = None if choice is None else option_of(choice)
        return self.offers.held(own(settings), self._clock.now(), option)

    async def image(self, settings: ProviderSettings) -> str | None:
        """Return the image that the settings name, or the newest that matches."""
        aws = own(settings)
        return (await self.ec2.find_image(aws.region, aws)).id

    async def choose(self, settings: ProviderSettings, taken: Taken) -> Mapping[str, str]:
        """Return image, type and subnet: the first in order of preference that is not blocked."""
        del taken  # EC2 makes each machine anew
        aws = own(settings)
        await self.ec2.check_network(aws.region, aws)
        image = await self.ec2.find_image(aws.region, aws)
        kind, subnet = self.offers.choose(aws, self._clock.now())
        chosen = {"image": image.id, "type": kind}
        return chosen if subnet is None else {**chosen, "subnet": subnet}

    # --- calls whose outcome is remembered -------------------------------------------------

    async def launch(self, request: LaunchRequest) -> Instance:
        """Launch, and remember where there was room and where not."""
        settings, option = own(request.settings), option_of(request.choice)
        try:
            with self._noted("launch"):
                made = await self.ec2.launch(request)
        except (errors.OutOfCapacity, errors.QuotaExceeded) as problem:
            self.offers.refused(settings, option, problem, self._clock.now())
            raise
        self.offers.worked(settings, option)
        return made

    async def start(self, region: str, instance_id: str) -> None:
        """Start; a refusal says when this machine is asked for again.

        Another machine is never launched instead: this one has the worker's disk and licence
        (facts/aws-bugs.md#case-19, #case-22).
        """
        key = (region, instance_id)
        try:
            with self._noted("start"):
                await self.ec2.start(region, instance_id)
        except (errors.OutOfCapacity, errors.QuotaExceeded) as problem:
            now = self._clock.now()
            block = self.offers.starts.refused(key, problem, now)
            problem.retry_after = (block.until - now).total_seconds()
            raise
        self.offers.starts.worked(key)

    async def stop(self, region: str, instance_id: str) -> None:
        """Stop."""
        with self._noted("stop"):
            await self.ec2.stop(region, instance_id)

    async def terminate(self, region: str, instance_id: str) -> None:
        """Terminate."""
        with self._noted("terminate"):
            await self.ec2.terminate(region, instance_id)

    @contextmanager
    def _noted(self, action: str) -> Iterator[None]:
        """Adapt the action's rate to the outcome of a call."""
        try:
            yield
        except errors.Throttled:
            self._buckets[action].throttled()
            raise
        self._buckets[action].passed()

    # --- calls as they are -----------------------------------------------------------------

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Return the machines of this worker and attempt."""
        return await self.ec2.find_launched(request)

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine, or None when EC2 says NotFound."""
        return await self.ec2.describe(region, instance_id)

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return our machines that are not terminated."""
        return await self.ec2.list_owned(region)

    async def console_output(self, region: str, instance_id: str) -> str:
        """Return the last console text."""
        return await self.ec2.console_output(region, instance_id)

    async def checks(self, region: str) -> Mapping[str, Checks]:
        """Return the machines whose checks are not all ok."""
        return await self.ec2.checks(region)

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        """Return the images whose name matches."""
        return await self.ec2.images(region, pattern, owners)

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return every machine of these images, whoever owns it."""
        return await self.ec2.candidates(region, image_ids)

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        """Put our owner tags on a machine that has none."""
        await self.ec2.claim(region, instance_id, worker, worker_uid)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on a machine of ours."""
        await self.ec2.set_tags(region, instance_id, tags)

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        """Remove tags from a machine of ours."""
        await self.ec2.remove_tags(region, instance_id, keys)

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        """Return volumes and addresses of ours that are attached to nothing."""
        return await self.ec2.leftovers(region)

    async def remove(self, leftover: Leftover) -> None:
        """Delete the volume or release the address."""
        await self.ec2.remove(leftover)

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        """Return CloudWatch points."""
        return await self.ec2.metrics(region, instance_ids, start, end, period)

    async def close(self) -> None:
        """Release threads and connections."""
        await self.ec2.close()


def option_of(choice: Mapping[str, str]) -> Option:
    """Return the type and subnet of a choice."""
    return choice["type"], choice.get("subnet")
