"""Explains an object's present state: one structured answer for API, CLI and pages.

Reads only what was recorded and decides nothing again. Sentences are for people, the other
fields for programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import wording
from labfleet.decisions.lifecycle.session.decide import LOOK_AHEAD, ON_DEMAND_PATIENCE
from labfleet.kernel.clock import utc_text
from labfleet.resources import alerts, refs
from labfleet.resources import conditions as facts
from labfleet.resources import runbook as runbooks
from labfleet.resources.alerts import Raised
from labfleet.resources.cluster import Simulation, SimulationPhase
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.kinds import Kind
from labfleet.resources.leak import Leak
from labfleet.resources.machine import TimeLimits
from labfleet.resources.meta import Record, Ref, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.webhook import Webhook
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import drain_blockers
from labfleet.service.reads.drain_blockers import Blocker

# Which limit of the template bounds which phase.
_LIMITS = {
    WorkerPhase.PROVISIONING_EC2: "launch",
    WorkerPhase.EC2_READY: "launch",
    WorkerPhase.STARTING: "boot",
    WorkerPhase.LICENSING: "licence",
    WorkerPhase.UNLICENSING: "unlicense",
    WorkerPhase.STOPPING: "stop",
    WorkerPhase.TERMINATING_EC2: "terminate",
}
_WORKER_WAITS = {
    WorkerPhase.PENDING: "the worker controller to launch an instance",
    WorkerPhase.PROVISIONING_EC2: "EC2 to run the instance",
    WorkerPhase.EC2_READY: "the instance's checks",
    WorkerPhase.STARTING: "CML to become ready",
    WorkerPhase.LICENSING: "the licence to be registered",
    WorkerPhase.DRAINING: "its sessions to end",
    WorkerPhase.UNLICENSING: "the licence to be given back",
    WorkerPhase.STOPPING: "EC2 to stop the instance",
    WorkerPhase.TERMINATING_EC2: "EC2 to terminate the instance",
}
_SESSION_WAITS = {
    SessionPhase.SCHEDULED: "its start",
    SessionPhase.INSTANTIATING: "the lab to be imported, started and converged",
    SessionPhase.READY: "its first use or its start",
    SessionPhase.COLLECTING: "the last observation",
    SessionPhase.STOPPING: "the lab to be stopped, wiped and deleted",
}


class Deadline(Record, frozen=True, kw_only=True):
    """The next instant at which something happens by itself."""

    at: datetime
    what: str


class Explanation(Record, frozen=True, kw_only=True):
    """Phase and since when, conditions, recorded decision, what it waits for, what is next.

    `alerts` are the raised conditions with cause, command and fix. `runbook` is the row of its
    phase, none when the object may stay in it. `summary` is one sentence on why; `next` says
    what happens by itself; `lines` is the whole explanation in sentences.
    """

    kind: str
    name: str
    namespace: str
    phase: str | None
    since: datetime | None
    summary: str
    conditions: tuple[Condition, ...] = ()
    decision: Decision | None = None
    waiting_for: tuple[str, ...] = ()
    next_deadline: Deadline | None = None
    next: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    paused: str | None = None
    blockers: tuple[Blocker, ...] = ()
    runbook: runbooks.Entry | None = None
    alerts: tuple[Raised, ...] = ()
    lines: tuple[str, ...] = ()


async def explain(
    services: ServiceContext, caller: Caller, row: Kind, name: str, namespace: str
) -> Explanation:
    """Return the explanation of an object that the caller may see; Gone when there is none."""
    access.demand(caller.principal, "read", row.name)
    kind: type[Resource] = row.type
    obj = await lookup.found(services, caller, kind, name, namespace)
    return _with_pause(services, caller, obj, await _explained(services, obj))


async def _explained(services: ServiceContext, obj: Resource) -> Explanation:
    if isinstance(obj, Session):
        definition = await services.objects.find(refs.definition_of(obj))
        return of_session(obj, definition, services.clock.now())
    if isinstance(obj, Worker):
        await services.fresh()
        here = [each for each in services.cache.all(Session) if _on(obj, each)]
        return of_worker(obj, here)
    if isinstance(obj, Simulation):
        return of_simulation(obj)
    return _plain(obj)


def of_session(obj: Session, definition: Definition | None, now: datetime) -> Explanation:
    """Return why a session waits, runs or ended."""
    status = obj.status
    waits: list[str] = []
    if status.phase is SessionPhase.PENDING:
        if status.start is not None and status.start > now and status.decision is None:
            waits.append(
                f"its slot, which starts at {_shown(status.start)};"
                f" a worker is looked for from {_shown(status.start - LOOK_AHEAD)}"
            )
        elif status.decision is None:
            waits.append("the scheduler's first look")
        else:
            waits.append(f"capacity ({status.decision.reason})")
    elif status.phase in _SESSION_WAITS:
        waits.append(_SESSION_WAITS[status.phase])
    if status.lab is not None and status.lab.waiting:
        waits.append(status.lab.waiting)
    if obj.spec.cancel is not None and status.phase not in TERMINAL:
        waits.append("its cancellation to be carried out")
    return _made(
        obj,
        phase=status.phase,
        since=status.phase_since,
        why=status.message or status.reason,
        conditions=status.conditions,
        decision=status.decision,
        waits=waits,
        deadline=_session_deadline(obj, definition),
        where=f" on {status.worker}" if status.worker else "",
    )


def _boots(status: WorkerStatus, limit: str, since: datetime) -> tuple[str, datetime]:
    """Return a phase's time limit and its begin: a start has the machine's limit, then CML's."""
    if status.phase is not WorkerPhase.STARTING:
        return limit, since
    if status.machine.state == "booting":
        return "launch", since
    runs = facts.find(status.conditions, "MachineProvisioned")
    up = runs is not None and runs.status == "True"
    return limit, max(since, runs.last_transition_time) if up and runs is not None else since


