"""Admission of simulations: ask, take up, report life and end, end what nobody reports.

Who decides is in `deciding`: here a request joins the line of this process or, when the decider
is elsewhere, is stored as QUEUED and waited for (upstream 004, facts/upstream.md#gate).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from labfleet.decisions import run_pods
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.cluster import capacity_of
from labfleet.resources.history import FIGURES, Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Ref
from labfleet.resources.queue import DEFAULT_QUEUE, Queue
from labfleet.resources.simulation import (
    HOLDING,
    OPEN,
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.service.core import access, idempotency, intake, lookup
from labfleet.service.core.access import Role
from labfleet.service.core.asked_runs import Asked
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, retried
from labfleet.service.kinds import indices, past_runs, run_samples
from labfleet.service.kinds import queue as queue_rules
from labfleet.service.kinds.admitted import with_status
from labfleet.service.verbs.drafting import named

PARAMS_BYTES = 64 * 1024
LEASES = 3
"""How many of a run's `ttlSeconds` may pass without a report before it counts as lost."""
RECORDED = 2
"""A report is written when fewer than so many of them are left: not each one is an event."""
PRIORITY_OF_RUNNERS = 100
"""The greatest priority that a caller of role runner may ask for."""
ENDS = {
    "completed": SimulationPhase.COMPLETED,
    "failed": SimulationPhase.FAILED,
    "cancelled": SimulationPhase.CANCELLED,
}
"""How a caller may say that its run ended, and the phase that follows."""
_FIELDS = (
    "cluster", "params", "family", "cost", "durationSeconds", "owner", "queue", "priority",
    "ttlSeconds",
)  # fmt: skip
_KIND = KINDS["Simulation"]


async def request_run(
    services: ServiceContext,
    caller: Caller,
    body: Mapping[str, Any],
    *,
    namespace: str,
    key: str | None = None,
) -> Simulation:
    """Decide whether a simulation may run now; the answer is in its status.

    `body` has the fields of a Simulation's spec. An approved one holds what it needs until its end
    is reported, at most for its duration and a grace. A denied one is kept as a record; one with a
    queue waits in it. The same key gives the same answer. Temporary (reason Undecided) when nobody
    has decided in time: the same key finds the answer later.
    """
    access.demand(caller.principal, "admit", "Simulation")
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        first = unknown[0]
        raise intake.invalid((first[:64], f"unknown key{intake.hint(first[:64], list(_FIELDS))}"))
    found = idempotency.memo(caller, key, "request_run", namespace, body)
    if found is not None:
        before = await _answered(services, found)
        if before is not None:
            return before
    spec = await _queued(services, caller, _spec(caller, body), body, namespace)
    if services.asked.served:
        return await _decided_here(services, caller, spec, namespace, found)
    return await _decided_elsewhere(services, caller, spec, namespace, found)


async def simulation_complete(
    services: ServiceContext,
    caller: Caller,
    simulation_id: str,
    namespace: str,
    *,
    status: str = "completed",
    observed: Mapping[str, Any] | None = None,
) -> Simulation:
    """Release a simulation's capacity; repeating it is no error; Gone for an unknown id.

    `status` is one of ENDS. `observed` is what the run used, by its caller's word. A run whose
    approval has expired stays so, and what was observed of it is kept all the same.
    """
    access.demand(caller.principal, "admit", "Simulation")
    phase = ENDS.get(status)
    if phase is None:
        raise intake.invalid(("status", f"must be one of {', '.join(ENDS)}"))
    return await ended(
        services, caller, simulation_id, namespace, phase,
        observed=used(observed or {}), reported=True,
    )  # fmt: skip


async def simulation_heartbeat(
    services: ServiceContext, caller: Caller, simulation_id: str, namespace: str
) -> Simulation:
    """Note that a simulation's caller lives; its first report takes an approval up.

    Refused (reason NotApproved) for one that waits or is over: its caller must not go on.
    """
    access.demand(caller.principal, "admit", "Simulation")

    async def attempt() -> Simulation:
        old = await lookup.found(services, caller, Simulation, simulation_id, namespace)
        if old.status.phase not in HOLDING:
            message = f"simulation {old.name!r} is {old.status.phase}, it holds nothing"
            raise Refused(message, reason="NotApproved")
        new = alive(old, services.clock.now(), services.settings.now().admission.grace_seconds)
        if new is old:
            return old
        _, stored = await services.objects.save(new, cause=services.cause(caller, "Alive"))
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


