"""The figures of a period: waits, outcomes, worker-hours, cost; the same for recorded and played.

`Tally` takes sessions and workers as they change, whether from a recording or from a rehearsal,
so that both are counted in the same way. Seconds count from `origin`.

Definitions: a session's *wait* is from when it was asked for, or its slot began if that was
later, until it ran. A worker *costs* while its instance runs: from EC2_READY to the beginning
of its stop or end. *Utilisation* is the share of the running workers' capacity that the labs on
them reserve: of CPU or of memory, whichever is higher. Everything is as of the period's end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from labfleet.rehearsal.figures import run_records
from labfleet.rehearsal.figures.run_records import (
    LATE_SECONDS,
    SessionRecord,
    Span,
    WorkerRecord,
    quantile,
)
from labfleet.resources import prices
from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Key
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import paid_rows

P = WorkerPhase
LIMIT_SECONDS = 900.0
COSTING = frozenset({
    P.EC2_READY, P.STARTING, P.READY_UNLICENSED, P.LICENSING, P.READY, P.ACTIVE, P.DRAINING,
    P.UNLICENSING,
})  # fmt: skip
_THERE = frozenset({
    SessionPhase.INSTANTIATING, SessionPhase.READY, SessionPhase.RUNNING,
    SessionPhase.COLLECTING, SessionPhase.STOPPING,
})  # fmt: skip
_NO_ROOM = frozenset({"waiting", "refused"})


@dataclass(slots=True)
class Tally:
    """Takes changes in their order; read it after the last one."""

    origin: datetime
    stays: dict[Key, SessionRecord] = field(default_factory=dict)
    posts: dict[str, WorkerRecord] = field(default_factory=dict)

    def seconds(self, at: datetime) -> float:
        """Return an instant as seconds from the origin."""
        return (at - self.origin).total_seconds()

    def session(self, session: Session, at: float) -> None:
        """Take a session's new state, which holds from `at` on."""
        stay = self.stays.get(session.key)
        if stay is None:
            stay = self.stays[session.key] = self._stay(session, at)
        status = session.status
        stay.phase, stay.reason, stay.message = status.phase, status.reason, status.message
        if status.started_at is not None and stay.started is None:
            stay.started = self.seconds(status.started_at)
        if status.ended_at is not None and stay.ended is None:
            stay.ended = self.seconds(status.ended_at)
        if status.phase in TERMINAL and stay.over is None:
            stay.over = at
        decision = status.decision
        if decision is not None and stay.started is None and decision.outcome in _NO_ROOM:
            stay.why, stay.why_reason = decision.message, decision.reason
            stay.refused = decision.outcome == "refused"
        there = status.reservation if status.phase in _THERE else None
        if there is not None and stay.since is None:
            stay.since, stay.amounts = at, there.amounts
        elif there is None and stay.since is not None:
            stay.held.append((stay.since, at))
            stay.since = None

    def _stay(self, session: Session, at: float) -> SessionRecord:
        created = session.metadata.creation_timestamp
        wished = at if created is None else self.seconds(created)
        start = session.spec.slot.start
        return SessionRecord(
            session.name,
            session.spec.owner,
            session.spec.definition,
            wished,
            wished if start is None else max(wished, self.seconds(start)),
            slotted=start is not None,
        )

    def worker(self, worker: Worker, at: float) -> None:
        """Take a worker's new state, which holds from `at` on."""
        post = self.posts.get(worker.metadata.uid)
        machine = worker.spec.machine
        if post is None:
            post = self.posts[worker.metadata.uid] = self._post(worker)
        size = worker.status.capacity or (None if machine is None else machine.capacity)
        post.capacity = size or post.capacity
        running = worker.status.phase in COSTING or (
            worker.status.phase is P.FAILED and worker.status.machine.state == "running"
        )
        if running and post.since is None:
            post.since = at
        elif not running and post.since is not None:
            post.spans.append((post.since, at))
            post.since = None

    def _post(self, worker: Worker) -> WorkerRecord:
        seen = worker.status.machine.type
        price = paid_rows.hourly_usd(worker.spec.machine, seen, prices.SHIPPED)
        return WorkerRecord(price, worker.spec.pool or "")

    def worker_gone(self, uid: str, at: float) -> None:
        """Take the end of a worker's record."""
        post = self.posts.get(uid)
        if post is not None and post.since is not None:
            post.spans.append((post.since, at))
            post.since = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one period, as of its end; None means that there is nothing to compute from.

    Sessions are those asked for in the period. `running`, `waiting` and `not_due` count those
    that have not ended by its end, together `unfinished`. `unserved` never ran although nobody
    cancelled them; `gave_up` were cancelled while they waited. Waits are in seconds, of sessions
    that ran: `now_` of those without a slot, `slot_` from the slot's start. `in_time` is the
    share that ran within the limit, of all whose wait is known; one that never ran was late.
    `cost_usd` is None when a machine has no price, `cost_known_usd` is what the others cost.
    `tail_` is what the period's labs still cost after its end, until the last of them is over.
    """

    requested: int
    completed: int
    failed: int
    expired: int
    refused: int
    cancelled: int
    unfinished: int
    running: int
    waiting: int
    not_due: int
    unserved: int
    gave_up: int
    in_time: float | None
    late_starts: int
    slots: int
    slots_late_or_never: int
    wait_p50: float | None
    wait_p95: float | None
    wait_max: float | None
    now_p50: float | None
    now_p95: float | None
    now_max: float | None
    slot_p50: float | None
    slot_p95: float | None
    slot_max: float | None
    workers_used: int
    peak_workers: int
    worker_hours: float
    cost_usd: float | None
    cost_known_usd: float
    cost_per_session_usd: float | None
    utilisation: float | None
    cpu_utilisation: float | None
    memory_utilisation: float | None
    tail_worker_hours: float | None
    tail_cost_usd: float | None


def figures(
    tally: Tally, end: float, *, begin: float = 0.0, refused: int = 0,
    limit: float = LIMIT_SECONDS, known: float | None = None,
) -> Figures:  # fmt: skip
    """Return the figures of begin..end.

    `refused` were rejected before they became sessions. `limit` is the longest wait that counts
    as in time, in seconds. `known` is until when the tally was told everything; without it the
    figures of the time after the end are None.
    """
    found = [each for each in tally.stays.values() if begin <= each.wished < end]
    ran = [each for each in found if each.ran(end)]
    spent = spent_in(tally, begin, end)
    cpu, memory = _utilisation(tally, spent, begin, end)
    count = Counter(each.outcome(end) for each in found)
    late = sum(each.slotted and each.wait(end) > LATE_SECONDS for each in ran)
    lost = [each for each in found if each.never_ran(end, limit)]
    cost, dollars = _dollars(spent), _known_dollars(spent)
    tail = None if known is None else spent_in(tally, end, min(known, _last(ran)))
    return Figures(
        requested=len(found) + refused,
        completed=count["COMPLETED"],
        failed=count["FAILED"],
        expired=count["EXPIRED"],
        refused=count[run_records.REFUSED] + refused,
        cancelled=count["CANCELLED"],
        unfinished=count[run_records.RUNNING]
        + count[run_records.WAITING]
        + count[run_records.NOT_DUE],
        running=count[run_records.RUNNING],
        waiting=count[run_records.WAITING],
        not_due=count[run_records.NOT_DUE],
        unserved=len(lost) + refused,
        gave_up=sum(each.gave_up(end) for each in found),
        in_time=_share_in_time(found, end, limit, refused),
        late_starts=late,
        slots=sum(each.slotted for each in found),
        slots_late_or_never=late + sum(each.slotted for each in lost),
        **_waits("wait", [each.wait(end) for each in ran]),
        **_waits("now", [each.wait(end) for each in ran if not each.slotted]),
        **_waits("slot", [each.wait(end) for each in ran if each.slotted]),
        workers_used=len({id(post) for post, (since, until) in spent if until > since}),
        peak_workers=run_records.most_at_once([span for _, span in spent]),
        worker_hours=_hours(spent),
        cost_usd=cost,
        cost_known_usd=dollars,
        cost_per_session_usd=None if cost is None or not ran else cost / len(ran),
        utilisation=None if cpu is None or memory is None else max(cpu, memory),
        cpu_utilisation=cpu,
        memory_utilisation=memory,
        tail_worker_hours=None if tail is None else _hours(tail),
        tail_cost_usd=None if tail is None else _dollars(tail),
    )


def _waits(name: str, waits: list[float]) -> dict[str, float | None]:
    """Return three figures of these waits, in seconds; None where nobody waited."""
    ordered = sorted(waits)
    return {
        f"{name}_p50": quantile(ordered, 0.5),
        f"{name}_p95": quantile(ordered, 0.95),
        f"{name}_max": ordered[-1] if ordered else None,
    }


def _utilisation(
    tally: Tally, spent: list[tuple[WorkerRecord, Span]], begin: float, end: float
) -> tuple[float | None, float | None]:
    """Return which share of the machines' CPU and memory was reserved; None without machines."""
    used = [
        (each.amounts, until - since)
        for each in tally.stays.values()
        for since, until in (
            run_records.clipped(*span, begin, end)
            for span in run_records.spans(each.held, each.since)
        )
    ]
    room = [(post.capacity, until - since) for post, (since, until) in spent]
    return _used(used, room, "cpu_milli"), _used(used, room, "memory_mib")


