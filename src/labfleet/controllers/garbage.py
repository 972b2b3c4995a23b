"""Find resources that carry our owner tag and have no owner, and remove them after a grace.

These are machines without a worker, and volumes and addresses that are attached to nothing. Two
phases: a suspect of `decisions.garbage` becomes due after its grace, is checked once more at the
provider and in the store, and only then removed. Each removal is recorded before its call, so
that the log says who and why. A new leader starts anew: it removes nothing before it has listed
every region once. The worker controller handles records whose instance is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import msgspec

from labfleet.controllers import region_records, stored
from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.decisions import garbage, provider
from labfleet.engine.controller import Again, Done
from labfleet.engine.effects import CALL_SECONDS
from labfleet.interfaces import store as stores
from labfleet.interfaces.compute import Instance, Leftover
from labfleet.kernel import errors
from labfleet.resources import fleet_settings, providers
from labfleet.resources import region as region_kind
from labfleet.resources.conditions import Condition
from labfleet.resources.meta import Key
from labfleet.resources.providers.trouble import Trouble
from labfleet.resources.region import (
    DEEDS_KEPT,
    OUTSIDE_KEPT,
    SUSPECTS_KEPT,
    Deed,
    RegionStatus,
    Suspect,
)
from labfleet.resources.template import Template
from labfleet.service.kinds import indices

KEY = Key("Worker", "", "garbage")
ACTOR = "garbage"
DEADLINE = CALL_SECONDS
Guard = Sequence[stores.Precondition]
Facts = tuple[Condition, ...]
_VERBS = {"instance": "terminates", "volume": "deletes", "address": "releases"}


@dataclass(slots=True)
class _SweepState:
    """What one round saw; `failed` says for a region why nothing there is decided."""

    machines: dict[str, dict[str, Instance]] = field(default_factory=dict)
    leftovers: dict[garbage.Place, Leftover] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, Trouble | None] = field(default_factory=dict)


class GarbageController:
    """Reconciles the provider's lists with our records, all regions in one round."""

    def __init__(self, context: Context, inventory: Inventory) -> None:
        self.context = context
        self._inventory = inventory
        self._since: dict[garbage.Place, float] = {}
        self._first: dict[garbage.Place, datetime] = {}
        self._refused: dict[garbage.Place, str] = {}
        self._synced: set[str] = set()
        self._token: int | None = None

    async def reconcile(self, key: Key) -> Done | Again:
        """List every region in use once, report suspects, remove what is due."""
        del key
        wanted = self.context.settings.now().garbage
        self._anew_if_new_leader()
        if wanted.enabled:
            await self._round(wanted)
        return Again(float(wanted.interval_seconds))

    async def _round(self, wanted: fleet_settings.Garbage) -> None:
        regions = self._regions()
        state = await self._look(regions, wanted)
        # Read the provider first, then the records: records written in between count.
        known = garbage.owners(self.context.cache.by(indices.WORKERS_LIVING, True))
        rules = garbage.Rules(
            grace=float(wanted.grace_seconds),
            round_limit=wanted.round_limit,
            keep_tag=wanted.keep_tag,
            dry_run=wanted.dry_run,
            hold=self._hold(regions),
        )
        things = [
            garbage.instance(region, machine, known, wanted.keep_tag)
            for region, machines in state.machines.items()
            for machine in machines.values()
        ]
        things += [
            garbage.leftover(each, known, wanted.keep_tag) for each in state.leftovers.values()
        ]
        made = garbage.sweep(
            things,
            self._since,
            self.context.clock.monotonic(),
            rules,
            listed={region: len(machines) for region, machines in state.machines.items()},
            unheard=state.failed,
        )
        self._since = dict(made.since)
        await self._tell(regions, things, made, state, wanted)
        if made.due:
            await self._end(made.due, state)

    def _anew_if_new_leader(self) -> None:
        """Forget the suspects of an earlier term of leadership."""
        fence = self.context.leadership.fence
        token = None if fence is None else fence.token
        if token != self._token:
            self._token = token
            self._since.clear()
            self._first.clear()
            self._refused.clear()
            self._synced.clear()

    def _regions(self) -> list[str]:
        cache = self.context.cache
        found = set(cache.values(indices.WORKERS_OF_REGION))
        found |= {each.spec.machine.provider.region for each in cache.all(Template)}
        discovery = self.context.settings.now().discovery
        found |= set(discovery.regions) if discovery.enabled else set()
        return sorted(found)

    def _hold(self, regions: list[str]) -> str | None:
        paused = self.context.settings.paused()
        if paused is not None:
            return paused
        # An unreadable record may be the owner of a suspect (facts/aws-bugs.md#case-42).
        unreadable = [
            each.label for each in self.context.cache.quarantined if each.kind == "Worker"
        ]
        if unreadable:
            return f"the record of worker {min(unreadable)} cannot be read"
        unseen = [each for each in regions if each not in self._synced]
        return f"not listed yet since this leader began: {', '.join(unseen)}" if unseen else None

    async def _look(self, regions: list[str], wanted: fleet_settings.Garbage) -> _SweepState:
        """List every region; when any part of one fails, nothing there is decided."""
        state = _SweepState()
        for region in regions:
            try:
                machines = await self._inventory.all(region)
                left: tuple[Leftover, ...] = ()
                if wanted.sweep_volumes or wanted.sweep_addresses:
                    left = await self.context.compute.leftovers(region)
            except errors.LabfleetError as problem:
                state.failed[region] = problem.message[:300]
                state.troubles[region] = self.context.compute.trouble(region, problem)
                continue
            self._synced.add(region)
            state.machines[region] = machines
            for each in left:
                swept = wanted.sweep_volumes if each.kind == "volume" else wanted.sweep_addresses
                if swept:
                    state.leftovers[each.region, each.kind, each.id] = each
        return state

    async def _tell(
        self,
        regions: list[str],
        things: list[garbage.SweepCandidate],
        made: garbage.Round,
        state: _SweepState,
        wanted: fleet_settings.Garbage,
    ) -> None:
        """Record the suspects of the regions where they changed."""
        now = self.context.clock.now()
        kept = {place: at for place, at in self._first.items() if place[0] in state.failed}
        self._first = kept | {place: self._first.get(place, now) for place in made.next}
        self._refused = {place: why for place, why in self._refused.items() if place in self._first}
        grace = timedelta(seconds=wanted.grace_seconds)
        for region in regions:
            before = self.context.cache.find(region_kind.ref(region))
            if region in state.failed:
                suspects = () if before is None else before.status.suspects
                waits = f"its list failed, nothing is judged here: {state.failed[region]}"
            else:
                suspects, waits = self._suspects(region, things, made, grace), ""
            outside = self._outside(region)
            status = RegionStatus() if before is None else before.status
            facts = partial(self._answers, state, region, now)
            made_ = (suspects, waits, outside, facts(status.conditions))
            if made_ != (status.suspects, status.waits, status.outside, status.conditions):
                await self._write(region, suspects, waits, outside, facts)

    def _answers(self, state: _SweepState, region: str, now: datetime, before: Facts) -> Facts:
        """Return a region's conditions with whether its provider answered this round."""
        word = providers.serving(region)
        title = region if word is None else providers.PROVIDERS[word].title
        asked = provider.Asked(title, region, state.failed.get(region, ""))
        return provider.of_region(before, state.troubles.get(region), asked, now)

    def _outside(self, region: str) -> tuple[str, ...]:
        """Return the machines of recorded workers that the provider confirmed as ended by others."""
        workers = self.context.cache.by(indices.WORKERS_OUTSIDE, region)
        found = {each.status.machine.id or "" for each in workers if garbage.vanished(each)}
        return tuple(sorted(found - {""}))[:OUTSIDE_KEPT]

    def _suspects(
        self,
        region: str,
        things: list[garbage.SweepCandidate],
        made: garbage.Round,
        grace: timedelta,
    ) -> tuple[Suspect, ...]:
        found = []
        for thing in things:
            told = made.next.get(thing.place)
            if thing.place[0] != region or told is None:
                continue
            since = self._first[thing.place]
            ends = told.startswith("ended")
            refused = self._refused.get(thing.place)
            told += f"; the last try failed: {refused}" if refused else ""
            found.append(
                Suspect(
                    kind=thing.place[1],
                    id=thing.place[2],
                    name=thing.name[:100],
                    since=since,
                    why=thing.why,
                    next=told,
                    due=since + grace if ends else None,
                )
            )
        return tuple(found[:SUSPECTS_KEPT])

    async def _write(
        self,
        region: str,
        suspects: tuple[Suspect, ...],
        waits: str,
        outside: tuple[str, ...],
        facts: Callable[[Facts], Facts],
    ) -> None:
        def new(status: RegionStatus) -> RegionStatus:
            return msgspec.structs.replace(
                status,
                suspects=suspects,
                waits=waits,
                outside=outside,
                conditions=facts(status.conditions),
                ended_outside=status.ended_outside + len(set(outside) - set(status.outside)),
            )

        told = waits or f"{len(suspects)} suspected of being left behind"
        await self._careful(
            lambda: region_records.change(self.context, region, new, actor=ACTOR, reason=told)
        )

    async def _end(self, due: tuple[garbage.SweepCandidate, ...], state: _SweepState) -> None:
        """Remove what is due, each after a last check of the provider and then the store."""
        for thing in due:
            wanted = self.context.settings.now().garbage
            if wanted.dry_run or not wanted.enabled or self.context.settings.paused() is not None:
                return  # removing was switched off or paused during this round
            # The guard makes the commit fail when that happens after this check.
            guard = (self.context.settings.unchanged(),)
            # Removed or cleared: if it is still there next time, it is a new suspect.
            self._since.pop(thing.place, None)
            self._first.pop(thing.place, None)
            if thing.place[1] == "instance":
                end = partial(self._end_machine, thing, wanted, guard)
            else:
                end = partial(self._end_leftover, state.leftovers[thing.place], wanted, guard)
            await self._careful(end)

    async def _owners(self) -> garbage.Owners:
        """Return who owns what as stored now: a record written late still counts."""
        return garbage.owners(await stored.workers(self.context.objects.store))

    async def _end_machine(
        self, thing: garbage.SweepCandidate, wanted: fleet_settings.Garbage, guard: Guard
    ) -> None:
        region, _, instance_id = thing.place
        machine = await self.context.compute.describe(region, instance_id)
        if machine is None:
            return
        judged = garbage.instance(region, machine, await self._owners(), wanted.keep_tag)
        if judged.word == "suspect":
            await self._note(judged, guard)
            await self._do(
                judged, "terminate", lambda: self.context.compute.terminate(region, machine.id)
            )
            self._inventory.forget(region, machine.id)

    async def _end_leftover(
        self, left: Leftover, wanted: fleet_settings.Garbage, guard: Guard
    ) -> None:
        judged = garbage.leftover(left, await self._owners(), wanted.keep_tag)
        if judged.word == "suspect":
            await self._note(judged, guard)
            await self._do(judged, "remove", lambda: self.context.compute.remove(left))

    async def _do(
        self, thing: garbage.SweepCandidate, kind: str, make: Callable[[], Awaitable[None]]
    ) -> None:
        """Do what was recorded, and withdraw the record when it certainly was not done."""
        try:
            await self._call(kind, make)
        except (errors.Ambiguous, errors.Fenced):
            raise
        except errors.LabfleetError as problem:
            self._refused[thing.place] = problem.message[:200]
            await self._take_back(thing, problem)
            raise

    async def _take_back(
        self, thing: garbage.SweepCandidate, problem: errors.LabfleetError
    ) -> None:
        region, _, name = thing.place

        def new(status: RegionStatus) -> RegionStatus:
            last = next((each for each in reversed(status.deeds) if each.id == name), None)
            kept = tuple(each for each in status.deeds if each is not last)
            return msgspec.structs.replace(status, deeds=kept, ended=max(status.ended - 1, 0))

        told = f"did not end {name}: {problem.message}"
        await region_records.change(self.context, region, new, actor=ACTOR, reason=told)

    async def _note(self, thing: garbage.SweepCandidate, guard: Guard) -> None:
        """Record the removal before it is done, so that the log says who, what and why."""
        region, kind, name = thing.place
        deed = Deed(
            at=self.context.clock.now(), kind=kind, id=name, name=thing.name[:100], why=thing.why
        )

        def new(status: RegionStatus) -> RegionStatus:
            return msgspec.structs.replace(
                status,
                deeds=(*status.deeds, deed)[-DEEDS_KEPT:],
                ended=status.ended + 1,
                suspects=tuple(each for each in status.suspects if each.id != name),
            )

        told = f"{_VERBS.get(kind, 'ends')} {name}: {thing.why}"
        await region_records.change(
            self.context, region, new, actor=ACTOR, reason=told, guard=guard
        )

    async def _call(self, kind: str, make: Callable[[], Awaitable[None]]) -> None:
        """Make the call only while the lease certainly lasts for the call's whole deadline."""
        effect = self.context.effects.open(kind, deadline=DEADLINE)
        await self.context.effects.call(effect, make, deadline=DEADLINE)

    async def _careful(self, make: Callable[[], Awaitable[object]]) -> None:
        """Catch the error of one resource so that others are handled; only Fenced is raised."""
        try:
            await make()
        except errors.Fenced:
            raise
        except errors.LabfleetError:
            return
