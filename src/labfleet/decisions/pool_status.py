"""What a pool's record says after a decision: counts, pause, lost machines, unmet demand.

Pure. `scaling` decides what happens to the pool's workers, `breaker` when a pool pauses itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from labfleet.decisions import scaling
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.pool import EVENTS_KEPT, PAUSED_MARK, Loss, Pool, PoolPhase, PoolStatus
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition


def tripped(pool: Pool, losses: tuple[Loss, ...], now: datetime, *, by: str) -> Pool:
    """Return the pool with its automatic pause, and a sentence on why and how to resume."""
    words = ", ".join(sorted({each.why for each in losses}))
    reason = PoolReason.NEVER_UP if words else PoolReason.MASS_TERMINATION
    told = f"{count(len(losses), 'machine')} ended from outside within 30 min"
    if words:
        told = f"{count(len(losses), 'worker')} in a row never came up ({words})"
    names = [each.worker for each in losses]
    metadata = msgspec.structs.replace(
        pool.metadata,
        generation=pool.metadata.generation + 1,
        annotations={
            **pool.metadata.annotations,
            PAUSED_MARK: f" since {utc_text(now)} by {by}: {told}",
        },
    )
    facts = conditions.put(
        pool.status.conditions,
        PoolCondition.LOSING_MACHINES,
        "True",
        reason,
        f"{told} ({', '.join(names[:5])}): nothing is replaced until labfleet resume",
        now=now,
    )
    return msgspec.structs.replace(
        pool,
        metadata=metadata,
        spec=msgspec.structs.replace(pool.spec, paused=True),
        status=msgspec.structs.replace(pool.status, conditions=facts, tripped_at=now),
    )


def with_pause(status: PoolStatus, paused: str | None, now: datetime, *, fleet: bool) -> PoolStatus:
    """Return the status with the pause condition; a pool that never was paused has none.

    `fleet` tells that everything is paused, which ends with another command.
    """
    if paused is None and conditions.is_true(status.conditions, PoolCondition.LOSING_MACHINES):
        facts = conditions.put(
            status.conditions, PoolCondition.LOSING_MACHINES, "False", PoolReason.RESUMED, now=now
        )
        status = msgspec.structs.replace(status, conditions=facts)
    if paused is None and conditions.find(status.conditions, PoolCondition.PAUSED) is None:
        return status
    why = PoolReason.FLEET_PAUSED if fleet else PoolReason.PAUSED_BY_PEOPLE
    fact = conditions.put(
        status.conditions,
        PoolCondition.PAUSED,
        "False" if paused is None else "True",
        PoolReason.RESUMED if paused is None else why,
        paused or "",
        now=now,
    )
    return msgspec.structs.replace(status, conditions=fact)


def with_promises(
    status: PoolStatus, lack: PoolReason | None, many: int, told: str, now: datetime
) -> PoolStatus:
    """Return the status with how many promises are in danger, and why; none that never was has none."""
    status = msgspec.structs.replace(status, endangered=many)
    if lack is None and conditions.find(status.conditions, PoolCondition.PROMISES_KEPT) is None:
        return status
    facts = conditions.put(
        status.conditions,
        PoolCondition.PROMISES_KEPT,
        "True" if lack is None else "False",
        lack or PoolReason.KEPT,
        told,
        now=now,
    )
    return msgspec.structs.replace(status, conditions=facts)


def counts_alone(before: PoolStatus, after: PoolStatus) -> bool:
    """Tell whether nothing but how many sessions wait, or are promised, has changed."""
    counts = {"promised": before.promised, "waiting_sessions": before.waiting_sessions}
    return msgspec.structs.replace(after, **counts) == before


def counted(status: PoolStatus) -> str:
    """Return those counts in a sentence."""
    waits = "waits" if status.waiting_sessions == 1 else "wait"
    return f"{count(status.waiting_sessions, 'session')} {waits}, {status.promised} promised"


def without_machine(workers: Iterable[Worker]) -> str:
    """Return the provider's reason for giving workers no machine, or its own trouble; else ""."""
    workers = list(workers)
    held = [cause for each in workers if (cause := phases.provider_trouble(each))]
    if held:
        return f"; {len(held)} held up: {min(held)}"[:500]
    told = [
        fact.message
        for each in workers
        if each.status.phase is WorkerPhase.PROVISIONING_EC2
        and each.status.machine.id is None
        and (fact := conditions.find(each.status.conditions, WorkerCondition.MACHINE_PROVISIONED))
        is not None
        and fact.status == "False"
    ]
    return f"; {len(told)} without a machine: {min(told)}"[:500] if told else ""


def after(
    before: PoolStatus, decision: scaling.PoolDecision, waiting: int, now: datetime
) -> PoolStatus:
    """Return the pool's status after the decision."""
    up = any(each.kind != "scale_down" for each in decision.events)
    down = any(each.kind == "scale_down" for each in decision.events)
    alive = decision.ready + decision.booting + decision.draining + decision.failed
    ready = decision.phase is PoolPhase.READY and decision.unmet is None
    return msgspec.structs.replace(
        before,
        phase=decision.phase,
        phase_since=now if decision.phase is not before.phase else before.phase_since,
        message=decision.message,
        workers=alive + len(decision.create),
        ready=decision.ready,
        booting=decision.booting + len(decision.create),
        draining=decision.draining,
        failed=decision.failed,
        stopped=decision.stopped,
        waiting_sessions=waiting,
        created_workers=max(decision.created_workers, before.created_workers),
        last_scale_up=now if up else before.last_scale_up,
        last_scale_down=now if down else before.last_scale_down,
        events=(*before.events, *decision.events)[-EVENTS_KEPT:],
        conditions=conditions.put(
            _demand(before.conditions, decision.unmet, decision.message, now),
            PoolCondition.READY,
            "True" if ready else "False",
            PoolReason.STEADY if ready else decision.unmet or PoolReason[decision.phase.name],
            now=now,
        ),
    )


def _demand(
    facts: tuple[conditions.Condition, ...], lack: PoolReason | None, told: str, now: datetime
) -> tuple[conditions.Condition, ...]:
    """Return the conditions with what keeps the pool short; one that never was has none."""
    if lack is None and conditions.find(facts, PoolCondition.DEMAND_MET) is None:
        return facts
    status: conditions.Status = "True" if lack is None else "False"
    reason = lack or PoolReason.COVERED
    told = told if lack is not None else ""
    return conditions.put(facts, PoolCondition.DEMAND_MET, status, reason, told, now=now)
