"""The rules of a session's time: a later end, an earlier one, another slot, and who has come.

Each returns what one commit writes: the slot, the claim and the reservation together, with the
ledger rows that they are taken from as preconditions. So no change takes what is promised to
others, and one that is refused leaves everything as it was.
"""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import learned_demand, ledger, wording
from labfleet.decisions.lifecycle.session import budget, extension
from labfleet.decisions.lifecycle.session.draft import PRESENT
from labfleet.interfaces import store as stores
from labfleet.kernel import quantity
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.resources import conditions, refs, zones
from labfleet.resources.amounts import Reservation
from labfleet.resources.definition import Definition
from labfleet.resources.group import Group, lasting, seats_of
from labfleet.resources.session import TERMINAL, Session, SessionPhase, SessionSpec, Slot
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.access import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, session_claims, session_shares
from labfleet.service.kinds.admitted import Admitted, with_spec, with_status
from labfleet.service.kinds.session_booker import demand_booker
from labfleet.service.kinds.session_claims import AHEAD_DAYS, Taken, Together, TooFar

PAST_MINUTES = 5
_ENDING = TERMINAL | {SessionPhase.COLLECTING, SessionPhase.STOPPING}
_HERE = frozenset({SessionPhase.INSTANTIATING, SessionPhase.READY, SessionPhase.RUNNING})
NOT_BEGUN = frozenset({SessionPhase.PENDING, SessionPhase.SCHEDULED})


async def extended(
    services: ServiceContext,
    caller: Caller,
    old: Session,
    end: datetime | None,
    beside: Together | None = None,
) -> Admitted:
    """Move the end of a session to a later instant, with the capacity for the longer time.

    Refused: NoCapacity names what is short and the latest end that fits, ExtensionLimit the one that
    the definition's policy leaves to callers of role user, SlotOver that it has ended, NoSlot that
    it has no end yet. Invalid: OnlyLater, or TooLong for its definition. The reservation is
    extended like the slot, in the commit that checks the worker's ledger row. `beside` are sessions
    that the same commit extends.
    """
    demand_booker(caller, old, "extend")
    before = _present_end(old, "extended")
    if before is None or end is None:
        raise _no_end(old, "extend")
    zoned("end", end)
    if end <= before:
        what = f"must be later than the present end, {utc_text(before, seconds=True)}"
        raise intake.invalid(("end", what), reason="OnlyLater")
    definition = await _definition(services, old)
    if definition is not None:
        begun = old.status.start or services.clock.now()
        # Whoever books a group gives factors to its seats, and no longer labs than its author allows.
        booked = old.status.seat is not None and caller.principal.role is Role.USER
        longest(definition, begun, end, "end", 1.0 if booked else old.spec.time_factor)
    used, bound = old.status.extensions, None
    if definition is not None and caller.principal.role is Role.USER:
        bound = extension.bound(definition.spec.extension, used, before)
        used = extension.counted(used, end - before)
    allowed = end if bound is None else min(end, bound.end)
    beside = beside or await session_claims.together(services)
    if caller.principal.role is Role.USER:
        session_shares.short_enough(services, [with_status(old, end=in_utc(end))], beside.changed)
    taken, held, rows = await _longer(services, old, allowed - before, beside)
    if bound is not None and end > bound.end:
        latest = taken.end if isinstance(taken, TooFar) else bound.end
        raise _refused(bound.why, latest, before, "ExtensionLimit")
    if isinstance(taken, TooFar):
        raise _refused(taken.why, taken.end, before, "NoCapacity")
    changed = with_spec(old, slot=msgspec.structs.replace(old.spec.slot, end=end))
    changed = with_status(
        changed, end=in_utc(end), claim=taken.claim, reservation=held, extensions=used
    )
    beside.changed[old.key] = changed
    if caller.principal.name == old.spec.owner and old.status.phase in _HERE:
        came = checked_in(caller, old, services.clock.now()).obj.status
        changed = with_status(
            changed, checked_in_at=came.checked_in_at, checked_in_by=came.checked_in_by
        )
    return Admitted(changed, (*rows.preconditions, *taken.preconditions), _writes(rows, taken))


