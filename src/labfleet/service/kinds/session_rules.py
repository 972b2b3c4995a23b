"""Rules of sessions: owner and limit, pinned definition, slot, what may change later, extension."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

import msgspec

from labfleet.decisions import ledger, wording
from labfleet.interfaces import store as stores
from labfleet.kernel import errors, quantity
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.resources import meta
from labfleet.resources.amounts import Reservation
from labfleet.resources.definition import Definition, DefinitionPin
from labfleet.resources.meta import Key
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    Cancellation,
    Session,
    SessionPhase,
    Slot,
    booker,
)
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.access import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, session_claims
from labfleet.service.kinds.admitted import Admitted, referred, with_spec, with_status
from labfleet.service.kinds.session_claims import AHEAD_DAYS

PAST_MINUTES = 5
_ENDING = TERMINAL | {SessionPhase.COLLECTING, SessionPhase.STOPPING}


async def create_session(services: ServiceContext, caller: Caller, new: Session) -> Admitted:
    """Fix owner, definition and slot; the session then waits to be placed."""
    spec, who = new.spec, caller.principal
    owner = spec.owner or who.name
    if who.role is Role.USER and owner != who.name:
        raise intake.invalid(("spec.owner", "you can make sessions for yourself only"))
    if not owner.isprintable():
        raise intake.invalid(("spec.owner", "must not hold control characters"))
    if who.role is Role.USER and spec.priority > 0:
        raise intake.invalid(("spec.priority", "only an operator may raise a priority above 0"))
    for field, value in (("cancel", spec.cancel), ("observeRequested", spec.observe_requested)):
        if value is not None:
            raise intake.invalid((f"spec.{field}", "is set by a verb, not by hand"))
    space = new.metadata.namespace
    definition = await usable(services, spec.definition, space)
    own_track(caller, spec.track, definition)
    if who.role is Role.USER:
        few_enough(services, owner, space)
    return await fixed(services, caller, with_spec(new, owner=owner), definition)


def own_track(caller: Caller, track: str | None, definition: Definition) -> None:
    """Refuse a user another track than the definition's: it would start paid machines for it."""
    home = definition.spec.track or "default"
    if caller.principal.role is Role.USER and (track or home) != home:
        what = f"{definition.name!r} runs on track {home!r}; leave it out"
        raise intake.invalid(("spec.track", what))


async def usable(services: ServiceContext, name: str, namespace: str) -> Definition:
    """Return the definition that a new session names, if sessions may be made of it."""
    found = await referred(services, Definition, name, namespace, "spec.definition")
    if found.spec.deprecated:
        instead = found.spec.replacement
        what = f"{found.name!r} is deprecated" + (f"; use {instead!r}" if instead else "")
        raise intake.invalid(("spec.definition", what), reason="DefinitionDeprecated")
    return found


async def fixed(
    services: ServiceContext, caller: Caller, new: Session, definition: Definition
) -> Admitted:
    """Fix a new session's definition, track, slot and claim: what it is from now on."""
    new = pinned(new, definition, services.clock.now())
    if caller.principal.role is Role.USER:
        short_enough(services, [new])
    taken = await session_claims.of_new(services, caller, new, definition)
    return Admitted(
        with_status(new, claim=taken.claim),
        (stores.AtRevision(definition.key, definition.revision), *taken.preconditions),
        (ledger_rows.touch(ledger_rows.of(definition.key)), *taken.writes),
    )


def pinned(new: Session, definition: Definition, now: datetime) -> Session:
    """Return a new session with its definition, track and slot, as they are from now on."""
    spec = new.spec
    start, end = resolved(spec.slot, definition, now)
    pin = DefinitionPin(
        name=definition.name,
        uid=definition.metadata.uid,
        version=definition.spec.version,
        topology_digest=definition.status.topology_digest,
        pinned_at=now,
    )
    new = with_spec(new, track=spec.track or definition.spec.track)
    # A session without a start begins when it runs, so its times are not known yet.
    asap = spec.slot.start is None
    return with_status(
        new,
        phase_since=now,
        definition=pin,
        start=None if asap else start,
        end=end if not asap or spec.slot.end is not None else None,
    )


def few_enough(services: ServiceContext, owner: str, namespace: str, more: int = 1) -> None:
    """Raise QuotaExceeded when with so many more an owner has more open sessions than one may have.

    Seats count for who booked them. Counted in the cache and in what this request has made;
    `objects.create` lets one owner make one after the other.
    """
    most = services.settings.now().limits.open_sessions
    count = services.cache.count(indices.SESSIONS_OF_OWNER, f"{namespace}/{owner}")
    count += len(_unseen(services, owner, namespace))
    if count + more > most:
        has = f"{owner} has {quantity.count(count, 'open session')} in {namespace}"
        message = (
            f"{has}, as many as one may have (limits.openSessions); cancel one, or wait until one "
            "ends"
        )
        if more > 1:
            message = (
                f"{has} and may have {most} (limits.openSessions), so {more} more are too many; ask "
                "for fewer, or an operator"
            )
        raise errors.QuotaExceeded(message, reason="TooManySessions", retry_after=60)


