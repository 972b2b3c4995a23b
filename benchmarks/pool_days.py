"""A pool played over time: what the product's own decisions make of a list of jobs.

The decisions are those that the controllers call (`scaling.decide_pool`, `placement.place`), once in
a tick of 30 seconds. What waits is placed in the order of its submission, a worker is paid for from
the decision that makes it to the one that takes it away, and a job's true length is known to nobody
before its end. A tick in which nothing can have changed is passed over.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from labfleet.decisions import placement, scaling
from labfleet.decisions.pools import policy_kinds
from labfleet.decisions.pools.need import WAITING_LIMIT
from labfleet.decisions.scaling import PoolView, PoolWorker
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.pool import PoolPhase, PoolSpec, Scaling
from labfleet.resources.worker import WorkerPhase

TICK = 30
LOOK = 300
"""Seconds after which a pool at rest is looked at again: a cool-down or a timetable may allow more."""
ZONES = {"UTC": UTC}
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
"""Second 0, a Monday at midnight in UTC."""


@dataclass(frozen=True, slots=True)
class Job:
    """One session: when it is asked for, how long it runs, and what it states to run and to need.

    `shares` are its shares of one worker: of the CPUs, and of the memory.
    """

    submit: int
    seconds: int
    stated: int
    amounts: Amounts
    shares: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Boot:
    """How a boot goes: after how many seconds the worker is up, or seen to have failed."""

    seconds: int
    failed: bool = False


@dataclass(slots=True)
class Machine:
    """One worker of the played pool."""

    name: str
    made: int
    boot: Boot
    phase: WorkerPhase = WorkerPhase.STARTING
    held: dict[int, Reservation] = field(default_factory=dict)
    empty_since: datetime | None = None
    seen: tuple[PoolWorker, placement.Candidate] | None = None


@dataclass(slots=True)
class Played:
    """What came of it: hours in worker-hours, waits in seconds, one for each job.

    `short` and `surplus` are worker-hours that were missing, and that nobody needed; `days` is how
    long it was played.
    """

    worker_hours: float = 0.0
    waits: list[int] = field(default_factory=list)
    short: float = 0.0
    surplus: float = 0.0
    changes: int = 0
    days: float = 0.0


class PoolDays:
    """Plays one pool; `boots` says how the boot of the n-th worker goes."""

    def __init__(
        self,
        jobs: Sequence[Job],
        size: Amounts,
        rules: Scaling,
        boots: Callable[[int], Boot] = lambda number: Boot(300),
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: job.submit)
        self.spec = PoolSpec(template="t", name_prefix="w", scaling=rules)
        self.shape = placement.WorkerShape(name="t", track="default", capacity=size)
        self.boots = boots
        self.machines: dict[str, Machine] = {}
        self.waiting: list[int] = []
        self.found = Played()
        self.phase = PoolPhase.READY
        self.created = 0
        self.last_up: datetime | None = None
        self.last_down: datetime | None = None
        self._events: list[tuple[int, int, str]] = []
        self._next = 0
        self._numbers = itertools.count()
        self._needed = [0.0, 0.0]

    def play(self) -> Played:
        """Play until the last job has ended, and return what came of it."""
        now, quiet = self.jobs[0].submit // TICK * TICK, 0
        while True:
            changed = self._until(now)
            if changed and self.waiting:
                self._place(now)
            if changed or quiet >= LOOK or self._restless():
                changed = self._decide(now) or changed
                quiet = 0
            if self._next == len(self.jobs) and not (self.waiting or any(
                each.held for each in self.machines.values()
            )):  # fmt: skip
                break
            following = self._following(now, quiet)
            self._count(following - now)
            quiet += following - now
            self.found.days += (following - now) / 86_400
            now = following
        return self.found

    def _following(self, now: int, quiet: int) -> int:
        """Return the next tick at which something may change."""
        if self._restless():
            return now + TICK
        ahead = [now + LOOK - quiet]
        if self._events:
            ahead.append(self._events[0][0])
        if self._next < len(self.jobs):
            ahead.append(self.jobs[self._next].submit)
        return max(now + TICK, -(-min(ahead) // TICK) * TICK)

    def _restless(self) -> bool:
        """Tell whether each tick may change the size: a worker is empty, or the pool follows need."""
        if self.waiting and policy_kinds.demand(self.spec.scaling):
            return True
        return any(each.empty_since is not None for each in self.machines.values())

    def _count(self, seconds: int) -> None:
        up = sum(each.phase is not WorkerPhase.STARTING for each in self.machines.values())
        paid = len(self.machines)
        need = -int(-round(max(self._needed), 9) // 1)
        self.found.worker_hours += paid * seconds / 3600
        self.found.short += max(0, need - up) * seconds / 3600
        self.found.surplus += max(0, paid - need) * seconds / 3600

    def _until(self, now: int) -> bool:
        """Let happen what happens until now: submissions, ends, boots."""
        changed = False
        while self._next < len(self.jobs) and self.jobs[self._next].submit <= now:
            self.waiting.append(self._next)
            self._add(self.jobs[self._next], 1)
            self._next, changed = self._next + 1, True
        while self._events and self._events[0][0] <= now:
            at, job, name = heapq.heappop(self._events)
            changed = True
            machine = self.machines.get(name)
            if job >= 0 and machine is not None:
                del machine.held[job]
                self._add(self.jobs[job], -1)
                self._idle(machine, at)
            elif machine is not None:
                failed = machine.boot.failed
                machine.phase = WorkerPhase.FAILED if failed else WorkerPhase.READY
                if not failed:
                    self._idle(machine, at)
        return changed

    def _add(self, job: Job, sign: int) -> None:
        self._needed[0] += sign * job.shares[0]
        self._needed[1] += sign * job.shares[1]

    def _idle(self, machine: Machine, at: int) -> None:
        machine.seen = None
        if not machine.held:
            machine.phase, machine.empty_since = WorkerPhase.READY, instant(at)

    def _place(self, now: int) -> None:
        """Give each that waits the worker that the product's placement chooses."""
        at, left, failed = instant(now), [], set[Amounts]()
        up = {
            each.name: self._seen(each)[1]
            for each in self.machines.values()
            if each.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}
        }
        for number in self.waiting:
            if self.jobs[number].amounts in failed:  # room only shrinks while these are placed
                left.append(number)
                continue
            request = self._request(number, now)
            name = placement.place(request, tuple(up.values()), now=at).chosen
            if name is None:
                failed.add(request.amounts)
                left.append(number)
                continue
            machine, job = self.machines[name], self.jobs[number]
            machine.held[number] = Reservation(
                holder=str(number), amounts=job.amounts, start=at, end=request.end
            )
            machine.phase, machine.empty_since, machine.seen = WorkerPhase.ACTIVE, None, None
            up[name] = self._seen(machine)[1]
            heapq.heappush(self._events, (now + job.seconds, number, name))
            self.found.waits.append(now - job.submit)
        self.waiting = left

    def _request(self, number: int, now: int) -> placement.PlacementRequest:
        job = self.jobs[number]
        end = instant(now + max(job.stated, 60))
        return placement.PlacementRequest(amounts=job.amounts, start=instant(now), end=end)

    def _seen(self, machine: Machine) -> tuple[PoolWorker, placement.Candidate]:
        """Return a worker as the pool and as placement see it."""
        if machine.seen is None:
            held = tuple(machine.held.values())
            up = machine.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}
            size = self.shape.capacity if up else None
            machine.seen = (
                PoolWorker(
                    name=machine.name, phase=machine.phase, capacity=size, reservations=held,
                    empty_since=machine.empty_since, phase_since=instant(machine.made),
                ),
                placement.Candidate(
                    name=machine.name, licensed=True, capacity=size, reservations=held,
                    sessions=len(held),
                ),
            )  # fmt: skip
        return machine.seen

    def view(self, now: int) -> PoolView:
        """Return the pool as its controller would see it."""
        return PoolView(
            name="p",
            spec=self.spec,
            phase=self.phase,
            workers=tuple(self._seen(each)[0] for each in self.machines.values()),
            waiting=tuple(self._request(each, now) for each in self.waiting[:WAITING_LIMIT]),
            shape=self.shape,
            created_workers=self.created,
            last_scale_up=self.last_up,
            last_scale_down=self.last_down,
            zones=ZONES,
        )

    def _decide(self, now: int) -> bool:
        """Do what the product decides; what goes is gone at once."""
        decision = scaling.decide_pool(self.view(now), instant(now))
        self.phase, self.created = decision.phase, decision.created_workers
        kinds = {each.kind for each in decision.events}
        self.found.changes += bool(kinds)
        if kinds - {"scale_down"}:
            self.last_up = instant(now)
        if "scale_down" in kinds:
            self.last_down = instant(now)
        for each in decision.retire:
            self._gone(self.machines.pop(each.name), now)
        for name in decision.create:
            machine = Machine(name, now, self.boots(next(self._numbers)))
            self.machines[name] = machine
            heapq.heappush(self._events, (now + machine.boot.seconds, -1, name))
        return bool(decision.retire or decision.create)

    def _gone(self, machine: Machine, now: int) -> None:
        """Refuse what no pool may do: take a worker away under its sessions."""
        if machine.held:
            raise AssertionError(f"{machine.name} hosts {len(machine.held)} at {now}")


def instant(second: int) -> datetime:
    """Return a second of the log as an instant."""
    return BEGIN + timedelta(seconds=second)


def quantile(waits: Iterable[int], share: float) -> int:
    """Return the least wait that this share of all does not exceed."""
    ordered = sorted(waits)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