async def shortened(
    services: ServiceContext, caller: Caller, old: Session, end: datetime | None
) -> Admitted:
    """Move the end of a session to an earlier instant; the time after it is free in this commit.

    Refused: SlotOver that it has ended, NoSlot that it has no end yet. Invalid (OnlyEarlier).
    """
    demand_booker(caller, old, "shorten")
    before = _present_end(old, "shortened")
    if before is None or end is None:
        raise _no_end(old, "shorten")
    zoned("end", end)
    now = services.clock.now()
    if not max(now, old.status.start or now) < end < before:
        what = (
            f"must be in the future, after the start and earlier than the present end, "
            f"{utc_text(before, seconds=True)}; to end it now, cancel it"
        )
        raise intake.invalid(("end", what), reason="OnlyEarlier")
    changed = with_spec(old, slot=msgspec.structs.replace(old.spec.slot, end=end))
    held, span = old.status.reservation, before - end
    if held is not None and held.end is not None:
        held = msgspec.structs.replace(held, end=held.end - span)
    claim = session_claims.shorter(old, span)
    return Admitted(with_status(changed, end=in_utc(end), claim=claim, reservation=held))


async def with_factor(
    services: ServiceContext, caller: Caller, old: Session, factor: float
) -> Admitted:
    """Give a session's person another time factor: end, claim and reservation change together.

    Its whole length counts, whatever it was made of; of a seat that of its group, so that what the
    seat has of its own stays. Refused and Invalid as a later or earlier end.
    """
    start, end = old.status.start, _present_end(old, "changed")
    new = with_spec(old, time_factor=factor)
    if end is None:
        return Admitted(new)
    more = await _more_of_group(services, old, factor)
    if more is not None:
        whole = end + more
    elif start is not None:
        whole = start + budget.scaled(end - start, factor / old.spec.time_factor)
    else:
        return Admitted(new)
    if whole > end:
        return await extended(services, caller, new, whole)
    return await shortened(services, caller, new, whole) if whole < end else Admitted(new)


async def _more_of_group(services: ServiceContext, old: Session, factor: float) -> timedelta | None:
    """Return by how much longer a seat lasts with another factor; None for what is no seat now."""
    seat = old.status.seat
    group = None if seat is None else await services.objects.get(Group, seat.group, old.namespace)
    if seat is None or group is None or group.metadata.uid != seat.uid:
        return None
    start, end = group.status.start, group.status.end
    if start is None or end is None:
        return None
    asked = {each.name: each.factor for each in seats_of(group.spec)}.get(seat.seat, 1.0)
    before = old.spec.time_factor if old.spec.time_factor != 1 else asked
    return lasting(end - start, factor) - lasting(end - start, before)


def checked_in(caller: Caller, old: Session, now: datetime) -> Admitted:
    """Record that a session's person has come; who extends it themselves has come too.

    Refused: SlotOver that it is over, NotYet that its lab is not being made ready yet.
    """
    _present_end(old, "checked in to")
    if old.status.checked_in_at is not None:
        return Admitted(old)
    if old.status.phase not in _HERE:
        message = f"session {old.name!r} is {old.status.phase}: check in when its lab is made ready"
        raise Refused(message, reason="NotYet")
    return Admitted(with_status(old, checked_in_at=now, checked_in_by=caller.principal.name))


