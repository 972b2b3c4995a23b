"""Measures clusters by the sources that they name, in their order: the first that knows is believed.

It sums what nodes use into the load of the cluster, and never subtracts one sum from another. A sum of
which a part is not known is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labfleet.interfaces.cluster_meter import OTHERS, ClusterUsage, FigureReader, Reading
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure, MetricsKind, MetricsSource

SOURCE_SECONDS = 20.0
"""Machine seconds for all queries to one source."""
OF_RUNS = {
    Figure.RUN_CPU: "cpu_milli",
    Figure.RUN_MEMORY: "memory_mib",
    Figure.RUN_STORAGE: "storage_mib",
    Figure.RUN_NETWORK_IN: "network_in_kbps",
    Figure.RUN_NETWORK_OUT: "network_out_kbps",
}
"""What a figure of runs is called in history.FIGURES."""
OF_NODES = {
    "cpu_milli": (Figure.NODE_CPU,),
    "memory_mib": (Figure.NODE_MEMORY,),
    "storage_mib": (Figure.NODE_STORAGE,),
    "network_in_kbps": (Figure.NODE_NETWORK_IN,),
    "network_out_kbps": (Figure.NODE_NETWORK_OUT,),
    "network_kbps": (Figure.NODE_NETWORK_IN, Figure.NODE_NETWORK_OUT),
}
"""Of which figures a dimension of nodes is the greatest: a network is as busy as its busier direction."""
_BUSIER = ("network_in_kbps", "network_out_kbps")


@dataclass(slots=True)
class _Found:
    """What is known so far, and what went wrong."""

    values: dict[Figure, Mapping[str, float]] = field(default_factory=dict)
    sources: dict[Figure, str] = field(default_factory=dict)
    gaps: dict[Figure, str] = field(default_factory=dict)
    problems: list[errors.LabfleetError] = field(default_factory=list)
    answered: bool = False


class SourcesMeter:
    """A ClusterMeter over one reader for each kind of source."""

    def __init__(self, readers: Mapping[MetricsKind, FigureReader], clock: Clock) -> None:
        self._readers = readers
        self._clock = clock

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return what a cluster uses now, as the interface says; the first error when none answers."""
        if not cluster.spec.metrics:
            return None
        found = _Found()
        for source in cluster.spec.metrics:
            wanted = [each for each in Figure if each not in found.values]
            if wanted:
                await self._ask(cluster, source, wanted, found)
        if not found.answered:
            raise found.problems[0]
        return assembled(found.values, found.sources, found.gaps, self._clock)

    async def _ask(
        self, cluster: Cluster, source: MetricsSource, wanted: Sequence[Figure], found: _Found
    ) -> None:
        try:
            reading = await self._read(cluster, source, wanted)
        except errors.LabfleetError as problem:
            found.problems.append(problem)
            told = problem.message.removeprefix(f"cluster {cluster.name}: source {source.name}: ")
            _tell(found, source, dict.fromkeys(wanted, told))
            return
        found.answered = True
        _tell(found, source, reading.gaps)
        for figure in wanted:
            if reading.values.get(figure):
                found.values[figure] = reading.values[figure]
                found.sources[figure] = source.name
                found.gaps.pop(figure, None)
                if figure in reading.gaps:
                    found.gaps[figure] = f"{source.name}: {reading.gaps[figure]}"

    async def _read(
        self, cluster: Cluster, source: MetricsSource, wanted: Sequence[Figure]
    ) -> Reading:
        try:
            async with asyncio.timeout(SOURCE_SECONDS):
                return await self._readers[source.kind].read(cluster, source, wanted)
        except TimeoutError:
            message = f"cluster {cluster.name}: source {source.name}: no answer in time"
            raise errors.Unreachable(message, reason="Timeout") from None


def _tell(found: _Found, source: MetricsSource, gaps: Mapping[Figure, str]) -> None:
    """Add why a source does not know some figures to what others said of them."""
    for figure, why in gaps.items():
        before = found.gaps.get(figure)
        said = f"{source.name}: {why}"
        found.gaps[figure] = f"{before}; {said}" if before else said


def assembled(
    values: Mapping[Figure, Mapping[str, float]],
    sources: Mapping[Figure, str],
    gaps: Mapping[Figure, str],
    clock: Clock,
) -> ClusterUsage:
    """Return the usage that these figures tell."""
    now: dict[str, dict[str, float]] = {}
    for figure, name in OF_RUNS.items():
        for run, value in values.get(figure, {}).items():
            now.setdefault(run, {})[name] = value
    others = _busier(now.pop(OTHERS, {}))
    nodes: dict[str, dict[str, float]] = {}
    load: dict[str, float] = {}
    for dimension, figures in OF_NODES.items():
        parts = [values.get(each, {}) for each in figures]
        known = [node for node in parts[0] if all(node in part for part in parts)]
        for node in known:
            nodes.setdefault(node, {})[dimension] = max(part[node] for part in parts)
        whole = not any(each in gaps for each in figures)
        if known and whole and all(len(part) == len(known) for part in parts):
            load[dimension] = sum(nodes[node][dimension] for node in known)
    return ClusterUsage(
        at=clock.now(),
        load=load,
        now=now,
        others=others,
        nodes=nodes,
        sources=dict(sources),
        gaps=dict(gaps),
    )


def _busier(use: Mapping[str, float]) -> dict[str, float]:
    """Return a use with its network's busier direction, if both are known."""
    made = dict(use)
    if all(name in use for name in _BUSIER):
        made["network_kbps"] = max(use[name] for name in _BUSIER)
    return made
