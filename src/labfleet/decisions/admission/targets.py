"""How far a cluster may be filled, and the words of every rule's answer. Pure, integers only."""

from __future__ import annotations

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import ClusterSpec

FITS, NEVER_FITS, NO_ROOM = "Fits", "NeverFits", "NoCapacityAvailable"
"""Reasons of a decision: approved, too large even alone, too large beside what runs."""


def targets(spec: ClusterSpec) -> Amounts:
    """Return how far the cluster may be filled: floor(capacity x percent / 100).

    Only CPU, memory and network have a target; other dimensions may be filled completely.
    """
    has = spec.capacity
    return msgspec.structs.replace(
        has,
        cpu_milli=has.cpu_milli * spec.cpu_percent // 100,
        memory_mib=has.memory_mib * spec.memory_percent // 100,
        network_kbps=has.network_kbps * spec.network_percent // 100,
    )
