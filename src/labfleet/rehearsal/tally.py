"""What came of a period: waits, outcomes, worker-hours, cost. The same for real and played.

`Tally` takes sessions and workers as they change, whether they come out of a recording or out
of a rehearsal, so that two answers differ only in what happened. Seconds count from `origin`.

Definitions: a session's *wait* is from when it was asked for, or its slot began if that was
later, until it ran. A worker *costs* while its instance runs: from EC2_READY to the beginning
of its stop or end. *Utilisation* is what labs that are there reserve, of what the workers that
run have: of CPU or of memory, whichever is used more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from labfleet.resources import prices
from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Key
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase

P = WorkerPhase
LATE_SECONDS = 60.0
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
class Stay:
    """One session: when it was wished for, from when it waited, when it ran, how it ended."""

    name: str
    owner: str
    definition: str
    wished: float
    asked: float
    slotted: bool = False
    started: float | None = None
    ended: float | None = None
    phase: SessionPhase = SessionPhase.PENDING
    refused: bool = False
    why: str = ""
    reason: str = ""
    message: str = ""
    amounts: Amounts = Amounts()
    since: float | None = None
    held: list[tuple[float, float]] = field(default_factory=list)

    def wait(self, now: float) -> float:
        """Return seconds from the wish to the start, or to the end that came instead."""
        until = self.started if self.started is not None else self.ended
        return max(0.0, (now if until is None else until) - self.asked)

    @property
    def unserved(self) -> bool:
        """Tell whether it never ran although nobody took it back."""
        over = self.phase in TERMINAL and self.phase is not SessionPhase.CANCELLED
        return self.started is None and over


@dataclass(slots=True)
class Post:
    """One worker: when its instance ran, what it costs an hour, what it has."""

    price: float | None
    capacity: Amounts = Amounts()
    since: float | None = None
    spans: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """Takes changes in their order; read it when all are in."""

    origin: datetime
    stays: dict[Key, Stay] = field(default_factory=dict)
    posts: dict[str, Post] = field(default_factory=dict)

    def seconds(self, at: datetime) -> float:
        """Return an instant as seconds from the origin."""
        return (at - self.origin).total_seconds()

    def session(self, session: Session, at: float) -> None:
        """Take a session as it is from `at` on."""
        stay = self.stays.get(session.key)
        if stay is None:
            stay = self.stays[session.key] = self._stay(session, at)
        status = session.status
        stay.phase, stay.reason, stay.message = status.phase, status.reason, status.message
        if status.started_at is not None and stay.started is None:
            stay.started = self.seconds(status.started_at)
        if status.ended_at is not None and stay.ended is None:
            stay.ended = self.seconds(status.ended_at)
        decision = status.decision
        if decision is not None and stay.started is None and decision.outcome in _NO_ROOM:
            stay.why = decision.message
            stay.refused = decision.outcome == "refused"
        there = status.reservation if status.phase in _THERE else None
        if there is not None and stay.since is None:
            stay.since, stay.amounts = at, there.amounts
        elif there is None and stay.since is not None:
            stay.held.append((stay.since, at))
            stay.since = None

    def _stay(self, session: Session, at: float) -> Stay:
        created = session.metadata.creation_timestamp
        wished = at if created is None else self.seconds(created)
        start = session.spec.slot.start
        return Stay(
            session.name,
            session.spec.owner,
            session.spec.definition,
            wished,
            wished if start is None else max(wished, self.seconds(start)),
            slotted=start is not None,
        )

    def worker(self, worker: Worker, at: float) -> None:
        """Take a worker as it is from `at` on."""
        post = self.posts.get(worker.metadata.uid)
        machine = worker.spec.machine
        if post is None:
            first = None if machine is None else machine.aws.instance_types[0]
            stated = 0.0 if machine is None else machine.hourly_price_usd
            kind = worker.status.ec2.instance_type or first
            post = self.posts[worker.metadata.uid] = Post(prices.hourly_usd(kind, stated=stated))
        size = worker.status.capacity or (None if machine is None else machine.capacity)
        post.capacity = size or post.capacity
        running = worker.status.phase in COSTING or (
            worker.status.phase is P.FAILED and worker.status.ec2.state == "running"
        )
        if running and post.since is None:
            post.since = at
        elif not running and post.since is not None:
            post.spans.append((post.since, at))
            post.since = None

    def worker_gone(self, uid: str, at: float) -> None:
        """Take the end of a worker's record."""
        post = self.posts.get(uid)
        if post is not None and post.since is not None:
            post.spans.append((post.since, at))
            post.since = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The answer for one period; None means that there is nothing to say it of.

    Hours and dollars count what was inside the period; sessions are those asked for in it,
    whenever they ended. Waits are seconds of those that ran.
    """

    requested: int
    completed: int
    failed: int
    expired: int
    refused: int
    cancelled: int
    unfinished: int
    late_starts: int
    wait_p50: float | None
    wait_p95: float | None
    wait_max: float | None
    workers_used: int
    peak_workers: int
    worker_hours: float
    cost_usd: float | None
    utilisation: float | None
    cpu_utilisation: float | None
    memory_utilisation: float | None
    unserved: int


def figures(tally: Tally, end: float, *, begin: float = 0.0, refused: int = 0) -> Figures:
    """Return the figures of begin..end; `refused` were turned away before they were sessions."""
    stays = [each for each in tally.stays.values() if begin <= each.wished < end]
    waits = sorted(each.wait(end) for each in stays if each.started is not None)
    spans = [
        (post, _clip(since, until, begin, end))
        for post in tally.posts.values()
        for since, until in _spans(post.spans, post.since)
    ]
    seconds = sum(until - since for _, (since, until) in spans)
    priced = all(post.price is not None for post, _ in spans)
    cost = sum((post.price or 0.0) * (until - since) / 3600 for post, (since, until) in spans)
    room = [(post.capacity, until - since) for post, (since, until) in spans]
    used = [
        (each.amounts, until - since)
        for each in tally.stays.values()
        for since, until in (_clip(*span, begin, end) for span in _spans(each.held, each.since))
    ]
    cpu, memory = _used(used, room, "cpu_milli"), _used(used, room, "memory_mib")
    count = _counted(stays)
    return Figures(
        requested=len(stays) + refused,
        completed=count["COMPLETED"],
        failed=count["FAILED"],
        expired=count["EXPIRED"],
        refused=count["REFUSED"] + refused,
        cancelled=count["CANCELLED"],
        unfinished=count["UNFINISHED"],
        late_starts=sum(each.slotted and each.wait(end) > LATE_SECONDS for each in stays
                        if each.started is not None),
        wait_p50=quantile(waits, 0.5),
        wait_p95=quantile(waits, 0.95),
        wait_max=waits[-1] if waits else None,
        workers_used=sum(1 for post in tally.posts.values() if post.spans or post.since),
        peak_workers=_peak([span for _, span in spans]),
        worker_hours=seconds / 3600,
        cost_usd=cost if priced else None,
        utilisation=None if cpu is None or memory is None else max(cpu, memory),
        cpu_utilisation=cpu,
        memory_utilisation=memory,
        unserved=sum(each.unserved for each in stays) + refused,
    )  # fmt: skip


def _used(
    used: list[tuple[Amounts, float]], room: list[tuple[Amounts, float]], dimension: str
) -> float | None:
    """Return the share of a dimension that was reserved; None when there was none of it."""
    there = sum(getattr(size, dimension) * seconds for size, seconds in room)
    taken = sum(getattr(size, dimension) * seconds for size, seconds in used)
    return taken / there if there else None


def _counted(stays: list[Stay]) -> dict[str, int]:
    count = dict.fromkeys(
        ("COMPLETED", "FAILED", "EXPIRED", "REFUSED", "CANCELLED", "UNFINISHED"), 0
    )
    for each in stays:
        word = str(each.phase) if each.phase in TERMINAL else "UNFINISHED"
        count["REFUSED" if each.refused and word == "FAILED" else word] += 1
    return count


def _spans(done: list[tuple[float, float]], since: float | None) -> list[tuple[float, float]]:
    return done if since is None else [*done, (since, float("inf"))]


def _clip(since: float, until: float, begin: float, end: float) -> tuple[float, float]:
    low, high = max(since, begin), min(until, end)
    return (low, max(low, high))


def _peak(spans: list[tuple[float, float]]) -> int:
    """Return how many spans overlap at most."""
    steps = sorted(
        step for since, until in spans if until > since for step in ((since, 1), (until, -1))
    )
    most = level = 0
    for _, change in steps:
        level += change
        most = max(most, level)
    return most


def quantile(ordered: list[float], share: float) -> float | None:
    """Return the value at a share of a sorted list, between neighbours in proportion."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def waiters(tally: Tally, end: float, count: int) -> list[dict[str, object]]:
    """Return who waited longest, with the reason, longest first."""
    ordered = sorted(tally.stays.values(), key=lambda each: (-each.wait(end), each.name))
    found = []
    for each in ordered[:count]:
        if each.wait(end) < 1:
            break
        ran = each.started is not None
        boots = "its lab booted" if ran else each.message or each.reason
        found.append({
            "session": each.name,
            "owner": each.owner,
            "definition": each.definition,
            "asked_hours": round(each.asked / 3600, 3),
            "wait_seconds": round(each.wait(end), 1),
            "outcome": str(each.phase),
            "ran": ran,
            "reason": each.why or boots,
        })  # fmt: skip
    return found
