"""What a lab needs, from its topology and the node definitions' defaults.

An estimate in advance, reserved as long as there are no observations. CPU follows
facts/cml.md#seeds-corrected (CPUs x limit, not the limit alone). Disks are sparse overlays of a
shared image, so a node is counted with an eighth of its largest disk; a data volume counts fully.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from labfleet.decisions import port_numbers
from labfleet.resources import node_definitions
from labfleet.resources.amounts import Amounts
from labfleet.resources.node_definitions import NodeDefault
from labfleet.resources.topology import Node, Topology

START_SECONDS = 30
"""Fleet seconds that CML needs before it admits a lab's first node."""
QUEUE_SECONDS = 5
"""Fleet seconds per node: CML admits the nodes of a lab one by one (facts/cml.md#states)."""
_DISK_SHARE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a lab needs; `unknown` are node definitions whose needs were assumed.

    `boot_seconds` is fleet time from start to converged on an empty worker; it is an upper
    limit, not a forecast.
    """

    amounts: Amounts
    node_count: int
    definitions: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    boot_seconds: int = 0


def of(
    topology: Topology, defaults: Mapping[str, NodeDefault] = node_definitions.DEFAULTS
) -> Demand:
    """Return the demand of a lab; defined for every topology that parses."""
    cpu = memory = storage = licensed = 0
    slowest = 0
    for node in topology.nodes:
        default = defaults.get(node.node_definition, node_definitions.UNKNOWN)
        if default.has_vm:
            licensed += 1
            cpu += _cpu_milli(node, default)
            memory += default.ram_mib if node.ram is None else node.ram
            storage += _storage_mib(node, default)
        slowest = max(slowest, _boot_seconds(node, default))
    counts = Counter(node.node_definition for node in topology.nodes)
    count = len(topology.nodes)
    return Demand(
        amounts=Amounts(
            cpu_milli=cpu,
            memory_mib=memory,
            storage_mib=storage,
            nodes=licensed,
            labs=1,
            ports=len(port_numbers.template_of(topology)),
        ),
        node_count=count,
        definitions=dict(sorted(counts.items())),
        unknown=tuple(sorted(set(counts) - set(defaults))),
        boot_seconds=START_SECONDS + slowest + QUEUE_SECONDS * count if count else START_SECONDS,
    )


def memory_of(
    topology: Topology, defaults: Mapping[str, NodeDefault] = node_definitions.DEFAULTS
) -> dict[str, int]:
    """Return by its label the MiB of memory that each node reserves; of those that are machines."""
    return {
        node.label: default.ram_mib if node.ram is None else node.ram
        for node in topology.nodes
        if (default := defaults.get(node.node_definition, node_definitions.UNKNOWN)).has_vm
    }


def start_budget(boot_seconds: int, *, ahead: int = 0) -> int:
    """Return the seconds a start may take when this many labs of its worker start before it.

    Sixty labs started in one minute share one disk and one CPU set (facts/fleet-bugs.md#t46), so
    the deadline grows with the queue instead of failing the last ones.
    """
    return boot_seconds * (1 + max(0, ahead))


def _limit(node: Node, default: NodeDefault) -> int:
    return default.cpu_limit if node.cpu_limit is None else node.cpu_limit


def _cpu_milli(node: Node, default: NodeDefault) -> int:
    cpus = default.cpus if node.cpus is None else node.cpus
    return cpus * _limit(node, default) * 10


def _storage_mib(node: Node, default: NodeDefault) -> int:
    disk = default.disk_gib if node.boot_disk_size is None else node.boot_disk_size
    return disk * 1024 // _DISK_SHARE + (node.data_volume or 0) * 1024


def _boot_seconds(node: Node, default: NodeDefault) -> int:
    return -(-default.boot_seconds * 100 // _limit(node, default))
