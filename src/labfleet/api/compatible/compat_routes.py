"""The compatible routes, thin: each calls the verb that the product's own route calls.

Their bodies are in snake_case, as compatible clients write them; `{id}` is an object's name or uid.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar.params import PathParameter, QueryParameter

from labfleet.api.compatible import compat_views
from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Cursor, Limit, Namespace
from labfleet.kernel import clock
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import ResourceObservation
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import listing
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import observations

Id = Annotated[str, PathParameter(description="Name or uid.")]
Newest = Annotated[
    int,
    QueryParameter(
        name="limit", ge=1, le=observations.LIST_LIMIT, description="How many of the newest."
    ),
]
OBSERVATION_BYTES = 8 * 2**20
"""An observation names every node, interface and port of the largest lab, in a line for each."""
OBSERVATION_VALUES = 200_000


class SeedRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of bodies and replies under the compatible names: snake_case."""


class ObservationBody(SeedRecord, frozen=True, kw_only=True):
    """What the lab controller saw (upstream 000).

    What is left out or null was not seen, and stays as it was known. `observed_at` needs a zone.

    observed_resources: What the lab really uses, in upstream 000's form.
    observed_ports: Port name to number, as seen on the server.
    """

    observed_resources: dict[str, Any] | None = None
    observed_ports: dict[str, int] | None = None


class ObservationReply(SeedRecord, frozen=True, kw_only=True):
    """What was done with the observation.

    session_id: Name of the session.
    observation_count: How often its lab was observed.
    port_drift_detected: Whether the ports on the server differ from those given.
    observed_at: When the lab was observed.
    """

    session_id: str
    observation_count: int
    port_drift_detected: bool
    observed_at: datetime | None


class RequestedReply(SeedRecord, frozen=True, kw_only=True):
    """The observation was asked for; the lab controller makes it.

    session_id: Name of the session.
    status: Always requested.
    """

    session_id: str
    status: str


class FiguresReply(SeedRecord, frozen=True, kw_only=True):
    """What sessions of a definition used; figures are null when never observed.

    definition_id: Name of the definition.
    observation_count: Observations of its sessions.
    sessions: What each observed session used.
    aggregate: Least, mean and greatest of each figure; null when never observed.
    port_drift_sessions: Sessions whose ports differed from those given.
    """

    definition_id: str
    observation_count: int
    sessions: list[dict[str, Any]]
    aggregate: dict[str, dict[str, float | None]]
    port_drift_sessions: tuple[str, ...]


class FlatWorkers(SeedRecord, frozen=True, kw_only=True):
    """A page of upstream 002's flat workers.

    items: The workers of this page.
    cursor: Place in the log up to which the page knows.
    next: Value of `cursor` for the next page; null when this is the last.
    total: Number of workers on all pages.
    """

    items: list[dict[str, Any]]
    cursor: str
    next: str | None
    total: int


def routes(services: ServiceContext) -> Routes:
    """Return those of upstream 000 and 002; simulations are in `run_routes`, streams in `streams`."""
    made = Routes("seeds")
    _sessions(made, services)
    _definitions(made, services)
    _workers(made, services)
    return made


def _sessions(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/lablet-sessions/{id_:str}/observe-resources", "Ask for an observation",
        needs=("observe", "Session"), status=202,
    )  # fmt: skip
    async def observe_resources(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> RequestedReply:
        """Ask the lab controller to look at the session's lab; the session shows it later."""
        session = await verbs.observe(services, who, id_, namespace)
        return RequestedReply(session_id=session.name, status="requested")

    @made.post(
        "/api/internal/lablet-sessions/{id_:str}/resource-observations", "Record an observation",
        needs=("record", "Session"), limit=OBSERVATION_BYTES, values=OBSERVATION_VALUES,
    )  # fmt: skip
    async def record_observation(
        who: Caller, id_: Id, sent: ObservationBody, namespace: Namespace = "default"
    ) -> ObservationReply:
        """Keep what another program saw of a session's lab, and compare the ports."""
        resources = None
        if sent.observed_resources is not None:
            given = {
                "observer": who.principal.name,
                "observed_at": clock.format_instant(services.clock.now()),
                **sent.observed_resources,
            }
            resources = intake.record(ResourceObservation, _camel_keys(given))
        session = await observations.record(
            services, who, id_, namespace, resources=resources, ports=sent.observed_ports
        )
        looked = session.status.observed_at if resources is None else resources.observed_at
        return ObservationReply(
            session_id=session.name,
            observation_count=session.status.observation_count,
            port_drift_detected=session.status.port_drift_detected,
            observed_at=looked,
        )


def _definitions(made: Routes, services: ServiceContext) -> None:
    @made.get(
        "/api/lablet-definitions/{id_:str}/resource-observations",
        "What sessions of a definition used", needs=("read", "Definition"),
    )  # fmt: skip
    async def definition_observations(
        who: Caller, id_: Id, limit: Newest = 20, namespace: Namespace = "default"
    ) -> FiguresReply:
        """Return what the newest observed sessions of a definition used, and their averages."""
        found = await observations.summary(services, who, id_, namespace, limit=limit)
        shown = [
            {
                "session_id": each.name,
                "observed_at": each.status.observed_at,
                "observation_count": each.status.observation_count,
                "observed_resources": compat_views.observation(each),
                "observed_usage": observations.usage(each),
                "observed_ports": each.status.observed_ports,
                "port_drift_detected": each.status.port_drift_detected,
            }
            for each in found.sessions
        ]
        aggregate = found.aggregate
        return FiguresReply(
            definition_id=found.definition.name,
            observation_count=len(found.sessions),
            sessions=shown,
            aggregate={
                name: msgspec.to_builtins(getattr(aggregate, name))
                for name in aggregate.__struct_fields__
            },
            port_drift_sessions=found.drifted,
        )


def _workers(made: Routes, services: ServiceContext) -> None:
    row = KINDS["Worker"]

    @made.get("/api/internal/workers", "List workers, flat", needs=("read", "Worker"))
    async def internal_workers(who: Caller, limit: Limit = 100, cursor: Cursor = "") -> FlatWorkers:
        """Return one page of the workers, each as the one flat record of upstream 002."""
        query = listing.Query(limit=limit, cursor=cursor)
        page = await listing.listed(services, who, row, query)
        items = [
            compat_views.flat_worker(services, each)
            for each in page.items
            if isinstance(each, Worker)
        ]
        return FlatWorkers(items=items, cursor=str(page.at), next=page.next, total=page.total)

    @made.get("/api/internal/workers/{id_:str}", "Read a worker, flat", needs=("read", "Worker"))
    async def internal_worker(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> dict[str, Any]:
        """Return one worker by its name or uid, as the one flat record of upstream 002."""
        await services.fresh()
        worker = await lookup.found(services, who, Worker, id_, namespace)
        return compat_views.flat_worker(services, worker)


def _camel_keys(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an observation with camelCase keys; names of ports and counters stay."""
    made: dict[str, Any] = {}
    for key, value in raw.items():
        head, *rest = key.split("_")
        name = head + "".join(part.title() for part in rest)
        if key in {"nodes", "interfaces"} and isinstance(value, list):
            made[name] = [_camel_keys(v) if isinstance(v, Mapping) else v for v in value]
        else:
            made[name] = value
    return made
