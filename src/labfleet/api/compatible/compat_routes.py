"""The compatible routes, thin: each calls the verb that the product's own route calls.

Their bodies are in snake_case, as compatible clients write them; `{id}` is an object's name or uid.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter

from labfleet.api.core.endpoints import Ask, Key, RouteDoc, body, caller, endpoint, record, reply
from labfleet.api.kinds.kind_routes import Cursor, Limit, Namespace, list_reply, list_type
from labfleet.kernel import clock
from labfleet.resources.cluster import Simulation, SimulationPhase
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import ResourceObservation
from labfleet.resources.worker import Worker
from labfleet.service.core import access, intake, lookup
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import listing
from labfleet.service.verbs import admission, observations
from labfleet.service.verbs import lifecycle as verbs

Id = Annotated[str, PathParameter(description="Name or uid.")]
Newest = Annotated[int, QueryParameter(name="limit", ge=1, le=observations.LIST_LIMIT)]
_RUN_FIELDS = ("cluster", "cost", "durationSeconds", "owner", "params")


class SeedRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of bodies and replies under the compatible names: snake_case."""


class ObservationBody(SeedRecord, frozen=True, kw_only=True):
    """What the lab controller saw (upstream 000)."""

    observed_resources: dict[str, Any] | None = None
    observed_ports: dict[str, int] = {}


class ObservationReply(SeedRecord, frozen=True, kw_only=True):
    """What was done with the observation."""

    session_id: str
    observation_count: int
    port_drift_detected: bool
    observed_at: datetime | None


class RequestedReply(SeedRecord, frozen=True, kw_only=True):
    """The observation was asked for; the lab controller makes it."""

    session_id: str
    status: str


class RunBody(SeedRecord, frozen=True, kw_only=True):
    """What a simulation needs; `cost` is declared by the caller. Other keys count as params."""

    cost: dict[str, Any]
    cluster: str = "default"
    duration_seconds: int = 3600
    owner: str = ""
    params: dict[str, Any] = {}


class RunReply(SeedRecord, frozen=True, kw_only=True):
    """The decision. `record` names the Simulation that keeps it, also when denied."""

    decision: str
    simulation_id: str | None
    reasons: tuple[str, ...]
    message: str
    record: str
    expires_at: datetime | None


class CompleteBody(SeedRecord, frozen=True, kw_only=True):
    """Which simulation ended."""

    simulation_id: str


class CompleteReply(SeedRecord, frozen=True, kw_only=True):
    """The simulation's outcome: completed, expired or denied."""

    simulation_id: str
    status: str


class FiguresReply(SeedRecord, frozen=True, kw_only=True):
    """What sessions of a definition used; figures are null when never observed."""

    definition_id: str
    observation_count: int
    sessions: list[dict[str, Any]]
    aggregate: dict[str, dict[str, float | None]]
    port_drift_sessions: tuple[str, ...]


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return all of them; the two streams are `front`'s."""
    return [
        *_sessions(services),
        *_definitions(services),
        *_workers(services),
        *_simulations(services),
    ]


