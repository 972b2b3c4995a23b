"""How far a worker is, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.phases import limit_of
from labfleet.kernel.quantity import count
from labfleet.resources import conditions as facts
from labfleet.resources.machine import TimeLimits
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core.explanation import Blocker, Deadline, Explanation, made, shown
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import drain_blockers, indices, session_lab

_WORKER_WAITS = {
    WorkerPhase.PENDING: "the worker controller to launch an instance",
    WorkerPhase.PROVISIONING_EC2: "the provider to run the machine",
    WorkerPhase.EC2_READY: "the machine's checks",
    WorkerPhase.STARTING: "CML to become ready",
    WorkerPhase.LICENSING: "the licence to be registered",
    WorkerPhase.DRAINING: "its sessions to end",
    WorkerPhase.UNLICENSING: "the licence to be given back",
    WorkerPhase.STOPPING: "the provider to stop the machine",
    WorkerPhase.TERMINATING_EC2: "the provider to end the machine",
}


async def explain(services: ServiceContext, obj: Worker) -> Explanation:
    """Return how far a worker is, with what keeps it from being empty."""
    await services.fresh()
    return of_worker(obj, services.cache.by(indices.SESSIONS_HERE, obj.key.path))


def _passes(status: WorkerStatus, limits: TimeLimits) -> Deadline | None:
    """Return when the time limit that runs now passes; None while it stands still."""
    name, known = limit_of(status), status.limit
    since = status.phase_since if known is None else known.since
    held = known is not None and known.held_since is not None
    if name is None or name == "drain" or since is None or held:
        return None
    at = since + timedelta(seconds=getattr(limits, name))
    return Deadline(at=at, what=f"the {name} limit passes")


def of_worker(obj: Worker, sessions: Sequence[Session] = ()) -> Explanation:
    """Return how far a worker is and what it waits for."""
    status = obj.status
    waits = [_WORKER_WAITS[status.phase]] if status.phase in _WORKER_WAITS else []
    live = sorted(each.name for each in sessions if each.status.phase not in TERMINAL)
    if live and phases.drain_wanted(obj):
        waits.append("sessions: " + ", ".join(live[:10]) + (", …" if len(live) > 10 else ""))
    limits = TimeLimits() if obj.spec.machine is None else obj.spec.machine.limits
    deadline = _passes(status, limits)
    if status.limit is not None and status.limit.held_since is not None:
        waits.append(f"what holds it up; its {status.limit.name} limit stands still meanwhile")
    if obj.spec.drain is not None and status.phase is WorkerPhase.DRAINING:
        what = "what still runs is ended" if obj.spec.drain.force else "the drain is late"
        deadline = Deadline(at=obj.spec.drain.deadline, what=what)
        leaving = obj.spec.desired != "Ready" or obj.deleting
        if facts.is_true(status.conditions, WorkerCondition.DRAINED) and not leaving:
            waits, deadline = ["somebody to undo the drain or to delete the worker"], None
    told = made(
        obj,
        phase=status.phase,
        since=status.phase_since,
        why=status.message,
        conditions=status.conditions,
        decision=None,
        waits=waits,
        deadline=deadline,
        where=f", {count(len(live), 'live session')}" if live else "",
    )
    blockers = drain_blockers.of(obj, sessions)
    held, more = [f"In the way: {_blocker(each)}" for each in blockers], list[str]()
    order = phases.open_order(obj)
    if order is not None:
        known = status.licence.order
        far = "heard" if known is None or known.id != order.id else known.state
        by = f" by {order.by}" if order.by else ""
        more.append(f"Of its licence was asked{by}: {order.verb} ({far}).")
    asked, at = obj.spec.lab_order, status.lab_order
    if asked is not None and (at is None or at.id != asked.id or at.state != "done"):
        what = f"node {asked.node} of lab {asked.lab}" if asked.node else f"lab {asked.lab}"
        more.append(session_lab.progress_words(asked, at, what))
    if status.licence.leak:
        more.append(f"A licence was not given back: {status.licence.leak}.")
    return msgspec.structs.replace(
        told, blockers=blockers, more=tuple(more), lines=(*told.lines, *held, *more)
    )


def _blocker(each: Blocker) -> str:
    until = "" if each.until is None else f" until {shown(each.until)}"
    owner = f" of {each.owner}" if each.owner else ""
    return f"{each.kind.lower()} {each.name}{owner} is {each.phase}{until}: {each.why}; {each.help}"
