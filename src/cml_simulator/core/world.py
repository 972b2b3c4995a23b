"""One CML server over time: power, and `settle`, which advances the server to a moment.

State is computed on read: every entry point first calls `settle(server, now)`, which applies in
order what fell due since the last call. Nothing here waits or runs in the background.
"""

from dataclasses import replace
from typing import Any

from cml_simulator.core import licensing, ports, staging
from cml_simulator.core.admission import Use, boot_seconds, in_use, needs_licence, why_waiting
from cml_simulator.core.inputs import Rng
from cml_simulator.core.licensing import Licence, LicenceCloud
from cml_simulator.core.model import Connector, Lab, Node, State, User
from cml_simulator.core.profile import Config, Rules
from cml_simulator.core.server import ADMIN_ID, MIB, BootStage, Server, boot_stage, can_start
from cml_simulator.core.server_conditions import ServerConditions
from cml_simulator.core.tokens import Sessions

__all__ = [
    "ADMIN_ID",
    "MIB",
    "BootStage",
    "Server",
    "Use",
    "admit",
    "boot_seconds",
    "boot_stage",
    "can_start",
    "create_server",
    "in_use",
    "lab_state",
    "mark_stopped",
    "needs_licence",
    "note",
    "note_clashes",
    "note_state",
    "power_off",
    "power_on",
    "record",
    "set_conditions",
    "set_rules",
    "settle",
    "tell",
    "why_waiting",
]


def create_server(config: Config, rng: Rng, cloud: LicenceCloud, password: str) -> Server:
    """Return a new, switched-off server with its admin account, unregistered."""
    identity = config.identity
    licence = Licence(identity.product_uuid, identity.hostname, words=config.rules.words)
    sessions = Sessions(_secret(rng), config.rules.session_seconds)
    server = Server(config, rng, cloud, licence, sessions)
    server.definition_store.docker = config.profile.docker
    server.users[ADMIN_ID] = User(ADMIN_ID, "admin", password, admin=True)
    for device, label, forwarding in (
        ("virbr0", "NAT", "NAT"),
        ("bridge0", "System Bridge", "BRIDGE"),
    ):
        key = server.new_id()
        server.connectors[key] = Connector(key, device, label, forwarding, [label])
    return server


def _secret(rng: Rng) -> bytes:
    return rng.getrandbits(256).to_bytes(32, "big")


# ------------------------------------------------------------------ power


def power_on(server: Server, now: float) -> None:
    """Switch on: a new signing secret, no sessions, ready after the machine's boot time."""
    power = server.power
    off = now - power.since
    power.on, power.since = True, now
    power.ready_at = now + server.config.machine.boot_seconds
    power.ready_seen = False
    power.boots += 1
    if not server.config.rules.tokens_survive:
        server.sessions = Sessions(_secret(server.rng), server.sessions.lifetime)
    if server.licence.due is not None:
        server.licence.due += off
    for node_id in server.resuming:
        node = server.nodes.get(node_id)
        if node is not None and node.phase in {State.STOPPED, State.DEFINED}:
            node.phase, node.queued_at = State.QUEUED, now
            server.queue.append(node)
    server.resuming.clear()
    if not server.compute_known:
        server.compute_known, server.admission = True, server.new_hosts
    server.revision += 1


def power_off(server: Server, now: float) -> None:
    """Switch off: by rule, nodes that ran are STOPPED and every token is dead."""
    settle(server, now)
    rules = server.config.rules
    if rules.power_off_nodes == "running":
        server.resuming = [n.id for n in server.active.values() if n.stop_due is None]
    for node in [*server.active.values(), *server.queue]:
        node.phase = State.STOPPED if node.admitted or node.disk else State.DEFINED
        node.stop_due = None
        node.after = ()
        node.lost = False
    server.active.clear()
    server.queue.clear()
    server.stopping.clear()
    server.leases.clear()
    if not rules.tokens_survive:
        server.sessions.live.clear()
    server.power.on, server.power.since = False, now
    server.revision += 1


def set_conditions(server: Server, server_conditions: ServerConditions, now: float) -> None:
    """Change the conditions; losing the compute disconnects its nodes, finding it joins them."""
    settle(server, now)
    was, server.server_conditions = server.server_conditions, server_conditions
    server.licence.compliant = server_conditions.compliant
    server.revision += 1
    if was.compute_lost != server_conditions.compute_lost:
        for node in server.active.values():
            node.lost = server_conditions.compute_lost
            note_state(server, node, node.state(now), now)
            if not node.lost and node.stop_due is not None:
                node.stop_due = now + server.config.rules.stop_seconds
                server.stopping[node.id] = node
    admit(server, now)


def set_rules(server: Server, rules: Rules) -> None:
    """Change the answers to open questions while it runs."""
    server.config = replace(server.config, rules=rules)
    server.licence.words = rules.words
    server.revision += 1


# ------------------------------------------------------------------ time


def settle(server: Server, now: float) -> None:
    """Apply everything that fell due up to now, in order of time."""
    while server.power.on:
        due = _next_due(server)
        if due is None or due > now:
            return
        _apply(server, due)


def _next_due(server: Server) -> float | None:
    due = licensing.next_due(server.licence)
    power = server.power
    if not power.ready_seen and (due is None or power.ready_at < due):
        due = power.ready_at
    for node in server.stopping.values():
        at = node.stop_due
        if at is not None and (due is None or at < due):
            due = at
    staged = staging.next_due(server)
    return staged if due is None or (staged is not None and staged < due) else due