async def moved(
    services: ServiceContext, caller: Caller, old: Session, start: datetime
) -> Admitted:
    """Move a slot that has not begun to another start, as long as it is, in one commit.

    Refused: NoCapacity names the nearest slots that fit, and the old promise stays; HasBegun that
    its lab is being made ready or runs, NoSlot that it has no start of its own. A worker that is
    booked for it is given back, and found anew for the new slot.
    """
    demand_booker(caller, old, "move")
    slot, end = old.spec.slot, _present_end(old, "moved")
    if slot.start is None or end is None:
        message = f"session {old.name!r} begins as soon as it can: it has no slot to move"
        raise Refused(message, reason="NoSlot")
    if old.status.phase not in NOT_BEGUN:
        message = (
            f"session {old.name!r} has begun ({old.status.phase}) and cannot be moved; extend or "
            "shorten it, or cancel it and ask for another slot"
        )
        raise Refused(message, reason="HasBegun")
    zoned("start", start)
    definition = await _definition(services, old)
    if definition is None:
        message = f"definition {old.spec.definition!r} of session {old.name!r} is gone"
        raise Refused(message, reason="NoDefinition")
    later = msgspec.structs.replace(slot, start=start, end=start + (end - slot.start))
    new = with_spec(old, slot=later)
    begin, over = resolved(new.spec, definition, services.clock.now())
    new, given = unbound(services, new)
    new = with_status(new, start=begin, end=over, decision=None)
    taken = await session_claims.of_new(services, caller, new, definition)
    return Admitted(
        with_status(new, claim=taken.claim),
        taken.preconditions,
        (*given, *taken.writes),
        reason=f"Moved: {utc_text(begin)} instead of {utc_text(old.status.start or slot.start)}",
    )


def unbound(services: ServiceContext, session: Session) -> tuple[Session, tuple[stores.Write, ...]]:
    """Return a session without the worker that is booked for it, and what gives that back.

    Nothing of it is on that worker: only what has not begun is moved.
    """
    worker, status = refs.worker_of(session), session.status
    if status.phase is not SessionPhase.SCHEDULED or worker is None:
        return session, ()
    facts = status.conditions
    for name in PRESENT:
        facts = conditions.drop(facts, name)
    changed = with_status(
        session,
        phase=SessionPhase.PENDING,
        phase_since=services.clock.now(),
        conditions=facts,
        worker=None,
        reservation=None,
        ports=(),
        placements=max(0, status.placements - 1),
        scheduled_at=None,
        reason="",
        message="moved to another slot; a worker is looked for again",
    )
    free = stores.FreePorts(worker=worker.key.path, owner=session.metadata.uid)
    return changed, (free, ledger_rows.touch(ledger_rows.of(worker.key)))


def resolved(spec: SessionSpec, definition: Definition, now: datetime) -> tuple[datetime, datetime]:
    """Return a new slot's start and end; Invalid names the field that cannot be."""
    slot = spec.slot
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
        end = start + budget.length(spec, definition)
    if end <= max(now, start):
        raise intake.invalid(("spec.slot.end", "must be after the start and not in the past"))
    longest(definition, start, end, "spec.slot.end", spec.time_factor)
    return in_utc(start), in_utc(end)


def contradictions(slot: Slot) -> tuple[str, ...]:
    """Return what is told of times whose offset their slot's zone does not have then."""
    told = {each: zones.contradiction(getattr(slot, each), slot.zone) for each in ("start", "end")}
    return tuple(f"slot.{name}: {said}" for name, said in told.items() if said)


def longest(
    definition: Definition, start: datetime, end: datetime, field: str, factor: float = 1.0
) -> None:
    """Raise Invalid (TooLong) for a slot that is longer than the definition's longest.

    Who needs more time may take as many times the longest.
    """
    minutes = definition.spec.max_duration_minutes
    if end - start > budget.scaled(timedelta(minutes=minutes), factor):
        times = "" if factor == 1 else f", times {factor:g}"
        most = quantity.count(minutes, "minute")
        last = utc_text(start + budget.scaled(timedelta(minutes=minutes), factor))
        what = f"a session of {definition.name!r} lasts at most {most}{times}, so until {last}"
        raise intake.invalid((field, what), reason="TooLong")


async def _definition(services: ServiceContext, session: Session) -> Definition | None:
    return await services.objects.get(Definition, session.spec.definition, session.namespace)


