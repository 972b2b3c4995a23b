"""The page of simulations: clusters against their targets, what waits, runs, and has ended.

Upstream 004 asks for it: queued with parameters and predicted cost, active with predicted and
really used amounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labfleet.resources.cluster import Cluster
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import usage
from labfleet.web import cluster_bars, simulation_rows
from labfleet.web.addresses import changed
from labfleet.web.cluster_bars import ClusterBars
from labfleet.web.simulation_rows import Chosen, SimulationRows
from labfleet.web.view import Asked, Tab

ROOT = "/simulations"
ASKS = frozenset({"on", "waiting", "active", "ended"})
"""What its query may have: the cluster whose runs are shown, and the first row of each table."""
CLUSTERS = 50
"""Clusters that are shown with their bars; the others have their pages."""


@dataclass(frozen=True, slots=True)
class SimulationsPage:
    """The page; `clusters` is None for callers who may not read them."""

    clusters: tuple[ClusterBars, ...] | None
    more_clusters: int
    choices: tuple[Tab, ...]
    runs: SimulationRows


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> SimulationsPage:
    """Return the page; Denied for callers who may read no simulation."""
    wanted = asked.last("on")
    runs = await simulation_rows.of(services, caller, asked, Chosen(cluster=wanted))
    clusters = [
        each
        for each in services.cache.all(Cluster)
        if access.sees(caller.principal, each) and wanted in {"", each.key.label}
    ]
    return SimulationsPage(
        clusters=await clusters_of(services, caller, clusters[:CLUSTERS]),
        more_clusters=max(0, len(clusters) - CLUSTERS),
        choices=_choices(services, caller, asked),
        runs=runs,
    )


def _choices(services: ServiceContext, caller: Caller, asked: Asked) -> tuple[Tab, ...]:
    """Return the links to the runs of one cluster; none where there is nothing to choose."""
    labels = [
        each.key.label for each in services.cache.all(Cluster)
        if access.sees(caller.principal, each)
    ][:CLUSTERS]  # fmt: skip
    if len(labels) < 2:
        return ()
    chosen = asked.last("on")

    def link(title: str, label: str) -> Tab:
        address = changed(Asked({}), on=label) if label else ROOT
        return Tab(title, "" if chosen == label else address)

    return (link("All clusters", ""), *(link(each, each) for each in labels))


async def clusters_of(
    services: ServiceContext, caller: Caller, found: Sequence[Cluster]
) -> tuple[ClusterBars, ...] | None:
    """Return the bars of clusters with what was measured of each; None who may not read them."""
    if not access.may(caller.principal, "read", "Cluster"):
        return None
    if not found:
        return ()
    rows, _ = await usage.clusters(services, caller)
    by_name = {(each.namespace, each.name): each for each in rows}
    return tuple(
        cluster_bars.of(services, each, by_name.get((each.namespace, each.name))) for each in found
    )
