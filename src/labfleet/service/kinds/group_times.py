"""The rules of a group's times: another end, another start, another factor of a seat.

A group has the times that were asked for last for all its seats (`status.start`, `status.end`). What
somebody changed of one seat alone is that seat's: it is kept when all are changed, and no change of
the group passes over a seat in silence (`status.changes`). All of it is one commit, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.kernel.quantity import count
from labfleet.resources.definition import Definition
from labfleet.resources.group import (
    LABEL,
    Group,
    GroupSpec,
    SeatsChanged,
    SeatTimes,
    lasting,
    seats_of,
)
from labfleet.resources.session import Session, SessionSpec, Slot
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import group_claims, group_seats, session_claims, session_times
from labfleet.service.kinds.admitted import Admitted, with_generation, with_spec, with_status

TOLD = 10
"""Seats that a refusal or an explanation names."""


class Wish(NamedTuple):
    """What is asked for all seats of a group: from when to when, and which of them get how much more."""

    start: datetime
    end: datetime
    factors: Mapping[str, float]


def wish(group: Group) -> Wish | None:
    """Return what was asked for last for all seats; None when nothing was booked."""
    start, end = group.status.start, group.status.end
    if start is None or end is None:
        return None
    return Wish(start, end, factors_of(group.spec))


def factors_of(spec: GroupSpec) -> dict[str, float]:
    """Return by name the factors of seats that have one; the others last as long as the group."""
    named = seats_of(msgspec.structs.replace(spec, size=None, spare=0))
    return {each.name: each.factor for each in named if each.factor != 1}


def factor_of(session: Session, asked: Wish) -> float:
    """Return how many times as long as the others a seat may take now."""
    own = session.spec.time_factor
    # A seat that an earlier release booked has its factor in its group alone.
    return own if own != 1 else asked.factors.get(group_seats.name_in(session), 1.0)


def differs(session: Session, asked: Wish) -> bool:
    """Tell whether a seat begins or ends otherwise than its group says."""
    start, last = session.spec.slot.start, session.status.end
    moved = start is not None and start != asked.start
    if last is None:
        return moved
    factor = asked.factors.get(group_seats.name_in(session), 1.0)
    return moved or last != asked.start + lasting(asked.end - asked.start, factor)


async def ending(
    services: ServiceContext, caller: Caller, old: Group, end: datetime, *, later: bool
) -> Admitted:
    """Return a group all of whose seats end later, or earlier, by as much as it does.

    Invalid: OnlyLater, OnlyEarlier. Refused (NoCapacity, SlotOver) names the seats that cannot.
    """
    session_times.zoned("end", end)
    asked = _asked(old)
    if end == asked.end:
        return Admitted(old)
    if (end > asked.end) is not later:
        word, reason = ("later", "OnlyLater") if later else ("earlier", "OnlyEarlier")
        what = f"must be {word} than the present end, {utc_text(asked.end, seconds=True)}"
        raise intake.invalid(("end", what), reason=reason)
    now = services.clock.now()
    if end <= max(now, asked.start):
        what = f"must be after the start and lie ahead (it is {utc_text(now, seconds=True)})"
        raise intake.invalid(("end", f"{what}; to end all seats delete the group"))
    beside = await session_claims.together(services)
    found = _open(services, old)
    rows = await changed(services, caller, old, asked._replace(end=end), found=found, beside=beside)
    return written(with_status(old, end=in_utc(end)), found, rows, beside.revision)


async def moved(services: ServiceContext, caller: Caller, old: Group, start: datetime) -> Admitted:
    """Return a group whose seats all begin and end so much later or earlier, in one commit.

    Refused: HasBegun, NoSlot names the seats that cannot be moved; NoCapacity how many fit and the
    nearest slots for all. Then the old slots stay.
    """
    session_times.zoned("start", start)
    asked = _asked(old)
    span = start - asked.start
    if not span:
        return Admitted(old)
    revision = await services.fresh()
    found = _open(services, old)
    _movable(old, found)
    definition = await services.objects.get(Definition, old.spec.definition, old.namespace)
    if definition is None:
        message = f"definition {old.spec.definition!r} of group {old.name!r} is gone"
        raise Refused(message, reason="NoDefinition")
    wanted, given = list[Session](), list[stores.Write]()
    for each in found:
        later = _later(services, each, asked, definition, span)
        free, back = session_times.unbound(services, with_spec(each, slot=later))
        given += back
        begin, last = (None if at is None else in_utc(at) for at in (later.start, later.end))
        wanted.append(with_status(free, start=begin, end=last, decision=None))
    booked = await group_claims.book(services, caller, wanted, definition, moving=True)
    rows = [Admitted(each) for each in booked.sessions]
    new = with_status(old, start=in_utc(start), end=in_utc(asked.end + span))
    made = written(new, found, rows, revision)
    writes = tuple(dict.fromkeys((*made.writes, *booked.writes, *given)))
    if len(writes) + len(made.others) >= stores.COMMIT_LIMIT:
        many = sum(each.status.worker is not None for each in found)
        message = (
            f"{many} of {count(len(found), 'seat')} have a worker already, too many to be given back "
            "in one step; move the sessions one by one, or delete the group and book it anew"
        )
        raise Refused(message, reason="HasBegun")
    return Admitted(
        made.obj,
        (*made.preconditions, *booked.preconditions),
        writes,
        reason=f"Moved: {utc_text(start)} instead of {utc_text(asked.start)}",
        others=made.others,
    )


def _later(
    services: ServiceContext, seat: Session, asked: Wish, definition: Definition, span: timedelta
) -> Slot:
    """Return a seat's slot that is moved by a span; Invalid names the seat for which it cannot be."""
    slot = seat.spec.slot
    last, begin = (seat.status.end or asked.end) + span, (slot.start or asked.start) + span
    later = msgspec.structs.replace(slot, start=begin, end=last)
    factor = factor_of(seat, asked)
    spec = SessionSpec(definition=definition.name, slot=later, time_factor=factor)
    try:
        session_times.resolved(spec, definition, services.clock.now())
    except errors.Invalid as error:
        name = f"seat {group_seats.name_in(seat)}"
        raise intake.invalid(
            (name, error.problems[0][1] if error.problems else error.message)
        ) from None
    return later


