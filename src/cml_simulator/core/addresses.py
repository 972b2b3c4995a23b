"""Layer 3 addresses that CML learns by snooping: only nodes on a NAT connector's segment have any.

A segment is a connector with every node that reaches it through links and unmanaged switches.
"""

from typing import Any

from cml_simulator.core.inputs import share
from cml_simulator.core.model import Interface, Lab, Node, State
from cml_simulator.core.world import Server

PREFIX = "192.168.255."
POOL = 250


def learnt_at(server: Server, node: Node) -> float | None:
    """Return from when the node has an IPv4 address on the NAT bridge; None if it gets none."""
    lab = server.labs[node.lab_id]
    if not node.admitted or not any(n is node for n, _ in snooped(server, lab)):
        return None
    return node.booted_at + 5 + 10 * share(node.id, "dhcp")


def snooped(server: Server, lab: Lab) -> list[tuple[Node, Interface]]:
    """Return the interfaces of a lab that sit on a NAT segment."""
    found: dict[str, tuple[Node, Interface]] = {}
    for node in lab.nodes.values():
        if node.definition == "external_connector" and bridge_of(server, lab, node) == "virbr0":
            _walk(server, lab, node, {node.id}, found)
    return list(found.values())


def connector_key(node: Node) -> str:
    """Return what an external connector's configuration asks for: a label, tag or device name."""
    text = node.configuration[0]["content"] if node.configuration else ""
    return text.strip() or "NAT"


def bridge_of(server: Server, lab: Lab, node: Node) -> str | None:
    """Return the host bridge of an external connector: by the lab's mapping, else by its name."""
    key = connector_key(node)
    if key in lab.mappings:
        return lab.mappings[key]
    for bridge in server.connectors.values():
        if key.lower() in {bridge.device_name, bridge.label.lower(), *map(str.lower, bridge.tags)}:
            return bridge.device_name
    return None


def _walk(
    server: Server,
    lab: Lab,
    start: Node,
    seen: set[str],
    found: dict[str, tuple[Node, Interface]],
) -> None:
    todo = [start]
    while todo:
        for interface in todo.pop().interfaces:
            link = lab.links.get(interface.link_id or "")
            if link is None:
                continue
            far = server.interfaces[link.b if link.a == interface.id else link.a]
            other = lab.nodes[far.node_id]
            if other.kind.has_vm:
                found[far.id] = (other, far)
            elif other.id not in seen:
                seen.add(other.id)
                todo.append(other)


def layer3(server: Server, lab: Lab, now: float) -> dict[str, Any]:
    """Return the body of layer3_addresses."""
    body: dict[str, Any] = {}
    for node, interface in snooped(server, lab):
        since = learnt_at(server, node)
        if node.state(now) is not State.BOOTED or since is None or now < since:
            continue
        mac = interface.learned_mac
        host = lease(server, mac) if mac else None
        if mac is None or host is None:
            continue
        entry = body.setdefault(node.id, {"name": node.label, "interfaces": {}})
        entry["interfaces"][mac] = {
            "id": interface.id,
            "label": interface.label,
            "ip4": [f"{PREFIX}{host}"],
            "ip6": [_link_local(mac)],
        }
    return body


def lease(server: Server, mac: str) -> int | None:
    """Return the host number of a MAC in the NAT network; None when the pool is empty."""
    if mac not in server.leases:
        taken = set(server.leases.values())
        free = next((n for n in range(2, 2 + POOL) if n not in taken), None)
        if free is None:
            return None
        server.leases[mac] = free
    return server.leases[mac]


def _link_local(mac: str) -> str:
    octets = [int(part, 16) for part in mac.split(":")]
    first = octets[0] ^ 2
    high = f"{first:x}{octets[1]:02x}:{octets[2]:x}ff"
    return f"fe80::{high}:fe{octets[3]:02x}:{octets[4]:x}{octets[5]:02x}"
