"""The rule of a new attempt: what it takes over from the session that failed, and its slot.

A new attempt is a session of its own, because the phases of the old one have ended for good
(docs/decisions/0023-retry-is-a-new-session.md). Nothing is written here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import ids
from labfleet.kernel.clock import utc_text
from labfleet.resources.definition import Definition
from labfleet.resources.group import LABEL, Group, seats_of
from labfleet.resources.meta import Metadata
from labfleet.resources.session import (
    RETRIABLE,
    Session,
    SessionLink,
    SessionStatus,
    Slot,
    booker,
)
from labfleet.resources.session_conditions import PhaseReason
from labfleet.service.core import ledger_rows
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import session_booker, session_kept, session_rules, session_shares
from labfleet.service.kinds.admitted import Admitted, with_spec

OURS = "labfleet.dev/"
"""Prefix of annotations that say something of one object only."""
_NAMES = "give a new one: --start and --end, or --now"


def link(session: Session) -> SessionLink:
    """Return the link to a session."""
    return SessionLink(name=session.name, uid=session.metadata.uid)


async def next_attempt(
    services: ServiceContext, caller: Caller, old: Session, slot: Slot | None
) -> Admitted:
    """Return the session that tries again what `old` failed to get, named but without uid.

    Owner, definition, track, priority, labels and reservation are those of `old`; `slot` None
    takes its slot, or what is left of it. It stays a seat of its group, of whoever sits there now.
    Refused: NotFailed, DefinitionChanged, SlotOver, GroupGone.
    """
    if old.status.phase not in RETRIABLE or old.deleting:
        state = "is being deleted" if old.deleting else f"is {old.status.phase}"
        what = f"session {old.name!r} {state}; only FAILED and EXPIRED sessions can be tried again"
        raise Refused(what, reason="NotFailed")
    held = await _seat(services, caller, old)
    definition = await session_rules.usable(services, old.spec.definition, old.namespace)
    pin = old.status.definition
    if pin is not None and pin.topology_digest != definition.status.topology_digest:
        what = (
            f"{definition.name!r} is another definition than the one that {old.name!r} was made of"
        )
        raise Refused(f"{what}; make a new session of it", reason="DefinitionChanged")
    if caller.principal.role is Role.USER:
        if slot is not None:
            session_booker.demand_booker(caller, old, "give another slot to")
        session_shares.few_enough(services, booker(old), old.namespace)
    wanted = slot if slot is not None else _left(services, old, definition)
    metadata = Metadata(
        name=await _name(services, old),
        namespace=old.namespace,
        labels={
            key: value
            for key, value in old.metadata.labels.items()
            if key != LABEL or old.status.seat is not None
        },
        annotations={
            key: value
            for key, value in old.metadata.annotations.items()
            if not key.startswith(OURS)
        },
    )
    before = old.status
    status = SessionStatus(retry_count=before.retry_count + 1, retry_of=link(old), seat=before.seat)
    new = msgspec.structs.replace(old, metadata=metadata, status=status)
    owner = old.spec.owner if held.person is None else held.person
    if owner != old.spec.owner:
        new = with_spec(new, student_email=None, environment={})
    new = with_spec(new, owner=owner, slot=wanted, cancel=None, observe_requested=None,
                    observe_requested_by="", lab_order=None)  # fmt: skip
    new = await session_kept.continued(services, caller, new, definition)
    made = await session_rules.fixed(services, caller, new, definition)
    return Admitted(
        made.obj, (*made.preconditions, *held.preconditions), (*made.writes, *held.writes)
    )


class _Held(NamedTuple):
    """Who sits on a seat now, with what the commit of a new attempt carries; None: it is no seat."""

    person: str | None = None
    preconditions: tuple[stores.Precondition, ...] = ()
    writes: tuple[stores.Write, ...] = ()


async def _seat(services: ServiceContext, caller: Caller, old: Session) -> _Held:
    """Return who sits on a session's seat now; Refused (GroupGone) once its group was deleted.

    Denied (SeatOfGroup) to who sat there before. The group is marked, so that a change of it that
    does not know of the new attempt is made again.
    """
    seat, who = old.status.seat, caller.principal
    if seat is None:
        return _Held()
    group = await services.objects.get(Group, seat.group, old.namespace)
    if group is None or group.metadata.uid != seat.uid or group.deleting:
        what = f"group {seat.group!r}, of which {old.name!r} was a seat, was deleted"
        raise Refused(f"{what}; make a new session", reason="GroupGone")
    people = {each.name: each.person for each in seats_of(group.spec)}
    person = people.get(seat.seat, old.spec.owner)
    if who.name != person:
        session_booker.demand_booker(caller, old, "try again")
    at = stores.AtRevision(group.key, group.revision)
    return _Held(person, (at,), (ledger_rows.touch(ledger_rows.of(group.key)),))


def warns(services: ServiceContext, session: Session) -> tuple[str, ...]:
    """Say of a new attempt that the one before could never run, and why it cannot either.

    Until somebody has judged the new one: then its own decision says more.
    """
    before = session.status.retry_of
    if before is None or session.status.decision is not None:
        return ()
    old = services.cache.get(Session, before.name, session.namespace)
    if old is None or old.metadata.uid != before.uid or old.status.reason != PhaseReason.NEVER_FITS:
        return ()
    was, now = old.status.definition, session.status.definition
    if was is None or now is None or was.uid != now.uid:
        return ()
    return (
        (
            f"session {old.name!r} failed because it fits no worker that can exist "
            f"({old.status.message}), and its definition is the same: {session.name!r} fails too "
            "unless a template became larger"
        ),
    )


def _left(services: ServiceContext, old: Session, definition: Definition) -> Slot:
    """Return the slot that is ahead, or what is left of one that has begun."""
    slot, now = old.spec.slot, services.clock.now()
    end = slot.end
    if end is None and slot.start is not None:
        end = old.status.end
    if slot.start is not None and slot.start > now:
        return slot
    boot = timedelta(seconds=definition.status.boot_seconds)
    if end is not None and end <= now:
        what = f"the slot of {old.name!r} was over at {utc_text(end)}; {_NAMES}"
        raise Refused(what, reason="SlotOver")
    if end is not None and end <= now + boot:
        minutes = round(definition.status.boot_seconds / 60)
        what = f"the slot of {old.name!r} ends at {utc_text(end)}, before its lab is up"
        raise Refused(f"{what} (about {minutes} min); {_NAMES}", reason="SlotOver")
    return Slot(end=end, zone=slot.zone)


async def _name(services: ServiceContext, old: Session) -> str:
    """Return the old name with the attempt's number: s1, s1-2, s1-3; another one if that is taken."""
    attempt = old.status.retry_count + 2
    base = old.name
    if old.status.retry_count:
        base = base.removesuffix(f"-{attempt - 1}")
    name = f"{base[: ids.NAME_LIMIT - len(str(attempt)) - 1].rstrip('-')}-{attempt}"
    if await services.objects.get(Session, name, old.namespace) is None:
        return name
    tail = services.ids.uid().replace("-", "")[:12]
    return f"{base[: ids.NAME_LIMIT - len(tail) - 1].rstrip('-')}-{tail}"