def _present_end(old: Session, deed: str) -> datetime | None:
    """Return a session's end; Refused (SlotOver) when it is over, or about to be."""
    phase = old.status.phase
    if phase in TERMINAL:
        message = f"session {old.name!r} is over already ({phase}) and cannot be {deed}"
        raise Refused(message, reason="SlotOver")
    if phase in _ENDING or old.spec.cancel is not None or old.deleting:
        message = f"session {old.name!r} is ending ({phase}) and cannot be {deed}"
        raise Refused(message, reason="SlotOver")
    return old.status.end or old.spec.slot.end


def _no_end(old: Session, deed: str) -> Refused:
    message = (
        f"session {old.name!r} has no end yet: its time counts from its start, "
        f"so there is nothing to {deed}"
    )
    return Refused(message, reason="NoSlot")


def zoned(field: str, at: datetime) -> None:
    """Raise Invalid for an instant without a zone."""
    if at.tzinfo is None:
        raise intake.invalid((field, "give a time zone, for example 2026-11-27T09:00:00Z"))


def _refused(why: str, latest: datetime, before: datetime, reason: str) -> Refused:
    """Return the refusal of a later end, with the latest one that can be had."""
    told = utc_text(latest, seconds=True)
    fits = (("end", f"{told} fits"),) if latest > before else ()
    return Refused(f"{why}; it may last until {told} at most", reason=reason, problems=fits)


def _writes(rows: Taken, taken: Taken) -> tuple[stores.Write, ...]:
    return (*rows.writes, *taken.writes)


async def _longer(
    services: ServiceContext, old: Session, span: timedelta, beside: Together
) -> tuple[Taken | TooFar, Reservation | None, Taken]:
    """Return claim and reservation, longer by a span; TooFar with the latest that both allow."""
    held, before = old.status.reservation, old.status.end or old.spec.slot.end
    if not span or before is None:
        return Taken(old.status.claim), held, Taken()
    taken = await session_claims.longer(services, old, span, beside)
    if old.status.worker is None or held is None or held.end is None:
        return taken, held, Taken()
    longer = msgspec.structs.replace(held, end=held.end + span)
    short = _room(services, old, longer, since=held.end, beside=beside)
    if short is not None:
        short = TooFar(max(before, short.end - (held.end - before)), short.why)
        latest = short if isinstance(taken, Taken) or short.end < taken.end else taken
        return latest, held, Taken()
    row = ledger_rows.row("Worker", old.status.worker, old.namespace)
    free = (ledger_rows.untouched(row, beside.revision),)
    return taken, longer, Taken(None, free, (ledger_rows.touch(row),))


def _room(
    services: ServiceContext,
    mine: Session,
    longer: Reservation,
    *,
    since: datetime,
    beside: Together,
) -> TooFar | None:
    """Return from when on a session's worker has no room for it; None when it has."""
    worker, until = mine.status.worker or "", longer.end
    host = services.cache.get(Worker, worker, mine.namespace)
    if host is None or host.status.capacity is None:
        return TooFar(since, f"the capacity of worker {worker!r} is unknown")
    if until is None:
        raise AssertionError("only bounded reservations are extended")
    if host.deleting or host.spec.desired != "Ready" or host.spec.drain is not None:
        return TooFar(since, f"worker {worker!r} is being emptied")
    here = services.cache.by(indices.SESSIONS_HERE, host.key.path)
    others = ledger.settled(
        (
            held
            for each in (beside.changed.get(one.key, one) for one in here)
            if each.key != mine.key and (held := learned_demand.held(each)) is not None
        ),
        services.clock.now(),
    )
    size = host.status.capacity
    real = learned_demand.held(mine) or longer
    short = ledger.shortages(real.amounts, size, ledger.peak(others, since, until))
    if not short:
        return None
    why = (
        f"worker {worker!r} has no room until {utc_text(until, seconds=True)}: "
        f"short {wording.short(short)}"
    )
    return TooFar(ledger.full_from(real.amounts, size, others, since), why)