async def expire(
    services: ServiceContext, caller: Caller, fence: stores.Fence | None = None
) -> int:
    """End every approval that is over, was not taken up or whose caller is lost; return how many.

    Otherwise a caller that died would hold capacity for ever. What waits too long ends too. One
    whose pods are known to be over ends as they did. A controller calls this.
    """
    now, cache = services.clock.now(), services.cache
    longest = timedelta(seconds=services.settings.now().admission.longest_wait_seconds)
    found: list[tuple[Simulation, str]] = []
    for path in cache.values(indices.SIMULATIONS_HOLDING):
        for each in cache.by(indices.SIMULATIONS_HOLDING, path):
            why = _expired(each, now)
            if why is not None:
                found.append((each, why))
    for path in cache.values(indices.SIMULATIONS_QUEUED):
        found += [
            (each, "it waited as long as a request may")
            for each in cache.by(indices.SIMULATIONS_QUEUED, path)
            if each.status.asked_at is not None and each.status.asked_at + longest <= now
        ]
    for each, why in sorted(found, key=lambda one: one[0].key):
        by_pods = run_pods.end(each.status)
        phase, note = by_pods or (SimulationPhase.EXPIRED, why)
        await ended(
            services, caller, each.name, each.namespace, phase,
            fence=fence, note=note, seen=by_pods is not None,
        )  # fmt: skip
    return len(found)


def used(observed: Mapping[str, Any]) -> dict[str, Use]:
    """Return what a caller says its run used; Invalid for what cannot be.

    A number is a peak; a mapping may give peak, mean, median and p95. Keys are those of
    `history.FIGURES` in camelCase, or upstream 004's peak_cpu_delta, peak_memory_delta (cores and
    GiB) and peak_network_delta (Mbit/s).
    """
    found: dict[str, Use] = {}
    for key, value in observed.items():
        name, factor = _figure(str(key))
        if isinstance(value, Mapping):
            given = {str(part): _number(f"observed.{key}.{part}", each) * factor
                     for part, each in value.items()}  # fmt: skip
            found[name] = intake.record(Use, given)
        else:
            found[name] = Use(peak=_number(f"observed.{key}", value) * factor)
    return found


_UPSTREAM = {
    "peak_cpu_delta": ("cpu_milli", 1000.0),
    "peak_memory_delta": ("memory_mib", 1024.0),
    "peak_network_delta": ("network_out_kbps", 1000.0),
}
_MOST = 2.0**50


def _figure(key: str) -> tuple[str, float]:
    """Return the figure of history.FIGURES that a key means, and the factor to its unit."""
    if key in _UPSTREAM:
        return _UPSTREAM[key]
    plain = "".join(f"_{each.lower()}" if each.isupper() else each for each in key)
    if plain in FIGURES:
        return plain, 1.0
    known = [*_UPSTREAM, *FIGURES]
    raise intake.invalid((f"observed.{key[:64]}", f"unknown key{intake.hint(key[:64], known)}"))


def _number(where: str, value: object) -> float:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not 0 <= value <= _MOST:  # type: ignore[operator]  # a number, by `real`
        raise intake.invalid((where, "must be a number from 0 on"))
    return float(value)  # type: ignore[arg-type]  # a number, by `real`


# --- asking --------------------------------------------------------------------------------


async def _decided_here(
    services: ServiceContext,
    caller: Caller,
    spec: SimulationSpec,
    namespace: str,
    memo: idempotency.Memo | None,
) -> Simulation:
    """Return the decision of this process's decider."""
    twin = None if memo is None else services.asked.under(memo.key)
    asked = None
    if twin is not None and memo is not None:
        if twin.digest != memo.digest:
            message = "the idempotency key was used for another request"
            raise Refused(message, reason="IdempotencyKeyReused")
        answer = twin.answer
    else:
        asked = Asked(
            spec=spec,
            namespace=namespace,
            actor=caller.principal.name,
            request_id=caller.request_id,
            key=None if memo is None else memo.key,
            digest="" if memo is None else memo.digest,
        )
        answer = services.asked.submit(asked)
    seconds = services.settings.now().admission.answer_seconds
    try:
        async with asyncio.timeout(seconds):
            # Shielded: the decision is made whether or not this caller still waits for it.
            return await asyncio.shield(answer)
    except (TimeoutError, asyncio.CancelledError) as left:
        if memo is None and asked is not None and not services.asked.leave(asked):
            # Without a key nobody could ever learn of an approval that is just being stored.
            made = await asyncio.shield(answer)
            if isinstance(left, TimeoutError):
                return made
            await _withdrawn(services, caller, made, undecided=False)
        if isinstance(left, TimeoutError):
            raise _undecided(seconds) from None
        raise
    except errors.Conflict:
        before = None if memo is None else await _answered(services, memo)
        if before is None:
            raise
        return before


