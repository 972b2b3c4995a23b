"""The tabs of the pages of single objects beside the first one, by kind, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from labfleet.kernel import errors
from labfleet.resources.meta import Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.panels import clusters, simulation, topology
from labfleet.web.view import Asked, Panel, Tab


def _reads_runs(caller: Caller, _obj: Resource) -> bool:
    return access.may(caller.principal, "read", "Simulation")


PANELS: tuple[Panel, ...] = (
    Panel("Definition", "topology", "Topology", "panels/topology.html", topology.panel),
    Panel(
        "Simulation",
        "compared",
        "Predicted against observed",
        "panels/simulation_compared.html",
        simulation.compared,
    ),
    Panel(
        "Simulation", "evidence", "Evidence", "panels/simulation_evidence.html", simulation.evidence
    ),
    Panel("Cluster", "runs", "Runs", "panels/runs_of.html", clusters.of_cluster, _reads_runs),
    Panel("Queue", "use", "Use", "panels/queue_use.html", clusters.of_queue, _reads_runs),
)
FIRST = "Overview"
"""The title of the tab that every object's page has."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The tabs of an object's page; of the open one its template and data, None for the first."""

    tabs: tuple[Tab, ...] = ()
    template: str | None = None
    panel: Any = None


async def opened(
    services: ServiceContext, caller: Caller, obj: Resource, asked: Asked, address: str
) -> Opened:
    """Return the tabs of an object's page, none when it has only the first; Gone for no tab of it."""
    wanted = asked.last("tab")
    there = [each for each in PANELS if each.kind == obj.kind and each.there(caller, obj)]
    chosen = next((each for each in there if each.name == wanted), None)
    if wanted and chosen is None:
        raise errors.Gone("This page has no such tab.")
    if not there:
        return Opened()
    join = "&" if "?" in address else "?"
    tabs = [Tab(FIRST, "" if chosen is None else address)]
    for each in there:
        where = f"{address}{join}{urlencode({'tab': each.name})}"
        tabs.append(Tab(each.title, "" if each is chosen else where))
    if chosen is None:
        return Opened(tuple(tabs))
    panel = await chosen.make(services, caller, obj, asked)
    return Opened(tuple(tabs), chosen.template, panel)
