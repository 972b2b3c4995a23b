"""A lab as it is drawn on a page: in pixels, so that its labels stay readable. Pure.

A large lab becomes a large picture that is scrolled, up to a greatest size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from labfleet.resources.topology_map import Drawing, MapLink, MapNode, TopologyMap

APART = 96.0
"""How many pixels most nodes stand apart from their nearest neighbour."""
MARGIN = 60.0
WIDEST, HIGHEST = 4000.0, 3000.0
DRAWN = 600
"""Nodes up to which a lab is drawn."""
LINKS = 2000
LABEL = 18
"""Characters of a label in the drawing; the whole one is told on hover and in the table."""
_FORMS = (
    (("external", "unmanaged", "wan", "cloud", "internet"), "cloud"),
    (("l2", "nxos", "nx-os", "switch", "sw"), "switch"),
    (("ios", "csr", "cat", "xr", "router", "asa", "frr", "iol"), "router"),
)
At = Callable[[float, float], tuple[float, float]]
"""A place on the canvas -> the same in pixels."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One node: its middle, the form of its sign, its label, and what is told on hover."""

    x: float
    y: float
    form: str
    label: str
    told: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """One link: both its ends, and what is told on hover."""

    x1: float
    y1: float
    x2: float
    y2: float
    told: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The drawing: its size in pixels, and what stands in it."""

    width: int
    height: int
    spots: tuple[Spot, ...]
    strokes: tuple[Stroke, ...]
    drawings: tuple[Drawing, ...]


def picture(found: TopologyMap) -> Picture | None:
    """Return the drawing of a lab; None for one without nodes, or with more than are drawn."""
    if not 0 < len(found.nodes) <= DRAWN:
        return None
    xs, ys = [each.x for each in found.nodes], [each.y for each in found.nodes]
    left, top = min(xs), min(ys)
    wide, high = max(xs) - left, max(ys) - top
    scale = min(
        APART / _apart(found.nodes),
        (WIDEST - 2 * MARGIN) / max(wide, 1.0),
        (HIGHEST - 2 * MARGIN) / max(high, 1.0),
    )

    def at(x: float, y: float) -> tuple[float, float]:
        return round((x - left) * scale + MARGIN, 1), round((y - top) * scale + MARGIN, 1)

    spots = tuple(_spot(each, *at(each.x, each.y)) for each in found.nodes)
    width, height = round(wide * scale + 2 * MARGIN), round(high * scale + 2 * MARGIN)
    drawings = [_moved(each, *at(each.x, each.y), scale, at) for each in found.drawings]
    return Picture(
        width,
        height,
        spots,
        tuple(_stroke(found, spots, each) for each in found.links[:LINKS]),
        tuple(each for each in drawings if _near(each, width, height)),
    )


def _spot(node: MapNode, x: float, y: float) -> Spot:
    kind = node.definition.lower()
    form = next((form for words, form in _FORMS if any(word in kind for word in words)), "host")
    label = node.label if len(node.label) <= LABEL else node.label[: LABEL - 1] + "…"
    return Spot(x, y, form, label, f"{node.label}, {node.definition}")


def _stroke(found: TopologyMap, spots: Sequence[Spot], link: MapLink) -> Stroke:
    first, second = spots[link.first], spots[link.second]
    told = " to ".join(
        f"{found.nodes[number].label} {end}".rstrip()
        for number, end in ((link.first, link.first_end), (link.second, link.second_end))
    )
    return Stroke(first.x, first.y, second.x, second.y, told)


def _apart(nodes: Sequence[MapNode]) -> float:
    """Return how far a quarter of the nodes stand from their nearest neighbour, at most."""
    nearest = []
    for number, node in enumerate(nodes):
        others = (
            math.hypot(node.x - other.x, node.y - other.y)
            for place, other in enumerate(nodes)
            if place != number
        )
        found = min((each for each in others if each > 0), default=0.0)
        if found:
            nearest.append(found)
    return max(sorted(nearest)[len(nearest) // 4], 1.0) if nearest else APART


def _moved(each: Drawing, x: float, y: float, scale: float, at: At) -> Drawing:
    """Return something drawn in pixels; a line's end is a place, other sizes are lengths."""
    if each.shape == "line":
        across, down = at(each.across, each.down)
    else:
        across, down = round(abs(each.across) * scale, 1), round(abs(each.down) * scale, 1)
    return replace(each, x=x, y=y, across=across, down=down)


def _near(each: Drawing, width: int, height: int) -> bool:
    """Tell whether something drawn reaches into the picture."""
    if each.shape == "line":
        ends = ((each.x, each.y), (each.across, each.down))
        return all(0 <= x <= width and 0 <= y <= height for x, y in ends)
    if each.shape == "ellipse":
        left, top = each.x - each.across, each.y - each.down
        right, bottom = each.x + each.across, each.y + each.down
    else:
        left, top = each.x, each.y
        right, bottom = each.x + each.across, each.y + each.down
    return right >= 0 and bottom >= 0 and left <= width and top <= height
