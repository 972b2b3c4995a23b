"""Caches one list of our machines per region, shared by all workers' reconciles.

With 200 workers, one Describe per worker would keep the account throttled
(facts/aws.md#request-buckets); one paged list per region every few seconds is a handful of calls a
minute. The provider's checks are listed the same way, by filter. A machine that we just changed
is asked for by its id until the next list, instead of listing everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from labfleet.decisions.discovery import OWNER_TAG
from labfleet.decisions.lifecycle.worker.draft import PROVIDER_BELIEVED
from labfleet.interfaces.compute import Checks, Instance, Machines
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.machine import MachineState

MAX_AGE = 8.0
FAILURE_AGE = 4.0
CHECKS_AGE = 30.0
STALE_STATE = 120.0
"""How long EC2 may still show the state from before a call that it accepted.

Source: facts/aws-bugs.md#case-13, #case-15.
"""
BEFORE: Mapping[MachineState, frozenset[MachineState]] = {
    "booting": frozenset({"stopped"}),
    "stopping": frozenset({"running"}),
    "ending": frozenset({"booting", "running", "stopping", "stopped"}),
}
WATCHED_LIMIT = 5000
ENDED_LIMIT = 5000


@dataclass(slots=True)
class _Region:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    read_at: float | None = None
    changed: dict[str, float] = field(default_factory=dict)
    taken: dict[str, tuple[MachineState, float]] = field(default_factory=dict)
    failed_at: float | None = None
    failing_since: float | None = None
    failure: errors.LabfleetError | None = None
    instances: dict[str, Instance] = field(default_factory=dict)
    ended: dict[str, Instance] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    watched: dict[str, str] = field(default_factory=dict)
    others: dict[str, Instance] = field(default_factory=dict)
    others_at: float | None = None
    checks_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    checks: Mapping[str, Checks] | None = None
    checks_at: float | None = None
    checks_asked: float | None = None


class Inventory:
    """The provider's latest lists; a machine missing there is not proven to be gone."""

    def __init__(self, compute: Machines, clock: Clock) -> None:
        self._compute = compute
        self._clock = clock
        self._regions: dict[str, _Region] = {}

    async def find(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine, or None when the provider says by id that there is none.

        A machine missing in the list is asked for by id (it may be terminated, or the list may
        lag). Observed machines of others are listed together, by their images. A terminated
        machine stays so and is not asked for again. After a call that EC2 accepted, the state
        of its answer is returned until EC2's lists show it too, so no call is repeated.
        """
        found = await self._shown(region, instance_id)
        kept = self._regions[region]
        kept.told.pop(instance_id, None)
        kept.told[instance_id] = self._clock.monotonic()
        while len(kept.told) > WATCHED_LIMIT:
            del kept.told[next(iter(kept.told))]
        if found is not None:
            kept.missing.pop(instance_id, None)
        else:
            kept.missing.setdefault(instance_id, kept.told[instance_id])
            while len(kept.missing) > WATCHED_LIMIT:
                del kept.missing[next(iter(kept.missing))]
        state, at = kept.taken.get(instance_id, (None, 0.0))
        if found is None or state is None:
            return found
        if found.state in BEFORE[state] and self._clock.monotonic() - at < STALE_STATE:
            return replace(found, state=state)
        kept.taken.pop(instance_id, None)
        return found

    def missing_since(self, region: str, instance_id: str) -> float:
        """Return since when, by the monotonic clock, each answer said that there is no such machine."""
        kept = self._regions.get(region)
        now = self._clock.monotonic()
        return now if kept is None else kept.missing.get(instance_id, now)

    async def _shown(self, region: str, instance_id: str) -> Instance | None:
        listed = (await self.all(region)).get(instance_id)
        kept = self._regions[region]
        if instance_id in kept.ended:
            return kept.ended[instance_id]
        if instance_id in kept.changed:
            return await self._by_id(region, kept, instance_id)
        if listed is None and instance_id in kept.watched:
            listed = (await self._others(region, kept)).get(instance_id)
        if listed is not None:
            return listed
        found = await self._by_id(region, kept, instance_id)
        kept.watched.pop(instance_id, None)
        if found is not None and found.image_id and OWNER_TAG not in found.tags:
            kept.watched[instance_id] = found.image_id
            while len(kept.watched) > WATCHED_LIMIT:
                del kept.watched[next(iter(kept.watched))]
        return found

    async def _by_id(self, region: str, kept: _Region, instance_id: str) -> Instance | None:
        found = await self._compute.describe(region, instance_id)
        if found is not None and found.state == "gone":
            kept.ended[instance_id] = found
            while len(kept.ended) > ENDED_LIMIT:
                del kept.ended[next(iter(kept.ended))]
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

        A failure is shared for `FAILURE_AGE`; otherwise a region that is down would cost each
        worker in turn a whole time-out.
        """
        kept = self._regions.get(region)
        if kept is None:
            kept = self._regions[region] = _Region()
        async with kept.lock:
            now = self._clock.monotonic()
            if kept.read_at is None or now - kept.read_at > MAX_AGE:
                failed = kept.failure is not None and kept.failed_at is not None
                if (
                    kept.failure is not None
                    and failed
                    and now - (kept.failed_at or 0) < FAILURE_AGE
                ):
                    raise kept.failure.with_traceback(None)
                await self._read(region, kept)
        return kept.instances

    async def checks(self, region: str) -> Mapping[str, Checks] | None:
        """Return the provider's checks that are not ok, or None when they are not known.

        At most `CHECKS_AGE` old; a running machine that is not in it is ok. Never raises: that
        the checks cannot be read says nothing about the machines.
        """
        kept = self._regions.setdefault(region, _Region())
        async with kept.checks_lock:
            now = self._clock.monotonic()
            if kept.checks_asked is None or now - kept.checks_asked > CHECKS_AGE:
                kept.checks_asked = now
                try:
                    kept.checks = await self._compute.checks(region)
                    kept.checks_at = self._clock.monotonic()
                except errors.LabfleetError:
                    if kept.checks_at is None or now - kept.checks_at > PROVIDER_BELIEVED:
                        kept.checks = None
        return kept.checks

    async def _read(self, region: str, kept: _Region) -> None:
        begun = self._clock.monotonic()
        try:
            listed = await self._compute.list_owned(region)
        except errors.LabfleetError as problem:
            kept.failed_at, kept.failure = self._clock.monotonic(), problem
            kept.failing_since = begun if kept.failing_since is None else kept.failing_since
            raise
        kept.failed_at = kept.failing_since = kept.failure = None
        kept.instances = {each.id: each for each in listed}
        kept.read_at = self._clock.monotonic()
        # Changes made while we listed may not be in the list.
        kept.changed = {name: at for name, at in kept.changed.items() if at >= begun}

    def silent_for(self, region: str, instance_id: str) -> float:
        """Return the seconds since the provider last told of a machine, as this process knows.

        Of the machine, not of its region: one of many may be the only one that does not answer.
        Before any word of it they count from the first list that failed; 0 when none did.
        """
        kept = self._regions.get(region)
        at = None if kept is None else kept.told.get(instance_id, kept.read_at)
        if kept is not None and at is None:
            at = kept.failing_since
        return 0.0 if at is None else self._clock.monotonic() - at

    def took(self, region: str, instance_id: str, state: MachineState) -> None:
        """Record that EC2 accepted a call leading to this state, even if it shows it later."""
        self.forget(region, instance_id)
        kept = self._regions[region]
        kept.taken[instance_id] = (state, self._clock.monotonic())
        while len(kept.taken) > WATCHED_LIMIT:
            del kept.taken[next(iter(kept.taken))]

    def forget(self, region: str, instance_id: str) -> None:
        """Have this machine, which we just changed, asked for by its id until the next list."""
        kept = self._regions.setdefault(region, _Region())
        kept.changed[instance_id] = self._clock.monotonic()
        kept.others_at = None
