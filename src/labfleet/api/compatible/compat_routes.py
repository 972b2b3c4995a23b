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
from labfleet.api.core.route import SMALL, Key, Routes
from labfleet.api.kinds.kind_routes import Cursor, Limit, Namespace
from labfleet.kernel import clock, errors
from labfleet.resources.cluster import Simulation, SimulationPhase
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.session import ResourceObservation
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import listing
from labfleet.service.verbs import admission, observations
from labfleet.service.verbs import lifecycle as verbs

Id = Annotated[str, PathParameter(description="Name or uid.")]
Newest = Annotated[
    int,
    QueryParameter(
        name="limit", ge=1, le=observations.LIST_LIMIT, description="How many of the newest."
    ),
]
_OTHER_SPELLING = {"durationSeconds": "duration_seconds"}
OBSERVATION_BYTES = 8 * 2**20
"""An observation names every node, interface and port of the largest lab, in a line for each."""
OBSERVATION_VALUES = 200_000
RUN_BYTES = admission.PARAMS_BYTES + SMALL


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
    observed_at: When the lab was last observed.
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


class RunBody(SeedRecord, frozen=True, kw_only=True):
    """What a simulation needs; `cost` is declared by the caller. Other keys count as params.

    Without them, the cluster is `default`, the duration an hour and the owner the caller.

    cost: What the simulation needs, as the caller declares it.
    cluster: Name of the cluster that it asks to run on.
    duration_seconds: How long it may hold what it gets.
    owner: Whose run it is.
    params: What the runner wants to remember of it.
    """

    cost: dict[str, Any]
    cluster: str | msgspec.UnsetType = msgspec.UNSET
    duration_seconds: int | msgspec.UnsetType = msgspec.UNSET
    owner: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class RunReply(SeedRecord, frozen=True, kw_only=True):
    """The decision. `record` names the Simulation that keeps it, also when denied.

    decision: What was decided: approved or denied.
    simulation_id: Id to complete the run by; null when denied.
    reasons: Words for why it was denied.
    message: The decision in a sentence.
    record: Name of the Simulation that keeps the decision, also when denied.
    expires_at: When the approval ends by itself; null when denied.
    """

    decision: str
    simulation_id: str | None
    reasons: tuple[str, ...]
    message: str
    record: str
    expires_at: datetime | None


class CompleteBody(SeedRecord, frozen=True, kw_only=True):
    """Which simulation ended.

    simulation_id: Id of the run, as its approval gave it.
    """

    simulation_id: str


class CompleteReply(SeedRecord, frozen=True, kw_only=True):
    """The simulation's outcome: completed, expired or denied.

    simulation_id: Id of the run.
    status: How it ended: completed, expired or denied.
    """

    simulation_id: str
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
    """Return all of them but for the two streams, which are in `streams`."""
    made = Routes("seeds")
    _sessions(made, services)
    _definitions(made, services)
    _workers(made, services)
    _simulations(made, services)
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
        return ObservationReply(
            session_id=session.name,
            observation_count=session.status.observation_count,
            port_drift_detected=session.status.port_drift_detected,
            observed_at=session.status.observed_at,
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
                "observed_resources": each.status.observed_resources,
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


def _simulations(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/request_run", "May this simulation start?",
        needs=("admit", "Simulation"), prepare=_with_params, limit=RUN_BYTES,
    )  # fmt: skip
    async def request_run(who: Caller, sent: RunBody, idempotency_key: Key = None) -> RunReply:
        """Decide whether a simulation may start, and reserve what it needs if it may."""
        given = msgspec.to_builtins(sent)
        if "duration_seconds" in given:
            given["durationSeconds"] = given.pop("duration_seconds")
        return run_reply(
            await admission.request_run(
                services, who, given, namespace=DEFAULT_NAMESPACE, key=idempotency_key
            )
        )

    @made.post(
        "/simulation_complete", "This simulation ended",
        needs=("admit", "Simulation"), refuses=(errors.Gone,),
    )  # fmt: skip
    async def simulation_complete(who: Caller, sent: CompleteBody) -> CompleteReply:
        """Give back what an approved simulation holds; to repeat it changes nothing."""
        ended = await admission.simulation_complete(
            services, who, sent.simulation_id, DEFAULT_NAMESPACE
        )
        return CompleteReply(simulation_id=ended.name, status=ended.status.phase.lower())


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


def _with_params(sent: Any) -> Any:
    """Return a run's body with the caller's free parameters under `params`.

    `cost` must be there: a misspelt one would be taken for a parameter and cost nothing.
    """
    if not isinstance(sent, Mapping):
        return sent
    known: dict[str, Any] = {
        _OTHER_SPELLING.get(str(key), str(key)): value for key, value in sent.items()
    }
    if "cost" not in known:
        raise intake.invalid(("cost", "declare what the run needs, for example {cpu, memory}"))
    free = {key: known.pop(key) for key in list(known) if key not in RunBody.__struct_fields__}
    if free and isinstance(known.get("params"), Mapping):
        first = next(iter(free))[:64]
        what = f"unknown key{intake.hint(first, list(RunBody.__struct_fields__))}"
        raise intake.invalid((first, what), reason="UnknownField")
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