def _asked(group: Group) -> Wish:
    asked = wish(group)
    if asked is None:
        raise Refused(f"group {group.name!r} has no slot", reason="NoSlot")
    return asked


def _movable(group: Group, found: Sequence[Session]) -> None:
    """Raise Refused when a group has no seat to move, or some that cannot be."""
    if not found:
        raise _over(group, "move")
    cannot = list[tuple[str, str]]()
    begun = False
    for each in found:
        if each.status.phase not in session_times.NOT_BEGUN:
            begun = True
            cannot.append((f"seat {group_seats.name_in(each)}", f"has begun ({each.status.phase})"))
        elif each.spec.slot.start is None:
            cannot.append((f"seat {group_seats.name_in(each)}", "begins as soon as it can"))
    if cannot:
        late = [each for each in found if each.status.phase in session_times.NOT_BEGUN]
        alone = f", or move one: labfleet move {late[0].name} --later 30m" if late else ""
        named = "; ".join(f"{where} {what}" for where, what in cannot[:TOLD])
        more = f"; and {len(cannot) - TOLD} more" if len(cannot) > TOLD else ""
        message = (
            f"{len(cannot)} of {count(len(found), 'seat')} cannot be moved, so none was: {named}{more}. "
            f"Extend or shorten the group{alone}"
        )
        reason = "HasBegun" if begun else "NoSlot"
        raise Refused(message, reason=reason, problems=tuple(cannot[:TOLD]))


def _over(group: Group, deed: str) -> Refused:
    what = f"no seat of group {group.name!r} may still be used, so there is nothing to {deed}"
    return Refused(what, reason="SlotOver")


async def changed(
    services: ServiceContext,
    caller: Caller,
    old: Group,
    after: Wish,
    *,
    found: Sequence[Session],
    beside: session_claims.Together,
) -> list[Admitted]:
    """Return the open seats whose end changes by another end or factor; Refused names who cannot.

    `old` is the group as it was, `found` its open seats. Each keeps what it has of its own.
    """
    before = _asked(old)
    moves, now = after.end != before.end, services.clock.now()
    if moves and not found:
        raise _over(old, "move")
    if moves and after.end <= max(now, before.start):
        what = f"must lie ahead (it is {utc_text(now, seconds=True)}); to end all seats delete it"
        raise intake.invalid(("spec.slot.end", what))
    made, refused = list[Admitted](), list[tuple[str, str]]()
    for each in found:
        try:
            row = await _one(services, caller, each, before=before, after=after, beside=beside)
        except (Refused, errors.Invalid) as error:
            refused.append((f"seat {group_seats.name_in(each)}", error.message))
            continue
        if row is not None:
            made.append(row)
    if refused:
        raise _none(old, before, after, refused, len(found))
    return made


