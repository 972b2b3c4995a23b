"""Staged starts of 2.10: a lab's nodes in the order of their priority, stage after stage.

A later stage waits in the queue for the one before; `release` lets go what need not wait any more.
What nobody could prove about it is switched by `Rules.staging` (facts/cml.md#open-questions).
"""

from cml_simulator.core.model import Lab, Node, State
from cml_simulator.core.server import Server

ACTIVE = {State.QUEUED, State.STARTED}


def plan(server: Server, lab: Lab, idle: list[Node]) -> list[Node]:
    """Return which idle nodes a start of the lab queues, each with what it waits for.

    Nodes of one priority are one stage, the highest first; those without priority come last, or
    not at all when `start_remaining` is off.
    """
    staging = lab.node_staging or {}
    if not server.config.profile.lab_extras or not staging.get("enabled"):
        return idle
    if staging.get("start_remaining") is False:
        idle = [node for node in idle if node.priority is not None]
    running = [node for node in lab.nodes.values() if node.phase in ACTIVE]
    stages: dict[int, list[Node]] = {}
    for node in [*idle, *running]:
        stages.setdefault(_stage(node), []).append(node)
    before: tuple[str, ...] = ()
    for _, nodes in sorted(stages.items(), reverse=True):
        for node in nodes:
            if node.phase not in ACTIVE:
                node.after = before
        before = tuple(node.id for node in nodes)
    return idle


def _stage(node: Node) -> int:
    return -1 if node.priority is None else node.priority


def release(server: Server, at: float) -> list[Node]:
    """Take away what queued nodes need not wait for any more; return those that never start.

    A node fails its stage when it was stopped, removed or disconnected before it was up. With
    `abort_on_failure` the later stages are given up then, without it they go on.
    """
    given_up: list[Node] = []
    for node in server.queue:
        if not node.after:
            continue
        lab = server.labs[node.lab_id]
        abort = bool((lab.node_staging or {}).get("abort_on_failure"))
        failed = [key for key in node.after if _failed(lab.nodes.get(key), given_up)]
        if failed and abort:
            given_up.append(node)
            continue
        node.after = tuple(
            key for key in node.after if key not in failed and not _up(server, lab.nodes[key], at)
        )
    for node in given_up:
        node.after = ()
        server.queue.remove(node)
        node.phase = State.STOPPED if node.disk else State.DEFINED
    return given_up


def _failed(node: Node | None, given_up: list[Node]) -> bool:
    if node is None or node.phase not in ACTIVE or node in given_up:
        return True
    return node.lost or node.stop_due is not None


def _up(server: Server, node: Node, at: float) -> bool:
    if node.phase is not State.STARTED:
        return False
    return server.config.rules.staging == "started" or at >= node.booted_at


def next_due(server: Server) -> float | None:
    """Return when a node that others wait for will be up; None when none is on its way."""
    found = [
        node.booted_at
        for key in {key for queued in server.queue for key in queued.after}
        if (node := server.nodes.get(key)) is not None and node.phase is State.STARTED
    ]
    return min(found, default=None)
