"""How many of a pool's workers automatic actions may take out of service at once.

Pure. Workers already out of service (draining, stopping, failed, unreachable) count against the
budget, so that failures and upkeep never add up (facts/aws.md#disruption-budget, cluster
autoscaler's limit on unready nodes). Workers that the provider is already ending do not count: they
never come back. The budget never delays what people ask for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.pool import Disruption
from labfleet.resources.worker import Worker, WorkerPhase

_AWAY = frozenset(
    {
        WorkerPhase.DRAINING,
        WorkerPhase.UNLICENSING,
        WorkerPhase.STOPPING,
        WorkerPhase.FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Room:
    """How many more workers may go now; with 0, `why` says what used up the budget."""

    left: int
    why: str = ""


def allowance(budget: Disruption, workers: int) -> int:
    """Return how many of this many workers may be out of service at once."""
    return min(workers, max(budget.max_workers, workers * budget.max_percent // 100))


def room(budget: Disruption, *, serving: int, away: int) -> Room:
    """Return how many of `serving` workers may be taken out of service while `away` already are."""
    allowed = allowance(budget, serving + away)
    left = max(0, min(serving, allowed - away))
    if left or not serving:
        return Room(left)
    return Room(0, f"disruption budget: {away} of {serving + away} workers are away, {allowed} may")


def of_workers(budget: Disruption, workers: Iterable[Worker]) -> Room:
    """Return how many of a pool's workers may go, according to their records."""
    serving = away = 0
    for worker in workers:
        phase = worker.status.phase
        if phase in phases.HOSTING and not phases.drain_wanted(worker):
            sick = phases.broken(worker)
            away, serving = away + sick, serving + (not sick)
        elif phase in _AWAY or phase in phases.HOSTING:
            away += 1
    return room(budget, serving=serving, away=away)
