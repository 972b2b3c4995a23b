"""How a cluster is decided on, by what was recorded of its figures: the same in every process."""

from __future__ import annotations

from labfleet.decisions import cluster_seen
from labfleet.resources.cluster import Cluster, Mode
from labfleet.resources.cluster_access import WhenBlind


def mode_of(cluster: Cluster) -> Mode:
    """Return how a cluster is decided on: by its spec as it is now, which a look may not have met."""
    return cluster_seen.mode_of(cluster.spec, cluster.status.conditions)


def denies(cluster: Cluster) -> bool:
    """Tell whether nothing may start on a cluster, since it is in safe mode."""
    return cluster.spec.when_blind is WhenBlind.DENY and mode_of(cluster) == "safe"
