"""Admission of simulations to clusters: request, report the end, expire unreported ones.

The answer is recorded as a Simulation in the commit that holds its capacity; the cluster's
ledger row serialises concurrent requests (upstream 004, in a reduced form).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from labfleet.decisions.admission import sums
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.amounts import Reservation
from labfleet.resources.cluster import (
    Cluster,
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Metadata
from labfleet.service.core import access, idempotency, intake, ledger_rows, lookup
from labfleet.service.core.access import Role
from labfleet.service.core.service_context import Caller, ServiceContext, retried
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import referred, with_status

GRACE = timedelta(minutes=10)
PARAMS_BYTES = 64 * 1024
_FIELDS = ("cluster", "params", "cost", "durationSeconds", "owner")


async def request_run(
    services: ServiceContext,
    caller: Caller,
    body: Mapping[str, Any],
    *,
    namespace: str,
    key: str | None = None,
) -> Simulation:
    """Decide whether a simulation may run now; the answer is in its status.

    `body` has the fields of a Simulation's spec. An approved one holds its cost until its end
    is reported, at most for its duration and a grace. A denied one is kept as a record.
    """
    access.demand(caller.principal, "admit", "Simulation")
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        first = unknown[0]
        raise intake.invalid((first[:64], f"unknown key{intake.hint(first[:64], list(_FIELDS))}"))
    found = idempotency.memo(caller, key, "request_run", namespace, body)
    if found is not None:
        before = await idempotency.replayed(services, found, "Simulation")
        if isinstance(before, Simulation):
            return before
    spec = _spec(caller, body)

    async def attempt() -> Simulation:
        revision = await services.fresh()
        cluster = await referred(services, Cluster, spec.cluster, namespace, "cluster")
        made = _decided(services, spec, cluster, revision, namespace)
        row = ledger_rows.of(cluster.key)
        held = made.status.reservation is not None
        conditions: tuple[stores.Precondition, ...] = (
            stores.AtRevision(cluster.key, cluster.revision),
        )
        writes: tuple[stores.Write, ...] = ()
        if held:
            conditions = (*conditions, ledger_rows.untouched(row, revision))
            writes = (ledger_rows.touch(row),)
        if found is not None:
            writes = (*writes, found.write(services, made))
        reason = "Approved" if held else "Denied"
        try:
            _, stored = await services.objects.save(
                made, cause=services.cause(caller, reason), preconditions=conditions, writes=writes
            )
        except errors.Conflict:
            again = found and await idempotency.replayed(services, found, "Simulation")
            if isinstance(again, Simulation):
                return again
            raise
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    async with services.locks.of(ledger_rows.row("Cluster", spec.cluster, namespace)):
        return await retried(attempt)


async def simulation_complete(
    services: ServiceContext, caller: Caller, simulation_id: str, namespace: str
) -> Simulation:
    """Release a simulation's capacity; repeating it is no error; Gone for an unknown id."""
    access.demand(caller.principal, "admit", "Simulation")
    return await _ended(services, caller, simulation_id, namespace, SimulationPhase.COMPLETED)


async def expire(
    services: ServiceContext, caller: Caller, fence: stores.Fence | None = None
) -> int:
    """End every approval whose duration and grace are over; return how many.

    Otherwise a caller that died would hold capacity for ever. A controller calls this.
    """
    now = services.clock.now()
    count = 0
    clusters = services.cache.values(indices.SIMULATIONS_HOLDING)
    holding = [
        each
        for cluster in clusters
        for each in services.cache.by(indices.SIMULATIONS_HOLDING, cluster)
    ]
    for each in sorted(holding, key=lambda each: each.key):
        held = each.status.reservation
        if held is not None and held.end is not None and held.end <= now:
            phase, space = SimulationPhase.EXPIRED, each.metadata.namespace
            await _ended(services, caller, each.name, space, phase, fence=fence)
            count += 1
    return count


async def _ended(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    phase: SimulationPhase,
    *,
    fence: stores.Fence | None = None,
) -> Simulation:
    async def attempt() -> Simulation:
        old = await lookup.found(services, caller, Simulation, name, namespace)
        if old.status.phase is not SimulationPhase.APPROVED:
            return old
        new = with_status(old, phase=phase, reservation=None, completed_at=services.clock.now())
        reason = "Completed" if phase is SimulationPhase.COMPLETED else "ApprovalExpired"
        _, stored = await services.objects.save(
            new, cause=services.cause(caller, reason), fence=fence
        )
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


def _spec(caller: Caller, body: Mapping[str, Any]) -> SimulationSpec:
    raw = intake.shaped(KINDS["Simulation"], {"metadata": {"name": "x"}, "spec": dict(body)})
    spec = intake.typed(KINDS["Simulation"], raw).spec
    assert isinstance(spec, SimulationSpec)  # noqa: S101 - typed() made a Simulation
    if len(msgspec.json.encode(spec.params)) > PARAMS_BYTES:
        raise intake.invalid(("params", f"at most {PARAMS_BYTES} bytes"))
    who = caller.principal
    if who.role is Role.RUNNER and spec.owner not in {"", who.name}:
        raise intake.invalid(("owner", "you can ask for yourself only"))
    return msgspec.structs.replace(spec, owner=spec.owner or who.name)


def _decided(
    services: ServiceContext, spec: SimulationSpec, cluster: Cluster, revision: int, namespace: str
) -> Simulation:
    now, uid = services.clock.now(), services.ids.uid()
    name = f"sim-{uid.replace('-', '')[:20]}"
    holding = [
        each.status.reservation
        for each in services.cache.by(indices.SIMULATIONS_HOLDING, cluster.key.path)
        if each.status.reservation is not None
    ]
    decision = sums.admit(
        spec.cost,
        cluster=cluster.name,
        target=sums.targets(cluster.spec),
        active=holding,
        now=now,
        revision=revision,
    )
    approved = decision.outcome == "approved"
    end = now + timedelta(seconds=spec.duration_seconds) + GRACE
    held = Reservation(holder=name, amounts=spec.cost, start=now, end=end)
    status = SimulationStatus(
        phase=SimulationPhase.APPROVED if approved else SimulationPhase.DENIED,
        decision=decision,
        reservation=held if approved else None,
        decided_at=now,
        observed_generation=1,
    )
    metadata = Metadata(
        name=name, namespace=namespace, uid=uid, generation=1, creation_timestamp=now
    )
    return Simulation(metadata=metadata, spec=spec, status=status)
