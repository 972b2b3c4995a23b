"""The rules of groups: all seats are booked, moved and ended together, each in one commit.

A group's sessions carry who booked them (`status.seat`), so that they are seen and extended by the
booker whoever sits there; their own rules stay those of sessions.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.kernel.quantity import count
from labfleet.resources.group import BookedSeat, Group, GroupStatus, SeatCounts
from labfleet.resources.meta import Key
from labfleet.resources.session import Session, SessionSpec
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.core.shared_reads import SharedReads
from labfleet.service.kinds import (
    group_claims,
    group_seats,
    indices,
    session_claims,
    session_demand,
    session_rules,
    session_shares,
    session_times,
)
from labfleet.service.kinds.admitted import Admitted, with_spec, with_status

_PEOPLE = frozenset({"read", "create", "update", "delete"})
KEPT_MOST = 500
"""Groups of one owner, for callers of role user: a record is kept when its seats are over."""
_TOLD = 10
"""Seats that a refusal names."""


class GroupEvent(EventType):
    """What can happen to a group."""

    CREATED = "group.created", "somebody booked seats together"
    UPDATED = "group.updated", "its end was moved, or somebody else sits on a seat"
    DELETED = "group.deleted", "its seats were cancelled and its record is gone"


async def create_group(services: ServiceContext, caller: Caller, new: Group) -> Admitted:
    """Book the seats of a new group with their claims, all or as many as fit, in one commit."""
    spec, who = new.spec, caller.principal
    owner = spec.owner or who.name
    if who.role is Role.USER and owner != who.name:
        raise intake.invalid(("spec.owner", "you can book groups for yourself only"))
    if not owner.isprintable():
        raise intake.invalid(("spec.owner", "must not hold control characters"))
    seats = group_seats.checked(new.spec)
    definition = await session_rules.named(services, spec, new.namespace)
    new = with_spec(new, owner=owner, definition=definition.name)
    session_rules.own_track(caller, spec.track, definition)
    if who.role is Role.USER:
        _few_enough(services, owner)
        session_shares.few_enough(services, owner, new.namespace, len(seats))
    asked = SessionSpec(definition=definition.name, slot=spec.slot)
    start, end = session_times.resolved(asked, definition, services.clock.now())
    demand = await session_demand.of_new(services, definition, new.spec.track)
    made = group_seats.sessions(services, new, seats, definition, demand)
    if who.role is Role.USER:
        session_shares.short_enough(services, made)
    some = spec.when_full == "some"
    done = await group_claims.book(services, caller, made, definition, some=some)
    there = {each.status.seat.seat: each.name for each in done.sessions if each.status.seat}
    message = f"{len(done.sessions)} of {count(len(seats), 'seat')} are booked"
    status = GroupStatus(
        start=start,
        end=end,
        asked=len(seats),
        booked=len(done.sessions),
        seats=tuple(BookedSeat(name=each.name, session=there.get(each.name)) for each in seats),
        message=f"{message}; {done.message}" if done.message else message,
    )
    return Admitted(
        msgspec.structs.replace(new, status=status),
        (stores.AtRevision(definition.key, definition.revision), *done.preconditions),
        (ledger_rows.touch(ledger_rows.of(definition.key)), *done.writes),
        others=done.sessions,
    )


def _few_enough(services: ServiceContext, owner: str) -> None:
    """Raise QuotaExceeded when the records of an owner's groups are as many as one may have."""
    have = services.cache.count(indices.filter_of("Group", "owner"), owner)
    if have >= KEPT_MOST:
        told = f"{owner} has {count(have, 'group')}, as many as one may have, past ones too"
        raise errors.QuotaExceeded(f"{told}; delete one", reason="TooManyGroups")


async def update_group(
    services: ServiceContext, caller: Caller, old: Group, new: Group
) -> Admitted:
    """Allow another end for all seats, and other people on them: all in one commit, or nothing."""
    if old.spec == new.spec:
        return Admitted(new)
    before, after = old.spec.slot, new.spec.slot
    if (before.start, before.zone) != (after.start, after.zone):
        raise intake.invalid(("spec.slot", "only the end may change"), reason="FrozenField")
    moves = before.end != after.end
    if moves and after.end is None:
        raise intake.invalid(("spec.slot.end", "cannot be taken back"))
    services = dataclasses.replace(services, objects=SharedReads(services.objects))
    beside = await session_claims.together(services)
    found = group_seats.of(services, old)
    changed = _seated(old, new, found)
    rows: list[Admitted] = []
    if moves and after.end is not None:
        new = with_status(new, end=in_utc(after.end))
        present = [changed.get(each.key, each) for each in found if group_seats.is_open(each)]
        rows = await _moved(services, caller, old, after.end, found=present, beside=beside)
        changed |= {each.obj.key: each.obj for each in rows if isinstance(each.obj, Session)}
    others = [_next(each, changed[each.key]) for each in found if each.key in changed]
    return Admitted(
        new,
        (
            _no_new_attempt(old, beside.revision),
            *dict.fromkeys(one for each in rows for one in each.preconditions),
        ),
        tuple(dict.fromkeys(one for each in rows for one in each.writes)),
        others=tuple(others),
    )


async def delete_group(services: ServiceContext, caller: Caller, old: Group) -> Admitted:
    """Cancel all seats that are not over, in the commit that removes the group."""
    revision = await services.fresh()
    others = tuple(
        _next(each, session_rules.cancelled(services, caller, each, f"group {old.name} deleted"))
        for each in group_seats.of(services, old)
        if group_seats.is_open(each)
    )
    return Admitted(old, (_no_new_attempt(old, revision),), others=others)


