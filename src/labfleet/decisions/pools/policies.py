"""The policies by which a pool finds the number of its workers: one entry for each, in one table.

Pure. What holds for every policy is not here but in `scaling`: minimum and maximum, cool-downs, what
failed, what may be taken away at all. The thresholds and their words are upstream 001's
(facts/upstream.md#pools), which gave its three policies of load one rule; here each has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labfleet.decisions.pool_view import PoolWorker
from labfleet.decisions.pools import load, need, windows
from labfleet.decisions.pools.groups import Look
from labfleet.kernel.quantity import count
from labfleet.resources.pool import Scaling, ScalingPolicy

Wish = tuple[int, str, str]
"""How many workers to add, a one-word reason, and a sentence on what needs them."""
NOTHING: Wish = (0, "", "")


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy.

    grow: What it adds beyond the minimum.
    shrink: How many of the workers that are empty for long enough, in their order, may go.
    """

    grow: Callable[[Look], Wish]
    shrink: Callable[[Look, Sequence[PoolWorker]], int]


def of(scaling: Scaling) -> Policy:
    """Return the policy of a pool; that of one which does not scale by itself is NONE."""
    return TABLE[scaling.policy if scaling.enabled else ScalingPolicy.NONE]


def scheduled(look: Look) -> int:
    """Return how many workers the timetable says: those of now, or of the time when one is up."""
    scaling, zones = look.view.spec.scaling, look.view.zones
    there = (
        windows.workers(scaling.timetable, zones, at) or 0
        for at in (look.now, look.now + look.view.lead)
    )
    return max(scaling.min_workers, *there)


def _nothing(look: Look) -> Wish:
    del look
    return NOTHING


def _keep(look: Look, candidates: Sequence[PoolWorker]) -> int:
    del look, candidates
    return 0


def _grow_scheduled(look: Look) -> Wish:
    wanted = scheduled(look)
    lacking = wanted - look.groups.serving
    told = f"its timetable says {count(wanted, 'worker')}"
    return (lacking, "Timetable", told) if lacking > 0 else NOTHING


def _shrink_scheduled(look: Look, candidates: Sequence[PoolWorker]) -> int:
    return max(0, min(len(candidates), look.groups.serving - scheduled(look)))


def _grow_hybrid(look: Look) -> Wish:
    wishes = (_grow_scheduled(look), load.grow_by_capacity(look), load.grow_by_labs(look))
    return max(wishes, key=_many)


def _shrink_hybrid(look: Look, candidates: Sequence[PoolWorker]) -> int:
    """Return how many may go: all three must allow it."""
    return min(
        _shrink_scheduled(look, candidates),
        load.shrink_by_capacity(look, candidates),
        load.shrink_by_labs(look, candidates),
    )


def _many(wish: Wish) -> int:
    return wish[0]


TABLE: dict[ScalingPolicy, Policy] = {
    ScalingPolicy.NONE: Policy(_nothing, _keep),
    ScalingPolicy.NEED_BASED: Policy(need.grow, need.surplus),
    ScalingPolicy.CAPACITY_BASED: Policy(load.grow_by_capacity, load.shrink_by_capacity),
    ScalingPolicy.LAB_COUNT_BASED: Policy(load.grow_by_labs, load.shrink_by_labs),
    ScalingPolicy.SCHEDULED: Policy(_grow_scheduled, _shrink_scheduled),
    ScalingPolicy.HYBRID: Policy(_grow_hybrid, _shrink_hybrid),
}
