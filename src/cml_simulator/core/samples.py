"""Sample labs that every server has, and the import of VIRL 1.x files, both as topologies."""

import xml.etree.ElementTree as ET
from typing import Any

from cml_simulator.core.errors import refused

OLD_KINDS = {
    "IOSv": "iosv",
    "IOSvL2": "iosvl2",
    "CSR1000v": "csr1000v",
    "NX-OSv": "nxosv",
    "NX-OSv 9000": "nxosv9000",
    "IOS XRv": "iosxrv",
    "IOS XRv 9000": "iosxrv9000",
    "ASAv": "asav",
    "server": "server",
    "lxc": "alpine",
    "Unmanaged Switch": "unmanaged_switch",
}
"""VIRL 1.x subtype -> node definition."""
NODES_MOST = 1000


def _node(number: int, label: str, kind: str, ports: int) -> dict[str, Any]:
    return {
        "id": f"n{number}",
        "label": label,
        "node_definition": kind,
        "x": 200 * (number % 20),
        "y": 200 * (number // 20),
        "interfaces": [{"id": f"i{p}", "slot": p, "type": "physical"} for p in range(ports)],
    }


def _pair() -> dict[str, Any]:
    return {
        "lab": {"title": "Two hosts", "description": "Two hosts on a wire", "version": "0.2.2"},
        "nodes": [_node(0, "host-1", "alpine", 1), _node(1, "host-2", "alpine", 1)],
        "links": [{"id": "l0", "n1": "n0", "i1": "i0", "n2": "n1", "i2": "i0"}],
    }


def _internet() -> dict[str, Any]:
    return {
        "lab": {"title": "Internet access", "description": "A host behind NAT", "version": "0.2.2"},
        "nodes": [_node(0, "host", "alpine", 1), _node(1, "internet", "external_connector", 1)],
        "links": [{"id": "l0", "n1": "n0", "i1": "i0", "n2": "n1", "i2": "i0"}],
    }


SAMPLES: dict[str, dict[str, Any]] = {body["lab"]["title"]: body for body in (_pair(), _internet())}
"""Title -> topology document."""


def virl(body: bytes) -> dict[str, Any]:
    """Return the topology of a VIRL 1.x file: its nodes and connections."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise refused("Lab import failed: document types are not accepted.")
    try:
        root = ET.fromstring(body)  # noqa: S314 - entities are refused above
    except (ET.ParseError, ValueError, LookupError) as error:
        raise refused(f"Lab import failed: invalid XML: {error}") from None
    if root.tag.rsplit("}", 1)[-1] != "topology":
        raise refused("Lab import failed: not a VIRL 1.x topology.")
    found = [item for item in root if item.tag.rsplit("}", 1)[-1] == "node"]
    if len(found) > NODES_MOST:
        raise refused("Lab import failed: too many nodes.")
    nodes = []
    for number, item in enumerate(found):
        ports = sum(1 for child in item if child.tag.rsplit("}", 1)[-1] == "interface")
        kind = OLD_KINDS.get(item.get("subtype", ""), item.get("subtype", "unknown"))
        nodes.append(_node(number, item.get("name", f"node-{number}"), kind, min(ports, 129)))
    links = [
        end
        for number, item in enumerate(root.iter())
        if item.tag.rsplit("}", 1)[-1] == "connection" and (end := _link(number, item)) is not None
    ]
    return {"lab": {"version": "0.0.1"}, "nodes": nodes, "links": links}


def _link(number: int, item: ET.Element) -> dict[str, Any] | None:
    ends = [_end(item.get(name, "")) for name in ("src", "dst")]
    if None in ends:
        return None
    (n1, i1), (n2, i2) = (end for end in ends if end is not None)
    return {"id": f"l{number}", "n1": n1, "i1": i1, "n2": n2, "i2": i2}


def _end(path: str) -> tuple[str, str] | None:
    """Return node and interface of `/virl:topology/virl:node[2]/virl:interface[1]`."""
    numbers = [part.partition("[")[2].rstrip("]") for part in path.split("/") if "[" in part]
    if len(numbers) != 2 or not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
        return None
    return f"n{int(numbers[0]) - 1}", f"i{int(numbers[1]) - 1}"
