"""What clusters really do: the load of each, and what its runs use and have used so far.

A measurement that is not there is unknown, never 0: nothing is corrected by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.resources.cluster import Cluster
from labfleet.resources.history import Use


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """One measurement of a cluster.

    at: When it was measured (fleet time).
    load: What all that runs there uses now, by dimension of Amounts; an absent one is unknown. Also
    network_in_kbps, network_out_kbps and pods, where they are known.
    runs: By uid of the simulation what it has used so far, by figure of history.FIGURES.
    now: By uid of the simulation what its own pods use now, by figure of history.FIGURES; and pods.
    others: What pods use that are of no run, as `load`; summed over them, never what is left over.
    """

    at: datetime
    load: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Use]] = field(default_factory=dict)
    now: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)


class ClusterMeter(Protocol):
    """Measures clusters."""

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return what a cluster uses now; None when nobody measures it.

        Raises Temporary while its measurements cannot be had.
        """
        ...


class NoMeter:
    """Measures nothing: for a fleet whose clusters nobody watches."""

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        """Return None."""
        del cluster
        return None
