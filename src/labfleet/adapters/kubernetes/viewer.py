"""Looks at clusters through their API servers: one session each, kept while somebody asks for it.

`run` must run for anything to be seen: sessions live in its TaskGroup. A cluster whose access is
described anew gets a new session; one that nobody asks for any more loses its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.adapters.kubernetes import readings
from labfleet.adapters.kubernetes.access import (
    Reached,
    Surroundings,
    from_account,
    from_kubeconfig,
    with_token,
)
from labfleet.adapters.kubernetes.calls import Api, Bounds, What
from labfleet.adapters.kubernetes.session import Session, again
from labfleet.interfaces.cluster_meter import Reading
from labfleet.interfaces.cluster_view import ClusterView
from labfleet.interfaces.outside import Secrets
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.kernel.rng import Rng
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure, KubernetesAccess, MetricsSource

Connect = Callable[[Reached, Bounds], Api]
SWEEP = 30.0


def connect(reached: Reached, bounds: Bounds) -> Api:
    """Return an Api over lightkube, which is loaded now: a server without clusters never pays for it."""
    from labfleet.adapters.kubernetes.client import LightkubeApi

    return LightkubeApi(reached, bounds)


@dataclass(frozen=True, slots=True)
class _Kept:
    session: Session
    task: asyncio.Task[None]


class KubernetesViewer:
    """Sees clusters, and reads metrics.k8s.io through the same sessions."""

    def __init__(
        self,
        secrets: Secrets,
        clock: Clock,
        rng: Rng,
        *,
        around: Surroundings | None = None,
        connect: Connect = connect,
        bounds: Bounds | None = None,
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._rng = rng.stream("kubernetes")
        self._around = around or Surroundings()
        self._connect = connect
        self._bounds = bounds or Bounds()
        self._group: asyncio.TaskGroup | None = None
        self._kept: dict[str, _Kept] = {}

    async def run(self) -> None:
        """Keep the sessions until cancelled, then close all of them."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while True:
                    await asyncio.sleep(SWEEP)
                    self._sweep()
        finally:
            self._group = None
            self._kept.clear()

    async def view(self, cluster: Cluster) -> ClusterView | None:
        """Return what stands on a cluster, as the interface says."""
        access = cluster.spec.kubernetes
        if access is None:
            return None
        try:
            return await self._session(cluster.metadata.uid, access).view()
        except errors.LabfleetError as problem:
            raise _named(problem, cluster) from None

    async def read(
        self, cluster: Cluster, source: MetricsSource, figures: Sequence[Figure]
    ) -> Reading:
        """Return what metrics.k8s.io knows of these figures, as FigureReader says."""
        access = cluster.spec.kubernetes
        if access is None:
            message = (
                f"cluster {cluster.name}: source {source.name} asks metrics.k8s.io: "
                "say in spec.kubernetes how the API server is reached"
            )
            raise errors.Invalid(message, reason="NoKubernetes")
        try:
            return await self._figures(cluster.metadata.uid, access, source, figures)
        except errors.LabfleetError as problem:
            raise _named(problem, cluster) from None

    async def _figures(
        self,
        uid: str,
        access: KubernetesAccess,
        source: MetricsSource,
        figures: Sequence[Figure],
    ) -> Reading:
        session = self._session(uid, access)
        values: dict[Figure, Mapping[str, float]] = {}
        gaps = readings.untold(figures)
        api: Api | None = None
        try:
            if any(each in readings.OF_RUNS for each in figures):
                await session.age()
            api = await session.api()
            parts = await _asked(session, api, figures, self._fresh(source.stale_seconds))
        except errors.Gone:
            message = "the cluster has no metrics.k8s.io: install metrics-server"
            raise errors.Temporary(message, reason="NoMetrics") from None
        except errors.Denied as problem:
            if problem.reason == "Unauthorized" and api is not None:
                await session.refused(api)
            raise
        except ValueError as odd:
            raise errors.Protocol(f"metrics.k8s.io: {odd}") from None
        for part in parts:
            values.update({k: v for k, v in part.values.items() if k in figures})
            gaps.update({k: v for k, v in part.gaps.items() if k in figures})
        return Reading(values, gaps)

    def _fresh(self, seconds: float) -> Callable[[datetime], bool]:
        """Return whether a figure of an instant may be used; in scaled time no age can be told."""
        if self._clock.rate != 1.0:
            return lambda _: True
        now, most = self._clock.now(), timedelta(seconds=seconds)
        return lambda at: abs(now - at) <= most

    # --- sessions -------------------------------------------------------------------------

    def _session(self, uid: str, access: KubernetesAccess) -> Session:
        group = self._group
        if group is None:
            raise errors.Temporary("clusters are not looked at yet", reason="Timeout")
        kept = self._kept.get(uid)
        if kept is not None and kept.session.access == access and not kept.task.done():
            return kept.session
        if kept is not None:
            kept.task.cancel()
        session = Session(
            access, self._connector(access), self._clock, self._rng.stream(uid), self._bounds
        )
        self._kept[uid] = _Kept(session, group.create_task(session.run(), name="cluster"))
        return session

    def _sweep(self) -> None:
        """Close the sessions that nobody asks for: their clusters are gone."""
        oldest = asyncio.get_running_loop().time() - self._bounds.unused
        for uid in [uid for uid, each in self._kept.items() if each.session.used < oldest]:
            self._kept.pop(uid).task.cancel()

    def _connector(self, access: KubernetesAccess) -> Callable[[], Awaitable[Api]]:
        """Return what reads a cluster's access as it is then, and connects by it."""

        async def made() -> Api:
            if access.kubeconfig is None:
                reached = from_account(self._around)
            else:
                text = self._secrets.resolve(access.kubeconfig)
                reached = from_kubeconfig(text, access.context)
            reached = await with_token(reached, self._around.environment)
            return self._connect(reached, self._bounds)

        return made


async def _asked(
    session: Session, api: Api, figures: Sequence[Figure], fresh: Callable[[datetime], bool]
) -> list[Reading]:
    """Return what metrics.k8s.io says of runs and of nodes, as far as it is asked for."""
    parts: list[Reading] = []
    if any(each in readings.OF_RUNS for each in figures):
        found = [
            item
            for namespace in session.access.namespaces or (None,)
            for item in (await api.listed(What.POD_FIGURES, namespace)).objects
        ]
        parts.append(readings.of_runs(found, session.pods(), session.run_of, fresh))
    if any(each in readings.OF_NODES for each in figures):
        nodes = (await api.listed(What.NODE_FIGURES, None)).objects
        parts.append(readings.of_nodes(nodes, fresh))
    return parts


def _named(problem: errors.LabfleetError, cluster: Cluster) -> errors.LabfleetError:
    made = again(problem)
    if not made.message.startswith(f"cluster {cluster.name}:"):
        made.message = f"cluster {cluster.name}: {made.message}"
        made.args = (made.message,)
    return made