def of_worker(obj: Worker, sessions: Sequence[Session] = ()) -> Explanation:
    """Return how far a worker is and what it waits for."""
    status = obj.status
    waits = [_WORKER_WAITS[status.phase]] if status.phase in _WORKER_WAITS else []
    live = sorted(each.name for each in sessions if each.status.phase not in TERMINAL)
    if live and (obj.spec.drain is not None or obj.spec.desired != "Ready" or obj.deleting):
        waits.append("sessions: " + ", ".join(live[:10]) + (", …" if len(live) > 10 else ""))
    deadline = None
    limit = _LIMITS.get(status.phase)
    limits = TimeLimits() if obj.spec.machine is None else obj.spec.machine.limits
    if limit is not None and status.phase_since is not None:
        limit, since = _boots(status, limit, status.phase_since)
        at = since + timedelta(seconds=getattr(limits, limit))
        deadline = Deadline(at=at, what=f"the {limit} limit passes")
    if obj.spec.drain is not None and status.phase is WorkerPhase.DRAINING:
        what = "what still runs is ended" if obj.spec.drain.force else "the drain is late"
        deadline = Deadline(at=obj.spec.drain.deadline, what=what)
        leaving = obj.spec.desired != "Ready" or obj.deleting
        if facts.is_true(status.conditions, "Drained") and not leaving:
            waits, deadline = ["somebody to undo the drain or to delete the worker"], None
    made = _made(
        obj,
        phase=status.phase,
        since=status.phase_since,
        why=status.message,
        conditions=status.conditions,
        decision=None,
        waits=waits,
        deadline=deadline,
        where=f", {len(live)} live sessions" if live else "",
    )
    lines = list(made.lines)
    blockers = drain_blockers.of(obj, sessions)
    lines += [f"In the way: {_blocker(each)}" for each in blockers]
    if status.licence.leak:
        lines.append(f"A licence was not given back: {status.licence.leak}.")
    raised = alerts.raised(obj.key, status.conditions)
    for each in raised:
        lines.append(f"Raised ({each.severity}) {each.condition}: {each.message or each.cause}")
        lines += [f"  Cause: {each.cause}", f"  See: {each.command}", f"  Fix: {each.fix}"]
    return msgspec.structs.replace(made, blockers=blockers, alerts=raised, lines=tuple(lines))


def of_simulation(obj: Simulation) -> Explanation:
    """Return why a simulation was approved or denied, and until when it holds capacity."""
    status = obj.status
    deadline, waits = None, []
    if status.phase is SimulationPhase.APPROVED:
        waits.append("the caller to report its end")
        if status.reservation is not None and status.reservation.end is not None:
            deadline = Deadline(at=status.reservation.end, what="the approval expires")
    return _made(
        obj,
        phase=status.phase,
        since=status.completed_at or status.decided_at,
        why="" if status.decision is None else status.decision.message,
        conditions=status.conditions,
        decision=status.decision,
        waits=waits,
        deadline=deadline,
        where=f" on cluster {obj.spec.cluster}",
    )


def _plain(obj: Resource) -> Explanation:
    phase = getattr(obj.status, "phase", None)
    return _made(
        obj,
        phase=phase,
        since=obj.metadata.creation_timestamp,
        why=_about(obj) or getattr(obj.status, "message", ""),
        conditions=getattr(obj.status, "conditions", ()),
        decision=None,
        waits=[],
        deadline=None,
        where="",
    )


def _about(obj: Resource) -> str:
    """Return a sentence on the state of a kind whose status has no message."""
    if isinstance(obj, Leak):
        doubt = "" if obj.spec.certain else " (it may have gone back after all)"
        return f"{obj.spec.why}{doubt}: {obj.spec.fix} {obj.name}"
    if isinstance(obj, Webhook):
        status = obj.status
        told = f"{status.delivered} delivered, {status.dropped} dropped"
        if not status.failures:
            return told
        again = "" if status.retry_at is None else f"; next try at {_shown(status.retry_at)}"
        return f"{told}; {status.failures} failures in a row: {status.last_error}{again}"
    return ""


