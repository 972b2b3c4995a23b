"""What stands on a Kubernetes cluster: its nodes, the pods of each run, and all other pods.

Nodes and pods are seen, not measured: what they use is `cluster_meter`'s. Error, empty and gone are
three things: a view that cannot be had is raised, a view without pods says that there are none, and
a run whose pods are all gone is named in `over`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.resources.cluster import Cluster


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node.

    allocatable: What pods may have of it, by dimension of Amounts, rounded down.
    ready: Whether its kubelet says so.
    schedulable: Whether a pod without tolerations may be put there: neither cordoned nor tainted.
    """

    name: str
    allocatable: Mapping[str, int]
    ready: bool = True
    schedulable: bool = True


@dataclass(frozen=True, slots=True)
class RunPods:
    """The pods of one run that are there.

    pending: Pods that do not run yet.
    running: Pods of which a container runs.
    requested: What those that are not over request, by dimension of Amounts.
    waits: Why the first pending one waits, in the cluster's own words; empty when it does not say.
    """

    pending: int = 0
    running: int = 0
    requested: Mapping[str, int] = field(default_factory=dict)
    waits: str = ""


@dataclass(frozen=True, slots=True)
class RunOver:
    """How a run ended of which pods were seen, and none lives any more.

    reason: `Completed`, `Failed`, `OOMKilled`, `Evicted` or, when nobody saw how, `Gone`.
    message: What the cluster said of it.
    at: When its last pod was over, as the cluster says; None when nobody saw how.
    """

    reason: str
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One view of a cluster.

    at: The latest instant of which the server said that it was so (fleet time).
    nodes: All its nodes.
    runs: By name or uid, as the run's label says, the pods of each run of which one is not over.
    over: Likewise, how each run ended whose pods were seen by this process or are there still; of
        runs without pods the newest two thousand.
    others: What all other pods on nodes that are ready and take pods request, by dimension of Amounts.
    """

    at: datetime
    nodes: tuple[NodeView, ...] = ()
    runs: Mapping[str, RunPods] = field(default_factory=dict)
    over: Mapping[str, RunOver] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)


class ClusterViewer(Protocol):
    """Looks at clusters."""

    async def view(self, cluster: Cluster) -> ClusterView | None:
        """Return what stands on a cluster; None when it names no Kubernetes.

        Raises Temporary while it cannot be had, Denied when it may not be, Invalid when its access
        is described wrongly or it holds more than is looked at.
        """
        ...


class NoViewer:
    """Sees nothing: for a fleet whose clusters nobody looks at."""

    async def view(self, cluster: Cluster) -> ClusterView | None:
        """Return None."""
        del cluster
        return None
