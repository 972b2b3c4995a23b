"""What one process is told of the rehearsal's clusters, noted for the rules as it is told.

Both are the product's own viewer and meter; here stands only what they brought, and whether it was true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labfleet.adapters.kubernetes.viewer import KubernetesViewer
from labfleet.decisions.safe_mode import KUBERNETES, METRICS
from labfleet.interfaces.cluster_meter import ClusterMeter, ClusterUsage
from labfleet.interfaces.cluster_view import ClusterView
from labfleet.kernel import errors
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.kube_cluster import NOTHING, KubeCluster
from labfleet.resources.cluster import Cluster


class NotedViewer(KubernetesViewer):
    """A viewer of which the world knows what it has told."""

    world: Clusters

    async def view(self, cluster: Cluster) -> ClusterView | None:
        """Return what stands on a cluster, as the interface says."""
        if cluster.spec.kubernetes is None:
            return None
        place = self.world.places[cluster.name]
        place.seen = True
        try:
            found = await super().view(cluster)
        except errors.LabfleetError:
            place.failed(KUBERNETES)
            raise
        place.heard(KUBERNETES)
        for run, pods in () if found is None else found.runs.items():
            if pods.running:
                place.viewed(run)
        return found


class NotedMeter:
    """A meter of which the world knows whether it has told the truth.

    `holding` names the runs that hold something: while pods of one run, nothing cannot be true.
    """

    def __init__(
        self, meter: ClusterMeter, world: Clusters, holding: Callable[[], Iterable[str]]
    ) -> None:
        self._meter = meter
        self._world = world
        self._holding = holding

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return what a cluster uses now, as the interface says."""
        place = self._world.places.get(cluster.name)
        try:
            found = await self._meter.usage(cluster)
        except errors.LabfleetError:
            if place is not None:
                place.failed(METRICS)
            raise
        if place is not None and found is not None:
            if found.load and not self._shown(place):
                place.heard(METRICS)
            else:
                place.failed(METRICS)
        return found

    def _shown(self, place: KubeCluster) -> bool:
        """Tell whether what a source says now cannot be true, as far as anybody can know."""
        if place.lies != NOTHING:
            return bool(place.lies)
        known = (place.runs.get(name) for name in self._holding() if place.views.get(name))
        return any(run is not None and run.live for run in known)