def spent_in(tally: Tally, begin: float, end: float) -> list[tuple[WorkerRecord, Span]]:
    """Return when each machine ran in begin..end."""
    return [
        (post, run_records.clipped(since, until, begin, end))
        for post in tally.posts.values()
        for since, until in run_records.spans(post.spans, post.since)
    ]


def _hours(spent: list[tuple[WorkerRecord, Span]]) -> float:
    return sum(until - since for _, (since, until) in spent) / 3600


def _known_dollars(spent: list[tuple[WorkerRecord, Span]]) -> float:
    return sum((post.price or 0.0) * (until - since) / 3600 for post, (since, until) in spent)


def _dollars(spent: list[tuple[WorkerRecord, Span]]) -> float | None:
    """Return what the machines cost; None when one that ran has no price."""
    priced = all(post.price is not None for post, (since, until) in spent if until > since)
    return _known_dollars(spent) if priced else None


def _last(ran: list[SessionRecord]) -> float:
    """Return when the last lab was over; a lab that still runs has no end."""
    return max((float("inf") if each.over is None else each.over for each in ran), default=0.0)


def _share_in_time(
    found: list[SessionRecord], end: float, limit: float, refused: int
) -> float | None:
    told = [each.in_time(end, limit) for each in found]
    yes, no = told.count(True), told.count(False) + refused
    return yes / (yes + no) if yes + no else None


def _used(
    used: list[tuple[Amounts, float]], room: list[tuple[Amounts, float]], dimension: str
) -> float | None:
    """Return the share of a dimension that was reserved; None when there was none of it."""
    there = sum(getattr(size, dimension) * seconds for size, seconds in room)
    taken = sum(getattr(size, dimension) * seconds for size, seconds in used)
    return taken / there if there else None
