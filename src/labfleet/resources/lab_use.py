"""What the nodes of a lab use at one moment, as a server tells it."""

from __future__ import annotations

import msgspec


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One running node's figures; None is not told.

    cpu_percent: Percent of one core over all its virtual CPUs, or of their whole, as the server counts.
    memory_mib: Memory that it takes on its host.
    storage_mib: Disk that it takes on its host.
    """

    cpu_percent: float | None = None
    memory_mib: float | None = None
    storage_mib: float | None = None


class NodeSize(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one node has; None is not told.

    label: Its label in the topology.
    cpus: Virtual CPUs.
    ram_mib: Memory.
    """

    label: str
    cpus: int | None = None
    ram_mib: int | None = None
