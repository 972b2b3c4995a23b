"""Measurements in memory: the newest of each worker, and a log of notable changes.

For one process; all sizes are bounded. `sample_exchange` gives the newest to the other processes,
and the store keeps the history (`controllers/series`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from labfleet.decisions import vitals
from labfleet.resources.meta import Key
from labfleet.resources.telemetry import Change, ProviderPoint, Sample

KEPT = 20
WORKERS = 4096
CHANGES = 2000
CHANGE_PERCENT = 5.0


class SampleRing:
    """The newest samples and points of each worker; drops the worker longest without one."""

    def __init__(self, *, kept: int = KEPT, workers: int = WORKERS, changes: int = CHANGES) -> None:
        """Take how many samples of how many workers, and how many changes are kept."""
        self._kept = kept
        self._limit = workers
        self._rings: dict[Key, deque[Sample]] = {}
        self._points: dict[Key, deque[ProviderPoint]] = {}
        self._told: dict[Key, dict[str, float | None]] = {}
        self._changes: deque[Change] = deque(maxlen=changes)
        self._number = 0
        self._listeners: list[Callable[[Key], None]] = []

    def put(self, sample: Sample, *, change_percent: float = CHANGE_PERCENT) -> None:
        """Keep a sample."""
        ring = self._rings.pop(sample.key, None) or deque(maxlen=self._kept)
        ring.append(sample)
        self._rings[sample.key] = ring
        self._tell(sample.key, sample.at, change_percent)
        if len(self._rings) > self._limit:
            self.forget(next(iter(self._rings)))
        self._heard(sample.key)

    def put_points(
        self,
        worker: Key,
        points: Sequence[ProviderPoint],
        *,
        change_percent: float = CHANGE_PERCENT,
    ) -> None:
        """Keep the points that are newer than what is kept."""
        ring = self._points.pop(worker, None) or deque(maxlen=self._kept)
        newest = ring[-1].at if ring else None
        fresh = [each for each in points if newest is None or each.at > newest]
        ring.extend(fresh)
        if not ring:
            return
        self._points[worker] = ring
        if fresh:
            self._tell(worker, ring[-1].at, change_percent)
            self._heard(worker)
        if len(self._points) > self._limit:
            del self._points[next(iter(self._points))]

    def newest(self, worker: Key) -> Sample | None:
        """Return the newest sample, or None."""
        ring = self._rings.get(worker)
        return ring[-1] if ring else None

    def recent(self, worker: Key, count: int) -> Sequence[Sample]:
        """Return up to this many newest samples, oldest first."""
        ring = self._rings.get(worker, deque())
        return tuple(ring)[-count:] if count > 0 else ()

    def points(self, worker: Key) -> Sequence[ProviderPoint]:
        """Return what the provider measured lately, oldest first."""
        return tuple(self._points.get(worker, ()))

    def forget(self, worker: Key) -> None:
        """Drop all that is kept of a worker."""
        for kept in (self._rings, self._points, self._told):
            kept.pop(worker, None)

    def workers(self) -> Sequence[Key]:
        """Return the workers' keys, in no promised order."""
        return tuple({**self._rings, **self._points})

    def listen(self, told: Callable[[Key], None]) -> None:
        """Call this with the worker's key after each new measurement of it, until `leave`."""
        self._listeners.append(told)

    def leave(self, told: Callable[[Key], None]) -> None:
        """Call it no more."""
        self._listeners.remove(told)

    def changes(self, after: int) -> Sequence[Change]:
        """Return the changes after this number, oldest first; a gap means some were dropped."""
        newer = len(self._changes) if after < 0 else self._number - after
        if newer <= 0:
            return ()
        return tuple(self._changes)[-newer:]

    @property
    def last_change(self) -> int:
        """Return the number of the newest change, 0 before the first."""
        return self._number

    def _heard(self, worker: Key) -> None:
        for told in self._listeners:
            told(worker)

    def _tell(self, worker: Key, at: datetime, percent: float) -> None:
        """Add a change when a value moved far enough from the one in its last change."""
        sample, points = self.newest(worker), self._points.get(worker)
        values: dict[str, float | None] = {}
        if sample is not None:
            values |= vitals.of_sample(sample)
        if points:
            values |= vitals.of_point(points[-1])
        moved = vitals.moved(self._told.get(worker, {}), values, percent)
        if not moved:
            return
        self._told[worker] = values
        self._number += 1
        self._changes.append(
            Change(
                number=self._number,
                worker=worker.name,
                namespace=worker.namespace,
                at=at,
                values=values,
                moved=moved,
            )
        )
