"""A kept lab's text: made ready to be kept, and its configurations put into another lab's topology.

Only configurations are taken over, into nodes of the same label and node definition: a lab that
was enlarged, or linked otherwise, is not what its definition was admitted for. An external
connector keeps the definition's, since its configuration says which network it bridges to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labfleet.kernel import errors
from labfleet.resources import topology

CONNECTORS = frozenset({"external_connector", "unmanaged_switch"})
"""Node definitions without a machine in which something could be configured."""
Configuration = str | list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class KeptNode:
    """What was configured in one node: a text, or files with name and content."""

    node_definition: str
    configuration: Configuration


def ready(text: bytes, marker: str) -> bytes:
    """Return a lab's text without our marker, which names a session that is over.

    With it, a copy that somebody imports by hand would be taken for that session's lab, and ended.
    errors.Invalid when the text is no topology.
    """
    plain = text.replace(f"labfleet: {marker}".encode(), b"")
    configurations(plain)
    return plain


def configurations(text: bytes) -> dict[str, KeptNode]:
    """Return node label -> what is configured in it; errors.Invalid when it is no topology."""
    value = topology.read(text).value
    nodes = value.get("nodes") if isinstance(value, dict) else None
    if not isinstance(nodes, list):
        raise errors.Invalid("a kept lab is no topology: it has no nodes", reason="BadTopology")
    found = {}
    for node in nodes:
        if not isinstance(node, dict):
            continue
        label, kind = node.get("label"), node.get("node_definition")
        known = _configuration(node.get("configuration"))
        if isinstance(label, str) and isinstance(kind, str) and known and kind not in CONNECTORS:
            found[label] = KeptNode(kind, known)
    return found


def _configuration(value: Any) -> Configuration | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    files = [
        {"name": each["name"], "content": each["content"]}
        for each in value
        if isinstance(each, dict)
        and isinstance(each.get("name"), str)
        and isinstance(each.get("content"), str)
    ]
    return files if len(files) == len(value) else None


def put_into(node: dict[str, Any], kept: Mapping[str, KeptNode]) -> dict[str, Any]:
    """Return a topology's node with what was kept of the node that it continues, if there is one.

    One file becomes a text where the node has a text: servers before 2.7 know nothing else.
    """
    found = kept.get(str(node.get("label")))
    if found is None or found.node_definition != node.get("node_definition"):
        return node
    known = found.configuration
    if isinstance(known, list) and len(known) == 1 and isinstance(node.get("configuration"), str):
        known = known[0]["content"]
    return {**node, "configuration": known}