def _no_new_attempt(group: Group, revision: int) -> stores.Precondition:
    """Return that no seat was tried again since the revision, which this commit would leave out."""
    return ledger_rows.untouched(ledger_rows.of(group.key), revision)


def _next(old: Session, new: Session) -> Session:
    """Return a changed session with the generation of its new spec."""
    generation = old.metadata.generation + (old.spec != new.spec)
    metadata = msgspec.structs.replace(new.metadata, generation=generation)
    return msgspec.structs.replace(new, metadata=metadata)


def _seated(old: Group, new: Group, found: list[Session]) -> dict[Key, Session]:
    """Return the sessions whose seats are given to somebody else; Invalid for other seats."""
    before = {each.name: each for each in group_seats.checked(old.spec)}
    after = {each.name: each for each in group_seats.checked(new.spec)}
    strange = sorted(set(before) ^ set(after))
    if strange:
        what = f"seats cannot be added, renamed or removed later: {', '.join(strange[:_TOLD])}"
        told = f"{what}; book another group, or cancel the session of a seat"
        raise intake.invalid(("spec.seats", told), reason="FrozenField")
    longer = [name for name, each in after.items() if each.factor != before[name].factor]
    if longer:
        what = f"the factor of a seat cannot be changed later: {', '.join(longer[:_TOLD])}"
        raise intake.invalid(("spec.seats", what), reason="FrozenField")
    given = {name: each.person for name, each in after.items() if each != before[name]}
    changed = dict[Key, Session]()
    for session in found:
        seat = session.status.seat
        if seat is None or seat.seat not in given or not group_seats.is_open(session):
            continue
        if session.spec.owner != given[seat.seat]:
            changed[session.key] = with_spec(session, owner=given[seat.seat])
    return changed


async def _moved(
    services: ServiceContext,
    caller: Caller,
    old: Group,
    end: datetime,
    *,
    found: list[Session],
    beside: session_claims.Together,
) -> list[Admitted]:
    """Return the open seats with another end; Refused names those that cannot have it."""
    before = old.status.end
    if before is None or end == before:
        return []
    if not found:
        what = f"no seat of group {old.name!r} may still be used, so there is nothing to move"
        raise Refused(what, reason="SlotOver")
    now = services.clock.now()
    if end <= max(now, old.status.start or now):
        what = f"must lie ahead (it is {utc_text(now, seconds=True)}); to end all seats delete it"
        raise intake.invalid(("spec.slot.end", what))
    factors = {each.name: each.factor for each in group_seats.checked(old.spec)}
    made, refused = list[Admitted](), list[tuple[str, str]]()
    for each in found:
        seat = each.status.seat
        last = each.status.end
        if seat is None or last is None:
            continue
        factor = factors.get(seat.seat, 1.0)
        if end < before:
            # A seat that was made shorter by itself ends no earlier than the others do.
            earlier = max(last - group_seats.longer(before - end, factor), min(last, end))
            if each.status.start is not None and earlier <= each.status.start:
                refused.append((f"seat {seat.seat}", "would end before it begins: cancel it"))
            elif earlier < last:
                made.append(_shorter(each, earlier, now))
            continue
        later = last + group_seats.longer(end - before, factor)
        try:
            made.append(await session_times.extended(services, caller, each, later, beside))
        except (Refused, errors.Invalid) as error:
            refused.append((f"seat {seat.seat}", error.message))
    if refused:
        first = "; ".join(f"{where}: {what}" for where, what in refused[:1])
        message = (
            f"{len(refused)} of {count(len(found), 'seat')} cannot last until {utc_text(end)}, so "
            f"none was moved: {first}"
        )
        if end > before:
            message += (
                f"; to extend those that can: labfleet extend -l labfleet.dev/group={old.name}"
            )
        raise Refused(message, reason="NoCapacity", problems=tuple(refused[:_TOLD]))
    return made


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


async def _explain(services: ServiceContext, group: Group) -> Explanation:
    """Return how the seats of a group stand, and what was said when it was booked."""
    await services.fresh()
    found = group_seats.counts(services, group)
    said = ", ".join(f"{number} {word}" for word, number in _words(found))
    late = f"; {found.late} of them late: their slot has begun" if found.late else ""
    stands = f" Its seats: {said}{late}." if said else ""
    return plain(group, f"{group.status.message.rstrip('.')}.{stands}")


def _words(found: SeatCounts) -> list[tuple[str, int]]:
    plain_counts = msgspec.structs.asdict(found)
    return [(word, number) for word, number in plain_counts.items() if number and word != "late"]


def _warns(services: ServiceContext, group: Group) -> tuple[str, ...]:
    del services
    status = group.status
    without = [each.name for each in status.seats if each.session is None]
    if not without:
        return ()
    named = ", ".join(without[:_TOLD]) + (", …" if len(without) > _TOLD else "")
    return (f"{count(len(without), 'seat')} of {status.asked} found no room: {named}",)


def _line(services: ServiceContext, group: Group) -> str | None:
    return session_claims.line(services, group.namespace)


RULES = KindRules(
    name="Group",
    create=create_group,
    update=update_group,
    delete=delete_group,
    grants={Role.USER: _PEOPLE},
    owned=frozenset({Role.USER}),
    line=_line,
    explain=_explain,
    warns=_warns,
    shown=group_seats.shown,
    derived=("status.counts",),
    event_types=GroupEvent,
    indices=(indices.GROUPS_ENDED,),
)
