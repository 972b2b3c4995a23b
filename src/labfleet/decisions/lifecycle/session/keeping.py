"""When what was configured in a lab is kept before its teardown, how long that may take, what was kept.

Pure. Best effort: an ending session waits until its lab was kept, or its time for that is over. A
controller of its own keeps, so that many labs that end together hold up no other session. Each
attempt is recorded before it begins, so one that was interrupted counts. Reading a configuration
out of a node and keeping a lab are safe to repeat and, when they come late, change nothing that is
relied on; so they need no effect of their own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from labfleet.decisions.lifecycle.session.draft import Draft, Step
from labfleet.resources import conditions
from labfleet.resources.definition import Definition
from labfleet.resources.kept_work import Keep, KeptWork
from labfleet.resources.session import Session, SessionPhase, SessionStatus
from labfleet.resources.session_conditions import SessionCondition, SessionReason

TRIES = 3
LATE = timedelta(seconds=5)
"""By how much the wait is longer than an attempt may be, so that its answer is not missed."""
SHOWN = 3
"""How many nodes a message names."""
_READERS: tuple[Keep, ...] = ("none", "operators", "owner")
_KEPT = SessionCondition.WORK_KEPT


def policy(session: Session, definition: Definition | None, *, gone: Keep = "none") -> Keep:
    """Return who may have what a session's definition has kept; `gone` when that is not there."""
    pin = session.status.definition
    if definition is None or (pin is not None and pin.uid != definition.metadata.uid):
        return gone
    return definition.spec.keep


def narrower(one: Keep, other: Keep) -> Keep:
    """Return what both allow."""
    return _READERS[min(_READERS.index(one), _READERS.index(other))]


def limit(definition: Definition, seconds: float) -> timedelta:
    """Return how long a teardown waits for it: half of the time that is promised for it, at most."""
    return timedelta(seconds=min(seconds, definition.spec.teardown_minutes * 30))


def step(draft: Draft, *, blind: bool) -> Step | None:
    """Return the wait of an ending session for its lab to be kept; None when it need not wait more.

    `blind` means that its server or lab is gone.
    """
    definition, seen = draft.seen.definition, draft.seen
    readers = policy(draft.session, definition)
    fact = conditions.find(draft.status.conditions, _KEPT)
    if fact is not None and fact.status != "Unknown":
        return None
    if definition is None or readers == "none" or not seen.keep_seconds:
        if fact is not None:
            told = "its definition, or the setting keeping.enabled, asks for it no more"
            draft.fact(_KEPT, "False", SessionReason.NOT_KEPT, told)
        return None
    work = draft.status.kept or KeptWork(readers=readers)
    draft.set(kept=work)
    if blind:
        told = seen.trouble or seen.host_detail or "its lab is not on its server any more"
        draft.fact(_KEPT, "False", SessionReason.NOT_SEEN, told)
        return None
    span = limit(definition, seen.keep_seconds)
    if draft.age >= span + LATE:
        told = seen.trouble or ("" if fact is None else fact.message)
        draft.fact(_KEPT, "False", SessionReason.NO_TIME, _too_late(span, told))
        return None
    if fact is None:
        draft.fact(_KEPT, "Unknown", SessionReason.BEING_KEPT)
    return draft.stay()


def is_waiting(session: Session | None) -> bool:
    """Tell whether an ending session waits for its lab to be kept."""
    if session is None or session.status.phase is not SessionPhase.COLLECTING:
        return False
    fact = conditions.find(session.status.conditions, _KEPT)
    return fact is not None and fact.status == "Unknown" and session.status.kept is not None


def _too_late(span: timedelta, trouble: str) -> str:
    return f"not within {span.total_seconds():g} s" + (f": {trouble}" if trouble else "")


def begun(status: SessionStatus) -> SessionStatus:
    """Return the status with one more attempt counted, to be recorded before it begins."""
    work = status.kept
    if work is None:
        raise AssertionError("nothing was to be kept")
    return msgspec.structs.replace(status, kept=msgspec.structs.replace(work, tries=work.tries + 1))


def kept(status: SessionStatus, work: KeptWork, now: datetime) -> SessionStatus:
    """Return the status of a session whose lab was kept."""
    reason, told = SessionReason.LAB_KEPT, ""
    if work.unread:
        named = ", ".join(work.missing[:SHOWN])
        more = f" and {work.unread - SHOWN} more" if work.unread > SHOWN else ""
        reason, told = SessionReason.KEPT_IN_PART, f"nothing was read out of {named}{more}"
    facts = conditions.put(status.conditions, _KEPT, "True", reason, told, now=now)
    return msgspec.structs.replace(status, conditions=facts, kept=work)


def not_kept(
    status: SessionStatus, reason: SessionReason, told: str, now: datetime, *, final: bool
) -> SessionStatus:
    """Return the status of a session whose lab could not be kept; not `final` may be tried again."""
    known: Literal["False", "Unknown"] = "False" if final else "Unknown"
    facts = conditions.put(status.conditions, _KEPT, known, reason, told, now=now)
    return msgspec.structs.replace(status, conditions=facts)
