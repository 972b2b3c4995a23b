"""Cluster: what simulations run on, and how far it may be filled (facts/upstream.md#gate).

What is shown of it is in `cluster_kind`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster_access import KubernetesAccess, MetricsSource, WhenBlind
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Rule
from labfleet.resources.meta import Record, Resource

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]


class DefaultCost(Record, frozen=True, kw_only=True):
    """What a run needs of which neither its caller nor the history says anything.

    cost: What it needs, at least.
    per: Parameter whose number `each` is multiplied by, such as nodecount.
    each: What it needs for each of them, beside `cost`.
    """

    cost: Amounts = Amounts()
    per: Annotated[str, msgspec.Meta(max_length=64)] = ""
    each: Amounts = Amounts()


OTHERS = "*"
"""The family whose default cost holds for all that have none of their own."""
_POD = Amounts(cpu_milli=500, memory_mib=600)
KNOWN_DEFAULTS: dict[str, DefaultCost] = {
    "waku": DefaultCost(per="nodecount", each=_POD),
    "nimlibp2p": DefaultCost(per="number_of_peers", each=_POD),
}
"""The limits of one pod of the two charts that upstream 004 runs (facts/upstream.md#gate)."""
UNKNOWN_PERCENT = 10
"""Share of a target that a run counts for of which nothing at all is known."""


class ClusterSpec(Record, frozen=True, kw_only=True):
    """What a cluster has and how far it may be filled (defaults: facts/upstream.md#gate).

    capacity: What the cluster has, or what may be used of what its nodes have; 0 leaves that to the
        nodes where they are looked at, else it is not known: a network of 0 is not judged.
    cpu_percent: Share of its CPUs that may be reserved.
    memory_percent: Share of its memory that may be reserved.
    network_percent: Share of its network that may be reserved.
    rule: How its load is judged: by chance, by the sum of bounds, or by what callers declare.
    overload_percent: How often its load may exceed a target, by the rule of chance.
    coverage_percent: Share of runs that stay within their bounds.
    defaults: What runs of a family need while nothing is known of them; `*` is for all others.
    kubernetes: How its API server is reached; null looks at no nodes and pods.
    metrics: Where its figures come from; the first source that knows a figure is believed.
    safe_after_seconds: Without newer figures for so long, the cluster is in safe mode.
    when_blind: What becomes of requests in safe mode.
    description: What it is, for people.
    """

    capacity: Amounts = Amounts()
    cpu_percent: Percent = 80
    memory_percent: Percent = 80
    network_percent: Percent = 75
    rule: Rule = Rule.CHANCE
    overload_percent: Annotated[float, msgspec.Meta(ge=0.05, le=20)] = 0.2
    coverage_percent: Annotated[float, msgspec.Meta(ge=50, le=99.5)] = 95.0
    defaults: Annotated[dict[str, DefaultCost], msgspec.Meta(max_length=200)] = {}
    kubernetes: KubernetesAccess | None = None
    metrics: Annotated[tuple[MetricsSource, ...], msgspec.Meta(max_length=4)] = ()
    safe_after_seconds: Annotated[int, msgspec.Meta(ge=30, le=3600)] = 120
    when_blind: WhenBlind = WhenBlind.DENY
    description: str = ""


class Overload(Record, frozen=True, kw_only=True):
    """What became of the promise that targets are rarely exceeded, as far as it was measured.

    over_seconds: Time above a target, what is older than 30 days faded out.
    seconds: Time looked at, faded likewise.
    slack: What is left of the share allowed, 1 all, 0 nothing; below 0 bounds are added up instead.
    """

    over_seconds: float = 0.0
    seconds: float = 0.0
    slack: float = 1.0

    @property
    def realised(self) -> float | None:
        """The share of time above a target; None before anything was looked at."""
        return self.over_seconds / self.seconds if self.seconds > 0 else None


class ClusterSeen(Record, frozen=True, kw_only=True):
    """What was seen of a cluster's nodes and of pods that are of no run; recorded when it changes.

    capacity: What pods may have of all nodes that are ready and take pods.
    others: What pods that are of no run use or, where that is not measured, request.
    nodes: How many nodes it has.
    usable: How many of them are ready and take pods.
    """

    capacity: Amounts = Amounts()
    others: Amounts = Amounts()
    nodes: int = 0
    usable: int = 0


Mode = Literal["measured", "safe", "unmeasured"]


class ClusterStatus(Record, frozen=True, kw_only=True):
    """What was observed of a cluster.

    conditions: Facts about it, each with its reason.
    overload: How often its load was above a target; nothing was looked at before it is measured.
    seen: What its nodes have, and what others use; null while nobody has looked.
    mode: How it is decided on: `measured`, `safe` while its figures are unknown, `unmeasured` where it
        names no source of metrics; null until it was first looked at. A summary of its conditions.
    observed_generation: Generation of the spec that this status is about.
    """

    conditions: tuple[Condition, ...] = ()
    overload: Overload = Overload()
    seen: ClusterSeen | None = None
    mode: Mode | None = None
    observed_generation: int = 0


class Cluster(Resource, frozen=True, kw_only=True):
    """A Kubernetes cluster, or one namespace of it, that simulations run on."""

    spec: ClusterSpec
    status: ClusterStatus = ClusterStatus()
    kind: str = "Cluster"


def capacity_of(cluster: Cluster) -> Amounts:
    """Return what a cluster has: in each dimension what is stated, but no more than what was seen.

    No node that takes pods is no CPU and no memory; of what nodes do not tell, 0 says nothing.
    """
    stated, seen = cluster.spec.capacity, cluster.status.seen
    if seen is None:
        return stated
    found = {}
    for name in DIMENSIONS:
        says, has = getattr(stated, name), getattr(seen.capacity, name)
        told = has > 0 or name in _NODES_TELL
        found[name] = (min(says, has) if says else has) if told else says
    return Amounts(**found)


_NODES_TELL = frozenset({"cpu_milli", "memory_mib"})


def as_seen(cluster: Cluster) -> ClusterSpec:
    """Return the spec with what the cluster has by what is stated and what was seen of its nodes."""
    if cluster.status.seen is None:
        return cluster.spec
    return msgspec.structs.replace(cluster.spec, capacity=capacity_of(cluster))


def others_of(cluster: Cluster) -> Amounts:
    """Return what pods take that are of no run; nothing where nobody has looked."""
    return Amounts() if cluster.status.seen is None else cluster.status.seen.others
