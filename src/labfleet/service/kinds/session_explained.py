"""Why a session waits, runs or ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from labfleet.decisions.lifecycle.session import closing, extension
from labfleet.decisions.lifecycle.session.decide import ON_DEMAND_PATIENCE
from labfleet.kernel import quantity
from labfleet.resources import conditions, refs, runbook
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.session import RETRIABLE, TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import (
    Holdup,
    PhaseReason,
    SessionCondition,
    WaitReason,
)
from labfleet.service.core.explanation import Deadline, Explanation, made, shown
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import pool_claims, session_counted, session_lab, session_told
from labfleet.service.kinds.pool_leads import Leads
from labfleet.service.kinds.session_holdup import Danger, Held, danger, held_up

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
    held = held_up(services, obj, definition)
    lost = danger(services, obj)
    slot = _Ahead(Leads(services.cache).looked_for(obj), _promised(services, obj, lost), lost)
    told = _of_session(obj, definition, services.clock.now(), held, slot)
    return await session_told.completed(services, obj, definition, told)


class _Ahead(NamedTuple):
    """From when on a worker is looked for (None: at once), and what is promised, as a clause.

    `lost` is what endangers the place that is promised to it.
    """

    looked_for: datetime | None
    promised: str
    lost: Danger | None = None


def _unplaced(
    obj: Session, now: datetime, held: Held | None, slot: _Ahead
) -> tuple[str, list[str]]:
    """Return the word that says best why a session has no place, and what it waits for."""
    start, decision = obj.status.start, obj.status.decision
    ahead = start is not None and start > now
    if decision is not None and decision.reason == WaitReason.SLOT_AHEAD:
        ahead = slot.looked_for is not None and slot.looked_for > now
        decision = None
    if start is not None and slot.looked_for is not None and ahead and decision is None:
        looked = f"a worker is looked for from {shown(slot.looked_for)}"
        waits_for = f"its slot, which starts at {shown(start)}; {looked}{slot.promised}"
        return WaitReason.SLOT_AHEAD if slot.lost is None else Holdup.IN_DANGER, [waits_for]
    first = runbook.advice(Session.__name__, SessionPhase.PENDING, Holdup.FIRST_LOOK)
    if decision is None or decision.outcome != "waiting":
        said = "the scheduler's next look" if obj.status.decision else first.waits if first else ""
        return Holdup.FIRST_LOOK, [said]
    words = [decision.reason, *([] if held is None else [held.why])]
    told = [runbook.advice(Session.__name__, SessionPhase.PENDING, word) for word in words]
    waits = [each.waits for each in told if each is not None]
    # A reason of another revision has no advice; its word is all that is known.
    return words[-1], waits or [f"a place ({decision.reason})"]


def _promised(services: ServiceContext, obj: Session, lost: Danger | None) -> str:
    """Return what is promised to a slot that is ahead, as the end of a sentence."""
    claim = obj.status.claim
    if claim is None:
        if obj.spec.when_full == "wait":
            return "; it is on the waiting list: nothing is promised to it yet"
        return "; nothing is promised to it"
    pool = pool_claims.pool_of(services.cache, obj)
    if pool is None:
        return f"; pool {claim.pool}, which promised it a place, is gone: nothing holds one for it"
    if lost is not None:
        return f"; the place promised to it is in danger: pool {claim.pool} ({lost.why})"
    kept = conditions.find(pool.status.conditions, PoolCondition.PROMISES_KEPT)
    held = f"; pool {claim.pool} holds a place for it"
    if kept is not None and kept.status == "False":
        return f"{held}, but some of this pool's promises are in danger"
    return held


def _of_session(
    obj: Session,
    definition: Definition | None,
    now: datetime,
    held: Held | None,
    slot: _Ahead,
) -> Explanation:
    status = obj.status
    waits: list[str] = []
    reason = ""
    if status.phase is SessionPhase.PENDING:
        reason, waits = _unplaced(obj, now, held, slot)
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
        why=status.message or _sentence(status.reason),
        conditions=status.conditions,
        decision=status.decision,
        waits=waits,
        deadline=_session_deadline(obj, definition),
        where=f" on {status.worker}" if status.worker else "",
        reason=reason,
    )
    about = held or slot.lost
    if told.runbook is not None and about is not None:
        fix = told.runbook.fix.replace("POOL", about.pool)
        told = msgspec.structs.replace(told, runbook=msgspec.structs.replace(told.runbook, fix=fix))
    tries = tuple(_attempts(obj))
    counted = tuple(session_counted.lines(obj))
    more = (*_preferred(status.decision), *counted, *_extensions(obj, definition))
    lines = (*told.lines, *more, *_drift(obj), *session_lab.lines(obj), *tries)
    return msgspec.structs.replace(told, attempts=tries, more=more, lines=lines)


def _drift(session: Session) -> Iterator[str]:
    """Yield how the ports of its lab differ from what it was given, while they do."""
    fact = conditions.find(session.status.conditions, SessionCondition.PORT_DRIFT)
    if fact is not None and fact.status == "True":
        yield f"Its lab's ports are not those that it was given: {fact.message}."


def _extensions(session: Session, definition: Definition | None) -> Iterator[str]:
    """Yield how far its people may still extend a session, where its definition bounds that."""
    status = session.status
    if definition is None or status.phase in TERMINAL:
        return
    left = extension.left(definition.spec.extension, status.extensions)
    if left:
        yield f"Its people may extend it {left}."


def _preferred(decision: Decision | None) -> tuple[str, ...]:
    """Return by which strategy a worker was chosen among how many, with the parts of its score."""
    if decision is None or decision.chosen is None or not decision.strategy:
        return ()
    parts = ", ".join(f"{name} {number:g}" for name, number in decision.parts.items())
    took = "" if decision.latency_ms is None else f" in {decision.latency_ms:g} ms"
    among = quantity.count(decision.evaluated, "worker")
    said = f"Chosen by {decision.strategy} among {among}{took}"
    return (f"{said}: {parts}." if parts else f"{said}.",)


def _sentence(reason: str) -> str:
    """Return what the word of a phase says; the word itself when another revision wrote it."""
    return next((each.sentence for each in PhaseReason if each == reason), reason)


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
    released = closing.released_at(obj, definition)
    if released is not None and status.phase is SessionPhase.RUNNING:
        return Deadline(at=released, what="it is released if nobody has checked in")
    if status.end is not None:
        return Deadline(at=status.end, what="its slot ends")
    created = obj.metadata.creation_timestamp
    if not started and created is not None:
        return Deadline(at=created + ON_DEMAND_PATIENCE, what="it expires if it has not started")
    return None
