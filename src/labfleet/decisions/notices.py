"""What the owner of a session is told of a change of it: one rule for webhooks, streams and pages.

Pure: compares the session before with the session after, so a change that is read again says the
same again, under the id of its event. Few on purpose: nothing is said of what an owner cannot feel,
such as another worker before the boot began, nor of a start that moves by less than `FELT`. Each
other kind is bounded by what it tells of: ends come once, new places as often as a session is
placed, and danger at most once in `danger.HOLD`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from labfleet.decisions.lifecycle.session import closing
from labfleet.kernel.clock import format_instant
from labfleet.kernel.quantity import count
from labfleet.resources import conditions, zones
from labfleet.resources.notice import Notice, NoticeType
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason, SessionCondition

S, N = SessionPhase, NoticeType
FELT = timedelta(minutes=5)
"""By how much a start moves at least, unless somebody moved it, before its owner is told."""
LONGEST = 500
"""Characters of a sentence, and of what it quotes."""
_BEGUN = frozenset({S.INSTANTIATING, S.READY})
_KEPT = SessionCondition.WORK_KEPT
KEPT_SHOWN = 20
_AHEAD = frozenset({S.PENDING, S.SCHEDULED, S.INSTANTIATING, S.READY})
_WORDS = {str(each): each.sentence for each in PhaseReason}


def of_new(session: Session) -> Notice:
    """Return what its owner is told of a new session."""
    promised = session.status.claim is not None
    slot = zones.span(_start(session), _end(session), session.spec.slot.zone)
    said = "" if promised or session.spec.slot.start is None else "; no room is promised to it yet"
    return _notice(session, N.BOOKED, f"is booked: {slot}{said}", promised=promised)


def of_change(old: Session, new: Session) -> Iterator[Notice]:
    """Yield what the owner is told of a change; of a session that was over, only what was kept."""
    yield from _kept(old, new)
    if _outcome(old) is not None:
        return
    if _outcome(new) is not None:
        yield _over(new)
        return
    yield from _moved(old, new)
    if new.status.phase is S.READY and old.status.phase is not S.READY:
        yield _notice(new, N.READY, f"is ready{_until(new)}")
    yield from _longer(old, new)
    if closing.warned_anew(old.status, new.status):
        left = new.status.warned_minutes or 0
        yield _notice(
            new,
            N.ENDS_SOON,
            f"ends in less than {count(left, 'minute')}{_until(new)}",
            minutes=left,
        )
    yield from _endangered(old, new)
    yield from _handed(old, new)
    yield from _lab(old, new)


def _handed(old: Session, new: Session) -> Iterator[Notice]:
    """Yield that it is offered to somebody, or another person's now: both of them are told."""
    offer, handed = new.status.offer, new.status.handed_over
    slot = zones.span(_start(new), _end(new), new.spec.slot.zone)
    if offer is not None and offer != old.status.offer:
        told = f"is offered to you by {offer.by}: {slot}; to take it: labfleet take {new.name}"
        yield msgspec.structs.replace(
            _notice(new, N.OFFERED, told, by=offer.by), recipient=offer.to
        )
    before = old.spec.owner
    if handed is None or handed == old.status.handed_over or before == new.spec.owner:
        return
    if new.spec.owner:
        told = f"is yours: {handed.by} handed it over; {slot}"
        yield _notice(new, N.GIVEN, told, by=handed.by)
    if before:
        told = f"is no longer yours: {handed.by} handed it over"
        yield msgspec.structs.replace(
            _notice(new, N.GIVEN_AWAY, told, by=handed.by), recipient=before
        )


def _lab(old: Session, new: Session) -> Iterator[Notice]:
    """Yield what others did to its lab: by an order here, or in CML; each way of the latter once."""
    order = new.spec.lab_order
    if order is not None and order != old.spec.lab_order and order.by != new.spec.owner:
        what = f"node {order.node} of its lab" if order.node else "its lab"
        told = f"has an order by {order.by or 'somebody'}: {order.verb} of {what}"
        facts = {"order": order.verb, "node": order.node, "by": order.by}
        yield _notice(new, N.LAB_ORDERED, told, **facts)
    was, now = (
        conditions.find(each.status.conditions, SessionCondition.LAB_CHANGED) for each in (old, new)
    )
    if now is None or now.status != "True":
        return
    if was is None or (was.status, was.reason) != (now.status, now.reason):
        told = f"runs on, but its lab is not as it was: {now.message}"
        yield _notice(new, N.LAB_CHANGED, told, reason=now.reason, message=now.message[:LONGEST])


def _over(new: Session) -> Notice:
    outcome = _outcome(new) or S.FAILED
    why = new.status.outcome_message or new.status.message
    facts = {"outcome": str(outcome), "reason": new.status.reason, "message": why[:LONGEST]}
    told = f": {why}" if why else ""
    if outcome is S.COMPLETED:
        return _notice(new, N.STOPPED, f"is over{told}", **facts)
    if outcome is S.CANCELLED:
        return _notice(new, N.STOPPED, f"was stopped{told}", **facts)
    begun = "has failed" if new.status.ready_at is not None else "did not start"
    return _notice(new, N.FAILED, f"{begun}{told}", **facts)


