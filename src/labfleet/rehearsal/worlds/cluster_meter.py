"""A meter of the rehearsal's clusters: tells what truly runs, late or not at all by the faults.

What it tells of a run is of that run's own pods; pods whose approval has ended are in the load of
their cluster alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.clusters import RESOURCES, Clusters
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key

FIGURES = ("cpu_milli", "memory_mib", "network_out_kbps")
"""What a run takes, in the order of RESOURCES, by figure of history.FIGURES."""


class WorldMeter:
    """Measures as one process sees it; `uid_of` says which simulation an approval is."""

    def __init__(
        self,
        world: Clusters,
        time: Callable[[], float],
        injector: FaultInjector,
        uid_of: Callable[[Key], str | None],
    ) -> None:
        self._world = world
        self._time = time
        self._injector = injector
        self._uid_of = uid_of
        self._last: dict[str, ClusterUsage] = {}

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return what runs on it now, or once more what was told last; None without run scripts.

        Raises Unreachable when a fault says so.
        """
        if not self._world.scripts:
            return None
        if self._injector.strikes("meter_away"):
            raise errors.Unreachable(f"the metrics of {cluster.name} are away")
        last = self._last.get(cluster.name)
        if last is not None and self._injector.strikes("meter_late"):
            return last
        now = self._time()
        load = dict(zip(RESOURCES, self._world.load(cluster.name, now), strict=True))
        runs = {}
        for each in self._world.running.values():
            uid = self._uid_of(Key("Simulation", cluster.namespace, each.name))
            if each.cluster == cluster.name and each.shape is not None and uid is not None:
                takes = each.shape.takes(now - each.began)
                runs[uid] = dict(zip(FIGURES, takes, strict=True))
        found = ClusterUsage(EPOCH + timedelta(seconds=now), load, now=runs)
        self._last[cluster.name] = found
        return found