def _made(
    obj: Resource,
    *,
    phase: str | None,
    since: datetime | None,
    why: str,
    conditions: tuple[Condition, ...],
    decision: Decision | None,
    waits: list[str],
    deadline: Deadline | None,
    where: str,
) -> Explanation:
    held = obj.metadata.finalizers if obj.deleting else ()
    if held:
        waits = [*waits, "what holds it: " + ", ".join(held)]
    state = f"{obj.kind} {obj.name}: {phase or 'there'}{where}"
    lines = [state + ("" if since is None else f" since {_shown(since)}") + "."]
    pending = [f"It waits for {what}." for what in waits]
    coming = [] if deadline is None else [f"At {_shown(deadline.at)} {deadline.what}."]
    if why:
        lines.append(why)
    lines += pending
    lines += _decided(decision)
    lines += [
        f"{each.type} is {each.status}: {each.reason}. {each.message}".rstrip()
        for each in conditions
        if facts.find(conditions, each.type) is each
    ]
    lines += coming
    return Explanation(
        kind=obj.kind,
        name=obj.name,
        namespace=obj.metadata.namespace,
        phase=None if phase is None else str(phase),
        since=since,
        summary=why or " ".join(pending) or lines[0],
        conditions=conditions,
        decision=decision,
        waiting_for=tuple(waits),
        next_deadline=deadline,
        next=(*pending, *coming),
        held_by=tuple(held),
        runbook=runbooks.of_phase(obj.kind, phase or ""),
        lines=tuple(lines),
    )


def _decided(decision: Decision | None) -> list[str]:
    if decision is None:
        return []
    lines = [f"Decision at {_shown(decision.at)}: {decision.outcome}. {decision.message}"]
    for each in decision.candidates:
        if each.fits:
            mark = "chosen" if each.name == decision.chosen else "would fit"
            lines.append(f"  {each.name}: {mark}")
        else:
            lack = f", short {wording.short(each.shortages)}" if each.shortages else ""
            lines.append(f"  {each.name}: {', '.join(each.reasons)}{lack}")
    left = decision.evaluated - len(decision.candidates)
    if left > 0:
        counts = ", ".join(f"{n} {word}" for word, n in decision.rejected_by_reason.items())
        lines.append(f"  and {left} more ({counts})")
    return lines


def _session_deadline(obj: Session, definition: Definition | None) -> Deadline | None:
    status = obj.status
    if status.phase in TERMINAL:
        return None
    started = status.phase in {SessionPhase.RUNNING, SessionPhase.COLLECTING, SessionPhase.STOPPING}
    if not started and status.start is not None and definition is not None:
        grace = timedelta(minutes=definition.spec.grace_minutes)
        expires = status.start + grace
        if status.end is None or expires < status.end:
            return Deadline(at=expires, what="it expires if it has not started")
    if status.end is not None:
        return Deadline(at=status.end, what="its slot ends")
    created = obj.metadata.creation_timestamp
    if not started and created is not None:
        return Deadline(at=created + ON_DEMAND_PATIENCE, what="it expires if it has not started")
    return None


def _with_pause(
    services: ServiceContext, caller: Caller, obj: Resource, made: Explanation
) -> Explanation:
    """Return the explanation with the pause that concerns the object, if there is one.

    A caller who may not read settings is told that there is a pause, not whose and why.
    """
    waits = isinstance(obj, Session) and obj.status.phase is SessionPhase.PENDING
    if not waits and not isinstance(obj, Worker | Pool | Settings):
        return made
    named = obj.name if isinstance(obj, Pool) else getattr(obj.spec, "pool", None)
    pool = None if named is None else Ref(Pool, obj.namespace, named)
    paused = services.settings.paused(pool)
    if paused is None:
        return made
    if not access.may(caller.principal, "read", "Settings"):
        paused = "automatic actions are paused"
    line = f"{paused[:1].upper()}{paused[1:]}. What people ask for goes on."
    return msgspec.structs.replace(made, paused=paused, lines=(*made.lines, line))


def _blocker(each: Blocker) -> str:
    until = "" if each.until is None else f" until {_shown(each.until)}"
    owner = f" of {each.owner}" if each.owner else ""
    return f"{each.kind.lower()} {each.name}{owner} is {each.phase}{until}: {each.why}; {each.help}"


def _shown(at: datetime) -> str:
    return utc_text(at, seconds=True)


def _on(worker: Worker, session: Session) -> bool:
    return (
        session.status.worker == worker.name
        and session.metadata.namespace == worker.metadata.namespace
    )