async def _one(
    services: ServiceContext,
    caller: Caller,
    seat: Session,
    *,
    before: Wish,
    after: Wish,
    beside: session_claims.Together,
) -> Admitted | None:
    """Return a seat with its new end and factor; None when neither changes."""
    name, last = group_seats.name_in(seat), seat.status.end
    factor = factor_of(seat, before)
    other = factor
    if after.factors.get(name, 1.0) != before.factors.get(name, 1.0):
        other = after.factors.get(name, 1.0)
    if last is None:
        return None
    length = lasting(after.end - after.start, other)
    end = last + length - lasting(before.end - before.start, factor)
    if end < last:
        # One that was made shorter by itself ends no earlier than its group lets it last.
        begin = seat.spec.slot.start or before.start
        end = max(end, min(last, begin + length))
    new = seat if other == factor else with_spec(seat, time_factor=other)
    if end == last:
        return None if new is seat else Admitted(new)
    if end > last:
        return await session_times.extended(services, caller, new, end, beside)
    if seat.status.start is not None and end <= seat.status.start:
        raise Refused("would end before it begins: cancel it", reason="SlotOver")
    row = _shorter(new, end, services.clock.now())
    if isinstance(row.obj, Session):
        beside.changed[seat.key] = row.obj
    return row


def _none(
    group: Group, before: Wish, after: Wish, refused: list[tuple[str, str]], many: int
) -> Refused:
    """Return the refusal of a change for all, because some seats cannot have it."""
    where, what = refused[0]
    deed = f"last until {utc_text(after.end)}"
    if after.end == before.end:
        deed = "have another factor"
    message = (
        f"{len(refused)} of {count(many, 'seat')} cannot {deed}, so none was moved: {where}: {what}"
    )
    if after.end > before.end:
        message += f"; to extend those that can: labfleet extend -l {LABEL}={group.name}"
    return Refused(message, reason="NoCapacity", problems=tuple(refused[:TOLD]))


def _shorter(session: Session, end: datetime, now: datetime) -> Admitted:
    """Return a seat that ends earlier, with its claim and reservation; both need no look at others."""
    status = session.status
    before = status.end or end
    end = max(end, now, status.start or now)
    claim, held = status.claim, status.reservation
    if claim is not None:
        claim = msgspec.structs.replace(claim, end=claim.end - (before - end))
    if held is not None and held.end is not None:
        held = msgspec.structs.replace(held, end=held.end - (before - end))
    slot = msgspec.structs.replace(session.spec.slot, end=end)
    moved = with_status(session, end=end, claim=claim, reservation=held)
    return Admitted(with_spec(moved, slot=slot))


def written(
    new: Group, found: Iterable[Session], rows: Sequence[Admitted], revision: int
) -> Admitted:
    """Return what one commit writes of a group and its seats; the group says which times changed.

    `found` are the seats as they were at the cache's `revision`.
    """
    known = {each.key: each for each in found}
    after = [each.obj for each in rows if isinstance(each.obj, Session)]
    others = [with_generation(known[each.key], each) for each in after]
    told = changes((known[each.key], each) for each in after)
    return Admitted(
        with_status(new, changes=told),
        (
            no_new_attempt(new, revision),
            *dict.fromkeys(one for each in rows for one in each.preconditions),
        ),
        tuple(dict.fromkeys(one for each in rows for one in each.writes)),
        others=tuple(others),
    )


def no_new_attempt(group: Group, revision: int) -> stores.Precondition:
    """Return that no seat was tried again since the revision, which this commit would leave out."""
    return ledger_rows.untouched(ledger_rows.of(group.key), revision)


