"""One CML server as a whole: its parts, its power, and `settle`, which brings it up to a time.

State is computed on read: every entry first calls `settle(server, now)`, which applies in order
what fell due since the last call. Nothing here waits, and nothing runs by itself.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cml_simulator.core import licensing, ports
from cml_simulator.core.faults import Fault
from cml_simulator.core.inputs import Dice, iso, new_id, share
from cml_simulator.core.licensing import Licence, LicenceCloud
from cml_simulator.core.model import Group, Interface, Lab, Link, Node, State, User
from cml_simulator.core.profile import Config
from cml_simulator.core.tokens import Sessions

ADMIN_ID = "00000000-0000-4000-a000-000000000000"
JOURNAL_KEPT = 5000
MIB = 1024 * 1024


class BootStage(StrEnum):
    """How far a boot has come, as seen from outside."""

    OFF = "off"
    REFUSED = "refused"
    BAD_GATEWAY = "bad_gateway"
    NOT_READY = "not_ready"
    READY = "ready"


REFUSED_UNTIL = 0.5
BAD_GATEWAY_UNTIL = 0.75


@dataclass(slots=True)
class Power:
    """Whether the machine is on and when it was switched."""

    on: bool = False
    since: float = 0.0
    ready_at: float = 0.0
    ready_seen: bool = False
    boots: int = 0
    destroyed: bool = False


@dataclass(slots=True)
class Tally:
    """Counters that outlive labs and boots."""

    imports: int = 0
    labs_created: int = 0
    labs_deleted: int = 0
    labs_destroyed: int = 0
    starts: int = 0
    conflicts: int = 0
    requests: int = 0


@dataclass(slots=True)
class Server:
    """All state of one CML server."""

    config: Config
    dice: Dice
    cloud: LicenceCloud
    licence: Licence
    sessions: Sessions
    users: dict[str, User] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    labs: dict[str, Lab] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    queue: list[Node] = field(default_factory=list)
    active: dict[str, Node] = field(default_factory=dict)
    stopping: dict[str, Node] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    power: Power = field(default_factory=Power)
    tally: Tally = field(default_factory=Tally)
    faults: list[Fault] = field(default_factory=list)
    journal: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=JOURNAL_KEPT))
    clashes: deque[ports.Clash] = field(default_factory=lambda: deque(maxlen=1000))
    telemetry: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))
    maintenance: bool = False
    notice: str | None = None
    opt_in: bool | None = None
    revision: int = 0
    claims: tuple[int, list[ports.Claim]] = (-1, [])

    @property
    def id(self) -> str:
        return self.config.identity.id

    @property
    def compute_id(self) -> str:
        return self.config.identity.compute_id

    def new_id(self) -> str:
        return new_id(self.dice)


def create_server(config: Config, dice: Dice, cloud: LicenceCloud, password: str) -> Server:
    """Return a new, switched-off server with its admin account, unregistered."""
    identity = config.identity
    licence = Licence(identity.product_uuid, identity.hostname)
    sessions = Sessions(_secret(dice), config.rules.session_seconds)
    server = Server(config, dice, cloud, licence, sessions)
    server.users[ADMIN_ID] = User(ADMIN_ID, "admin", password, admin=True)
    return server


def _secret(dice: Dice) -> bytes:
    return dice.getrandbits(256).to_bytes(32, "big")


# ------------------------------------------------------------------ power


def power_on(server: Server, now: float) -> None:
    """Switch on: a new signing secret, no sessions, ready after the machine's boot time."""
    power = server.power
    off = now - power.since
    power.on, power.since = True, now
    power.ready_at = now + server.config.machine.boot_seconds
    power.ready_seen = False
    power.boots += 1
    server.sessions = Sessions(_secret(server.dice), server.sessions.lifetime)
    if server.licence.due is not None:
        server.licence.due += off
    server.revision += 1


def power_off(server: Server, now: float) -> None:
    """Switch off: nodes that ran are STOPPED, nothing is queued, every token is dead."""
    settle(server, now)
    for node in [*server.active.values(), *server.queue]:
        node.phase = State.STOPPED if node.admitted or node.disk else State.DEFINED
        node.stop_due = None
    server.active.clear()
    server.queue.clear()
    server.stopping.clear()
    server.leases.clear()
    server.sessions.live.clear()
    server.power.on, server.power.since = False, now
    server.revision += 1


def boot_stage(server: Server, now: float) -> BootStage:
    """Return the stage of the boot at a time."""
    power = server.power
    if not power.on:
        return BootStage.OFF
    whole = power.ready_at - power.since
    if now >= power.ready_at or whole <= 0:
        return BootStage.READY
    part = (now - power.since) / whole
    if part < REFUSED_UNTIL:
        return BootStage.REFUSED
    return BootStage.BAD_GATEWAY if part < BAD_GATEWAY_UNTIL else BootStage.NOT_READY


# ------------------------------------------------------------------ time


def settle(server: Server, now: float) -> None:
    """Apply everything that fell due up to now, in the order of its time."""
    while server.power.on:
        due = _next_due(server)
        if due is None or due > now:
            return
        _apply(server, due)


def _next_due(server: Server) -> float | None:
    times = [node.stop_due for node in server.stopping.values() if node.stop_due is not None]
    if server.licence.due is not None:
        times.append(server.licence.due)
    if not server.power.ready_seen:
        times.append(server.power.ready_at)
    return min(times, default=None)


