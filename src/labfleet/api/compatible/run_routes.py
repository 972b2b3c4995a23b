"""The routes of upstream 004, by which a run asks whether it may start, and reports life and end.

Bodies are in snake_case, as run scripts write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.api.core.route import SMALL, Key, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.decisions.admission.targets import NEVER_FITS
from labfleet.kernel import errors
from labfleet.resources.amounts import DIMENSIONS
from labfleet.resources.queue import DEFAULT_QUEUE
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import outlook
from labfleet.service.verbs import admission

RUN_BYTES = admission.PARAMS_BYTES + SMALL
_OTHER_SPELLING = {"durationSeconds": "duration_seconds", "ttlSeconds": "ttl_seconds"}


class RunBody(SeedRecord, frozen=True, kw_only=True):
    """What a simulation is; every key that is not one of these counts as a parameter.

    Without them, the cluster is `default` and the owner the caller; a cost and a duration that
    are left out are predicted from past runs. With a `params` object no other key is a parameter.

    cost: What the simulation needs, as far as the caller states it.
    cluster: Name of the cluster that it asks to run on.
    params: What makes this run what it is, such as chart and nodecount.
    queue: Whether it may wait: true for queue `default`, or the name of a queue.
    priority: Which of those that wait come first: the greater number.
    owner: Whose run it is.
    duration_seconds: How long it may hold what it gets.
    ttl_seconds: How often the caller will report that it lives; only then it owes reports.
    key: Same key and body, same answer, as by the header Idempotency-Key.
    """

    cost: dict[str, Any] | None = None
    cluster: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    queue: bool | str = False
    priority: int = 0
    owner: str | msgspec.UnsetType = msgspec.UNSET
    duration_seconds: int | None = None
    ttl_seconds: int | None = None
    key: str | None = None


class StartRange(SeedRecord, frozen=True, kw_only=True):
    """Between when and when a waiting run starts.

    earliest: Not before this.
    latest: Not after this; null when that is not known.
    coverage: Share of such ranges that hold the start; null when durations are only declared.
    """

    earliest: datetime
    latest: datetime | None
    coverage: float | None


class RunReply(SeedRecord, frozen=True, kw_only=True):
    """The decision. `record` names the Simulation that keeps it, also when denied.

    decision: What was decided: approved, denied or queued.
    simulation_id: Id to report the run by; null when denied.
    reasons: Words for why it was denied or waits.
    message: The decision in a sentence.
    evidence: What is known of the run's cost, and from what.
    predicted: Upper bounds of what it needs, in base units.
    record: Name of the Simulation that keeps the decision, also when denied.
    expires_at: When the approval ends by itself; null when nothing is approved.
    take_up_by: By when an approval has to be taken up by a heartbeat; null when it need not be.
    position: Its place in its queue, 1 for the next one; null when it does not wait, or that is not
    known yet.
    start_range: Between when and when it starts, and how sure that is; null when nobody can tell,
    or not yet.
    """

    decision: str
    simulation_id: str | None
    reasons: tuple[str, ...]
    message: str
    record: str
    expires_at: datetime | None
    evidence: tuple[str, ...] = ()
    predicted: dict[str, int] = {}
    take_up_by: datetime | None = None
    position: int | None = None
    start_range: StartRange | None = None


class CompleteBody(SeedRecord, frozen=True, kw_only=True):
    """Which simulation ended, and how.

    simulation_id: Id of the run, as its approval gave it.
    status: How it ended: completed, failed or cancelled.
    observed: What it used, by the caller's word: a peak by figure, or peak, mean, median and p95.
    """

    simulation_id: str
    status: str = "completed"
    observed: dict[str, Any] = {}


class CompleteReply(SeedRecord, frozen=True, kw_only=True):
    """The simulation's outcome.

    simulation_id: Id of the run.
    status: How it ended: completed, failed, cancelled, expired or denied.
    """

    simulation_id: str
    status: str


class HeartbeatBody(SeedRecord, frozen=True, kw_only=True):
    """Which simulation lives.

    simulation_id: Id of the run, as its approval gave it.
    """

    simulation_id: str


class HeartbeatReply(SeedRecord, frozen=True, kw_only=True):
    """Until when the run counts as living.

    simulation_id: Id of the run.
    status: Always running.
    lease_until: Until when this report counts; null when none is owed.
    expires_at: When the approval ends by itself.
    """

    simulation_id: str
    status: str
    lease_until: datetime | None
    expires_at: datetime | None


def routes(services: ServiceContext) -> Routes:
    """Return the routes by which runs ask, report and end."""
    made = Routes("seeds")

    @made.post(
        "/request_run", "May this simulation start?",
        needs=("admit", "Simulation"), prepare=_with_params, limit=RUN_BYTES, direct=True,
    )  # fmt: skip
    async def request_run(
        who: Caller, sent: RunBody, idempotency_key: Key = None, namespace: Namespace = "default"
    ) -> RunReply:
        """Decide whether a simulation may start, and reserve what it needs if it may.

        Cluster, queue and record are of one namespace; in the body that word is a parameter.
        """
        if idempotency_key is not None and sent.key not in {None, idempotency_key}:
            raise intake.invalid(("key", "differs from the header Idempotency-Key; keep one"))
        body, key = _spec_body(sent), idempotency_key or sent.key
        try:
            made = await admission.request_run(services, who, body, namespace=namespace, key=key)
        except errors.Invalid as problem:
            raise _as_sent(problem) from None
        return run_reply(made, await _outlook(services, made))

    @made.post(
        "/simulation_heartbeat", "This simulation lives",
        needs=("admit", "Simulation"), refuses=(errors.Gone,), direct=True,
    )  # fmt: skip
    async def simulation_heartbeat(
        who: Caller, sent: HeartbeatBody, namespace: Namespace = "default"
    ) -> HeartbeatReply:
        """Take an approval up, and keep the run's lease; owed by callers that sent ttl_seconds."""
        found = await admission.simulation_heartbeat(services, who, sent.simulation_id, namespace)
        held = found.status.reservation
        return HeartbeatReply(
            simulation_id=found.name,
            status=found.status.phase.lower(),
            lease_until=found.status.lease_until,
            expires_at=None if held is None else held.end,
        )

    @made.post(
        "/simulation_complete", "This simulation ended",
        needs=("admit", "Simulation"), refuses=(errors.Gone,), direct=True,
    )  # fmt: skip
    async def simulation_complete(
        who: Caller, sent: CompleteBody, namespace: Namespace = "default"
    ) -> CompleteReply:
        """Give back what an approved simulation holds; to repeat it changes nothing."""
        ended = await admission.simulation_complete(
            services,
            who,
            sent.simulation_id,
            namespace,
            status=sent.status,
            observed=sent.observed,
        )
        return CompleteReply(simulation_id=ended.name, status=ended.status.phase.lower())

    return made