async def _decided_elsewhere(
    services: ServiceContext,
    caller: Caller,
    spec: SimulationSpec,
    namespace: str,
    memo: idempotency.Memo | None,
) -> Simulation:
    """Store the request for the decider of another process and wait for its decision."""
    now = services.clock.now()
    status = SimulationStatus(asked_at=now, observed_generation=1)
    made = Simulation(metadata=named(services, namespace, now), spec=spec, status=status)
    writes = () if memo is None else (memo.write(services, made),)
    try:
        revision, _ = await services.objects.save(
            made, cause=services.cause(caller, "Asked"), writes=writes
        )
    except errors.Conflict:
        before = None if memo is None else await _answered(services, memo)
        if before is None:
            raise
        return before
    return await _awaited(services, caller, made, revision, keyed=memo is not None)


async def _awaited(
    services: ServiceContext, caller: Caller, made: Simulation, revision: int, *, keyed: bool
) -> Simulation:
    """Return a stored request once it is decided; without a key it is withdrawn when it is not."""
    seconds = float(services.settings.now().admission.answer_seconds)
    try:
        await services.reached(revision)
        found = await services.awaited.until(_KIND, made.key, seconds, _undecided_yet)
    except (asyncio.CancelledError, errors.LabfleetError):
        # Its caller gets no answer: without a key nobody could ever learn of an approval.
        if not keyed:
            await _withdrawn(services, caller, made)
        raise
    if isinstance(found, Simulation) and not _undecided_yet(found):
        return found
    if not keyed:
        left = await _withdrawn(services, caller, made)
        if left.status.decision is not None:
            return left
    raise _undecided(seconds)


def _undecided_yet(run: Simulation) -> bool:
    return run.status.decision is None and run.status.phase is SimulationPhase.QUEUED


async def _withdrawn(
    services: ServiceContext, caller: Caller, made: Simulation, *, undecided: bool = True
) -> Simulation:
    return await ended(
        services, caller, made.name, made.namespace, SimulationPhase.CANCELLED,
        note="its caller had left before the decision", undecided=undecided,
    )  # fmt: skip


async def _answered(services: ServiceContext, memo: idempotency.Memo) -> Simulation | None:
    """Return the decision under a key as it was made; None when the request is new.

    One that is stored is waited for until it is decided or over. Refused when its record is gone.
    """
    before = await idempotency.replayed(services, memo, "Simulation")
    if not isinstance(before, Simulation) or before.status.decision is not None:
        return before if isinstance(before, Simulation) else None
    found = await services.objects.get(Simulation, before.name, before.namespace)
    if found is None:
        message = f"simulation {before.name!r} of this key is gone undecided; ask under another key"
        raise Refused(message, reason="RecordGone")
    if not _undecided_yet(found):
        return found
    seconds = float(services.settings.now().admission.answer_seconds)
    now = await services.awaited.until(_KIND, found.key, seconds, _undecided_yet)
    if isinstance(now, Simulation) and not _undecided_yet(now):
        return now
    raise _undecided(seconds)


def _undecided(seconds: float) -> errors.Temporary:
    message = f"nobody decided within {seconds:g} s; ask again with the same key"
    return errors.Temporary(message, reason="Undecided", retry_after=2)


def _spec(caller: Caller, body: Mapping[str, Any]) -> SimulationSpec:
    raw = intake.shaped(_KIND, {"metadata": {"name": "x"}, "spec": dict(body)})
    spec = intake.spec_of(_KIND, raw, SimulationSpec)
    if len(msgspec.json.encode(spec.params)) > PARAMS_BYTES:
        raise intake.invalid(("params", f"at most {PARAMS_BYTES} bytes"))
    who = caller.principal
    if who.role is Role.RUNNER:
        if spec.owner not in {"", who.name}:
            raise intake.invalid(("owner", "you can ask for yourself only"))
        if spec.priority > PRIORITY_OF_RUNNERS:
            raise intake.invalid(("priority", f"at most {PRIORITY_OF_RUNNERS} for your role"))
    return msgspec.structs.replace(spec, owner=spec.owner or who.name)