def _apply(server: Server, at: float) -> None:
    server.revision += 1
    if not server.power.ready_seen and server.power.ready_at <= at:
        server.power.ready_seen = True
    licence = licensing.next_due(server.licence)
    if licence is not None and licence <= at:
        licensing.step(server.licence, server.cloud, server.config.rules.authorization_seconds)
    over = [n for n in server.stopping.values() if n.stop_due is not None and n.stop_due <= at]
    for node in over:
        mark_stopped(server, node, at)
    admit(server, at)


# ------------------------------------------------------------------ admission


def admit(server: Server, at: float) -> None:
    """Start the queued nodes that fit now, first come first, smaller ones may overtake."""
    _stages(server, at)
    if not server.queue or not server.power.ready_seen:
        return
    use = in_use(server)
    waiting = []
    for node in _order(server):
        if why_waiting(server, node, use) is None:
            _start(server, node, at)
            use.add(node, counted=needs_licence(server, node))
        else:
            waiting.append(node)
    some_started = len(waiting) < len(server.queue)
    server.queue = waiting
    if some_started and any(node.after for node in waiting):
        admit(server, at)


def _stages(server: Server, at: float) -> None:
    for node in staging.release(server, at):
        note_state(server, node, node.phase, at)


def _order(server: Server) -> list[Node]:
    """Return the queue by priority, which exists from 2.10."""
    if all(node.priority is None for node in server.queue):
        return server.queue
    return sorted(server.queue, key=lambda node: -(node.priority or 0))


def _start(server: Server, node: Node, at: float) -> None:
    node.phase = State.STARTED
    node.after = ()
    node.disk = True
    starting = server.config.rules.starting_seconds if server.config.profile.starting_state else 0.0
    node.started_at, node.starting_until = at, at + starting
    node.booted_at = at + starting + boot_seconds(server, node)
    if node.kind.has_vm:
        node.vnc_key = node.vnc_key or (server.new_id() if node.kind.vnc else None)
        if not node.console_keys:
            node.console_keys = [server.new_id() for _ in range(node.kind.serial)]
    for interface in node.interfaces:
        if interface.learned_mac is None and interface.kind == "physical" and node.kind.has_vm:
            interface.learned_mac = interface.mac or _new_mac(server)
    server.active[node.id] = node
    server.tally.starts += 1
    note_state(server, node, node.state(at), at)
    if starting:
        note_state(server, node, State.STARTED, node.starting_until)
    note_state(server, node, State.BOOTED, node.booted_at)
    note_clashes(server, node, at)


def _new_mac(server: Server) -> str:
    raw = server.rng.getrandbits(24)
    return f"52:54:00:{raw >> 16:02x}:{raw >> 8 & 255:02x}:{raw & 255:02x}"


def mark_stopped(server: Server, node: Node, at: float) -> None:
    """Free what a node held; its disk and learned addresses stay."""
    node.phase = State.STOPPED
    node.stop_due = None
    node.lost = False
    server.stopping.pop(node.id, None)
    server.active.pop(node.id, None)
    if node.booted_at > at:
        lab = server.labs[node.lab_id]
        kept = [e for e in lab.events if e["at"] <= at or e["element_id"] != node.id]
        lab.events.clear()
        lab.events.extend(kept)
    note_state(server, node, State.STOPPED, at)
    lab = server.labs[node.lab_id]
    if lab.state() is State.STOPPED:
        tell(server, "state", lab.id, {"state": "STOPPED"}, at)


# ------------------------------------------------------------------ records


def note_state(server: Server, node: Node, state: State, at: float) -> None:
    """Append a state event to the node's lab; a future one becomes visible at its time."""
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
            "at": at,
        }
    )


def tell(server: Server, event: str, lab_id: str, data: dict[str, Any], at: float) -> None:
    """Keep an event of a whole lab (created, modified, deleted) for listeners of the websocket."""
    server.news.append({"event": event, "lab_id": lab_id, "data": data, "at": at})


def record(server: Server, category: str, data: dict[str, Any], at: float) -> None:
    """Keep a telemetry event, unless people have declined telemetry."""
    if server.opt_in is not False:
        stamp = telemetry_stamp(server, at)
        server.telemetry.append({"category": category, "timestamp": stamp, "data": data})


def telemetry_stamp(server: Server, at: float) -> str | float:
    """Return a stamp in the form that this server's rule names.

    The four forms are those of facts/upstream.md#idle.
    """
    iso = server.stamp(at)
    form = server.config.rules.telemetry_stamp
    if form == "seconds":
        return at + server.server_conditions.clock_skew
    plain = iso[:19]
    forms = {"offset": iso, "zulu": f"{plain}.000000Z", "plain": plain.replace("T", " ")}
    return forms[form]


def note_clashes(server: Server, node: Node, at: float) -> None:
    """Log every outer port of a node that another running node claimed first."""
    rules = server.config.rules
    taken = {
        wish.key: other.id
        for other in server.active.values()
        if other is not node
        for wish in ports.requests(other.tags, rules.patty_first, rules.patty_last)
    }
    for wish in ports.requests(node.tags, rules.patty_first, rules.patty_last):
        winner = taken.get(wish.key)
        if winner is not None:
            server.tally.conflicts += 1
            server.clashes.append(ports.Clash(at, *wish.key, winner, node.id))
        taken.setdefault(wish.key, node.id)


def lab_state(server: Server, lab: Lab, now: float) -> State:
    """Return the lab's state word; by rule it lags behind its nodes (facts/cml-issues.md#f23)."""
    real, lag = lab.state(), server.config.rules.lab_state_lag
    if lag <= 0 or lab.shown is None or lab.shown[0] is real or now - lab.shown[1] >= lag:
        lab.shown = (real, now)
    return lab.shown[0]
