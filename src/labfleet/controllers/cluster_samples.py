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
from labfleet.controllers.sample_writer import SampleWriter
from labfleet.decisions.run_use import RunUse, metrics
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.resources import series
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key
from labfleet.resources.series import Owner
from labfleet.resources.simulation import Simulation

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
        self._writer = SampleWriter(context, kept)
        self._newest: dict[Key, datetime] = {}
        self._watched: dict[Key, dict[str, Watched]] = {}
        self._term: stores.Fence | None = None

    async def write_due(self) -> None:
        """Write what waits, if the last write is a minute ago or another process led since."""
        term = self._context.leadership.fence
        led, self._term = self._term == term, term
        if not led:
            self._watched.clear()
        await self._writer.write_due(now=not led)

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
        owner = Owner(cluster.kind, cluster.metadata.uid)
        self._writer.take(owner, found.at, {**metrics(found.load), **others})
        for uid, each in watched.items():
            told = found.now.get(uid)
            if told:
                each.use.add(told)
                self._writer.take(Owner(Simulation.__name__, uid), found.at, metrics(told))

    def forget(self, cluster: Key) -> None:
        """Drop what is kept of a cluster that is gone; what waits to be written is swept later."""
        self._newest.pop(cluster, None)
        self._watched.pop(cluster, None)
