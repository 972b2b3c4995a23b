"""Looks at what clusters have and use: nodes, pods of runs, figures, and whether they are known.

One look is one record at most of the cluster, and of a run two: what it has used, and what its pods
say, where that is new. What a run has used is recorded when a peak has grown by a twentieth, and
when a mean, median or 95 % has moved by that much and the run was looked at a quarter more often
than at the last record: a run writes some dozens of times at most, however long it is measured.
What cannot be had is unknown, never 0, and after a while the cluster is in safe mode.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec

from labfleet.controllers.cluster_samples import ClusterSamples, Watched
from labfleet.controllers.context import Context
from labfleet.decisions import cluster_seen, run_pods, run_use, safe_mode
from labfleet.decisions.admission.targets import targets
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterMeter, ClusterUsage
from labfleet.interfaces.cluster_view import ClusterView, ClusterViewer
from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster, ClusterSeen, Overload, as_seen, capacity_of
from labfleet.resources.cluster_access import Figure, KubernetesAccess
from labfleet.resources.conditions import Condition
from labfleet.resources.history import Use
from labfleet.resources.meta import Key
from labfleet.resources.simulation import HOLDING, Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs import pods_seen

EVERY = 30.0
"""Fleet seconds between two looks at a cluster, at most."""
LOOKS = 3
"""So many looks are in the time after which a cluster without figures is in safe mode."""
SOON = 5.0
"""Likewise while nothing was heard of it yet: a process that begins shall not wait long."""
LONGEST = 300.0
"""A look says nothing of what was longer ago than so many seconds: that time was not looked at."""
KEPT_EVERY = 900.0
"""Seconds looked at after which the share above the targets is recorded, changed or not."""
KEPT_LATEST = 86400.0
"""It is recorded as they grow by a tenth, and after so many at the latest: one more quarter of an
hour says nothing new of a month. A crash loses what was not recorded."""
ACTOR = "cluster-controller"
_DIMENSIONS = ("cpu_milli", "memory_mib", "network_kbps")
T = TypeVar("T")
_NOT_NOW = (errors.Temporary, errors.Denied, errors.Invalid)
"""What a look at one part may fail with; all else is a fault of ours."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one look at a cluster brought; None where it brought nothing."""

    view: ClusterView | None
    usage: ClusterUsage | None
    problem: errors.LabfleetError | None = None
    """Why there is no view of a cluster that names its Kubernetes."""


