"""Measurements that wait for the store: into the series of their objects, once a minute.

For one process and one role. What was measured since the last write lies in memory, so a crash
loses a minute; no event is appended. What the store did not take waits for the next write.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from labfleet.controllers.context import Context
from labfleet.controllers.series import CHUNK, Buckets, rows_of
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.series import Owner

EVERY = 60.0
"""Fleet seconds between two writes."""
WAITING = 20_000
"""Buckets that wait for the store at most; while so many do, no more are taken."""


class SampleWriter:
    """Takes measurements of objects, and writes them in batches."""

    def __init__(self, context: Context, kept: stores.SeriesStore) -> None:
        self._context = context
        self._kept = kept
        self._waiting: dict[Owner, Buckets] = {}
        self._count = 0
        self._write_at = 0.0

    def take(self, owner: Owner, at: datetime, values: Mapping[str, float | None]) -> None:
        """Count a measurement, once."""
        if self._count >= WAITING:
            return
        buckets = self._waiting.setdefault(owner, {})
        before = len(buckets)
        series.add(buckets, owner.kind, at, values)
        self._count += len(buckets) - before

    async def write_due(self, *, now: bool = False) -> None:
        """Write what waits, if the last write is a minute ago, or `now`."""
        at = self._context.clock.monotonic()
        if not now and at < self._write_at:
            return
        self._write_at = at + EVERY
        taken, self._waiting, self._count = self._waiting, {}, 0
        rows = [row for owner, buckets in taken.items() for row in rows_of(owner, buckets)]
        for first in range(0, len(rows), CHUNK):
            try:
                await self._kept.merge_series(rows[first : first + CHUNK])
            except errors.LabfleetError:
                for row in rows[first:]:
                    self._again(row)
                raise

    def _again(self, row: stores.SeriesRow) -> None:
        """Let a bucket wait that could not be written, beside what was measured since."""
        buckets = self._waiting.setdefault(row.owner, {})
        place, bucket = (row.step, row.at), series.unpack(row.owner.kind, row.data)
        self._count += place not in buckets
        buckets[place] = series.merged(bucket, buckets.get(place, {}))
