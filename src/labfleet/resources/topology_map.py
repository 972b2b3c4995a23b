"""What of a topology is drawn: nodes with their places, links with the names of their ends.

Pure reading for people's eyes, of a file that `topology` takes: whatever is odd in it is left out,
never refused. Nodes without a place get the one that an import would give them; where the file
places none at all, they stand in layers by their links (`topology_layers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from labfleet.resources import topology, topology_layers, topology_places

DRAWINGS = 200
"""Drawings of a lab that are kept; the others are counted."""
TEXT_LIMIT = 120
Shape = Literal["text", "rectangle", "ellipse", "line"]
Placed = Literal["file", "partly", "layers"]
_SHAPES: dict[Any, Shape] = {"rectangle": "rectangle", "ellipse": "ellipse", "line": "line"}


@dataclass(frozen=True, slots=True)
class MapNode:
    """One node: its label, its node definition, and its place on the canvas."""

    label: str
    definition: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class MapLink:
    """One link by the numbers of its two nodes, with the labels of its interfaces."""

    first: int
    second: int
    first_end: str
    second_end: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Something drawn beside the nodes: of a line both ends, else a corner or centre and a size."""

    shape: Shape
    x: float
    y: float
    across: float
    down: float
    text: str


@dataclass(frozen=True, slots=True)
class TopologyMap:
    """A lab as it is drawn; `left_out` are drawings beyond the bound.

    `placed` says by whom the nodes were placed: by the file, by the file and an import, or in layers.
    """

    nodes: tuple[MapNode, ...]
    links: tuple[MapLink, ...]
    drawings: tuple[Drawing, ...]
    placed: Placed
    left_out: int


def read(text: str) -> TopologyMap:
    """Return what of a topology is drawn; errors.Invalid for a text that is no YAML at all."""
    root = topology.read(text).value
    root = root if isinstance(root, dict) else {}
    raw = [each for each in _list(root, "nodes") if isinstance(each, dict)][: topology.NODE_LIMIT]
    numbers = {str(node.get("id")): number for number, node in reversed([*enumerate(raw)])}
    links = tuple(_links(root, numbers, _interfaces(root, raw)))
    nodes, placed = _placed(raw, links)
    drawings = [*_drawings(root)]
    kept = tuple(drawings[:DRAWINGS])
    return TopologyMap(nodes, links, kept, placed, len(drawings) - len(kept))


def _placed(
    raw: list[dict[str, Any]], links: tuple[MapLink, ...]
) -> tuple[tuple[MapNode, ...], Placed]:
    """Return the nodes with their places, and whose places those are."""
    sound = [{**node, "x": _number(node.get("x")), "y": _number(node.get("y"))} for node in raw]
    loose = sum(map(topology_places.unplaced, sound))
    if loose == len(sound) and sound:
        pairs = [(each.first, each.second) for each in links]
        spots = topology_layers.places(len(sound), pairs)
        made = [_node(node, x, y) for node, (x, y) in zip(raw, spots, strict=True)]
        return tuple(made), "layers"
    whole = topology_places.with_places(sound)
    made = [_node(node, float(node["x"]), float(node["y"])) for node in whole]
    return tuple(made), "partly" if loose else "file"


def _node(node: dict[str, Any], x: float, y: float) -> MapNode:
    label = node.get("label")
    name = label if isinstance(label, str) and label else str(node.get("id"))
    return MapNode(_short(name), _short(str(node.get("node_definition") or "")), x, y)


def _interfaces(root: dict[str, Any], raw: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """Return (node id, interface id) -> the interface's label; the oldest exports list them apart."""
    apart = [(str(each.get("node")), each) for each in _mappings(_list(root, "interfaces"))]
    own = [
        (str(node.get("id")), each) for node in raw for each in _mappings(_list(node, "interfaces"))
    ]
    found: dict[tuple[str, str], str] = {}
    for node, each in (*apart, *own):
        label = each.get("label")
        found[node, str(each.get("id"))] = _short(label) if isinstance(label, str) else ""
    return found


def _links(
    root: dict[str, Any], numbers: dict[str, int], labels: dict[tuple[str, str], str]
) -> Iterator[MapLink]:
    """Yield the links of which both nodes are there."""
    for link in _mappings(_list(root, "links")):
        ends = topology.link_ends(link)
        first, second = str(ends["n1"][1]), str(ends["n2"][1])
        if first in numbers and second in numbers:
            yield MapLink(
                numbers[first],
                numbers[second],
                labels.get((first, str(ends["i1"][1])), ""),
                labels.get((second, str(ends["i2"][1])), ""),
            )


def _drawings(root: dict[str, Any]) -> Iterator[Drawing]:
    """Yield what is drawn, in the order in which it lies over one another."""
    found = _mappings(_list(root, "annotations"))
    for each in sorted(found, key=lambda one: _number(one.get("z_index")) or 0.0):
        shape, x, y = str(each.get("type")), _number(each.get("x1")), _number(each.get("y1"))
        if x is None or y is None:
            continue
        across, down = _number(each.get("x2")), _number(each.get("y2"))
        made = Drawing("text", x, y, across or 0.0, down or 0.0, "")
        words = each.get("text_content")
        if shape == "text" and isinstance(words, str) and words.strip():
            yield replace(made, text=_short(words.strip().splitlines()[0]))
        elif shape in _SHAPES and across is not None and down is not None:
            yield replace(made, shape=_SHAPES[shape])


def _list(holder: dict[str, Any], key: str) -> list[Any]:
    found = holder.get(key)
    return found if isinstance(found, list) else []


def _mappings(found: list[Any]) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)]


def _number(value: Any) -> float | None:
    """Return a place on the canvas; None for what is none."""
    fine = isinstance(value, int | float) and not isinstance(value, bool)
    if not fine or not math.isfinite(value) or abs(value) > topology_places.FAR:
        return None
    return float(value)


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