def _apply(server: Server, at: float) -> None:
    server.revision += 1
    if not server.power.ready_seen and server.power.ready_at <= at:
        server.power.ready_seen = True
    if server.licence.due is not None and server.licence.due <= at:
        licensing.step(server.licence, server.cloud, server.config.rules.authorization_seconds)
    over = [n for n in server.stopping.values() if n.stop_due is not None and n.stop_due <= at]
    for node in over:
        mark_stopped(server, node, at)
    admit(server, at)


# ------------------------------------------------------------------ admission


@dataclass(slots=True)
class Use:
    """What admitted nodes hold: CPU points, MiB, counted nodes."""

    points: int = 0
    ram: int = 0
    licensed: int = 0

    def add(self, node: Node) -> None:
        self.points += node.points
        self.ram += node.want_ram
        self.licensed += node.kind.has_vm


def in_use(server: Server) -> Use:
    """Return what the admitted nodes of a settled server hold."""
    use = Use()
    for node in server.active.values():
        use.add(node)
    return use


def admit(server: Server, at: float) -> None:
    """Start the queued nodes that fit now, first come first, smaller ones may overtake."""
    if not server.queue or not server.power.ready_seen:
        return
    use = in_use(server)
    waiting = []
    for node in server.queue:
        if why_waiting(server, node, use) is None:
            _start(server, node, at)
            use.add(node)
        else:
            waiting.append(node)
    server.queue = waiting


def why_waiting(server: Server, node: Node, use: Use) -> str | None:
    """Return why a node cannot start beside what is in use; None if it can."""
    if not node.kind.has_vm:
        return None
    machine = server.config.machine
    if not machine.kvm and node.kind.driver == "kvm":
        return "no compute host with KVM"
    if use.licensed + 1 > server.licence.quota:
        return "no free node licence"
    if use.points + node.points > 100 * machine.cpus:
        return "not enough CPU"
    if use.ram + node.want_ram > machine.memory_bytes // MIB:
        return "not enough memory"
    return None


def boot_seconds(server: Server, node: Node) -> float:
    """Return STARTED to BOOTED: usual time with a tenth of spread, longer under a CPU limit."""
    kind = node.kind
    usual = kind.boot * (0.9 + 0.2 * share(node.id, "boot"))
    return min(usual, kind.timeout) * 100 / node.want_limit * server.config.rules.boot_factor


def _start(server: Server, node: Node, at: float) -> None:
    node.phase = State.STARTED
    node.disk = True
    node.started_at = at
    node.booted_at = at + boot_seconds(server, node)
    if node.kind.has_vm:
        node.vnc_key = node.vnc_key or (server.new_id() if node.kind.vnc else None)
        if not node.console_keys:
            node.console_keys = [server.new_id() for _ in range(node.kind.serial)]
    for interface in node.interfaces:
        if interface.learned_mac is None and interface.kind == "physical" and node.kind.has_vm:
            interface.learned_mac = interface.mac or _new_mac(server)
    server.active[node.id] = node
    server.tally.starts += 1
    note_state(server, node, State.STARTED, at)
    note_state(server, node, State.BOOTED, node.booted_at)
    note_clashes(server, node, at)


def _new_mac(server: Server) -> str:
    raw = server.dice.getrandbits(24)
    return f"52:54:00:{raw >> 16:02x}:{raw >> 8 & 255:02x}:{raw & 255:02x}"


def mark_stopped(server: Server, node: Node, at: float) -> None:
    """Free what a node held; its disk and learned addresses stay."""
    node.phase = State.STOPPED
    node.stop_due = None
    server.stopping.pop(node.id, None)
    server.active.pop(node.id, None)
    if node.booted_at > at:
        lab = server.labs[node.lab_id]
        kept = [e for e in lab.events if e["at"] <= at or e["element_id"] != node.id]
        lab.events.clear()
        lab.events.extend(kept)
    note_state(server, node, State.STOPPED, at)


# ------------------------------------------------------------------ records


def note_state(server: Server, node: Node, state: State, at: float) -> None:
    """Append a state event to the node's lab; one of the future shows when its time has come."""
    _ = server
    note(server.labs[node.lab_id], "STATE_CHANGED", ("NODE", node.id), at, {"state": str(state)})


def note(lab: Lab, event: str, element: tuple[str, str], at: float, data: dict[str, Any]) -> None:
    """Append one lab event about an element (kind, id)."""
    lab.events.append(
        {
            "lab_id": lab.id,
            "event": event,
            "element_type": element[0],
            "element_id": element[1],
            "data": data,
            "previous": {},
            "timestamp": iso(at),
            "at": at,
        }
    )


def note_clashes(server: Server, node: Node, at: float) -> None:
    """Log every outer port of a node that another running node claimed first."""
    rules = server.config.rules
    taken = {
        wish.key: other.id
        for other in server.active.values()
        if other is not node
        for wish in ports.wishes(other.tags, rules.patty_first, rules.patty_last)
    }
    for wish in ports.wishes(node.tags, rules.patty_first, rules.patty_last):
        winner = taken.get(wish.key)
        if winner is not None:
            server.tally.conflicts += 1
            server.clashes.append(ports.Clash(at, *wish.key, winner, node.id))
        taken.setdefault(wish.key, node.id)
