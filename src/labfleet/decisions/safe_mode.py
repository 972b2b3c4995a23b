"""Whether the figures of a cluster may be decided by, or it is in safe mode. Pure.

A cluster that names no source of metrics is never in safe mode: it is decided by predictions and
declared values. One that names a source is, once it has had no new figures for `safeAfterSeconds`,
or its API server has not answered for so long (upstream 004 on connections that fail). Ages are by
our own receipt, never by the source's clock: a server with a wrong clock must not be able to keep a
cluster out of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from labfleet.resources.cluster import ClusterSpec
from labfleet.resources.cluster_conditions import ClusterReason
from labfleet.resources.decision import Decision

KUBERNETES, METRICS = "Kubernetes", "metrics"
"""The two parts that are heard of a cluster."""
REASON = "SafeMode"
"""Reason of a decision: the cluster is in safe mode."""
MORE_THAN_ALL = 1.5
"""Use above what pods may have of all nodes, by so much, cannot be.

Not less: what a node keeps for itself is used too, a quarter of the memory on small ones.
"""


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of one part of a cluster.

    age: Seconds since it was last heard; None when it never was.
    problem: Why it was not heard the last time; empty when it was.
    contradicting: Whether that was because it cannot be true.
    """

    age: float | None = None
    problem: str = ""
    contradicting: bool = False


@dataclass(frozen=True, slots=True)
class SafeMode:
    """Why a cluster is in safe mode.

    message: A sentence with the age of the newest figures, for who asks now.
    lasting: The same without what changes by the second, to be recorded.
    """

    reason: ClusterReason
    message: str
    lasting: str


def safe_mode(spec: ClusterSpec, heard: Mapping[str, Heard]) -> SafeMode | None:
    """Return why a cluster is in safe mode now: of its parts, that which was heard least recently.

    None when it is not in safe mode.
    """
    if not spec.metrics:
        return None
    limit = float(spec.safe_after_seconds)
    named = (KUBERNETES, METRICS) if spec.kubernetes is not None else (METRICS,)
    part = max(named, key=lambda each: _age(heard.get(each)))
    if _age(heard.get(part)) <= limit:
        return None
    return _blind(part, heard.get(part, Heard()), limit)


def _age(found: Heard | None) -> float:
    return math.inf if found is None or found.age is None else found.age


def in_safe_mode(decision: Decision, cluster: str, found: SafeMode) -> Decision:
    """Return the decision on a request while nothing may start: denied, whatever it needs."""
    return msgspec.structs.replace(
        decision,
        outcome="denied",
        reason=REASON,
        message=f"{cluster} is in safe mode: {found.message}; ask again later",
        chosen=None,
        candidates=(),
        rejected_by_reason={REASON: 1},
    )


def _blind(part: str, found: Heard, limit: float) -> SafeMode:
    what = "its API server" if part == KUBERNETES else "its metrics"
    why = f": {found.problem}" if found.problem else ""
    if found.contradicting:
        reason = ClusterReason.CONTRADICTING
    elif found.age is None:
        reason = ClusterReason.NOT_YET
    else:
        silent = part == KUBERNETES
        reason = ClusterReason.KUBERNETES_SILENT if silent else ClusterReason.METRICS_OLD
    if found.age is None:
        said = f"nothing was heard of {what} yet{why}"
        return SafeMode(reason, said, said)
    said = f"the newest figures of {what} are {found.age:.0f} s old, {limit:.0f} s are allowed{why}"
    return SafeMode(reason, said, f"no new figures of {what} for more than {limit:.0f} s{why}")


def contradiction(
    *,
    load: Mapping[str, float],
    has: Mapping[str, float],
    running: int,
    measured: int,
    pods: Iterable[Mapping[str, float]] = (),
) -> str:
    """Return what cannot be true of these figures, in a sentence; empty when all can be.

    `load` is what was measured and `has` what the nodes have, by dimension (absent: unknown);
    `running` runs have running pods, `measured` of them were found by the source of metrics.
    `pods` is what the pods of one run, or of nobody, are said to use: asked for by a call of its
    own, so it may be wrong where the load is right.
    """
    for told in (load, *pods):
        for name, unit in (("cpu_milli", "mCPU"), ("memory_mib", "MiB")):
            used, most = told.get(name), has.get(name)
            if used is not None and most is not None and used > most * MORE_THAN_ALL:
                said = f"{used:.0f} {unit} are said to be used"
                return f"{said} of {most:.0f} that all its nodes have"
    if running and not measured and load and not any(load.values()):
        return f"nothing is said to be used while pods of {running} runs are running"
    return ""