def _unseen(services: ServiceContext, owner: str, namespace: str) -> list[Session]:
    """Return the owner's sessions that this request has made and the cache lacks."""
    return [
        each
        for each in services.objects.saved(Session)
        if (each.metadata.namespace, booker(each)) == (namespace, owner)
        and services.cache.at(each.key) is None
    ]


def short_enough(
    services: ServiceContext,
    sessions: Sequence[Session],
    changed: Mapping[Key, Session] = MappingProxyType({}),
) -> None:
    """Raise QuotaExceeded when the slots of an owner last longer together than those of one may.

    `sessions` are some of one owner, as they are to be, `changed` others that the same commit
    changes. Seats count for who booked them. What has no slot holds nothing ahead of time and does
    not count.
    """
    most = services.settings.now().limits.promised_hours
    owner, namespace = booker(sessions[0]), sessions[0].namespace
    if most is None or not any(map(_slot, sessions)):
        return
    others = [
        *services.cache.by(indices.SESSIONS_OF_OWNER, f"{namespace}/{owner}"),
        *_unseen(services, owner, namespace),
    ]
    mine = {each.metadata.uid for each in sessions}
    beside = [changed.get(one.key, one) for one in others if one.metadata.uid not in mine]
    held = sum(map(_slot, (*sessions, *beside)), timedelta())
    if held > timedelta(hours=most):
        hours = held.total_seconds() / 3600
        message = (
            f"{owner} would have slots of {hours:.1f} hours in {namespace}, more than the {most} that "
            "one may have (limits.promisedHours); cancel one, ask for a shorter one, or wait until "
            "one ends"
        )
        raise errors.QuotaExceeded(message, reason="TooManyHours", retry_after=60)


def _slot(session: Session) -> timedelta:
    """Return how long a session's slot is; nothing when it has none."""
    start, end = session.status.start, session.status.end
    return timedelta() if session.spec.slot.start is None or not (start and end) else end - start


async def update_session(
    services: ServiceContext, caller: Caller, old: Session, new: Session
) -> Admitted:
    """Allow a later end and another priority; cancel and observe are verbs."""
    for field in ("cancel", "observe_requested"):
        if getattr(old.spec, field) != getattr(new.spec, field):
            shown = "observeRequested" if field == "observe_requested" else field
            raise intake.invalid((f"spec.{shown}", "is set by a verb, not by hand"))
    before, after = old.spec.slot, new.spec.slot
    if (before.start, before.zone) != (after.start, after.zone):
        raise intake.invalid(("spec.slot", "only the end may change"), reason="FrozenField")
    if before.end == after.end:
        return Admitted(new)
    if after.end is None:
        raise intake.invalid(("spec.slot.end", "cannot be taken back"))
    return await extended(services, caller, new, after.end)


def demand_booker(caller: Caller, old: Session, deed: str) -> None:
    """Raise Denied (SeatOfGroup) to whoever sits on a seat of a group that somebody else booked."""
    seat, who = old.status.seat, caller.principal
    if seat is not None and who.role is Role.USER and who.name != seat.booked_by:
        message = (
            f"session {old.name!r} is seat {seat.seat!r} of group {seat.group!r}: {seat.booked_by} "
            f"booked it and may {deed} it"
        )
        raise errors.Denied(message, reason="SeatOfGroup")


async def delete_session(services: ServiceContext, caller: Caller, old: Session) -> Admitted:
    """End a session that still runs, and keep its record until everything of it is gone."""
    demand_booker(caller, old, "delete")
    if old.status.phase in TERMINAL and old.status.reservation is None:
        return Admitted(old)
    if old.status.phase not in TERMINAL and old.spec.cancel is None:
        old = cancelled(services, caller, old, "deleted")
    if old.status.worker is not None or old.status.reservation is not None:
        metadata = meta.with_finalizer(old.metadata, FINALIZER_LAB)
        old = msgspec.structs.replace(old, metadata=metadata)
    return Admitted(old)


def cancelled(services: ServiceContext, caller: Caller, old: Session, reason: str) -> Session:
    """Return the session with its cancellation recorded."""
    demand_booker(caller, old, "cancel")
    by = caller.principal.name
    return with_spec(old, cancel=Cancellation(at=services.clock.now(), by=by, reason=reason))


