"""The workers of a pool by what they are to it, and what is judged of them together: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import placement
from labfleet.decisions.pool_view import PoolView, PoolWorker
from labfleet.resources.worker import WorkerPhase

STUCK = timedelta(minutes=30)
"""After this long a failed worker no longer counts towards the maximum, and is removed even
with sessions bound to it: only its end releases them, since its server never answers."""
_READY = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE, WorkerPhase.READY_UNLICENSED})


@dataclass(frozen=True, slots=True)
class Groups:
    """A pool's workers, each in one group and by name in it."""

    ready: tuple[PoolWorker, ...]
    booting: tuple[PoolWorker, ...]
    leaving: tuple[PoolWorker, ...]
    failed: tuple[PoolWorker, ...]
    ended: tuple[PoolWorker, ...]
    parked: tuple[PoolWorker, ...]

    @property
    def serving(self) -> int:
        """Return how many serve, or come up to serve; what leaves is neither there nor missing."""
        return len(self.ready) + len(self.booting)


@dataclass(frozen=True, slots=True)
class Look:
    """A pool at one instant, as its policy sees it."""

    view: PoolView
    groups: Groups
    now: datetime


def grouped(workers: Sequence[PoolWorker]) -> Groups:
    """Return the workers in their groups."""
    made: dict[str, list[PoolWorker]] = {
        word: [] for word in ("ready", "booting", "leaving", "failed", "ended", "parked")
    }
    for each in sorted(workers, key=_by_name):
        made[_kind(each)].append(each)
    return Groups(**{word: tuple(each) for word, each in made.items()})


def with_started(groups: Groups, start: Sequence[str]) -> Groups:
    """Return the groups with started workers counted as coming up (facts/aws.md#scaling)."""
    if not start:
        return groups
    moved = tuple(each for each in (*groups.leaving, *groups.parked) if each.name in start)
    return replace(
        groups,
        booting=(*groups.booting, *moved),
        leaving=tuple(each for each in groups.leaving if each.name not in start),
        parked=tuple(each for each in groups.parked if each.name not in start),
    )


def places(groups: Groups, now: datetime) -> int:
    """Return how many workers count towards the maximum.

    Every worker that may still have an instance counts, except one that failed long ago: it
    must not block its own replacement for ever.
    """
    gone = sum(stuck(each, now) for each in groups.failed)
    counted = (groups.ready, groups.booting, groups.leaving, groups.failed, groups.parked)
    return sum(len(each) for each in counted) - gone


def stuck(worker: PoolWorker, now: datetime) -> bool:
    """Tell whether a failed worker has been so for too long."""
    return worker.phase_since is not None and now - worker.phase_since >= STUCK


def away(groups: Groups) -> int:
    """Return how many workers failed, or are on their way out and not ending yet."""
    ending = sum(each.phase is WorkerPhase.TERMINATING_EC2 for each in groups.leaving)
    return len(groups.failed) + len(groups.leaving) - ending


def closed(worker: PoolWorker) -> bool:
    """Tell whether a ready worker takes no session now."""
    return worker.cordoned or worker.unreachable or worker.ill


def empty(worker: PoolWorker) -> bool:
    """Tell whether a ready worker hosts nothing, no node runs there, and nothing is booked on it.

    A lab that somebody started by hand keeps its worker (facts/aws-bugs.md#case-23).
    """
    unused = worker.empty_since is not None and not worker.reservations
    return unused and worker.phase is not WorkerPhase.ACTIVE and not worker.in_use


def as_ready(worker: PoolWorker, view: PoolView) -> placement.Candidate:
    """Return the worker as placement will see it once it has booted and is licensed."""
    capacity = worker.capacity
    settled = worker.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}
    if view.shape is not None and (capacity is None or not settled):
        capacity = view.shape.capacity
    return placement.Candidate(
        name=worker.name,
        track=view.spec.track,
        closed="Cordoned" if worker.cordoned or worker.unreachable else None,
        licensed=True,
        product=view.shape.product if view.shape else None,
        capacity=capacity,
        reservations=worker.reservations,
        has=worker.has,
    )


def as_parked(worker: PoolWorker, view: PoolView) -> placement.Candidate:
    """Return a parked worker as it will serve: of its earlier size, with the template's licence."""
    ready = as_ready(worker, view)
    real, made = worker.capacity, view.shape
    if real is not None and made is not None:
        nodes = max(real.nodes, made.capacity.nodes)
        real = msgspec.structs.replace(real, nodes=nodes)
    return replace(ready, capacity=real or ready.capacity)


def _kind(worker: PoolWorker) -> str:
    if worker.phase is WorkerPhase.TERMINATED:
        return "ended"
    if worker.phase is WorkerPhase.FAILED:
        return "failed"
    if worker.leaving or worker.phase is WorkerPhase.TERMINATING_EC2:
        return "parked" if worker.phase is WorkerPhase.STOPPED else "leaving"
    if worker.phase in _READY:
        return "ready"
    # Stopping or STOPPED although it shall be Ready: it is about to come back.
    return "booting"


def _by_name(worker: PoolWorker) -> str:
    return worker.name
