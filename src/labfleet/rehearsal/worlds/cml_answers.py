"""What the adapter makes of a CML simulator's labs, nodes and interfaces."""

from __future__ import annotations

from typing import Any

from cml_simulator.core import views
from cml_simulator.core.model import Lab as CmlLab
from cml_simulator.core.model import Node
from cml_simulator.core.world import Server
from labfleet.interfaces.lab_host import InterfaceState, Lab, NodeState


def lab_seen(server: Server, lab: CmlLab) -> Lab:
    """Return a lab as the adapter reads it, with the name of its owner."""
    owner = server.users.get(lab.owner)
    name = owner.username if owner else ""
    return Lab(lab.id, lab.title, lab.notes, str(lab.state()), owner=name)


def node_seen(node: Node, now: float) -> NodeState:
    """Return a node with its effective values."""
    deployed, kind = node.disk, node.kind
    return NodeState(
        id=node.id,
        lab_id=node.lab_id,
        label=node.label,
        definition=node.definition,
        state=str(node.state(now)),
        cpus=kind.cpus if deployed and node.cpus is None else node.cpus,
        cpu_limit=node.want_limit if deployed else node.cpu_limit,
        ram_mib=kind.ram if deployed and node.ram is None else node.ram,
        tags=tuple(node.tags),
    )


def interfaces_seen(nodes: list[Node], learned: dict[str, Any]) -> list[InterfaceState]:
    """Return the interfaces of nodes, with learned addresses."""
    return [
        InterfaceState(
            id=each.id,
            node_id=node.id,
            label=each.label,
            slot=each.slot,
            state=str(views.interface_state(node, each)),
            mac_address=each.learned_mac or each.mac,
            ip4=learned.get(each.id, (None, ()))[1],
        )
        for node in nodes
        for each in node.interfaces
    ]
