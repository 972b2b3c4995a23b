"""What a lab really used, computed from one reading of it (upstream 000, corrected).

Corrections of facts/cml.md#seeds-corrected: cores are CPUs x limit / 100 of the effective values,
not the sum of limits; unknown values are null with the reason in `gaps`, never 0. Pure: the caller
reads the lab and converts the result into the records of `resources.session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from labfleet.decisions import port_numbers
from labfleet.resources import node_definitions
from labfleet.resources.session import NodeObservation, PortAllocation, ResourceObservation

GAPS_KEPT = 50


def assemble(
    nodes: Sequence[NodeObservation],
    *,
    at: datetime,
    observer: str,
    simulation_stats: dict[str, Any] | None = None,
    storage_mb: int | None = None,
    gaps: Sequence[str] = (),
    given: Iterable[PortAllocation] = (),
) -> ResourceObservation | None:
    """Return the observation, or None for a lab without nodes (facts/upstream.md#observation).

    A null `cpu_limit` means no limit, which is 100 %. One node of unknown size makes the total
    unknown: a sum without that node would be misleading. `given` are the ports that the session
    has, which keep their names.
    """
    if not nodes:
        return None
    missing = list(gaps)
    points = memory = 0
    know_cpu = know_memory = True
    for node in nodes:
        if not _runs(node):
            continue
        if node.cpus is None:
            know_cpu = False
            missing.append(f"{node.label}: CPUs unknown")
        else:
            limit = 100 if node.cpu_limit is None else node.cpu_limit
            points += node.cpus * limit
        if node.ram_mb is None:
            know_memory = False
            missing.append(f"{node.label}: memory unknown")
        else:
            memory += node.ram_mb
    if storage_mb is None:
        missing.append("storage: not reported by the server")
    if simulation_stats is None:
        missing.append("simulation_stats: not available")
    return ResourceObservation(
        observed_at=at,
        observer=observer,
        total_cpu_cores=points / 100 if know_cpu else None,
        total_memory_mb=memory if know_memory else None,
        total_storage_mb=storage_mb,
        nodes=tuple(nodes),
        actual_node_count=len(nodes),
        node_definitions_used=tuple(sorted({node.node_definition for node in nodes})),
        observed_ports=port_numbers.observed(nodes, given),
        simulation_stats=simulation_stats,
        gaps=_bounded(missing),
    )


def _runs(node: NodeObservation) -> bool:
    default = node_definitions.DEFAULTS.get(node.node_definition)
    return default is None or default.has_vm


def _bounded(missing: Sequence[str]) -> tuple[str, ...]:
    kept = list(dict.fromkeys(missing))
    if len(kept) > GAPS_KEPT:
        rest = len(kept) - GAPS_KEPT + 1
        kept = [*kept[: GAPS_KEPT - 1], f"and {rest} more"]
    return tuple(kept)