async def _queued(
    services: ServiceContext,
    caller: Caller,
    spec: SimulationSpec,
    body: Mapping[str, Any],
    namespace: str,
) -> SimulationSpec:
    """Return the request as its queue takes it; refuse one that it does not take.

    `default` needs no object: without one it is the line of the cluster, shared by all.
    """
    if spec.queue is None:
        return spec
    ref = Ref(Queue, namespace, spec.queue)
    found = services.cache.find(ref) or await services.objects.find(ref)
    if found is None:
        if spec.queue == DEFAULT_QUEUE:
            return spec
        known = [each.name for each in services.cache.all(Queue) if each.namespace == namespace]
        what = f"queue {spec.queue[:64]!r} does not exist" + intake.hint(spec.queue[:64], known)
        raise intake.invalid(("queue", what), reason="UnknownName")
    if body.get("cluster") not in {None, found.spec.cluster}:
        what = f"queue {found.name} is for cluster {found.spec.cluster}; leave the cluster out"
        raise intake.invalid(("cluster", what))
    queue_rules.demand_use(services, caller, found, spec.owner)
    return msgspec.structs.replace(spec, cluster=found.spec.cluster)


# --- life and end --------------------------------------------------------------------------


def alive(
    old: Simulation, now: datetime, grace: int, *, tells: str = "its caller reports that it lives"
) -> Simulation:
    """Return the run after a sign that it lives, or the same one when nothing is worth writing."""
    status, ttl = old.status, old.spec.ttl_seconds
    changes: dict[str, object] = {}
    if status.phase is SimulationPhase.APPROVED:
        changes = {"phase": SimulationPhase.RUNNING, "started_at": now, "take_up_by": None}
    if ttl is not None:
        left = status.lease_until
        if left is None or left < now + RECORDED * timedelta(seconds=ttl):
            changes["lease_until"] = now + LEASES * timedelta(seconds=ttl)
    held = status.reservation
    if held is not None and held.end is not None and held.end < now + timedelta(seconds=grace):
        # It lives past what it asked for: it is given more time, not cut off.
        changes["reservation"] = _longer(held, now, grace)
        changes["note"] = f"runs longer than expected; {tells}"
    return with_status(old, **changes) if changes else old


def _longer(held: Reservation, now: datetime, grace: int) -> Reservation:
    return msgspec.structs.replace(held, end=now + timedelta(seconds=2 * grace))


def _expired(each: Simulation, now: datetime) -> str | None:
    """Return why an approval is over without a report; None when it is not."""
    status = each.status
    held = status.reservation
    if status.take_up_by is not None and status.take_up_by <= now:
        return "its caller did not take the approval up in time"
    if status.lease_until is not None and status.lease_until <= now:
        return "its caller no longer reported that it lives"
    over = held is not None and held.end is not None and held.end <= now
    return "its end was not reported in time" if over else None


async def ended(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    phase: SimulationPhase,
    *,
    fence: stores.Fence | None = None,
    note: str = "",
    observed: Mapping[str, Use] | None = None,
    reported: bool = False,
    seen: bool = False,
    undecided: bool = False,
) -> Simulation:
    """End a run that is not over; `undecided` leaves one alone that somebody has decided.

    `reported`: its caller says so; `seen`: its pods did. Only then it teaches: of a run that expired
    nobody knows what it used, and its caller may still tell.
    """
    newest = False

    async def attempt() -> Simulation:
        nonlocal newest
        old = await lookup.found(services, caller, Simulation, name, namespace, newest=newest)
        newest = True  # after a conflict, or where the cache says that there is nothing to do
        status = old.status
        late = status.phase is SimulationPhase.EXPIRED and reported and not status.reported
        if not late and (status.phase not in OPEN or (undecided and status.decision is not None)):
            return old
        new = with_status(
            old,
            phase=status.phase if late else phase,
            reservation=None,
            completed_at=status.completed_at if late else services.clock.now(),
            take_up_by=None,
            lease_until=None,
            used=await run_samples.at_end(services, old),
            prediction=None if status.prediction is None else status.prediction.over(),
            observed=dict(observed or {}),
            reported=reported,
            note=note or status.note,
        )
        _, stored = await services.objects.save(
            new,
            cause=services.cause(caller, _CAUSES.get(phase, "Completed")),
            writes=_taught(services, old, new) if reported or seen else (),
            fence=fence,
        )
        services.cache.wrote(stored[0])
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def _taught(services: ServiceContext, old: Simulation, new: Simulation) -> tuple[stores.Write, ...]:
    """Return the write that keeps the run in the history, if anything is known of it."""
    cluster = services.cache.find(refs.cluster_of(old))
    has = None if cluster is None else capacity_of(cluster)
    run = past_runs.of_simulation(old, new.status, has)
    return () if run is None else (stores.Teach(run),)


_CAUSES = {
    SimulationPhase.EXPIRED: "ApprovalExpired",
    SimulationPhase.FAILED: "Failed",
    SimulationPhase.CANCELLED: "Cancelled",
}
