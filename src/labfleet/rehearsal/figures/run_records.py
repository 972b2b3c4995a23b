"""One session and one worker of a period, as a tally keeps them: when they ran and how it ended.

Seconds count from the tally's origin. Every question takes an instant, the end of the period, and
ignores what came later. So a recording that was cut there and a rehearsal that goes on after it
give the same answers for the same events.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from labfleet.resources.amounts import Amounts
from labfleet.resources.session import TERMINAL, SessionPhase

LATE_SECONDS = 60.0
RUNNING, WAITING, NOT_DUE, REFUSED = "RUNNING", "WAITING", "NOT_DUE", "REFUSED"
LOST = frozenset({"EXPIRED", "FAILED", REFUSED})
Span = tuple[float, float]


@dataclass(slots=True)
class SessionRecord:
    """One session: when it was asked for, from when it waited, when it ran, how it ended.

    `ended` is when its use ended, `over` when it reached its last phase.
    """

    name: str
    owner: str
    definition: str
    wished: float
    asked: float
    slotted: bool = False
    started: float | None = None
    ended: float | None = None
    over: float | None = None
    phase: SessionPhase = SessionPhase.PENDING
    refused: bool = False
    why: str = ""
    why_reason: str = ""
    reason: str = ""
    message: str = ""
    amounts: Amounts = Amounts()
    since: float | None = None
    held: list[Span] = field(default_factory=list)

    def ran(self, end: float) -> bool:
        """Tell whether it ran before the end."""
        return self.started is not None and self.started <= end

    def outcome(self, end: float) -> str:
        """Return its outcome as of the end: a last phase, REFUSED, RUNNING, WAITING or NOT_DUE."""
        if self.over is not None and self.over <= end and self.phase in TERMINAL:
            return REFUSED if self.refused and self.phase == "FAILED" else str(self.phase)
        if self.ran(end):
            return RUNNING
        return WAITING if self.asked < end else NOT_DUE

    def wait(self, end: float) -> float:
        """Return seconds from the request to the start, else to its last phase, else to `end`."""
        until = self.started if self.ran(end) else self.over
        return max(0.0, min(end, end if until is None else until) - self.asked)

    def never_ran(self, end: float, limit: float) -> bool:
        """Tell whether it did not run although nobody cancelled it.

        One that still waits at the end counts once it has waited longer than `limit`.
        """
        outcome = self.outcome(end)
        if self.ran(end) or outcome not in {*LOST, WAITING}:
            return False
        return outcome != WAITING or self.wait(end) > limit

    def gave_up(self, end: float) -> bool:
        """Tell whether it was cancelled after waiting for more than a minute without running."""
        cancelled = self.outcome(end) == "CANCELLED"
        return cancelled and not self.ran(end) and self.wait(end) > LATE_SECONDS

    def in_time(self, end: float, limit: float) -> bool | None:
        """Tell whether it ran within the limit; None when that is unknown.

        A session that never ran counts as late. It is unknown for one that was cancelled, or still
        waits, before the limit was reached.
        """
        if self.never_ran(end, limit):
            return False
        if self.ran(end):
            return self.wait(end) <= limit
        return False if self.wait(end) > limit else None


@dataclass(slots=True)
class WorkerRecord:
    """One worker: when its instance ran, what it costs an hour, what it has."""

    price: float | None
    pool: str = ""
    capacity: Amounts = Amounts()
    since: float | None = None
    spans: list[Span] = field(default_factory=list)


def spans(done: list[Span], since: float | None) -> list[Span]:
    """Return all spans; one that still lasts has no end."""
    return done if since is None else [*done, (since, float("inf"))]


def clipped(since: float, until: float, begin: float, end: float) -> Span:
    """Return the part of a span inside begin..end; an empty span begins where it ends."""
    low, high = max(since, begin), min(until, end)
    return (low, max(low, high))


def most_at_once(found: list[Span]) -> int:
    """Return how many spans overlap at most."""
    steps = sorted(
        step for since, until in found if until > since for step in ((since, 1), (until, -1))
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