def _moved(old: Session, new: Session) -> Iterator[Notice]:
    """Yield that it starts at another time: somebody moved it, or it lost its place."""
    before, after = _start(old), _start(new)
    if new.status.phase in _AHEAD and before is not None and after is not None:
        asked = old.spec.slot.start != new.spec.slot.start
        if before != after and (asked or abs(after - before) >= FELT):
            zone = new.spec.slot.zone
            told = f"starts at {zones.both(after, zone)} instead of {zones.both(before, zone)}"
            yield _notice(
                new, N.MOVED, told, before=format_instant(before), reason=new.status.reason
            )
            return
    if _lost_its_place(old, new):
        word = new.status.reason
        why = _WORDS.get(word, new.status.message).rstrip(".") or "its place is gone"
        told = f"starts later than was told: {why[:1].lower()}{why[1:]}"
        yield _notice(new, N.MOVED, told, reason=word, message=new.status.message[:LONGEST])


def _lost_its_place(old: Session, new: Session) -> bool:
    """Tell whether what had begun, or has no time of its own, is to be placed once more."""
    was, now = old.status, new.status
    if now.outcome is S.PENDING:
        return was.outcome is not S.PENDING
    if now.phase is not S.PENDING or was.outcome is S.PENDING:
        return False
    return was.phase in _BEGUN or (was.phase is S.SCHEDULED and new.spec.slot.start is None)


def _longer(old: Session, new: Session) -> Iterator[Notice]:
    """Yield that somebody gave it another end; an end that its start works out is no news."""
    before, after = _end(old), _end(new)
    asked = old.metadata.generation != new.metadata.generation
    moved = old.spec.slot.start != new.spec.slot.start
    if before is None or after is None or before == after or not asked or moved:
        return
    kind, word = (N.EXTENDED, "later") if after > before else (N.SHORTENED, "earlier")
    told = f"ends {word}: at {zones.both(after, new.spec.slot.zone)}"
    yield _notice(new, kind, told, before=format_instant(before))


def _endangered(old: Session, new: Session) -> Iterator[Notice]:
    before, after = _danger(old), _danger(new)
    if after == "False" and before != "False":
        fact = conditions.find(new.status.conditions, SessionCondition.PROMISE_SAFE)
        why = "" if fact is None else fact.message
        reason = "" if fact is None else fact.reason
        told = f"may not start as promised: {why}"
        yield _notice(new, N.IN_DANGER, told, reason=reason, message=why[:LONGEST])
    elif before == "False" and after == "True":
        yield _notice(new, N.PROMISE_SAFE, f"has its place again{_from(new)}")


def _kept(old: Session, new: Session) -> Iterator[Notice]:
    """Yield what became of what was configured in a lab, when its owner may have it."""
    was, now = (conditions.find(each.status.conditions, _KEPT) for each in (old, new))
    work = new.status.kept
    if now is None or work is None or work.readers != "owner":
        return
    if now.status == "Unknown" or (was is not None and was.status == now.status):
        return
    if now.status == "False":
        why = now.message[:LONGEST]
        told = f"has ended, and what was configured in it was not kept: {why}"
        yield _notice(new, N.LAB_NOT_KEPT, told, reason=now.reason, message=why)
    elif work.until is not None:
        but = f", but {now.message}" if work.missing else ""
        told = f"is kept until {zones.both(work.until, new.spec.slot.zone)}{but}"
        missing = list(work.missing[:KEPT_SHOWN])
        yield _notice(new, N.LAB_KEPT, told, until=format_instant(work.until), missing=missing)


def _danger(session: Session) -> str | None:
    fact = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    return None if fact is None else fact.status


def _outcome(session: Session) -> SessionPhase | None:
    """Return how it ends, once that is decided; None before, and while it is to be placed anew."""
    status = session.status
    if status.phase in TERMINAL:
        return status.phase
    return status.outcome if status.outcome in TERMINAL else None


def _start(session: Session) -> datetime | None:
    return session.spec.slot.start or session.status.start


def _end(session: Session) -> datetime | None:
    return session.spec.slot.end or session.status.end


def _from(session: Session) -> str:
    start = _start(session)
    return "" if start is None else f", from {zones.both(start, session.spec.slot.zone)}"


def _until(session: Session) -> str:
    end = _end(session)
    return "" if end is None else f", until {zones.both(end, session.spec.slot.zone)}"


def _notice(session: Session, kind: NoticeType, told: str, **facts: Any) -> Notice:
    start, end = _start(session), _end(session)
    about = {
        "name": session.name,
        "namespace": session.namespace,
        "uid": session.metadata.uid,
        "definition": session.spec.definition,
        "start": None if start is None else format_instant(start),
        "end": None if end is None else format_instant(end),
        "zone": session.spec.slot.zone,
        "phase": str(session.status.phase),
    }
    subject = f"Your lab {session.spec.definition} ({session.name}) {told}"
    return Notice(
        type=kind,
        recipient=session.spec.owner,
        subject=subject if len(subject) <= LONGEST else f"{subject[: LONGEST - 1]}…",
        data={"session": about, **{name: each for name, each in facts.items() if each != ""}},
    )
