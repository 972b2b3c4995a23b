"""Places in a topology, said in the words of its author: labels of nodes and interfaces.

A server that refuses a lab names `links[0]` or `nodes[3].interfaces[1].slot`: positions in what it
was sent. A person knows `the link from eth0 of 'PC' to port of 'NET'`, and the line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from labfleet.kernel import errors
from labfleet.resources import topology
from labfleet.resources.documents import Path

MESSAGE_LIMIT = 400
_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")
_PARTS = frozenset({"lab", "nodes", "links", "interfaces", "annotations", "smart_annotations"})
_SHOWN = 60


def told(text: str, problems: Sequence[tuple[str, str]]) -> str:
    """Return what is wrong with a topology in one sentence; total, and bounded."""
    try:
        document = topology.read(text)
    except errors.LabfleetError:
        return _bounded("; ".join(what for _, what in problems))
    said = []
    for where, what in problems:
        path = _path(where)
        place = _place(document.value, path)
        line = f"line {document.line_of(path)}, " if place else ""
        said.append(f"{line}{place}: {what}" if place else what)
    return _bounded("; ".join(said))


def _bounded(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 1]}…"


def _path(where: str) -> Path:
    """Return the steps from the first word that a topology has; validators put theirs before."""
    steps = [int(number) if number else word for number, word in _STEP.findall(where)]
    begin = next((at for at, step in enumerate(steps) if step in _PARTS), len(steps))
    return tuple(steps[begin:])


def _place(root: Any, path: Path) -> str:
    """Return a place in words; the steps beyond what has a name stay as they are."""
    match path:
        case ("nodes", int(number), "interfaces", int(port), *rest):
            node = _row(root, "nodes", number)
            found = _row(node, "interfaces", port)
            words = f"interface {_port(found)} of {_node(node)}"
        case ("nodes", int(number), *rest):
            found = _row(root, "nodes", number)
            words = _node(found)
        case ("links", int(number), *rest):
            found = _row(root, "links", number)
            words = _link(root, found)
        case _:
            return topology.dotted(path)
    if not found:  # not a place of this file
        return topology.dotted(path)
    more = topology.dotted(tuple(rest))
    return f"{words}, {more}" if more else words


def _link(root: Any, link: dict[str, Any]) -> str:
    named = topology.link_ends(link)
    ends = []
    for node_key, port_key in (("n1", "i1"), ("n2", "i2")):
        node_id, port_id = named[node_key][1], named[port_key][1]
        node = _by_id(root, "nodes", node_id)
        port = _by_id(node, "interfaces", port_id)
        shown = _port(port) if port else _quoted(port_id)
        ends.append(f"{shown} of {_node(node) if node else f'node {_quoted(node_id)}'}")
    return f"the link from {ends[0]} to {ends[1]}"


def _node(node: dict[str, Any]) -> str:
    return f"node {_quoted(node.get('label') or node.get('id'))}"


def _port(port: dict[str, Any]) -> str:
    return _quoted(port.get("label") or port.get("id"))


def _quoted(value: object) -> str:
    return repr(value)[:_SHOWN]


def _rows(holder: Any, key: str) -> list[dict[str, Any]]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return (
        [each if isinstance(each, dict) else {} for each in found]
        if isinstance(found, list)
        else []
    )


def _row(holder: Any, key: str, number: int) -> dict[str, Any]:
    rows = _rows(holder, key)
    return rows[number] if number < len(rows) else {}


def _by_id(holder: Any, key: str, wanted: object) -> dict[str, Any]:
    same = (each for each in _rows(holder, key) if str(each.get("id")) == str(wanted))
    return next(same, {})
