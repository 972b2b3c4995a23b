"""What sessions wait for: workers there and to come, what stays on them, and who waits.

The records that `session_starts` plays forward. Rows are amounts in the order of DIMENSIONS.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, le
from typing import Literal

from labfleet.decisions import placement
from labfleet.decisions.queueing.durations import Lasting
from labfleet.decisions.queueing.starts import StartRange
from labfleet.resources.amounts import DIMENSIONS, vector

Row = tuple[int, ...]
NONE: Row = (0,) * len(DIMENSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A session that holds something on a worker.

    uid: Identity of the session.
    row: How much it holds.
    began: Since when it runs, or since when it ends.
    lasts: How long such a session runs, or how long such an end takes.
    ends: When its slot ends; None when it ends already.
    until: Until when it holds that at the latest; None when nobody knows.
    """

    uid: str
    row: Row
    began: datetime
    lasts: Lasting
    ends: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What is held on a worker for a later slot: whose, how much, from when to when."""

    uid: str
    row: Row
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A worker that takes sessions, or will.

    worker: It as placement sees it once it serves; its reservations are told apart, in `stays`.
    boot: How long such a worker boots; None for one that serves.
    since: When its boot began.
    stays: What is on it now.
    booked: What is held on it for later.
    """

    worker: placement.Candidate
    boot: Lasting | None = None
    since: datetime | None = None
    stays: tuple[Stay, ...] = ()
    booked: tuple[Booked, ...] = ()

    @property
    def name(self) -> str:
        """Return the worker's name."""
        return self.worker.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A pool that adds workers for sessions that wait, one at a time.

    pool: Name of the pool.
    shape: An empty worker of it.
    room: How many more it may have.
    boot: How long such a worker boots.
    after: When the next one may be added at the earliest.
    pause: Seconds between two.
    """

    pool: str
    shape: placement.WorkerShape
    room: int
    boot: Lasting
    after: datetime | None = None
    pause: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A session that waits for a worker.

    uid: Identity of the session.
    request: What it asks for if it were placed now.
    lab: How long its lab takes from its place to its start.
    lasts: How long such a session runs.
    begins: When its slot begins; None when it starts as soon as it can.
    row: How much it asks for.
    kind: Sessions of one kind suit the same workers.
    """

    uid: str
    request: placement.PlacementRequest
    lab: Lasting
    lasts: Lasting
    begins: datetime | None = None
    row: Row = field(init=False)
    kind: Hashable = field(init=False)

    def __post_init__(self) -> None:
        row, asked = vector(self.request.amounts), self.request
        object.__setattr__(self, "row", row)
        object.__setattr__(self, "kind", (row, asked.track, asked.licence_affinity, asked.needs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All that decides when the sessions of a namespace start, as it is now.

    now: When that is.
    hosts: Workers, in the order in which they are filled among equals.
    growths: Pools that add workers, in the order in which they are asked.
    waiters: Sessions that wait, most urgent first.
    clearing: How long a lab still holds its room once its session has ended.
    """

    now: datetime
    hosts: tuple[Host, ...]
    growths: tuple[Growth, ...]
    waiters: tuple[Waiter, ...]
    clearing: Lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a session gets its place by: room that is free, ends or boots on a worker, a new worker.

    what: Which of these.
    name: Name of the worker, or of the pool that adds one.
    uid: The session that ends.
    """

    what: Literal["free", "ends", "boots", "grows"]
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """When a session starts, and what its place most often comes from.

    start: The range; without a coverage when something that it depends on is only declared.
    cause: What its place most often comes from; None when it gets none in any future.
    suited: Whether a worker that is there, or that may be added, could take it at all.
    declared: What is only declared of what it depends on: how long `sessions` last, their `ends`,
    `boots`, and starts of `labs`.
    """

    start: StartRange
    cause: Cause | None
    suited: bool
    declared: tuple[str, ...] = ()


def plus(one: Row, other: Row) -> Row:
    """Return the sum of two rows."""
    return tuple(map(add, one, other))


def within(row: Row, most: Row) -> bool:
    """Tell whether a row is at most another one in each dimension."""
    return all(map(le, row, most))
