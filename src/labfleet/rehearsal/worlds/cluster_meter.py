"""A source of metrics of the rehearsal's clusters, as the metrics adapter reads one of Prometheus.

It tells what truly runs, late or not at all by the faults. What it tells of a run is of the run's own
pods, by their label; what ended runs and runs of nobody take is in the load of their cluster alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from labfleet.interfaces.cluster_meter import Reading
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.kube_cluster import NOTHING, TOO_LARGE, KubeCluster, Row, Told
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure, MetricsSource

FIGURES = ("cpu_milli", "memory_mib", "network_out_kbps")
"""What a run takes, in the order of RESOURCES, by figure of history.FIGURES."""
OF_RUNS = (Figure.RUN_CPU, Figure.RUN_MEMORY, Figure.RUN_NETWORK_OUT)
OF_NODES = (Figure.NODE_CPU, Figure.NODE_MEMORY, Figure.NODE_NETWORK_OUT)
RECEIVED = 16.0
"""What a node receives, in kbit/s: little, so that its network is as busy as it sends."""


class WorldReader:
    """Reads figures as one process sees them."""

    def __init__(self, world: Clusters, injector: FaultInjector) -> None:
        self._world = world
        self._injector = injector
        self._last: dict[str, Reading] = {}

    async def read(
        self, cluster: Cluster, source: MetricsSource, figures: Sequence[Figure]
    ) -> Reading:
        """Return what is measured now, or once more what was told last.

        Raises Unreachable when a fault says so.
        """
        where = f"cluster {cluster.name}: source {source.name}"
        place = self._world.places.get(cluster.name)
        if (
            place is None
            or self._injector.holds("metrics_stopped", cluster.name)
            or self._injector.strikes("meter_away")
        ):
            raise errors.Unreachable(f"{where}: away")
        last = self._last.get(cluster.name)
        if last is not None and self._injector.strikes("meter_late"):
            return last
        if place.lies:
            self._injector.holds("metrics_wrong", cluster.name)
        found = read(place, figures)
        self._last[cluster.name] = found
        return found


def read(place: KubeCluster, figures: Sequence[Figure]) -> Reading:
    """Return what a source knows of a cluster now, and note what is told of each run."""
    (of_runs, of_nodes), received = place.measured(), RECEIVED
    if place.lies:
        many = 0.0 if place.lies == NOTHING else TOO_LARGE
        of_nodes, received = {name: _times(row, many) for name, row in of_nodes.items()}, many
        of_runs = {name: _times(row, many) for name, row in of_runs.items() if many}
    for run, row in () if place.lies else of_runs.items():
        told = place.told.setdefault(run, {})
        for figure, value in zip(FIGURES, row, strict=True):
            told.setdefault(figure, Told()).add(value)
    values: dict[Figure, dict[str, float]] = {}
    for place_of, (runs, nodes) in enumerate(zip(OF_RUNS, OF_NODES, strict=True)):
        values[runs] = _column(of_runs, place_of)
        values[nodes] = _column(of_nodes, place_of)
    values[Figure.NODE_NETWORK_IN] = dict.fromkeys(of_nodes, received)
    gaps = {each: "no such series" for each in figures if not values.get(each)}
    return Reading({each: values[each] for each in figures if values.get(each)}, gaps)


def _times(row: Row, many: float) -> Row:
    return (row[0] * many, row[1] * many, row[2] * many)


def _column(rows: dict[str, Row], place: int) -> dict[str, float]:
    return {name: row[place] for name, row in rows.items()}
