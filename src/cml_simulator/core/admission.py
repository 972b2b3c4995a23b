"""Which nodes may start now, and why others wait: CPU points, RAM, licences, pools, compute host.

Pure functions of a settled server; `world.admit` acts on their results.
"""

from dataclasses import dataclass, field

from cml_simulator.core.inputs import share
from cml_simulator.core.model import Node, Pool
from cml_simulator.core.server import MIB, Admission, Server, compute_up


@dataclass(slots=True)
class Use:
    """What admitted nodes hold: CPU points, MiB, counted nodes; the same for each pool."""

    points: int = 0
    ram: int = 0
    licensed: int = 0
    pools: dict[str, "Use"] = field(default_factory=dict)

    def add(self, node: Node, *, counted: bool | None = None) -> None:
        """Count a node; `counted` says whether it needs a licence (default: if it has a VM)."""
        self.points += node.points
        self.ram += node.want_ram
        self.licensed += node.kind.has_vm if counted is None else counted
        if node.pool is not None:
            self.pools.setdefault(node.pool, Use()).add_alone(node)

    def add_alone(self, node: Node) -> None:
        """Count a node in a pool: connectors and switches are free there."""
        self.points += node.points
        self.ram += node.want_ram
        self.licensed += node.kind.has_vm

    def pool(self, key: str) -> "Use":
        """Return what one pool's nodes hold."""
        return self.pools.get(key) or Use()


def in_use(server: Server) -> Use:
    """Return what the admitted nodes of a settled server hold."""
    use = Use()
    for node in server.active.values():
        use.add(node, counted=needs_licence(server, node))
    return use


def needs_licence(server: Server, node: Node) -> bool:
    """Whether a node counts toward the licence; connectors and switches by a rule."""
    return node.kind.has_vm or server.config.rules.vmless_licensed


def why_waiting(server: Server, node: Node, use: Use) -> str | None:
    """Return why a node cannot start beside what is in use; None if it can."""
    if node.after:
        names = [server.nodes[key].label for key in node.after if key in server.nodes]
        return f"an earlier stage is not up: {', '.join(names)}"
    machine = server.config.machine
    if not compute_up(server) or server.server_conditions.ready is False:
        return "no compute host is connected"
    if server.admission is not Admission.READY:
        return f"no compute host is READY (it is {server.admission})"
    if needs_licence(server, node) and use.licensed + 1 > server.licence.quota:
        return "no free node licence"
    if not node.kind.has_vm:
        return None
    if not machine.kvm and node.kind.driver == "kvm":
        return "no compute host with KVM"
    if use.points + node.points > 100 * machine.cpus - 100 * server.server_conditions.orphans:
        return "not enough CPU"
    if use.ram + node.want_ram > free_memory(server):
        return "not enough memory"
    return _pool_full(server, node, use)


def free_memory(server: Server) -> int:
    """Return the MiB that nodes may have: without what orphaned VMs keep."""
    server_conditions = server.server_conditions
    return (
        server.config.machine.memory_bytes // MIB
        - server_conditions.orphans * server_conditions.orphan_ram
    )


def _pool_full(server: Server, node: Node, use: Use) -> str | None:
    if node.pool is None:
        return None
    held, pool = use.pool(node.pool), server.pools.get(node.pool)
    if pool is None:
        return None
    for what, taken, wanted, most in (
        ("licenses", held.licensed, 1, limit(server, pool, "licenses")),
        ("ram", held.ram, node.want_ram, limit(server, pool, "ram")),
        ("cpus", held.points, node.points, _points(limit(server, pool, "cpus"))),
    ):
        if most is not None and taken + wanted > most:
            return f"resource pool {pool.label} has no {what} left"
    return None


def _points(cpus: int | None) -> int | None:
    return None if cpus is None else 100 * cpus


def limit(server: Server, pool: Pool, what: str) -> int | None:
    """Return a pool's limit: its own, or its template's."""
    own: int | None = getattr(pool, what)
    template = server.pools.get(pool.template or "")
    if own is None and template is not None:
        inherited: int | None = getattr(template, what)
        return inherited
    return own


def boot_seconds(server: Server, node: Node) -> float:
    """Return STARTED to BOOTED: usual time with a tenth of spread, longer under a CPU limit.

    A node whose console never shows the completed string is BOOTED when the timeout has passed.
    """
    kind, rules = node.kind, server.config.rules
    silent = node.broken or node.definition in rules.silent
    boot = rules.boot_seconds.get(node.definition, float(kind.boot))
    usual = boot * (0.9 + 0.2 * share(node.id, "boot"))
    if silent:
        usual = float(kind.timeout)
    elif node.definition not in rules.boot_seconds:
        usual = min(usual, kind.timeout)
    return usual * 100 / node.want_limit * rules.boot_factor
