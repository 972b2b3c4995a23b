"""The tabs of the pages of single objects beside the first one, by kind, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labfleet.kernel import errors
from labfleet.resources.meta import Resource
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import addresses
from labfleet.web.panels import (
    clusters,
    definition,
    labs,
    machine,
    measured_server,
    monitoring,
    objects,
    pools,
    ports,
    session_tabs,
    session_use,
    simulation,
    topology,
    webhook,
    worker_sessions,
)
from labfleet.web.view import Asked, Panel, Tab

_SHEET = "panels/sheet.html"


def _reads_runs(caller: Caller, _obj: Resource) -> bool:
    return access.may(caller.principal, "read", "Simulation")


PANELS: tuple[Panel, ...] = (
    Panel("Worker", "cml", "CML", _SHEET, measured_server.make),
    Panel("Worker", "monitoring", "Monitoring", "panels/monitoring.html", monitoring.make),
    Panel("Worker", "machine", "Machine", _SHEET, machine.make),
    Panel("Worker", "labs", "Labs", _SHEET, labs.make),
    Panel("Worker", "sessions", "Sessions", _SHEET, worker_sessions.make),
    Panel("Worker", "ports", "Ports", _SHEET, ports.make),
    Panel("Pool", "workers", "Workers", _SHEET, pools.workers),
    Panel("Pool", "sessions", "Sessions", _SHEET, pools.sessions),
    Panel("Pool", "history", "History", _SHEET, pools.history),
    Panel("Pool", "promises", "Promises", _SHEET, pools.promises),
    Panel("Session", "access", "Access", "panels/access.html", session_tabs.access),
    Panel("Session", "use", "Use", "panels/session_use.html", session_use.panel),
    Panel("Session", "ports", "Ports", "panels/ports.html", session_tabs.ports),
    Panel("Session", "decision", "Decision", "panels/decision.html", session_tabs.decision),
    Panel("Definition", "topology", "Topology", "panels/topology.html", topology.panel),
    Panel(
        "Definition",
        "observation",
        "Observation",
        "panels/definition_observation.html",
        definition.observation,
        definition.recommends,
    ),
    Panel(
        "Definition",
        "sessions",
        "Sessions",
        "panels/definition_sessions.html",
        definition.sessions,
    ),
    Panel(
        "Definition",
        "versions",
        "Versions",
        "panels/definition_versions.html",
        definition.versions,
    ),
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
    Panel("Webhook", "deliveries", "Deliveries", _SHEET, webhook.deliveries),
)
OF_ALL = (
    Panel("", "events", "Events", "panels/events.html", objects.happened),
    Panel("", "yaml", "YAML", "panels/yaml.html", objects.written),
)
"""The last tabs, which the page of every kind has."""
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
    """Return the tabs of an object's page; Gone when it has no such one."""
    wanted = asked.last("tab")
    mine = [each for each in PANELS if each.kind == obj.kind]
    there = [each for each in (*mine, *OF_ALL) if each.there(caller, obj)]
    chosen = next((each for each in there if each.name == wanted), None)
    if wanted and chosen is None:
        raise errors.Gone("This page has no such tab.")
    tabs = [Tab(FIRST, "" if chosen is None else address)]
    tabs += [
        Tab(each.title, "" if each is chosen else addresses.tab(address, each.name))
        for each in there
    ]
    if chosen is None:
        return Opened(tuple(tabs))
    panel = await chosen.make(services, caller, obj, asked)
    return Opened(tuple(tabs), chosen.template, panel)
