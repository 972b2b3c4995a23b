"""Where nodes stand on CML's canvas whose file gives them no coordinates.

CML's import wants x and y of every node (facts/cml.md#topology-file); labs written by hand often
have none, and nothing depends on them but the drawing.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

FAR = 15_000
"""Coordinates reach from -FAR to FAR (facts/cml.md#api-rules)."""
_STEP = 160


def unplaced(node: dict[str, Any]) -> bool:
    """Tell whether a node's file gives it no complete place."""
    return node.get("x") is None or node.get("y") is None


def with_places(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the nodes, those without a place in a grid below the others.

    A coordinate that is given stays. The same nodes always get the same places.
    """
    count = sum(map(unplaced, nodes))
    if not count:
        return nodes
    columns = math.isqrt(count - 1) + 1
    given = [node["y"] for node in nodes if not unplaced(node)]
    top = int(max(filter(_on_canvas, given), default=-_STEP)) + _STEP
    numbers = itertools.count()
    return [
        _placed(node, divmod(next(numbers), columns), top) if unplaced(node) else node
        for node in nodes
    ]


def _placed(node: dict[str, Any], cell: tuple[int, int], top: int) -> dict[str, Any]:
    free = {"x": cell[1] * _STEP, "y": min(top + cell[0] * _STEP, FAR)}
    return {**node, **{key: at for key, at in free.items() if node.get(key) is None}}


def _on_canvas(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -FAR <= value <= FAR  # type: ignore[operator]
