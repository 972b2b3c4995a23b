"""Samples in memory: a ring for each worker, a bounded number of workers.

For one process. It keeps no history worth a graph: Prometheus does that from the gauges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from labfleet.resources.telemetry import Sample

KEPT = 20
WORKERS = 4096


class SampleRing:
    """The newest samples of each worker; the worker longest without one leaves first."""

    def __init__(self, *, kept: int = KEPT, workers: int = WORKERS) -> None:
        """Take how many samples of how many workers are kept."""
        self._kept = kept
        self._limit = workers
        self._rings: dict[str, deque[Sample]] = {}

    def put(self, sample: Sample) -> None:
        """Keep a sample."""
        ring = self._rings.pop(sample.worker, None) or deque(maxlen=self._kept)
        ring.append(sample)
        self._rings[sample.worker] = ring
        if len(self._rings) > self._limit:
            del self._rings[next(iter(self._rings))]

    def newest(self, worker: str) -> Sample | None:
        """Return the newest sample, or None."""
        ring = self._rings.get(worker)
        return ring[-1] if ring else None

    def recent(self, worker: str, count: int) -> Sequence[Sample]:
        """Return up to this many newest samples, oldest first."""
        ring = self._rings.get(worker, deque())
        return tuple(ring)[-count:] if count > 0 else ()

    def forget(self, worker: str) -> None:
        """Drop a worker's samples."""
        self._rings.pop(worker, None)

    def workers(self) -> Sequence[str]:
        """Return the names, in no promised order."""
        return tuple(self._rings)
