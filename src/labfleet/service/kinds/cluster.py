"""The rules of clusters, and their explanation."""

from __future__ import annotations

from datetime import datetime

from labfleet.decisions import ledger, wording
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.cluster import Cluster, capacity_of
from labfleet.resources.cluster_access import WhenBlind
from labfleet.resources.cluster_conditions import ClusterCondition
from labfleet.service.core.explanation import Explanation, made
from labfleet.service.core.kind_table import KindRules
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cluster_rules, indices, machine_rules
from labfleet.service.kinds.cluster_mode import mode_of


async def _explain(services: ServiceContext, cluster: Cluster) -> Explanation:
    """Return what a cluster has, what runs hold of it, and how far its figures are known."""
    path, cache = cluster.key.path, services.cache
    live = cache.by(indices.SIMULATIONS_HOLDING, path)
    waiting = cache.count(indices.SIMULATIONS_QUEUED, path)
    held = ledger.total(r for each in live if (r := each.status.reservation) is not None)
    runs = f"Runs that hold something: {len(live)}, with {wording.amounts(held)}"
    said = (
        _figures(cluster),
        _capacity(cluster),
        f"{runs}. Requests that wait: {waiting}",
        _promise(cluster),
    )
    return made(
        cluster,
        phase=mode_of(cluster),
        since=_since(cluster),
        why=". ".join(each for each in said if each) + ".",
        conditions=cluster.status.conditions,
        decision=None,
        waits=[],
        deadline=None,
        where="",
    )


def _since(cluster: Cluster) -> datetime | None:
    found = conditions.find(cluster.status.conditions, ClusterCondition.SAFE_MODE)
    return cluster.metadata.creation_timestamp if found is None else found.last_transition_time


def _figures(cluster: Cluster) -> str:
    """Return by what requests are decided now."""
    mode = mode_of(cluster)
    if mode == "unmeasured":
        return "It names no source of metrics: predictions and declared values decide"
    names = ", ".join(each.name for each in cluster.spec.metrics)
    if mode == "measured":
        return f"Its figures come from {names}"
    if cluster.spec.when_blind is WhenBlind.DECLARED:
        return f"{names} is not to be relied on now: what callers declare decides"
    return f"{names} is not to be relied on now: every request is denied, those that wait stay"


def _capacity(cluster: Cluster) -> str:
    seen = cluster.status.seen
    has = wording.amounts(capacity_of(cluster))
    if seen is None:
        return f"It has {has}, as stated"
    nodes = f"{seen.usable} of {count(seen.nodes, 'node')} take pods"
    return f"It has {has}: {nodes}; pods of no run take {wording.amounts(seen.others)}"


def _promise(cluster: Cluster) -> str:
    realised, allowed = cluster.status.overload.realised, cluster.spec.overload_percent
    if realised is None:
        return ""
    return f"It was above a target {realised:.2%} of the time; {allowed:g} % are allowed"


RULES = KindRules(
    name="Cluster",
    create=cluster_rules.create,
    update=cluster_rules.update,
    delete=machine_rules.delete_cluster,
    explain=_explain,
)
