"""Actions on labs and nodes: start, stop, wipe, delete, edit, with CML's error replies.

Every action settles the server first and returns at once; progress shows on later reads.
"""

from cml_simulator.core import builder, pools, staging, usage
from cml_simulator.core.errors import CmlError, refused
from cml_simulator.core.model import Lab, Node, State
from cml_simulator.core.world import (
    Server,
    admit,
    in_use,
    mark_stopped,
    needs_licence,
    note,
    note_clashes,
    note_state,
    settle,
    tell,
)


def start_lab(server: Server, lab: Lab, now: float) -> None:
    """Queue every node that does not run; doing it again changes nothing."""
    settle(server, now)
    idle = [n for n in lab.nodes.values() if n.phase in {State.DEFINED, State.STOPPED}]
    idle = _check_start(server, idle, now)
    lab.intent = State.STARTED
    tell(server, "state", lab.id, {"state": "STARTED"}, now)
    _queue(server, staging.plan(server, lab, idle), now)


def start_node(server: Server, node: Node, now: float) -> None:
    """Queue one node."""
    settle(server, now)
    if node.phase in {State.DEFINED, State.STOPPED}:
        _queue(server, _check_start(server, [node], now), now)


def _check_start(server: Server, nodes: list[Node], now: float) -> list[Node]:
    """Refuse a start that can never succeed, and return the nodes that are to be queued."""
    for node in nodes:
        builder.fit_kind(server, node)
        kind = server.definition_store.kind(node.definition)
        if kind is None or (kind.has_vm and not server.definition_store.images_of(node.definition)):
            raise refused(f"Cannot start node {node.label}: no image for {node.definition}.")
    if any(node.kind.has_vm for node in nodes) and usage.disk_overload(server, now):
        raise refused("Cannot start nodes: the disk is nearly full.")
    rules = server.config.rules
    if rules.over_licence == "queue":
        return nodes
    wanted = sum(needs_licence(server, node) for node in nodes)
    free = max(server.licence.quota - in_use(server).licensed - _waiting(server), 0)
    if wanted <= free:
        return nodes
    if rules.over_licence == "refuse":
        raise CmlError(
            rules.over_licence_status,
            f"Licensing issue: failed to license {wanted} nodes, {free} of "
            f"{server.licence.quota} node licenses are free.",
        )
    lucky = [node for node in nodes if needs_licence(server, node)][:free]
    return [node for node in nodes if node in lucky or not needs_licence(server, node)]


def _waiting(server: Server) -> int:
    return sum(needs_licence(server, node) for node in server.queue)


def _queue(server: Server, nodes: list[Node], now: float) -> None:
    for node in nodes:
        node.pool = pools.choose(server, server.labs[node.lab_id].owner)
        node.phase = State.QUEUED
        node.queued_at = now
        server.queue.append(node)
        note_state(server, node, State.QUEUED, now)
    server.revision += 1
    admit(server, now)


def stop_lab(server: Server, lab: Lab, now: float) -> None:
    """Begin to stop every active node."""
    settle(server, now)
    if lab.intent is State.STARTED:
        lab.intent = State.STOPPED
    # What waits goes first: nothing of this lab may start because something else stopped.
    for node in sorted(lab.nodes.values(), key=lambda node: node.phase is not State.QUEUED):
        _stop(server, node, now)
    admit(server, now)


def stop_node(server: Server, node: Node, now: float) -> None:
    """Begin to stop one node; later stages of a staged start may go on now, or end."""
    settle(server, now)
    _stop(server, node, now)
    admit(server, now)


def _stop(server: Server, node: Node, now: float) -> None:
    server.revision += 1
    if node.phase is State.QUEUED:
        server.queue.remove(node)
        node.after = ()
        node.phase = State.STOPPED if node.disk else State.DEFINED
        note_state(server, node, node.phase, now)
    elif node.phase is State.STARTED and node.stop_due is None:
        seconds = server.config.rules.stop_seconds
        if node.lost:
            node.stop_due = float("inf")
        elif seconds <= 0 or not node.kind.has_vm:
            mark_stopped(server, node, now)
            admit(server, now)
        else:
            node.stop_due = now + seconds
            server.stopping[node.id] = node


