"""How a cluster is decided on, by what was recorded of its figures: the same in every process."""

from __future__ import annotations

from labfleet.resources import conditions
from labfleet.resources.cluster import Cluster, Mode
from labfleet.resources.cluster_access import WhenBlind
from labfleet.resources.cluster_conditions import ClusterCondition


def mode_of(cluster: Cluster) -> Mode:
    """Return how a cluster is decided on, by what was recorded of its figures."""
    if not cluster.spec.metrics:
        return "unmeasured"
    found = conditions.find(cluster.status.conditions, ClusterCondition.SAFE_MODE)
    return "measured" if found is not None and found.status == "False" else "safe"


def denies(cluster: Cluster) -> bool:
    """Tell whether nothing may start on a cluster, since it is in safe mode."""
    return cluster.spec.when_blind is WhenBlind.DENY and mode_of(cluster) == "safe"