def _sessions(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def observe(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        session = await verbs.observe(services, caller(request), id_, namespace)
        return reply(RequestedReply(session_id=session.name, status="requested"), status=202)

    async def observed(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        who = caller(request)
        sent = await record(request, ObservationBody)
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
        return reply(
            ObservationReply(
                session_id=session.name,
                observation_count=session.status.observation_count,
                port_drift_detected=session.status.port_drift_detected,
                observed_at=session.status.observed_at,
            )
        )

    ask = RouteDoc(reply=RequestedReply)
    tell = RouteDoc(body=ObservationBody, reply=ObservationReply)
    return [
        endpoint("POST", "/api/lablet-sessions/{id_:str}/observe-resources", observe,
                 name="observeResources", tag="seeds", status=202,
                 summary="Ask for an observation", shape=ask),
        endpoint("POST", "/api/internal/lablet-sessions/{id_:str}/resource-observations", observed,
                 name="recordObservation", tag="seeds",
                 summary="Record an observation", shape=tell),
    ]  # fmt: skip


def _definitions(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def figures(
        request: Ask, id_: Id, limit: Newest = 20, namespace: Namespace = "default"
    ) -> Response[bytes]:
        found = await observations.summary(services, caller(request), id_, namespace, limit=limit)
        shown = [
            {
                "session_id": each.name,
                "observed_at": each.status.observed_at,
                "observation_count": each.status.observation_count,
                "observed_resources": each.status.observed_resources,
                "observed_ports": each.status.observed_ports,
                "port_drift_detected": each.status.port_drift_detected,
            }
            for each in found.sessions
        ]
        aggregate = found.aggregate
        return reply(
            FiguresReply(
                definition_id=found.definition.name,
                observation_count=len(found.sessions),
                sessions=shown,
                aggregate={
                    name: msgspec.to_builtins(getattr(aggregate, name))
                    for name in aggregate.__struct_fields__
                },
                port_drift_sessions=found.drifted,
            )
        )

    return [
        endpoint("GET", "/api/lablet-definitions/{id_:str}/resource-observations", figures,
                 name="definitionObservations", tag="seeds",
                 summary="What sessions of a definition used", shape=RouteDoc(reply=FiguresReply)),
    ]  # fmt: skip


def _workers(services: ServiceContext) -> list[HTTPRouteHandler]:
    row = KINDS["Worker"]

    async def list_(request: Ask, limit: Limit = 100, cursor: Cursor = "") -> Response[bytes]:
        query = listing.Query(limit=limit, cursor=cursor)
        return reply(list_reply(row, await listing.listed(services, caller(request), row, query)))

    async def get(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        who = caller(request)
        access.demand(who.principal, "read", "Worker")
        return reply(await lookup.found(services, who, Worker, id_, namespace))

    return [
        endpoint("GET", "/api/internal/workers", list_, name="internalWorkers", tag="seeds",
                 summary="List workers", shape=RouteDoc(reply=list_type(row))),
        endpoint("GET", "/api/internal/workers/{id_:str}", get, name="internalWorker", tag="seeds",
                 summary="Read a worker", shape=RouteDoc(reply=Worker)),
    ]  # fmt: skip


def _simulations(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def request_run(request: Ask, idempotency_key: Key = None) -> Response[bytes]:
        who = caller(request)
        made = await admission.request_run(
            services,
            who,
            _run(await body(request)),
            namespace=DEFAULT_NAMESPACE,
            key=idempotency_key,
        )
        return reply(run_reply(made))

    async def complete(request: Ask) -> Response[bytes]:
        who = caller(request)
        sent = await record(request, CompleteBody)
        ended = await admission.simulation_complete(
            services, who, sent.simulation_id, DEFAULT_NAMESPACE
        )
        return reply(CompleteReply(simulation_id=ended.name, status=ended.status.phase.lower()))

    return [
        endpoint("POST", "/request_run", request_run, name="requestRun", tag="seeds",
                 summary="May this simulation start?", shape=RouteDoc(body=RunBody, reply=RunReply)),
        endpoint("POST", "/simulation_complete", complete, name="simulationComplete", tag="seeds",
                 summary="This simulation ended",
                 shape=RouteDoc(body=CompleteBody, reply=CompleteReply)),
    ]  # fmt: skip


def run_reply(made: Simulation) -> RunReply:
    """Return upstream 004's answer for a recorded decision."""
    approved = made.status.phase is not SimulationPhase.DENIED
    decision = made.status.decision
    reasons: tuple[str, ...] = ()
    if decision is not None:
        reasons = decision.candidates[0].reasons if decision.candidates else ()
        reasons = reasons or (decision.reason,)
    held = made.status.reservation
    return RunReply(
        decision="approved" if approved else "denied",
        simulation_id=made.name if approved else None,
        reasons=reasons,
        message="" if decision is None else decision.message,
        record=made.name,
        expires_at=None if held is None else held.end,
    )


def _run(sent: Any) -> dict[str, Any]:
    """Return a run's body with the caller's free parameters under `params`.

    `cost` must be there: a misspelt one would be taken for a parameter and cost nothing.
    """
    if not isinstance(sent, Mapping):
        raise intake.invalid(("body", "a JSON object is expected"))
    raw = {("durationSeconds" if k == "duration_seconds" else k): v for k, v in sent.items()}
    if "cost" not in raw:
        raise intake.invalid(("cost", "declare what the run needs, for example {cpu, memory}"))
    free = {key: value for key, value in raw.items() if key not in _RUN_FIELDS}
    known = {key: value for key, value in raw.items() if key in _RUN_FIELDS}
    params = known.get("params")
    if free and isinstance(params, Mapping):
        first = next(iter(free))
        what = f"unknown key{intake.hint(first[:64], list(_RUN_FIELDS))}"
        raise intake.invalid((first[:64], what), reason="UnknownField")
    return {**known, "params": free} if free else known


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
