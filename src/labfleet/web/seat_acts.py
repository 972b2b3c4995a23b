"""What people may do with a session of theirs, as links to act on or commands to run.

Only what the object's state and its rules leave open is offered; the verb judges again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from labfleet.resources.definition import Definition
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import RETRIABLE, TERMINAL, Session, SessionPhase
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role
from labfleet.web.acts import table
from labfleet.web.acts.act import ROOT, address

S = SessionPhase
_BEFORE = frozenset({S.PENDING, S.SCHEDULED})
_UP = frozenset({S.READY, S.RUNNING})
_ENDING = TERMINAL | {S.COLLECTING, S.STOPPING}


@dataclass(frozen=True, slots=True)
class SeatAct:
    """One act: its word on a button, its page ("" when it has none), and its command."""

    verb: str
    title: str
    command: str
    href: str = ""


def of(
    who: Principal, session: Session, definition: Definition | None, now: datetime
) -> Iterator[SeatAct]:
    """Yield what somebody may do with a session as it stands, what is most often wanted first."""
    if not access.may(who, "cancel", session.kind):
        return
    status, seat = session.status, session.status.seat
    booked = seat is None or who.role is not Role.USER or who.name == seat.booked_by
    over = status.phase in _ENDING or session.spec.cancel is not None or session.deleting
    if over:
        yield from _afterwards(who, session, definition, now)
        return
    if status.phase in _UP and status.checked_in_at is None:
        here = "I am here" if session.spec.owner == who.name else "Check in"
        yield _act(session, "check-in", here)
    if not booked:
        return
    if status.end is not None or session.spec.slot.end is not None:
        yield _act(session, "extend", "More time", " --by 30m")
    if status.phase in _BEFORE and session.spec.slot.start is not None:
        yield _act(session, "move", "Another time", " --later 1h")
    yield _act(session, "hand-over", "Give to somebody else", " --to PERSON")
    yield _act(session, "cancel", "Stop" if status.phase not in _BEFORE else "Cancel")


def _afterwards(
    who: Principal, session: Session, definition: Definition | None, now: datetime
) -> Iterator[SeatAct]:
    status, work = session.status, session.status.kept
    if status.phase in RETRIABLE and status.retried_as is None and not session.deleting:
        yield _act(session, "retry", "Try again")
    if session.spec.owner != who.name or work is None or work.at is None or work.until is None:
        return
    if work.readers == "owner" and now < work.until:
        where = (
            f"/api/v1/sessions/{quote(session.name)}/kept-lab?namespace={quote(session.namespace)}"
        )
        kept = _act(session, "kept", "Have my work", " --write lab.yaml")
        yield replace(kept, href=where)
        if definition is not None and definition.spec.continuable:
            yield _act(session, "continue", "Go on with it")


def taking(session: Session) -> SeatAct:
    """Return how an offered session is taken."""
    return _act(session, "take", "Take it")


def _act(obj: Resource, verb: str, title: str, more: str = "") -> SeatAct:
    command = f"labfleet {verb} {Key('', obj.namespace, obj.name).argument}{more}"
    return SeatAct(verb, title, command, _page(obj, verb))


def _page(obj: Resource, verb: str) -> str:
    """Return the page on which it is done; "" when there is none."""
    found = table.at(f"{ROOT}{verb}/{KINDS[obj.kind].plural}/{obj.name}")
    if found is None:
        return ""
    act, _ = found
    # Whoever is offered an object does not see it yet, so the act names no identity of it.
    named = "" if act.blind else obj.metadata.uid
    return address(act, obj.name, obj.namespace, uid=named)
