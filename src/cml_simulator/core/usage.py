"""Usage of nodes and host: CPU, memory, disk, counters, all computed from state and time.

The simulator's choice where the facts are open: `cpu_usage` is percent of one core summed over a
node's vCPUs (two busy vCPUs are 200), with the rule `cpu_usage: share` percent of all its vCPUs;
`ram_usage` and `disk_usage` are MiB, or bytes by the rule `usage_unit`. The numbers depend on the
node and the time alone, so that a read repeats; where a curve is set (`use_curves`), it says them.
"""

from dataclasses import dataclass
from typing import Any

from cml_simulator.core import use_curves
from cml_simulator.core.inputs import share
from cml_simulator.core.model import Lab, Node, State
from cml_simulator.core.server import MIB, Server

GIB = 1024 * MIB
WINDOW = 30.0
GHOST = "00000000-dead-4000-a000-000000000000"
"""The id of an element that the topology does not have (facts/cml-issues.md#f5)."""


def _ordered(server: Server, node: Node, now: float) -> use_curves.UsePoint | None:
    """Return what a curve says of a running node, or None."""
    curves = server.use_curves
    return use_curves.point(curves, node.label, now - node.started_at) if curves else None


def node_cpu(server: Server, node: Node, now: float) -> float:
    """Percent of one core: busy while it boots, then a few percent that move every 30 s."""
    if node.phase is not State.STARTED:
        return 0.0
    kind = node.kind
    if not kind.has_vm:
        return 0.0
    told = _ordered(server, node, now)
    if told is not None and told.cpu is not None:
        return told.cpu
    # Looked up once, because each poll of a host needs this for all of its nodes.
    whole = max(kind.cpus if node.cpus is None else node.cpus, 0.25) * node.want_limit
    if node.state(now) is not State.BOOTED:
        return round(0.9 * whole, 2)
    base = 0.02 + 0.10 * share(node.id, "cpu")
    wave = 0.7 + 0.6 * share(node.id, "cpu", int(now // WINDOW))
    return round(whole * base * wave, 2)


def node_ram(server: Server, node: Node, now: float) -> int:
    """MiB of resident memory: grows over the boot to a share of the node's size."""
    if node.phase is not State.STARTED or not node.kind.has_vm:
        return 0
    told = _ordered(server, node, now)
    if told is not None and told.ram is not None:
        return told.ram
    full = 0.45 + 0.4 * share(node.id, "ram")
    span = max(node.booted_at - node.started_at, 1.0)
    part = min(1.0, 0.25 + 0.75 * (now - node.started_at) / span)
    return int(node.want_ram * full * part)


def node_disk(server: Server, node: Node, now: float) -> int:
    """MiB that a node's disk takes on the host until it is wiped."""
    if not node.disk:
        return 0
    kind = node.kind
    if not kind.has_vm:
        return 0
    told = _ordered(server, node, now)
    if told is not None and told.disk is not None:
        return told.disk
    size = kind.disk if node.boot_disk_size is None else node.boot_disk_size
    return 100 + int(size * 1024 * (0.02 + 0.05 * share(node.id, "disk")))


def node_stats(server: Server, node: Node, now: float) -> dict[str, Any]:
    """Return one node's entry of simulation_stats."""
    up = now - node.started_at
    rate = 1 + share(node.id, "io")
    rules = server.config.rules
    unit = MIB if rules.usage_unit == "bytes" else 1
    over = max(node.want_cpus, 1) if rules.cpu_usage == "share" else 1
    more = _more_stats(server, node, now) if server.config.profile.lab_extras else {}
    return {
        **more,
        "cpu_usage": round(node_cpu(server, node, now) / over, 2),
        "ram_usage": node_ram(server, node, now) * unit,
        "disk_usage": node_disk(server, node, now) * unit,
        "block0_rd_bytes": int(50 * MIB * rate + 2048 * up),
        "block0_wr_bytes": int(MIB * rate + 512 * up),
    }


def _more_stats(server: Server, node: Node, now: float) -> dict[str, Any]:
    """Return what 2.10 adds."""
    booted = now >= node.booted_at
    return {
        "times": {
            "QUEUED": server.stamp(node.queued_at),
            "STARTED": server.stamp(node.started_at),
            "BOOTED": server.stamp(node.booted_at) if booted else None,
        },
        "is_running": True,
        "cpus": node.want_cpus,
        "ram": node.want_ram,
        "cpu_limit": node.want_limit,
    }


def simulation_stats(server: Server, lab: Lab, now: float) -> dict[str, dict[str, Any]]:
    """Return the maps of running nodes and links."""
    nodes = {
        n.id: node_stats(server, n, now)
        for n in lab.nodes.values()
        if n.admitted and n.kind.has_vm and not n.lost
    }
    links: dict[str, Any] = {}
    for link in lab.links.values():
        ends = server.nodes[link.node_a], server.nodes[link.node_b]
        if not all(end.admitted and not end.lost for end in ends):
            continue
        up = now - max(end.started_at for end in ends)
        packets = int(up * (0.5 + 4 * share(link.id)))
        links[link.id] = {
            "readbytes": packets * 92,
            "readpackets": packets,
            "writebytes": packets * 88,
            "writepackets": packets,
            "drops": 0,
        }
    if server.server_conditions.ghosts:
        nodes[GHOST] = {"cpu_usage": 1.0, "ram_usage": 1, "disk_usage": 1}
    return {"nodes": nodes, "links": links}


@dataclass(frozen=True, slots=True)
class HostUse:
    """The host's own figures: percent, bytes, counts."""

    percent: float
    memory_used: int
    memory_free: int
    disk_used: int
    disk_free: int
    total_nodes: int
    running_nodes: int
    allocated_cpus: int
    allocated_kib: int


def disk_used(server: Server, now: float) -> int:
    """Bytes in use: a quarter for CML and its images, and what nodes wrote; or as the server conditions say."""
    total, server_conditions = server.config.machine.disk_bytes, server.server_conditions
    if server_conditions.disk_full:
        return total
    if server_conditions.disk_used is not None:
        return min(server_conditions.disk_used, total)
    disks = sum([node_disk(server, n, now) for n in server.nodes.values()])
    return min(total // 4 + disks * MIB, total)


def disk_overload(server: Server, now: float) -> bool:
    """Whether the disk is over the watermark above which no node starts and no image is cloned."""
    mark = server.config.rules.disk_watermark
    return disk_used(server, now) >= mark * server.config.machine.disk_bytes


def host_use(server: Server, now: float) -> HostUse:
    """Sum the nodes of a settled server, and orphans, on top of what CML itself uses."""
    machine, server_conditions = server.config.machine, server.server_conditions
    counted = server.config.rules.vmless_running
    running = [n for n in server.active.values() if n.kind.has_vm or counted]
    cpu = sum([node_cpu(server, n, now) for n in running]) + 50.0 * server_conditions.orphans
    percent = min(100.0, 1.5 + cpu / machine.cpus)
    if server_conditions.cpu_percent is not None:
        percent = server_conditions.cpu_percent
    base = min(4 * GIB, machine.memory_bytes // 8)
    mib = (
        sum([node_ram(server, n, now) for n in running])
        + server_conditions.orphans * server_conditions.orphan_ram
    )
    memory = min(base + mib * MIB, machine.memory_bytes)
    disk = disk_used(server, now)
    return HostUse(
        percent=round(percent, 2),
        memory_used=memory,
        memory_free=max(0, int((machine.memory_bytes - memory) * 0.97)),
        disk_used=disk,
        disk_free=machine.disk_bytes - disk,
        total_nodes=sum(n.disk and (n.kind.has_vm or counted) for n in server.nodes.values()),
        running_nodes=len(running),
        allocated_cpus=sum([n.want_cpus for n in running]),
        allocated_kib=sum([n.want_ram for n in running]) * 1024,
    )
