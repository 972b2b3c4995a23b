"""Samples of clusters and of the runs there: into the series, once a minute, and into their use.

For the process that looks at clusters. What was measured since the last write lies in memory, so
a crash loses a minute; no event is appended. What a run has used so far is kept for live runs
alone, and begun again from the stored minutes when another process has looked before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.controllers.context import Context
from labfleet.controllers.series import CHUNK, Buckets, rows_of
from labfleet.decisions.run_use import RunUse, metrics
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key
from labfleet.resources.series import Owner
from labfleet.resources.simulation import Simulation

EVERY = 60.0
"""Fleet seconds between two writes."""
WAITING = 20_000
"""Buckets that wait for the store at most; while so many do, no more are taken."""
OLDEST, AHEAD = timedelta(minutes=5), timedelta(minutes=1)
"""A measurement of longer ago, or of so far ahead, is in no bucket: its clock is not ours."""


@dataclass(slots=True)
class Watched:
    """One live run: what it has used, how often it was looked at, and at which look recorded."""

    use: RunUse = field(default_factory=RunUse)
    looks: int = 0
    recorded: int = 0


class ClusterSamples:
    """Takes measurements of clusters, and writes them in batches."""

    def __init__(self, context: Context, kept: stores.SeriesStore) -> None:
        self._context = context
        self._kept = kept
        self._waiting: dict[Owner, Buckets] = {}
        self._count = 0
        self._newest: dict[Key, datetime] = {}
        self._watched: dict[Key, dict[str, Watched]] = {}
        self._term: stores.Fence | None = None
        self._write_at = 0.0

    async def write_due(self) -> None:
        """Write what waits, if the last write is a minute ago or another process led since."""
        now, term = self._context.clock.monotonic(), self._context.leadership.fence
        led, self._term = self._term == term, term
        if not led:
            self._watched.clear()
        if led and now < self._write_at:
            return
        self._write_at = now + EVERY
        await self._write()

    async def _write(self) -> None:
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

    async def watch(self, cluster: Cluster, runs: Iterable[Simulation]) -> dict[str, Watched]:
        """Return, by uid, what is known of these live runs; all others of the cluster are over."""
        before = self._watched.get(cluster.key, {})
        found = {}
        for run in runs:
            uid = run.metadata.uid
            found[uid] = before.get(uid) or Watched(await self._so_far(run))
        self._watched[cluster.key] = found
        return found

    async def _so_far(self, run: Simulation) -> RunUse:
        """Return what the stored minutes say of a run, which another process looked at before."""
        use, minute = RunUse(), series.TIERS[0]
        if run.status.used:
            owner, since = Owner(run.kind, run.metadata.uid), self._context.clock.now()
            for row in await self._kept.series(owner, minute.step, since - minute.window):
                use.add_bucket(series.unpack(owner.kind, row.data))
        return use

    def take(self, cluster: Cluster, found: ClusterUsage, watched: Mapping[str, Watched]) -> None:
        """Count a measurement of a cluster and its live runs, once."""
        now, newest = self._context.clock.now(), self._newest.get(cluster.key)
        stale = newest is not None and newest >= found.at and newest <= now + AHEAD
        if stale or not now - OLDEST <= found.at <= now + AHEAD:
            return
        self._newest[cluster.key] = found.at
        others = {
            "othersCpu": found.others.get("cpu_milli"),
            "othersMemory": found.others.get("memory_mib"),
        }
        self._add(cluster.metadata.uid, cluster.kind, found.at, {**metrics(found.load), **others})
        for uid, each in watched.items():
            told = found.now.get(uid)
            if told:
                each.use.add(told)
                self._add(uid, Simulation.__name__, found.at, metrics(told))

    def _add(self, uid: str, kind: str, at: datetime, values: Mapping[str, float | None]) -> None:
        if self._count >= WAITING:
            return
        buckets = self._waiting.setdefault(Owner(kind, uid), {})
        before = len(buckets)
        series.add(buckets, kind, at, values)
        self._count += len(buckets) - before

    def forget(self, cluster: Key) -> None:
        """Drop what is kept of a cluster that is gone; what waits to be written is swept later."""
        self._newest.pop(cluster, None)
        self._watched.pop(cluster, None)
