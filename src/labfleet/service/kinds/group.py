"""The rules of groups: all seats are booked, moved and ended together, each in one commit.

A group's sessions carry who booked them (`status.seat`), so that they are seen and extended by the
booker whoever sits there; their own rules stay those of sessions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant, in_utc
from labfleet.kernel.quantity import count
from labfleet.resources.group import BookedSeat, Group, GroupStatus, SeatCounts
from labfleet.resources.meta import Key
from labfleet.resources.session import Session, SessionPhase, SessionSpec
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import Change, EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.shared_reads import SharedReads
from labfleet.service.kinds import (
    group_claims,
    group_seats,
    group_times,
    group_view,
    indices,
    session_claims,
    session_demand,
    session_handing,
    session_holdup,
    session_rules,
    session_shares,
    session_times,
)
from labfleet.service.kinds.admitted import Admitted, with_generation, with_spec, with_status

_PEOPLE = frozenset({"read", "create", "update", "delete", "extend", "shorten", "move"})
KEPT_MOST = 500
"""Groups of one owner, for callers of role user: a record is kept when its seats are over."""
_TOLD = 10
"""Seats that a refusal names."""


class GroupEvent(EventType):
    """What can happen to a group."""

    CREATED = "group.created", "somebody booked seats together"
    UPDATED = "group.updated", "another end, person or factor of a seat was asked for"
    TIMES_CHANGED = (
        "group.times_changed",
        "its seats were moved, extended or shortened (new_start, new_end)",
    )
    DELETED = "group.deleted", "its seats were cancelled and its record is gone"


async def create_group(
    services: ServiceContext, caller: Caller, new: Group, *, near: bool = True
) -> Admitted:
    """Book the seats of a new group with their claims, all or as many as fit, in one commit.

    With `near` a refusal names the nearest slots that fit, which takes a while to find.
    """
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
    done = await group_claims.book(services, caller, made, definition, some=some, near=near)
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
    """Allow another end for all seats, other people and factors: all in one commit, or nothing."""
    if old.spec == new.spec:
        return Admitted(new)
    _same_start(old, new)
    before, after, asked = old.spec.slot, new.spec.slot, group_times.wish(old)
    if before.end != after.end and after.end is None:
        raise intake.invalid(("spec.slot.end", "cannot be taken back"))
    services = dataclasses.replace(services, objects=SharedReads(services.objects))
    beside = await session_claims.together(services)
    found = group_seats.of(services, old)
    seated = _seated(old, new, found, by=caller.principal.name, at=services.clock.now())
    rows: list[Admitted] = [Admitted(each) for each in seated.values()]
    if asked is not None:
        # The end in the manifest counts when it changes: verbs may have moved the seats since.
        end = after.end if before.end != after.end and after.end is not None else asked.end
        wanted = group_times.Wish(asked.start, end, group_times.factors_of(new.spec))
        if wanted != asked:
            new = with_status(new, end=in_utc(end))
            present = [seated.get(each.key, each) for each in found if group_seats.is_open(each)]
            timed = await group_times.changed(
                services, caller, old, wanted, found=present, beside=beside
            )
            done = {each.obj.key for each in timed}
            rows = [*(each for each in rows if each.obj.key not in done), *timed]
    return group_times.written(new, found, rows, beside.revision)


def _same_start(old: Group, new: Group) -> None:
    """Raise Invalid (FrozenField) for another start, unless the seats were moved there already."""
    before, after = old.spec.slot, new.spec.slot
    if before.zone != after.zone:
        raise intake.invalid(("spec.slot.zone", "cannot be changed later"), reason="FrozenField")
    if after.start not in {before.start, old.status.start}:
        to = "" if after.start is None else f" --to {format_instant(after.start, 'seconds')}"
        what = f"is not changed so: labfleet move group/{old.name}{to} moves all its seats"
        raise intake.invalid(("spec.slot.start", what), reason="FrozenField")


async def delete_group(services: ServiceContext, caller: Caller, old: Group) -> Admitted:
    """Cancel all seats that are not over, in the commit that removes the group."""
    revision = await services.fresh()
    others = tuple(
        with_generation(
            each, session_rules.cancelled(services, caller, each, f"group {old.name} deleted")
        )
        for each in group_seats.of(services, old)
        if group_seats.is_open(each)
    )
    return Admitted(old, (group_times.no_new_attempt(old, revision),), others=others)


def _seated(
    old: Group, new: Group, found: list[Session], *, by: str, at: datetime
) -> dict[Key, Session]:
    """Return the sessions whose seats are given to somebody else; Invalid for other seats."""
    before = {each.name: each for each in group_seats.checked(old.spec)}
    after = {each.name: each for each in group_seats.checked(new.spec)}
    strange = sorted(set(before) ^ set(after))
    if strange:
        what = f"seats cannot be added, renamed or removed later: {', '.join(strange[:_TOLD])}"
        told = f"{what}; book another group, or cancel the session of a seat"
        raise intake.invalid(("spec.seats", told), reason="FrozenField")
    given = {name: each.person for name, each in after.items() if each != before[name]}
    changed = dict[Key, Session]()
    for session in found:
        seat = session.status.seat
        if seat is None or seat.seat not in given or not group_seats.is_open(session):
            continue
        if session.spec.owner != given[seat.seat]:
            to = given[seat.seat]
            changed[session.key] = session_handing.given(session, to, by=by, at=at)
    return changed


async def _explain(services: ServiceContext, group: Group) -> Explanation:
    """Return how the seats of a group stand, and what was said when it was booked."""
    await services.fresh()
    found = group_seats.counts(services, group)
    said = ", ".join(f"{number} {word}" for word, number in _words(found))
    late = f"; {found.late} of them late: their slot has begun" if found.late else ""
    stands = f" Its seats: {said}{late}." if said else ""
    told = plain(group, f"{group.status.message.rstrip('.')}.{stands}")
    more = (*_in_danger(services, group), *_of_their_own(services, group))
    return msgspec.structs.replace(told, more=more, lines=(*told.lines, *more))


def _of_their_own(services: ServiceContext, group: Group) -> Iterator[str]:
    """Yield which seats have times of their own."""
    own = group_times.own(services, group)
    if own:
        yield f"Seats with times of their own: {', '.join(own)}."


def _in_danger(services: ServiceContext, group: Group) -> Iterator[str]:
    """Yield which seats may not start as promised, by what endangers them."""
    found = dict[session_holdup.Danger, list[str]]()
    for each in group_seats.of(services, group):
        if each.status.phase is SessionPhase.PENDING and group_seats.is_open(each):
            lost = session_holdup.danger(services, each)
            if lost is not None:
                found.setdefault(lost, []).append(group_seats.name_in(each))
    for lost, names in found.items():
        be = "is" if len(names) == 1 else "are"
        named = ", ".join(names[:_TOLD]) + (", …" if len(names) > _TOLD else "")
        why = lost.why or "it is gone"
        yield f"In danger: {count(len(names), 'seat')} {be} promised by pool {lost.pool} ({why}): {named}."


def _words(found: SeatCounts) -> list[tuple[str, int]]:
    plain_counts = msgspec.structs.asdict(found)
    return [(word, number) for word, number in plain_counts.items() if number and word != "late"]


def _warns(services: ServiceContext, group: Group) -> tuple[str, ...]:
    del services
    status, since = group.status, group_times.since(group)
    told = (*session_times.contradictions(group.spec.slot), *((since,) if since else ()))
    without = [each.name for each in status.seats if each.session is None]
    if not without:
        return told
    named = ", ".join(without[:_TOLD]) + (", …" if len(without) > _TOLD else "")
    return (*told, f"{count(len(without), 'seat')} of {status.asked} found no room: {named}")


def _changed(old: Group, new: Group) -> Iterator[Change]:
    """Yield that something else is asked for, and that its seats have other times."""
    if old.metadata.generation != new.metadata.generation:
        yield Change(GroupEvent.UPDATED, {})
    was, now = old.status, new.status
    if (was.start, was.end) != (now.start, now.end):
        yield Change(GroupEvent.TIMES_CHANGED, {"new_start": now.start, "new_end": now.end})


def _told_changes(old: Group, new: Group) -> tuple[str, ...]:
    """Return whose times a change of a group changed, in words."""
    # The same change cannot be made twice in a row: after it the times are what they would become.
    same = old.status.changes == new.status.changes
    return () if same else tuple(group_times.words(each) for each in new.status.changes)


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
    shown=group_times.shown,
    view=group_view.view,
    sight=group_view.sight,
    private=group_view.private,
    derived=("status.counts", "status.times"),
    changed=_changed,
    differs=_told_changes,
    event_types=GroupEvent,
    indices=(indices.GROUPS_ENDED,),
)
