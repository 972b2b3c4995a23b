"""What clusters really do: the load of each, and what its runs use and have used so far.

A measurement that is not there is unknown, never 0: nothing is corrected by it. A meter asks the
sources that a cluster names (`MetricsSource`), each through the `FigureReader` of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import Figure, MetricsSource
from labfleet.resources.history import Use


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """One measurement of a cluster.

    at: When it was measured (fleet time).
    load: What all that runs there uses now, by dimension of Amounts; an absent one is unknown. Also
        network_in_kbps, network_out_kbps and pods, where they are known.
    runs: By uid of the simulation what it has used so far, by figure of history.FIGURES.
    now: By name or uid, as the run's label says, what its own pods use now, by figure of
        history.FIGURES; and pods.
    others: What pods use that are of no run, as `load`; summed over them, never what is left over.
    nodes: By name of the node what all that runs there uses now, by dimension.
    sources: By figure the name of the source that was believed.
    gaps: By figure why no source knows it; a figure may also have gaps of single runs and nodes.
    """

    at: datetime
    load: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Use]] = field(default_factory=dict)
    now: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sources: Mapping[Figure, str] = field(default_factory=dict)
    gaps: Mapping[Figure, str] = field(default_factory=dict)


OTHERS = ""
"""Key of a reading of runs for all pods that are of no run."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source knows of some figures now.

    values: By figure the value of each run or node; milli-CPU, MiB or kbit/s, never NaN.
    gaps: By figure why it is not known; a figure with values may have one of single runs or nodes.
    """

    values: Mapping[Figure, Mapping[str, float]] = field(default_factory=dict)
    gaps: Mapping[Figure, str] = field(default_factory=dict)


class FigureReader(Protocol):
    """Asks the sources of one kind."""

    async def read(
        self, cluster: Cluster, source: MetricsSource, figures: Sequence[Figure]
    ) -> Reading:
        """Return what the source knows of these figures.

        Raises Temporary while it cannot be had, Denied when it may not be, Invalid when it is
        described wrongly.
        """
        ...


class ClusterMeter(Protocol):
    """Measures clusters."""

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return what a cluster uses now; None when nobody measures it.

        Raises Temporary while its measurements cannot be had, Denied when they may not be, Invalid
        when a source is described wrongly.
        """
        ...


class NoMeter:
    """Measures nothing: for a fleet whose clusters nobody watches."""

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return None."""
        del cluster
        return None