async def _outlook(services: ServiceContext, made: Simulation) -> outlook.Outlook | None:
    """Return when a stored request starts; None where that is not known now.

    Its caller is answered all the same: the request waits, and a refusal would say it does not.
    """
    if made.status.phase is not SimulationPhase.QUEUED:
        return None
    try:
        await services.reached(made.revision)
        return await outlook.of(services, made)
    except errors.Temporary:
        return None


def run_reply(made: Simulation, waits: outlook.Outlook | None = None) -> RunReply:
    """Return upstream 004's answer for a recorded decision."""
    decision, phase = made.status.decision, made.status.phase
    outcome = "waiting" if decision is None else decision.outcome
    reasons: tuple[str, ...] = ()
    message = "" if decision is None else decision.message
    if decision is None and phase is not SimulationPhase.QUEUED:
        # Ended before anybody decided: it may not start, and asking under its key does not help.
        outcome, reasons = "denied", (phase.title(),)
        message = made.status.note or f"it is {phase.lower()}: nobody had decided"
    if decision is not None:
        reasons = decision.candidates[0].reasons if decision.candidates else ()
        # What never fits says so first: asking again does not help.
        never = decision.reason == NEVER_FITS
        reasons = (decision.reason, *reasons) if never or not reasons else reasons
    held = made.status.reservation
    return RunReply(
        decision={"waiting": "queued"}.get(outcome, outcome),
        simulation_id=None if outcome == "denied" else made.name,
        reasons=reasons,
        message=message,
        evidence=made.status.evidence,
        predicted={}
        if decision is None
        else {name: value for name in DIMENSIONS if (value := getattr(decision.requested, name))},
        record=made.name,
        expires_at=None if held is None else held.end,
        take_up_by=made.status.take_up_by,
        position=None if waits is None else waits.position,
        start_range=None
        if waits is None or waits.earliest is None
        else StartRange(earliest=waits.earliest, latest=waits.latest, coverage=waits.coverage),
    )


def _spec_body(sent: RunBody) -> dict[str, Any]:
    """Return the fields of a Simulation's spec, without those that the caller left out."""
    queue = DEFAULT_QUEUE if sent.queue is True else sent.queue or None
    given = {
        "cluster": sent.cluster,
        "params": sent.params,
        # An empty cost states nothing, so it is not a cost of nothing.
        "cost": sent.cost or None,
        "queue": queue,
        "priority": sent.priority,
        "owner": sent.owner,
        "durationSeconds": sent.duration_seconds,
        "ttlSeconds": sent.ttl_seconds,
    }
    return {name: value for name, value in given.items() if value not in (None, msgspec.UNSET)}


def _as_sent(problem: errors.Invalid) -> errors.Invalid:
    """Return the problem with the keys as they were sent, which stand in a spec otherwise."""
    found = []
    for where, what in problem.problems:
        key, dot, rest = where.removeprefix("spec.").partition(".")
        found.append((_OTHER_SPELLING.get(key, key) + dot + rest, what))
    return intake.invalid(*found, reason=problem.reason) if found else problem


def _with_params(sent: Any) -> Any:
    """Return a run's body with the caller's free parameters under `params`."""
    if not isinstance(sent, Mapping):
        return sent
    known: dict[str, Any] = {
        _OTHER_SPELLING.get(str(key), str(key)): value for key, value in sent.items()
    }
    free = {key: known.pop(key) for key in list(known) if key not in RunBody.__struct_fields__}
    if free and "params" in known:
        first = next(iter(free))[:64]
        what = f"unknown key beside params{intake.hint(first, list(RunBody.__struct_fields__))}"
        raise intake.invalid((first, what), reason="UnknownField")
    return {**known, "params": free} if free else known
