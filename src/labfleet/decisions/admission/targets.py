"""How far a cluster may be filled, and the words of every rule's answer. Pure, integers only."""

from __future__ import annotations

from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import ClusterSpec

FITS, NEVER_FITS, NO_ROOM = "Fits", "NeverFits", "NoCapacityAvailable"
"""Reasons of a decision: approved, too large even alone, too large beside what runs."""


def targets(spec: ClusterSpec) -> Amounts:
    """Return how far the cluster may be filled: floor(capacity x percent / 100).

    Only CPU, memory and network have a target; other dimensions may be filled completely.
    """
    percents = {
        "cpu_milli": spec.cpu_percent,
        "memory_mib": spec.memory_percent,
        "network_kbps": spec.network_percent,
    }
    return Amounts(
        **{
            name: getattr(spec.capacity, name) * percents.get(name, 100) // 100
            for name in DIMENSIONS
        }
    )
