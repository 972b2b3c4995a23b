"""What is recorded of a cluster after a look: its nodes, pods that are of no run, conditions. Pure.

Recorded when it says something new: what others take moves all the time, so it is kept a little
high, and a small change is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from labfleet.decisions.safe_mode import SafeMode
from labfleet.kernel.errors import LabfleetError
from labfleet.resources import conditions
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import Cluster, ClusterSeen, ClusterSpec, Mode
from labfleet.resources.cluster_conditions import ClusterCondition, ClusterReason
from labfleet.resources.conditions import Condition

MESSAGE = 500
"""Characters of a condition's message."""

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


def mode_of(spec: ClusterSpec, told: tuple[Condition, ...]) -> Mode:
    """Return how a cluster is decided on, by the facts about its figures."""
    if not spec.metrics:
        return "unmeasured"
    found = conditions.find(told, ClusterCondition.SAFE_MODE)
    return "measured" if found is not None and found.status == "False" else "safe"


def conditions_of(
    cluster: Cluster,
    now: datetime,
    *,
    seen: bool,
    problem: LabfleetError | None,
    blind: SafeMode | None,
) -> tuple[Condition, ...]:
    """Return the facts about a cluster after a look; the same tuple when nothing changed.

    `seen`: its nodes and pods were seen; `problem` is why they have not been for a while. `blind` is
    why it is in safe mode. A cluster that names no such source has no such fact.
    """
    told, generation = cluster.status.conditions, cluster.metadata.generation
    about = ClusterCondition.SEEN
    if cluster.spec.kubernetes is None:
        told = conditions.drop(told, about)
    elif problem is not None:
        why, said = conditions.of_error(problem), problem.message[:MESSAGE]
        told = conditions.put(told, about, "False", why, said, now=now, generation=generation)
    elif seen:
        fine = ClusterReason.SEEN
        told = conditions.put(told, about, "True", fine, now=now, generation=generation)
    about = ClusterCondition.SAFE_MODE
    if not cluster.spec.metrics:
        return conditions.drop(told, about)
    if blind is None:
        good = ClusterReason.MEASURED
        return conditions.put(told, about, "False", good, now=now, generation=generation)
    said = blind.lasting[:MESSAGE]
    return conditions.put(told, about, "True", blind.reason, said, now=now, generation=generation)
