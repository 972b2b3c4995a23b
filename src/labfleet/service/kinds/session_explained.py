"""Why a session waits, runs or ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions.lifecycle.session.decide import LOOK_AHEAD, ON_DEMAND_PATIENCE
from labfleet.resources import conditions, refs
from labfleet.resources.definition import Definition
from labfleet.resources.session import RETRIABLE, TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core.explanation import Deadline, Explanation, made, shown
from labfleet.service.core.service_context import ServiceContext

_SESSION_WAITS = {
    SessionPhase.SCHEDULED: "its start",
    SessionPhase.INSTANTIATING: "the lab to be imported, started and converged",
    SessionPhase.READY: "its first use or its start",
    SessionPhase.COLLECTING: "the last observation",
    SessionPhase.STOPPING: "the lab to be stopped, wiped and deleted",
}


async def explain(services: ServiceContext, obj: Session) -> Explanation:
    """Return why a session is as it is."""
    definition = await services.objects.find(refs.definition_of(obj))
    return of_session(obj, definition, services.clock.now())


def of_session(obj: Session, definition: Definition | None, now: datetime) -> Explanation:
    """Return why a session waits, runs or ended."""
    status = obj.status
    waits: list[str] = []
    if status.phase is SessionPhase.PENDING:
        if status.start is not None and status.start > now and status.decision is None:
            waits.append(
                f"its slot, which starts at {shown(status.start)};"
                f" a worker is looked for from {shown(status.start - LOOK_AHEAD)}"
            )
        elif status.decision is None:
            waits.append("the scheduler's first look")
        else:
            waits.append(f"capacity ({status.decision.reason})")
    elif status.phase in _SESSION_WAITS:
        if _unanswered(obj):
            waits.append(f"an answer of CML on {status.worker}")
        waits.append(_SESSION_WAITS[status.phase])
    if status.lab is not None and status.lab.waiting:
        waits.append(status.lab.waiting)
    if obj.spec.cancel is not None and status.phase not in TERMINAL:
        waits.append("its cancellation to be carried out")
    told = made(
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
    tries = tuple(_attempts(obj))
    return msgspec.structs.replace(told, attempts=tries, lines=(*told.lines, *tries))


def _attempts(session: Session) -> Iterator[str]:
    """Yield of which attempts this one is, and how there can be another one."""
    status = session.status
    if status.retry_of is not None:
        before = f"the one before is session/{status.retry_of.name}"
        yield f"It is attempt {status.retry_count + 1}; {before}."
    if status.retried_as is not None:
        yield f"It was tried again as session/{status.retried_as.name}."
    elif status.phase in RETRIABLE and not session.deleting:
        yield f"It can be tried again: labfleet retry {session.name}"


def _unanswered(session: Session) -> bool:
    """Tell whether the worker's CML could not be asked about the lab at the last look."""
    answers = conditions.find(session.status.conditions, SessionCondition.HOST_REACHABLE)
    return answers is not None and answers.status != "True"


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