def changes(pairs: Iterable[tuple[Session, Session]]) -> tuple[SeatsChanged, ...]:
    """Return whose times changed from what to what, those that changed alike together."""
    alike: dict[tuple[datetime | None, datetime, datetime | None, datetime], list[str]] = {}
    for old, new in pairs:
        was, now = old.status, new.status
        if was.end is None or now.end is None or (was.start, was.end) == (now.start, now.end):
            continue
        key = (was.start, was.end, now.start, now.end)
        alike.setdefault(key, []).append(group_seats.name_in(new))
    return tuple(
        SeatsChanged(
            seats=tuple(names), start_before=begun, end_before=ended, start=begins, end=ends
        )
        for (begun, ended, begins, ends), names in alike.items()
    )


def words(found: SeatsChanged) -> str:
    """Return from which times to which seats were changed, all of them named."""
    who = f"{count(len(found.seats), 'seat')} ({', '.join(ranges(found.seats))})"
    if found.start != found.start_before and found.start and found.start_before:
        later = "later" if found.start > found.start_before else "earlier"
        return (
            f"{who}: {later}, {utc_text(found.start)} to {utc_text(found.end)} instead of "
            f"{utc_text(found.start_before)} to {utc_text(found.end_before)}"
        )
    later = "later" if found.end > found.end_before else "earlier"
    return f"{who}: end {later}, at {utc_text(found.end)} instead of {utc_text(found.end_before)}"


def ranges(names: Sequence[str]) -> list[str]:
    """Return names of seats, numbers that follow each other as `001-008`."""
    found, run = list[str](), list[str]()
    for name in (*names, ""):
        plain = name.isascii() and name.isdigit()
        if run and plain and len(name) == len(run[-1]) and int(name) == int(run[-1]) + 1:
            run.append(name)
            continue
        if run:
            found += run if len(run) < 3 else [f"{run[0]}-{run[-1]}"]
        run = [name] if plain else []
        if name and not plain:
            found.append(name)
    return found


def own(services: ServiceContext, group: Group) -> list[str]:
    """Return in words the times of seats that are not their group's; at most some are named."""
    asked = wish(group)
    if asked is None:
        return []
    found = [each for each in _open(services, group) if differs(each, asked)]
    told = [_own(each, asked) for each in found[:TOLD]]
    return [*told, f"and {len(found) - TOLD} more"] if len(found) > TOLD else told


def _own(seat: Session, asked: Wish) -> str:
    name, status = group_seats.name_in(seat), seat.status
    begin, last = status.start or seat.spec.slot.start, status.end
    said = f"{name} ends {utc_text(last)}" if last is not None else f"{name} has no end yet"
    if begin is not None and begin != asked.start:
        said = f"{name} begins {utc_text(begin)}" + (f" and ends {utc_text(last)}" if last else "")
    factor = factor_of(seat, asked)
    return said if factor == asked.factors.get(name, 1.0) else f"{said} ({factor:g} times as long)"


def since(group: Group) -> str:
    """Return how the times of a group differ from what its manifest says; empty when they do not."""
    slot, start, end = group.spec.slot, group.status.start, group.status.end
    if start is None or end is None or slot.start is None:
        return ""
    if (slot.start, slot.end or end) == (start, end):
        return ""
    said = f"{utc_text(slot.start)} to {utc_text(slot.end)}" if slot.end else utc_text(slot.start)
    return (
        f"its seats were moved, extended or shortened since they were booked: they are from "
        f"{utc_text(start)} to {utc_text(end)}, spec.slot says {said}, and applying that again changes "
        "none of them"
    )


def shown(services: ServiceContext, group: Group) -> Group:
    """Return a group as it is read by others: with how its seats stand, and from when to when."""
    seats, asked = group_seats.of(services, group), wish(group)
    begins = [each.status.start for each in seats if each.status.start is not None]
    ends = [each.status.end for each in seats if each.status.end is not None]
    still = (each for each in seats if group_seats.is_open(each))
    times = SeatTimes(
        first_start=min(begins, default=None),
        last_end=max(ends, default=None),
        differ=0 if asked is None else sum(differs(each, asked) for each in still),
    )
    return with_status(group, counts=group_seats.counts(services, group), times=times)


def _open(services: ServiceContext, group: Group) -> list[Session]:
    return [each for each in group_seats.of(services, group) if group_seats.is_open(each)]
