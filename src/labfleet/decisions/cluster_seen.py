"""What is recorded of a cluster's nodes and of pods that are of no run. Pure.

Recorded when it says something new: what others take moves all the time, so it is kept a little
high, and a small change is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import ClusterSeen

KEPT_HIGH = 1.05
"""What others take is recorded with so much to spare, and again when it has grown past that."""
FALLEN = 0.8
"""It is recorded anew when it has fallen below this share of what is recorded."""
_NODE = ("cpu_milli", "memory_mib", "storage_mib")


def capacity(nodes: Iterable[tuple[Mapping[str, int], bool]]) -> Amounts:
    """Return what pods may have of all nodes, each as (allocatable, whether it takes pods)."""
    usable = [each for each, takes in nodes if takes]
    return Amounts(**{name: sum(each.get(name, 0) for each in usable) for name in _NODE})


def seen(
    nodes: Iterable[tuple[Mapping[str, int], bool]],
    others: Mapping[str, float],
    before: ClusterSeen | None,
) -> ClusterSeen:
    """Return what to record of nodes and others; `before` itself when nothing is worth it."""
    nodes = tuple(nodes)
    usable = sum(1 for _, takes in nodes if takes)
    old = Amounts() if before is None else before.others
    made = ClusterSeen(
        capacity=capacity(nodes),
        others=Amounts(**{n: _level(others.get(n), getattr(old, n)) for n in DIMENSIONS}),
        nodes=len(nodes),
        usable=usable,
    )
    return made if before is None or made != before else before


def _level(now: float | None, recorded: int) -> int:
    """Return what to record of a number that moves; what is unknown leaves what is recorded."""
    if now is None:
        return recorded
    if recorded * FALLEN <= now <= recorded:
        return recorded
    return -int(-now * KEPT_HIGH // 1)
