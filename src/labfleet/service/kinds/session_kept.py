"""The rules of kept labs: who may have one, and which session may begin with one.

A lab is kept for its session's owner, or for operators alone: what its definition said then and what
it says now both have to allow it. Whoever booked a seat for somebody else gets nothing of that
person's work, and an exam's candidate nothing of the exam unless its definition says so.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from labfleet.decisions.lifecycle.session import keeping
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources import conditions, refs
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.kept_work import Keep, KeptWork
from labfleet.resources.meta import Ref
from labfleet.resources.session import Session, SessionLink
from labfleet.resources.session_conditions import SessionCondition
from labfleet.service.core import access, intake
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import with_status

ALL = frozenset({Role.ADMIN, Role.OPERATOR})


def demand_reader(services: ServiceContext, who: Principal, session: Session) -> None:
    """Raise Denied (KeptForOthers, KeptForOperators) to who may not have a session's kept lab."""
    if who.role in ALL:
        return
    if who.role is not Role.USER or session.spec.owner != who.name:
        message = f"only its owner and operators may have what was kept of session {session.name!r}"
        raise errors.Denied(message, reason="KeptForOthers")
    work = session.status.kept
    definition = services.cache.find(refs.definition_of(session))
    if work is None:
        return  # there is nothing to refuse, and whoever sees the session may know that
    readers: Keep = work.readers
    # Of a definition that is gone, what it said then holds.
    readers = keeping.narrower(readers, keeping.policy(session, definition, gone=readers))
    if readers != "owner":
        message = f"what is kept of session {session.name!r} is for operators alone: ask one"
        raise errors.Denied(message, reason="KeptForOperators")


def demand_kept(session: Session, now: datetime) -> KeptWork:
    """Return what was kept of a session; Gone (NothingKept) says why there is nothing."""
    work = session.status.kept
    if work is not None and work.at is not None and work.until is not None:
        if now < work.until:
            return work
        told = f"it was kept until {utc_text(work.until)}"
    else:
        told = _why_not(session)
    raise errors.Gone(f"nothing is kept of session {session.name!r}: {told}", reason="NothingKept")


def _why_not(session: Session) -> str:
    fact = conditions.find(session.status.conditions, SessionCondition.WORK_KEPT)
    if fact is not None and fact.status != "True":
        return fact.message or "it is being kept now"
    if session.status.kept is not None:
        return "it was deleted"
    return "its definition asks for none, or its lab never ran to its end"


async def continued(
    services: ServiceContext, caller: Caller, new: Session, definition: Definition
) -> Session:
    """Return a new session with a link to the one whose kept work it begins with.

    Invalid for one that the caller does not see, of another owner or another lab, of which nothing
    is kept until the new one begins, and for a definition that is not `continuable`.
    """
    name, where = new.spec.continue_from, "spec.continueFrom"
    if name is None:
        return new
    before = services.cache.get(Session, name, new.namespace)
    if before is None or not access.sees(caller.principal, before):
        raise intake.invalid((where, f"there is no session {name[:80]!r}"))
    if not definition.spec.continuable:
        what = f"definition {definition.name!r} lets no session begin with earlier work"
        raise intake.invalid((where, what), reason="NotContinuable")
    if before.spec.owner != new.spec.owner:
        raise intake.invalid((where, "only the owner of that session can go on with it"))
    try:
        demand_reader(services, caller.principal, before)
        work = demand_kept(before, services.clock.now())
    except (errors.Denied, errors.Gone) as problem:
        raise intake.invalid((where, problem.message), reason=problem.reason) from None
    if not _same_lab(services, before, definition):
        what = f"{before.name!r} is of {before.spec.definition!r}, another lab than this one"
        raise intake.invalid((where, what), reason="AnotherLab")
    start = new.spec.slot.start
    if start is not None and work.until is not None and start >= work.until:
        what = f"it is kept until {utc_text(work.until)}, and this slot begins later"
        raise intake.invalid((where, what), reason="KeptTooShort")
    link = SessionLink(name=before.name, uid=before.metadata.uid)
    return with_status(new, continues=link)


def _same_lab(services: ServiceContext, before: Session, definition: Definition) -> bool:
    """Tell whether a session was of this definition, or of another version of its lab."""
    pin = before.status.definition
    if pin is None or pin.uid == definition.metadata.uid or pin.name == definition.name:
        return pin is not None
    old = services.cache.find(Ref(Definition, before.namespace, pin.name))
    return old is not None and family_of(old) == family_of(definition)


def awaited_by(services: ServiceContext, session: Session) -> Session | None:
    """Return a session that is to begin with what is kept of this one, and has no lab yet."""
    uid = session.metadata.uid
    for each in services.cache.by(indices.SESSIONS_OPEN, True):
        link = each.status.continues
        if link is not None and link.uid == uid and each.status.lab is None:
            return each
    return None


def without(session: Session) -> Session:
    """Return a session of which nothing is kept any more; the condition says what was."""
    work = session.status.kept
    if work is None:
        return session
    return with_status(session, kept=msgspec.structs.replace(work, at=None, until=None))
