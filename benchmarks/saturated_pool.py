"""A pool with a queue that never ends: what admission makes of it, event by event.

Strict FIFO: the head of the queue is tried whenever something started or ended, and nothing
overtakes it. A run takes its peak from start to end. What a run took is told to the rule when
that run has ended, never before. Time counts while somebody waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.tasks import Task


class PoolRule(Protocol):
    """What may decide in a pool."""

    def fits(self, place: int, task: Task) -> bool:
        """Return whether the run at this place of the order may start now."""
        ...

    def started(self, place: int, task: Task) -> None:
        """Count it; it was let in, or the pool was empty."""
        ...

    def ended(self, place: int, task: Task, at: float) -> None:
        """Forget it and learn from it."""
        ...


@dataclass
class Filled:
    """How a pool was used while somebody waited; shares are per cent.

    true_use: Of the pool, by true peaks.
    over_limit: Of the time in which true peaks exceeded the pool.
    makespan_h: Hours until the last run ended.
    """

    true_use: float
    over_limit: float
    makespan_h: float


def fill(order: Sequence[Task], limit: float, rule: PoolRule) -> Filled:
    """Play one order in a pool of `limit` MiB.

    A run that the rule would not even start alone starts alone: it would block the queue.
    """
    now = load = used = over = waited = 0.0
    head = 0
    running: list[tuple[float, int]] = []
    while head < len(order) or running:
        while head < len(order) and (rule.fits(head, order[head]) or not running):
            rule.started(head, order[head])
            load += order[head].memory_mib
            heapq.heappush(running, (now + order[head].seconds, head))
            head += 1
        ends, place = heapq.heappop(running)
        if head < len(order):
            waited += ends - now
            used += load * (ends - now)
            over += (ends - now) * (load > limit)
        now = ends
        load -= order[place].memory_mib
        rule.ended(place, order[place], now)
    share = 100 / waited if waited else 0.0
    return Filled(used * share / limit, over * share, now / 3600)
