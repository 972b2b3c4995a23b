"""One list of our machines per region and moment, shared by all workers' reconciles.

A single-id Describe per worker would throttle an account for good at 200 workers (aws.md 6.3);
one paged list per region and a few seconds is a handful of calls a minute.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from labfleet.decisions.discovery import OWNER_TAG
from labfleet.interfaces.compute import Compute, Instance
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock

MAX_AGE = 8.0
FAILURE_AGE = 4.0
WATCHED_LIMIT = 5000


@dataclass(slots=True)
class _Region:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_at: float | None = None
    changes: int = 0
    failed_at: float | None = None
    failure: str = ""
    instances: dict[str, Instance] = field(default_factory=dict)
    watched: dict[str, str] = field(default_factory=dict)
    others: dict[str, Instance] = field(default_factory=dict)
    others_at: float | None = None


class Inventory:
    """What the provider listed lately; a listing never proves that a machine is gone."""

    def __init__(self, compute: Compute, clock: Clock) -> None:
        self._compute = compute
        self._clock = clock
        self._regions: dict[str, _Region] = {}

    async def find(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine, or None when the provider says by id that there is none.

        Not in the list means only: ask by id (terminated ones and listing lag). Machines of
        others that are only observed are listed together, by their images.
        """
        listed = (await self.all(region)).get(instance_id)
        kept = self._regions[region]
        if listed is None and instance_id in kept.watched:
            listed = (await self._others(region, kept)).get(instance_id)
        if listed is not None:
            return listed
        found = await self._compute.describe(region, instance_id)
        kept.watched.pop(instance_id, None)
        if found is not None and found.image_id and OWNER_TAG not in found.tags:
            kept.watched[instance_id] = found.image_id
            while len(kept.watched) > WATCHED_LIMIT:
                del kept.watched[next(iter(kept.watched))]
        return found

    async def _others(self, region: str, kept: _Region) -> dict[str, Instance]:
        async with kept.lock:
            now = self._clock.monotonic()
            if kept.others_at is None or now - kept.others_at > MAX_AGE:
                images = tuple(dict.fromkeys(kept.watched.values()))
                found = await self._compute.candidates(region, images)
                kept.others = {each.id: each for each in found}
                kept.others_at = self._clock.monotonic()
        return kept.others

    async def all(self, region: str) -> dict[str, Instance]:
        """Return the region's machines by id, at most `MAX_AGE` fleet seconds old.

        A failure is shared for `FAILURE_AGE`, or a region that is down would cost each worker
        in turn a whole time-out.
        """
        kept = self._regions.setdefault(region, _Region())
        async with kept.lock:
            now = self._clock.monotonic()
            if kept.read_at is None or now - kept.read_at > MAX_AGE:
                if kept.failed_at is not None and now - kept.failed_at < FAILURE_AGE:
                    raise errors.Temporary(kept.failure, reason="NotListed")
                await self._read(region, kept)
        return kept.instances

    async def _read(self, region: str, kept: _Region) -> None:
        changes = kept.changes
        try:
            listed = await self._compute.list_owned(region)
        except errors.LabfleetError as problem:
            kept.failed_at, kept.failure = self._clock.monotonic(), problem.message
            raise
        kept.failed_at = None
        kept.instances = {each.id: each for each in listed}
        # What was changed while we listed may not be in the list.
        kept.read_at = self._clock.monotonic() if kept.changes == changes else None

    def forget(self, region: str) -> None:
        """Read anew next time: we just changed something there."""
        if region in self._regions:
            self._regions[region].read_at = None
            self._regions[region].others_at = None
            self._regions[region].changes += 1
