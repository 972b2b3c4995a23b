"""What people do to labs and nodes: start, stop, wipe, delete, edit, with CML's refusals.

Every verb settles the server first and returns at once; progress shows on later reads.
"""

from cml_simulator.core import builder
from cml_simulator.core.definitions import DEFINITIONS
from cml_simulator.core.errors import refused
from cml_simulator.core.model import Lab, Node, State
from cml_simulator.core.world import (
    Server,
    admit,
    in_use,
    mark_stopped,
    note_clashes,
    note_state,
    settle,
)


def start_lab(server: Server, lab: Lab, now: float) -> None:
    """Queue every node that does not run; doing it again changes nothing."""
    settle(server, now)
    idle = [n for n in lab.nodes.values() if n.phase in {State.DEFINED, State.STOPPED}]
    _check_start(server, idle)
    lab.intent = State.STARTED
    _queue(server, idle, now)


def start_node(server: Server, node: Node, now: float) -> None:
    """Queue one node."""
    settle(server, now)
    if node.phase in {State.DEFINED, State.STOPPED}:
        _check_start(server, [node])
        _queue(server, [node], now)


def _check_start(server: Server, nodes: list[Node]) -> None:
    for node in nodes:
        if node.definition not in DEFINITIONS:
            raise refused(f"Cannot start node {node.label}: no image for {node.definition}.")
    if server.config.rules.over_licence == "refuse":
        wanted = sum(node.kind.has_vm for node in nodes)
        free = server.licence.quota - in_use(server).licensed
        if wanted > free:
            raise refused(
                f"Licensing issue: {wanted} nodes cannot start, {max(free, 0)} of "
                f"{server.licence.quota} node licenses are free."
            )


def _queue(server: Server, nodes: list[Node], now: float) -> None:
    for node in nodes:
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
    for node in lab.nodes.values():
        _stop(server, node, now)


def stop_node(server: Server, node: Node, now: float) -> None:
    """Begin to stop one node."""
    settle(server, now)
    _stop(server, node, now)


def _stop(server: Server, node: Node, now: float) -> None:
    server.revision += 1
    if node.phase is State.QUEUED:
        server.queue.remove(node)
        node.phase = State.STOPPED if node.disk else State.DEFINED
        note_state(server, node, node.phase, now)
    elif node.phase is State.STARTED and node.stop_due is None:
        seconds = server.config.rules.stop_seconds
        if seconds <= 0 or not node.kind.has_vm:
            mark_stopped(server, node, now)
            admit(server, now)
        else:
            node.stop_due = now + seconds
            server.stopping[node.id] = node


def wipe_lab(server: Server, lab: Lab, now: float) -> None:
    """Remove disks and learned addresses; only a stopped lab can be wiped."""
    settle(server, now)
    if lab.state() is State.STARTED:
        raise refused(f"Lab must be stopped before it can be wiped: {lab.id}")
    lab.intent = State.DEFINED
    for node in lab.nodes.values():
        _wipe(server, node, now)


def wipe_node(server: Server, node: Node, now: float) -> None:
    """Remove one node's disks; only a stopped node can be wiped."""
    settle(server, now)
    if node.phase in {State.QUEUED, State.STARTED}:
        raise refused(f"Node must be stopped before it can be wiped: {node.id}")
    _wipe(server, node, now)


def _wipe(server: Server, node: Node, now: float) -> None:
    if node.phase is State.STOPPED:
        note_state(server, node, State.DEFINED, now)
    node.phase = State.DEFINED
    node.disk = False
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
        raise refused(f"Lab must be {word} before it can be deleted: {lab.id}")
    builder.drop_lab(server, lab)


def delete_node(server: Server, node: Node, now: float) -> None:
    """Remove a node; it must be stopped and wiped."""
    settle(server, now)
    if node.phase is not State.DEFINED:
        raise refused(f"Node must be stopped and wiped before it can be deleted: {node.id}")
    lab = server.labs[node.lab_id]
    builder.drop_node(server, lab, node)
    builder.refresh_smart_annotations(server, lab)
    touch(lab, now)


def force_delete_lab(server: Server, lab: Lab, now: float) -> None:
    """Remove a lab as someone at the console would, whatever it is doing."""
    settle(server, now)
    for node in lab.nodes.values():
        if node.phase is State.QUEUED:
            server.queue.remove(node)
        elif node.phase is State.STARTED:
            mark_stopped(server, node, now)
        node.phase = State.DEFINED
    builder.drop_lab(server, lab)
    admit(server, now)


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


def converged(nodes: list[Node], now: float) -> bool:
    """Whether no node is on its way: everything wanted is booted or stopped."""
    return all(
        node.phase is not State.QUEUED
        and node.stop_due is None
        and not (node.phase is State.STARTED and now < node.booted_at)
        for node in nodes
    )