class ClusterController:
    """Looks at one cluster at a time."""

    def __init__(
        self,
        context: Context,
        services: ServiceContext,
        kept: stores.SeriesStore,
        *,
        viewer: ClusterViewer,
        meter: ClusterMeter,
    ) -> None:
        self.context = context
        self._services = services
        self._viewer = viewer
        self._meter = meter
        self._samples = ClusterSamples(context, kept)
        self._looked: dict[Key, datetime] = {}
        self._overload: dict[Key, Overload] = {}
        self._described: dict[Key, tuple[str, KubernetesAccess | None, object]] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Look at a cluster and record what has changed by it."""
        await self._samples.write_due()
        cluster = self.context.cache.at(key)
        if not isinstance(cluster, Cluster) or cluster.deleting:
            self._samples.forget(key)
            self._forget(key)
            return Done()
        # What was heard stays true of a cluster that is only filled otherwise from now on.
        described = (cluster.metadata.uid, cluster.spec.kubernetes, cluster.spec.metrics)
        if self._described.get(key, described) != described:
            self._forget(key)
        self._described[key] = described
        found = await self._look(cluster)
        runs = self.context.cache.by(indices.SIMULATIONS_HOLDING, key.path)
        if found.usage is not None:
            found = dataclasses.replace(found, usage=by_uid(found.usage, runs))
        else:
            self._looked.pop(key, None)
        await self._runs(cluster, found)
        await self._record(cluster, found)
        named = cluster.spec.kubernetes is not None or cluster.spec.metrics
        return Again(SOON if named and not self._heard(cluster) else pause(cluster))

    def _heard(self, cluster: Cluster) -> bool:
        """Tell whether this process has heard anything of a cluster yet."""
        now = self.context.clock.monotonic()
        parts = self._services.watch.parts(cluster.metadata.uid, now)
        return any(each.age is not None for each in parts.values())

    def _forget(self, key: Key) -> None:
        """Forget what was heard of a cluster that is gone, or reached otherwise from now on."""
        uid = self._described.pop(key, ("", None, ()))[0]
        self._services.watch.forget(uid)
        self._looked.pop(key, None)
        self._overload.pop(key, None)

    # --- looking ----------------------------------------------------------------------------

    async def _look(self, cluster: Cluster) -> _Looked:
        """Return what can be had of a cluster now, and note what cannot."""
        (seen, problem), usage = await asyncio.gather(
            self._viewed(cluster), _had(self._meter.usage, cluster)
        )
        watch, uid = self._services.watch, cluster.metadata.uid
        now = self.context.clock.monotonic()
        if isinstance(usage, errors.LabfleetError):
            watch.failed(uid, safe_mode.METRICS, usage.message)
            return _Looked(seen, None, problem)
        if usage is None:
            return _Looked(seen, None, problem)
        wrong = self._contradiction(cluster, seen, usage)
        if wrong:
            watch.failed(uid, safe_mode.METRICS, wrong, contradicting=True)
            return _Looked(seen, None, problem)
        if not usage.load:
            watch.failed(uid, safe_mode.METRICS, _gap(usage))
            return _Looked(seen, usage, problem)
        watch.heard(uid, safe_mode.METRICS, now)
        return _Looked(seen, usage, problem)

    async def _viewed(
        self, cluster: Cluster
    ) -> tuple[ClusterView | None, errors.LabfleetError | None]:
        """Return the view of a cluster, or why there is none; noted now, however long figures take."""
        watch, uid = self._services.watch, cluster.metadata.uid
        view = await _had(self._viewer.view, cluster)
        if isinstance(view, errors.LabfleetError):
            watch.failed(uid, safe_mode.KUBERNETES, view.message)
            return None, view
        if view is not None:
            watch.heard(uid, safe_mode.KUBERNETES, self.context.clock.monotonic())
        return view, None

    def _contradiction(
        self, cluster: Cluster, view: ClusterView | None, usage: ClusterUsage
    ) -> str:
        """Return what cannot be true of these figures; empty when all can be."""
        has: dict[str, float] = {}
        if view is not None and view.nodes:
            total = cluster_seen.capacity((each.allocatable, True) for each in view.nodes)
            has = {"cpu_milli": total.cpu_milli, "memory_mib": total.memory_mib}
        elif view is None and cluster.status.seen is not None:
            # What its nodes had when they were last seen: figures are not believed unchecked.
            known = cluster.status.seen.capacity
            has = {"cpu_milli": known.cpu_milli, "memory_mib": known.memory_mib}
            has = {name: each for name, each in has.items() if each}
        runs = self.context.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
        if view is not None:
            names = {name for name, each in view.runs.items() if each.running}
            ours = [each for each in runs if each.name in names or each.metadata.uid in names]
        else:
            # Else a lie of nothing counts as heard until the API server is back, and is not yet
            # old then: runs would be let in by it.
            ours = [each for each in runs if run_pods.lived(each.status)]
        found = {*usage.runs, *usage.now}
        measured = sum(1 for each in ours if each.metadata.uid in found or each.name in found)
        return safe_mode.contradiction(
            load=usage.load,
            has=has,
            running=len(ours),
            measured=measured,
            pods=(*usage.now.values(), usage.others),
        )

    # --- runs -------------------------------------------------------------------------------

    async def _runs(self, cluster: Cluster, found: _Looked) -> None:
        """Record what is new of the live runs: what they have used so far, and their pods."""
        runs = self.context.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
        watched: Mapping[str, Watched] = {}
        if found.usage is not None:
            watched = await self._samples.watch(cluster, runs)
            self._samples.take(cluster, found.usage, watched)
        for run in runs:
            now = run
            if found.usage is not None:
                now = await self._used(run, found.usage, watched[run.metadata.uid])
            if found.view is not None:
                await self._follow(now, found.view)

    async def _used(self, run: Simulation, usage: ClusterUsage, watched: Watched) -> Simulation:
        """Record what a run has used so far, where it is worth it; return the run as it is now."""
        uid = run.metadata.uid
        told = usage.runs.get(uid, {})
        if not told and uid not in usage.now:
            return run
        used = run_use.joined(told, watched.use.used(), run.status.used)
        watched.looks += 1
        if not worth_telling(run.status.used, used, watched):
            return run
        status = msgspec.structs.replace(run.status, used=dict(used))
        stored = await self.context.record(run, status=status, actor=ACTOR, reason="Measured")
        watched.recorded = watched.looks
        return stored

    async def _follow(self, run: Simulation, view: ClusterView) -> None:
        if run.status.phase not in HOLDING:
            return
        caller = Caller(access.SYSTEM)
        await pods_seen.follow(self._services, caller, run, view, fence=self.context.fence())

    # --- the cluster itself -----------------------------------------------------------------

    async def _record(self, cluster: Cluster, found: _Looked) -> None:
        """Record what is new of the cluster: its nodes, the promise, and whether figures are known."""
        status = cluster.status
        told = self._conditions(cluster, found)
        changes: dict[str, object] = {
            "seen": self._seen(cluster, found),
            "overload": self._promise(cluster, found.usage),
            "conditions": told,
            "mode": cluster_seen.mode_of(cluster.spec, told),
        }
        now = msgspec.structs.replace(status, **changes)
        if now != status:
            now = msgspec.structs.replace(now, observed_generation=cluster.metadata.generation)
        await self.context.record(cluster, status=now, actor=ACTOR, reason="Looked")

    def _seen(self, cluster: Cluster, found: _Looked) -> ClusterSeen | None:
        """Return what to record of nodes and others; nothing of a cluster nobody looks at."""
        view, before = found.view, cluster.status.seen
        if view is None:
            return before if cluster.spec.kubernetes is not None else None
        runs = self.context.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
        known = {name for each in runs for name in (each.name, each.metadata.uid)}
        # Pods of runs that hold nothing take as much as those of nobody.
        strange = [each.requested for name, each in view.runs.items() if name not in known]
        others: Mapping[str, float] = summed([view.others, *strange])
        if cluster.spec.metrics:
            others = {} if found.usage is None else found.usage.others
        nodes = [(each.allocatable, each.ready and each.schedulable) for each in view.nodes]
        return cluster_seen.seen(nodes, others, before)

    def _conditions(self, cluster: Cluster, found: _Looked) -> tuple[Condition, ...]:
        """Return the facts about a cluster after a look."""
        view, problem = found.view, found.problem
        if problem is not None and not self._silent(cluster):
            problem = None  # one look that fails says little
        blind = self._services.watch.safe_mode(cluster, self.context.clock.monotonic())
        return cluster_seen.conditions_of(
            cluster, self.context.clock.now(), seen=view is not None, problem=problem, blind=blind
        )

    def _silent(self, cluster: Cluster) -> bool:
        """Tell whether the API server was not heard for two looks."""
        now = self.context.clock.monotonic()
        heard = self._services.watch.parts(cluster.metadata.uid, now).get(safe_mode.KUBERNETES)
        return heard is None or heard.age is None or heard.age >= 2 * pause(cluster)

    def _promise(self, cluster: Cluster, usage: ClusterUsage | None) -> Overload:
        """Return what is recorded of the promise, with the time since the last look added."""
        kept = cluster.status.overload
        if usage is None:
            return kept
        before = self._looked.get(cluster.key)
        self._looked[cluster.key] = usage.at
        over = above(cluster, usage)
        if before is None or over is None:
            return kept
        seconds = min(LONGEST, (usage.at - before).total_seconds())
        # Imported here: a server without clusters never needs what it brings.
        from labfleet.decisions.admission import tightening

        told = self._overload.get(cluster.key, kept)
        epsilon = cluster.spec.overload_percent / 100
        now = tightening.after(told, over=over, seconds=seconds, epsilon=epsilon)
        self._overload[cluster.key] = now
        return now if worth(kept, now) else kept


async def _had(
    ask: Callable[[Cluster], Awaitable[T]], cluster: Cluster
) -> T | errors.LabfleetError:
    """Return what is asked of a cluster, or why it cannot be had."""
    try:
        return await ask(cluster)
    except _NOT_NOW as problem:
        return problem


def pause(cluster: Cluster) -> float:
    """Return the fleet seconds until the next look: one look that fails must do nothing."""
    return min(EVERY, cluster.spec.safe_after_seconds / LOOKS)


def above(cluster: Cluster, found: ClusterUsage) -> bool | None:
    """Tell whether any target is exceeded; None when no dimension with a target was measured."""
    may = targets(as_seen(cluster))
    known = {
        name: found.load[name]
        for name in _DIMENSIONS
        if name in found.load and getattr(capacity_of(cluster), name)
    }
    return any(load > getattr(may, name) for name, load in known.items()) if known else None


def _gap(usage: ClusterUsage) -> str:
    """Return why the load of a cluster is not known."""
    said = [
        usage.gaps[each] for each in (Figure.NODE_CPU, Figure.NODE_MEMORY) if each in usage.gaps
    ]
    return f"no source knows its load: {said[0]}" if said else "no source knows its load"


def by_uid(usage: ClusterUsage, runs: Iterable[Simulation]) -> ClusterUsage:
    """Return what was measured of these runs by their uids: labels say the name or the uid.

    What other labels say is of no run that holds something, so it counts with the others; where what
    others use is not known, it stays so.
    """
    uids = {name: each.metadata.uid for each in runs for name in (each.name, each.metadata.uid)}
    now = {uids[name]: told for name, told in usage.now.items() if name in uids}
    strange = [told for name, told in usage.now.items() if name not in uids]
    whole = summed([usage.others, *strange])
    others = {name: value for name, value in whole.items() if name in usage.others}
    return dataclasses.replace(usage, now=now, others=others)


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums by name."""
    found: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found


def worth_telling(before: Mapping[str, Use], now: Mapping[str, Use], run: Watched) -> bool:
    """Tell whether what a run has used is worth a record."""
    longer = run.looks >= run.recorded * run_use.LONGER
    return run_use.grown(before, now) or (longer and run_use.moved(before, now))


def worth(before: Overload, now: Overload) -> bool:
    """Tell whether a change of what was seen of the promise is worth a record."""
    moved = abs(now.slack - before.slack) >= 0.1 or (now.slack < 0) != (before.slack < 0)
    longer = max(KEPT_EVERY, min(KEPT_LATEST, before.seconds / 10))
    return moved or now.seconds - before.seconds >= longer
