"""Lasting faults of a whole server; faults of single requests are in `faults`.

Set through `/_control`; the views and the scheduler read them. All are off by default.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerConditions:
    """The present conditions. Sizes in bytes and MiB, times in seconds."""

    ready: bool | None = None
    """False: system_information says that no compute can start nodes."""
    core_connected: bool = True
    """False: the controller's core is dead: nothing starts (facts/cml-issues.md#f33)."""
    compute_missing: bool = False
    """The compute is absent from system_stats, as while it is not connected."""
    compute_lost: bool = False
    """The connection to the compute is gone: its nodes are DISCONNECTED."""
    null_health: bool = False
    """Health and dominfo figures that may be null are null."""
    orphans: int = 0
    """VMs on the host that the controller does not know; each keeps `orphan_ram` and a vCPU."""
    orphan_ram: int = 1024
    disk_used: int | None = None
    """Bytes in use on the disk, instead of the number computed from the nodes."""
    disk_full: bool = False
    cpu_percent: float | None = None
    """Percent of the CPU in use, instead of the number computed from the nodes."""
    clock_skew: float = 0.0
    """How far the server's clock is off, in every stamp, token and Date header."""
    ghosts: bool = False
    """Element states and statistics name elements the topology does not have.

    Source: facts/cml-issues.md#f5.
    """
    compliant: bool = True
    """False: the licence cloud finds more in use than bought."""
