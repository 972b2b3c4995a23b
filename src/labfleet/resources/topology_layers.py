"""Where nodes stand that a lab's file places nowhere: in layers, by their distance along links.

Pure. The best-linked node of a part stands in the first layer, its neighbours in the next; parts
that no link joins stand beside each other. The same links give the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

STEP = 160
"""How far nodes of a layer, and layers, stand apart on the canvas."""
WIDEST = 24
"""Nodes of a layer that stand in one row; further ones stand in rows below."""

Neighbours = list[list[int]]


def places(count: int, links: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return the place of each of so many nodes; `links` joins them by number."""
    neighbours: Neighbours = [[] for _ in range(count)]
    for first, second in links:
        if first != second:
            neighbours[first].append(second)
            neighbours[second].append(first)
    found = [(0.0, 0.0)] * count
    left = 0.0
    alone = [number for number in range(count) if not neighbours[number]]
    for rows in (*_parts(neighbours), _rows([alone])):
        widest = max(map(len, rows), default=0)
        for down, row in enumerate(rows):
            begin = left + (widest - len(row)) * STEP / 2
            for across, number in enumerate(row):
                found[number] = (begin + across * STEP, down * float(STEP))
        left += widest * STEP
    return found


def _parts(neighbours: Neighbours) -> list[list[list[int]]]:
    """Return the rows of each joined part, the one with the best-linked node first."""
    seen: set[int] = set()
    parts = []
    for start in sorted(range(len(neighbours)), key=lambda each: (-len(neighbours[each]), each)):
        if start in seen or not neighbours[start]:
            continue
        seen.add(start)
        layers = [[start]]
        while layers[-1]:
            layers.append(_next(layers[-1], neighbours, seen))
        parts.append(_rows(layers))
    return parts


def _next(layer: list[int], neighbours: Neighbours, seen: set[int]) -> list[int]:
    """Return the nodes next to a layer that have no place yet, each below what it is linked to."""
    found = []
    for number in layer:
        for other in sorted(neighbours[number]):
            if other not in seen:
                seen.add(other)
                found.append(other)
    return found


def _rows(layers: list[list[int]]) -> list[list[int]]:
    """Return layers as rows, the widest of them in several."""
    return [
        layer[first : first + WIDEST] for layer in layers for first in range(0, len(layer), WIDEST)
    ]
