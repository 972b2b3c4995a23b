"""A request that waits, the terms of its queue, and the order in which requests are tried.

The order within a queue needs no clock: a request is placed by the instant at which it came, moved
forward by its priority and, in SHORTEST_FIRST, back by the bound of its duration. So the order
of two requests never changes while they wait, and one that waits long enough comes first: it can
be overtaken only by requests that came less than `head_start` after it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.resources.amounts import DIMENSIONS, Amounts, vector
from labfleet.resources.queue import Queue, QueueOrder

AGING = 60.0
"""Seconds of waiting that weigh as much as one step of priority."""
STRETCH = 3.0
"""SHORTEST_FIRST: how many times its duration's bound a request is set back.

On the public logs of HPC2N and MetaCentrum's CERIT more only made the longest wait longer.
"""
LONGEST = 604800.0
"""Seconds that a run of unknown duration is taken to last: the longest that may be asked for."""
PRIORITY_MOST = 1000
"""The highest priority; the lowest is 0."""
NONE = (0,) * len(DIMENSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A queue as decisions see it; amounts are in the order of DIMENSIONS.

    name: Key of the queue; "" stands for requests that name none.
    cohort: Queues of one name lend each other what they do not use; None means alone.
    quota: What its runs may always hold together.
    borrowing: What they may hold beyond it; None means whatever the cohort has.
    weight: Its share of what is borrowed.
    order: How its requests are ordered.
    """

    name: str
    cohort: str | None = None
    quota: tuple[int, ...] = NONE
    borrowing: tuple[int, ...] | None = None
    weight: int = 1
    order: QueueOrder = QueueOrder.FIFO


def terms(queue: Queue) -> Terms:
    """Return a queue's terms; it goes by `namespace/name`, its cohort by `namespace/cohort`."""
    spec = queue.spec
    limit = spec.borrowing_limit
    return Terms(
        name=queue.key.path,
        cohort=None if spec.cohort is None else f"{queue.namespace}/{spec.cohort}",
        quota=vector(spec.quota),
        borrowing=None if limit is None else vector(limit),
        weight=spec.weight,
        order=spec.order,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run that waits for a decision, or that holds what it got.

    uid: Identity, which also breaks ties of the order.
    queue: Key of its queue; "" means none named.
    owner: Whose run it is.
    amounts: Bound of what it needs in each dimension.
    seconds: Bound of how long it runs; None means unknown, which counts as LONGEST.
    priority: 0 to PRIORITY_MOST; higher goes first.
    since: When it began to wait.
    spread: Quantiles of its duration in seconds at prediction.LEVELS; () means unknown.
    alike: Requests of equal `alike`, amounts and seconds are answered alike in one decision.
    """

    uid: str
    queue: str = ""
    owner: str = ""
    amounts: Amounts = Amounts()
    seconds: float | None = None
    priority: int = 0
    since: datetime
    spread: tuple[float, ...] = ()
    alike: str = ""

    @property
    def lasts(self) -> timedelta:
        """Return the bound of its duration, the longest one when it is unknown."""
        return timedelta(seconds=LONGEST if self.seconds is None else self.seconds)

    @property
    def shape(self) -> Hashable:
        """Return what one answer in a decision is for."""
        return self.amounts, self.seconds, self.alike


def place(request: Request, order: QueueOrder) -> tuple[float, str]:
    """Return where a request stands in its queue: the least is tried first."""
    at = request.since.timestamp() - AGING * request.priority
    if order is QueueOrder.SHORTEST_FIRST:
        at += STRETCH * (LONGEST if request.seconds is None else request.seconds)
    return at, request.uid


def head_start(request: Request, order: QueueOrder, *, highest: int = PRIORITY_MOST) -> timedelta:
    """Return how long after a request another one may come that is still tried before it."""
    seconds = AGING * max(0, highest - request.priority)
    if order is QueueOrder.SHORTEST_FIRST:
        seconds += STRETCH * (LONGEST if request.seconds is None else request.seconds)
    return timedelta(seconds=seconds)
