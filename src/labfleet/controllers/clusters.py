"""Looks at what clusters really use: corrects what their live runs count for, judges the promise.

What a run has used is recorded when a peak has grown by a twentieth, and when a mean, median or
95 % has moved by that much and the run was looked at a quarter more often than at the last record:
a run writes some dozens of times at most, however long it is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from labfleet.controllers.cluster_samples import ClusterSamples, Watched
from labfleet.controllers.context import Context
from labfleet.decisions import run_use
from labfleet.decisions.admission.targets import targets
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterMeter, ClusterUsage
from labfleet.resources.cluster import Cluster, Overload
from labfleet.resources.history import Use
from labfleet.resources.meta import Key
from labfleet.resources.simulation import Simulation
from labfleet.service.kinds import indices

EVERY = 30.0
"""Fleet seconds between two looks at a cluster."""
LONGEST = 300.0
"""A look says nothing of what was longer ago than so many seconds: that time was not looked at."""
KEPT_EVERY = 900.0
"""Seconds looked at after which the share above the targets is recorded, changed or not."""
ACTOR = "cluster-controller"
_DIMENSIONS = ("cpu_milli", "memory_mib", "network_kbps")


class ClusterController:
    """Looks at one cluster at a time."""

    def __init__(self, context: Context, meter: ClusterMeter, kept: stores.SeriesStore) -> None:
        self.context = context
        self._meter = meter
        self._samples = ClusterSamples(context, kept)
        self._looked: dict[Key, datetime] = {}
        self._overload: dict[Key, Overload] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Measure a cluster and record what has changed by it."""
        await self._samples.write_due()
        cluster = self.context.cache.at(key)
        if not isinstance(cluster, Cluster) or cluster.deleting:
            self._samples.forget(key)
            self._looked.pop(key, None)
            self._overload.pop(key, None)
            return Done()
        found = await self._meter.usage(cluster)
        if found is None:
            self._looked.pop(key, None)
            return Again(EVERY)
        await self._runs(cluster, found)
        await self._promise(cluster, found)
        return Again(EVERY)

    async def _runs(self, cluster: Cluster, found: ClusterUsage) -> None:
        """Record what live runs have used so far, where it is more than what is known."""
        runs = self.context.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
        watched = await self._samples.watch(cluster, runs)
        self._samples.take(cluster, found, watched)
        for run in runs:
            uid = run.metadata.uid
            each, told = watched[uid], found.runs.get(uid, {})
            if not told and uid not in found.now:
                continue
            used = run_use.joined(told, each.use.used(), run.status.used)
            each.looks += 1
            if worth_telling(run.status.used, used, each):
                await self._record_run(run, used)
                each.recorded = each.looks

    async def _record_run(self, run: Simulation, used: Mapping[str, Use]) -> None:
        status = msgspec.structs.replace(run.status, used=dict(used))
        await self.context.record(run, status=status, actor=ACTOR, reason="Measured")

    async def _promise(self, cluster: Cluster, found: ClusterUsage) -> None:
        """Add the time since the last look to that above or within the targets."""
        before = self._looked.get(cluster.key)
        self._looked[cluster.key] = found.at
        over = above(cluster, found)
        if before is None or over is None:
            return
        seconds = min(LONGEST, (found.at - before).total_seconds())
        # Imported here: a server without clusters never needs what it brings.
        from labfleet.decisions.admission import tightening

        kept = cluster.status.overload
        told = self._overload.get(cluster.key, kept)
        epsilon = cluster.spec.overload_percent / 100
        now = tightening.after(told, over=over, seconds=seconds, epsilon=epsilon)
        self._overload[cluster.key] = now
        if worth(kept, now):
            status = msgspec.structs.replace(cluster.status, overload=now)
            await self.context.record(cluster, status=status, actor=ACTOR, reason="Measured")


def above(cluster: Cluster, found: ClusterUsage) -> bool | None:
    """Tell whether any target is exceeded; None when no dimension with a target was measured."""
    may = targets(cluster.spec)
    known = {
        name: found.load[name]
        for name in _DIMENSIONS
        if name in found.load and getattr(cluster.spec.capacity, name)
    }
    return any(load > getattr(may, name) for name, load in known.items()) if known else None


def worth_telling(before: Mapping[str, Use], now: Mapping[str, Use], run: Watched) -> bool:
    """Tell whether what a run has used is worth a record."""
    longer = run.looks >= run.recorded * run_use.LONGER
    return run_use.grown(before, now) or (longer and run_use.moved(before, now))


def worth(before: Overload, now: Overload) -> bool:
    """Tell whether a change of what was seen of the promise is worth a record."""
    moved = abs(now.slack - before.slack) >= 0.1 or (now.slack < 0) != (before.slack < 0)
    return moved or now.seconds - before.seconds >= KEPT_EVERY