def wipe_lab(server: Server, lab: Lab, now: float) -> None:
    """Remove disks and learned addresses; only a stopped lab can be wiped."""
    settle(server, now)
    if lab.state() is State.STARTED:
        raise _too_early(server, f"Lab must be stopped before it can be wiped: {lab.id}")
    lab.intent = State.DEFINED
    tell(server, "state", lab.id, {"state": "DEFINED_ON_CORE"}, now)
    for node in lab.nodes.values():
        _wipe(server, node, now)


def wipe_node(server: Server, node: Node, now: float) -> None:
    """Remove one node's disks; only a stopped node can be wiped."""
    settle(server, now)
    if node.phase in {State.QUEUED, State.STARTED}:
        raise _too_early(server, f"Node must be stopped before it can be wiped: {node.id}")
    _wipe(server, node, now)


def _wipe(server: Server, node: Node, now: float) -> None:
    if node.phase is State.STOPPED:
        note_state(server, node, State.DEFINED, now)
    node.phase = State.DEFINED
    node.disk = False
    node.running = None
    node.vnc_key = None
    node.console_keys = []
    for interface in node.interfaces:
        if interface.learned_mac is not None:
            server.leases.pop(interface.learned_mac, None)
            interface.learned_mac = None
    server.revision += 1


def delete_lab(server: Server, lab: Lab, now: float) -> None:
    """Remove a lab; it must be stopped and wiped."""
    settle(server, now)
    state = lab.state()
    if state is not State.DEFINED:
        word = "stopped and wiped" if state is State.STARTED else "wiped"
        raise _too_early(server, f"Lab must be {word} before it can be deleted: {lab.id}")
    builder.drop_lab(server, lab)
    tell(server, "deleted", lab.id, {}, now)


def _too_early(server: Server, text: str) -> CmlError:
    return CmlError(server.config.rules.refusal_status, text)


def delete_node(server: Server, node: Node, now: float) -> None:
    """Remove a node; it must be stopped and wiped."""
    settle(server, now)
    if node.phase is not State.DEFINED:
        raise _too_early(server, f"Node must be stopped and wiped to be deleted: {node.id}")
    lab = server.labs[node.lab_id]
    builder.drop_node(server, lab, node)
    builder.refresh_smart_annotations(server, lab)
    changed(server, lab, ("NODE", node.id), "REMOVE", now)


def force_delete_lab(server: Server, lab: Lab, now: float) -> None:
    """Remove a lab as someone at the console would, whatever it is doing."""
    settle(server, now)
    for node in lab.nodes.values():
        drop_running(server, node, now)
    builder.drop_lab(server, lab)
    tell(server, "deleted", lab.id, {}, now)
    admit(server, now)


def drop_running(server: Server, node: Node, now: float) -> None:
    """Put a node back to DEFINED_ON_CORE, whatever it is doing."""
    if node.phase is State.QUEUED:
        server.queue.remove(node)
    elif node.phase is State.STARTED:
        mark_stopped(server, node, now)
    node.phase = State.DEFINED


def set_tags(server: Server, node: Node, tags: list[str], now: float) -> None:
    """Replace a node's tags; PATty sees new ones at its next poll."""
    settle(server, now)
    fresh = [tag for tag in tags if tag not in node.tags]
    node.tagged_at = {tag: at for tag, at in node.tagged_at.items() if tag in tags}
    for tag in fresh:
        node.tagged_at[tag] = now
    node.tags = tags
    server.revision += 1
    builder.refresh_smart_annotations(server, server.labs[node.lab_id])
    if node.admitted and fresh:
        note_clashes(server, node, now)


def touch(lab: Lab, now: float) -> None:
    """Move the lab's modification time."""
    lab.modified = now


def changed(server: Server, lab: Lab, element: tuple[str, str], event: str, now: float) -> None:
    """Note that an element was added, removed or changed, and move the modification time."""
    _ = server
    note(lab, event, element, now, {})
    touch(lab, now)


def converged(server: Server, nodes: list[Node], now: float) -> bool:
    """Whether no node is in transition: all are booted or stopped, as wanted.

    With a rule set, it says so too early, like an old server (facts/cml-issues.md#f1).
    """
    if server.config.rules.converged_early:
        return True
    return all(
        node.phase is not State.QUEUED
        and node.stop_due is None
        and not node.lost
        and not (node.phase is State.STARTED and now < node.booted_at)
        for node in nodes
    )