async def extended(
    services: ServiceContext,
    caller: Caller,
    old: Session,
    end: datetime | None,
    beside: session_claims.Together | None = None,
) -> Admitted:
    """Move the end of a session to a later instant, with the capacity for the longer time.

    Refused: NoCapacity names what the worker lacks, or its pool beside what is promised, SlotOver that it has ended, NoSlot that it has
    no end yet. Invalid: OnlyLater, or TooLong for its definition. The reservation is extended like
    the slot, in the commit that checks the worker's ledger row; `beside` are sessions that the same
    commit extends.
    """
    demand_booker(caller, old, "extend")
    status = old.status
    if status.phase in TERMINAL:
        message = f"session {old.name!r} is over already ({status.phase}) and cannot be extended"
        raise Refused(message, reason="SlotOver")
    if status.phase in _ENDING or old.spec.cancel is not None or old.deleting:
        message = f"session {old.name!r} is ending ({status.phase}) and cannot be extended"
        raise Refused(message, reason="SlotOver")
    before = status.end or old.spec.slot.end
    if before is None or end is None:
        message = (
            f"session {old.name!r} has no end yet: its time counts from its start, "
            "so there is nothing to extend"
        )
        raise Refused(message, reason="NoSlot")
    if end.tzinfo is None:
        raise intake.invalid(("end", "give a time zone, for example 2026-11-27T09:00:00Z"))
    if end <= before:
        what = f"must be later than the present end, {utc_text(before, seconds=True)}"
        raise intake.invalid(("end", what), reason="OnlyLater")
    definition = await services.objects.get(Definition, old.spec.definition, old.metadata.namespace)
    if definition is not None:
        longest(definition, status.start or services.clock.now(), end, "end")
    beside = beside or await session_claims.together(services)
    if caller.principal.role is Role.USER:
        longer_slot = with_status(old, end=in_utc(end))
        short_enough(services, [longer_slot], beside.changed)
    changed = with_spec(old, slot=msgspec.structs.replace(old.spec.slot, end=end))
    taken = await session_claims.longer(services, old, end - before, beside)
    changed = with_status(changed, end=in_utc(end), claim=taken.claim)
    held = status.reservation
    if status.worker is None or held is None or held.end is None:
        beside.changed[old.key] = changed
        return Admitted(changed, taken.preconditions, taken.writes)
    longer = msgspec.structs.replace(held, end=held.end + (end - before))
    _room(services, old, status.worker, longer, since=held.end, beside=beside)
    row = ledger_rows.row("Worker", status.worker, old.metadata.namespace)
    changed = beside.changed[old.key] = with_status(changed, reservation=longer)
    return Admitted(
        changed,
        (ledger_rows.untouched(row, beside.revision), *taken.preconditions),
        (ledger_rows.touch(row), *taken.writes),
    )


def _room(
    services: ServiceContext,
    mine: Session,
    worker: str,
    longer: Reservation,
    *,
    since: datetime,
    beside: session_claims.Together,
) -> None:
    host = services.cache.get(Worker, worker, mine.metadata.namespace)
    if host is None or host.status.capacity is None:
        raise Refused(f"the capacity of worker {worker!r} is unknown", reason="NoCapacity")
    until = longer.end
    assert until is not None  # noqa: S101 - the caller extends bounded reservations only
    if host.deleting or host.spec.desired != "Ready" or host.spec.drain is not None:
        raise Refused(f"worker {worker!r} is being emptied", reason="NoCapacity")
    here = services.cache.by(indices.SESSIONS_HERE, host.key.path)
    others = [
        each.status.reservation
        for each in (beside.changed.get(one.key, one) for one in here)
        if each.key != mine.key and each.status.reservation is not None
    ]
    now = services.clock.now()
    held = ledger.peak(ledger.settled(others, now), since, until)
    short = ledger.shortages(longer.amounts, host.status.capacity, held)
    if short:
        lack = wording.short(short)
        message = (
            f"worker {worker!r} has no room until {utc_text(until, seconds=True)}: short {lack}"
        )
        raise Refused(message, reason="NoCapacity")


def resolved(slot: Slot, definition: Definition, now: datetime) -> tuple[datetime, datetime]:
    """Return when a slot begins and ends; Invalid names what is wrong with it."""
    try:
        zoneinfo.ZoneInfo(slot.zone)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        what = f"{slot.zone[:64]!r} is no IANA time zone; write for example Europe/Warsaw"
        raise intake.invalid(("spec.slot.zone", what)) from None
    start = now if slot.start is None else slot.start
    if start < now - timedelta(minutes=PAST_MINUTES):
        told = utc_text(now, seconds=True)
        what = f"lies more than {PAST_MINUTES} minutes in the past (it is {told})"
        raise intake.invalid(("spec.slot.start", what))
    if start > now + timedelta(days=AHEAD_DAYS):
        raise intake.invalid(("spec.slot.start", f"lies more than {AHEAD_DAYS} days ahead"))
    end = slot.end
    if end is None:
        end = start + timedelta(minutes=definition.spec.default_duration_minutes)
    if end <= max(now, start):
        raise intake.invalid(("spec.slot.end", "must be after the start and not in the past"))
    longest(definition, start, end, "spec.slot.end")
    return in_utc(start), in_utc(end)


def longest(definition: Definition, start: datetime, end: datetime, field: str) -> None:
    """Raise Invalid (TooLong) for a slot that is longer than its definition allows."""
    limit = timedelta(minutes=definition.spec.max_duration_minutes)
    if end - start > limit:
        minutes = definition.spec.max_duration_minutes
        what = f"a session of {definition.name!r} lasts at most {quantity.count(minutes, 'minute')}"
        raise intake.invalid((field, what), reason="TooLong")
