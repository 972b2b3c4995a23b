"""The rules of courses: a class is booked on all its dates, and changed on those to come.

Each date is a group with rules of its own, so whoever may do what with its seats is said there.
What a request does to a course is one commit, whatever becomes of the server meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources import zones
from labfleet.resources.course import Course, CourseDate, CourseStatus
from labfleet.resources.definition import Definition
from labfleet.resources.group import Group, GroupSpec, Seat, seats_of
from labfleet.service.core import access, intake
from labfleet.service.core.access import Principal
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.core.views import Sources
from labfleet.service.kinds import (
    course_dates,
    group,
    group_seats,
    group_times,
    group_view,
    indices,
    session_claims,
    session_rules,
    session_shares,
)
from labfleet.service.kinds.admitted import Admitted, with_generation, with_spec, with_status
from labfleet.service.kinds.course_dates import Changes, Meeting

_PEOPLE = frozenset({"read", "create", "update", "delete"})
KEPT_MOST = 100
"""Courses of one owner, for callers of role user, past ones included."""
_DATES_KEPT = 120
"""Dates of one course, those that a later rule no longer means included."""
_TOLD = 10
"""Seats that a refusal names."""
_NONE = timedelta()


class CourseEvent(EventType):
    """What can happen to a course."""

    CREATED = "course.created", "somebody booked a class on several dates"
    UPDATED = "course.updated", "its dates, their length or its people were changed"
    DELETED = "course.deleted", "its dates to come were called off and its record is gone"


async def create_course(services: ServiceContext, caller: Caller, new: Course) -> Admitted:
    """Book the groups of all dates with their claims, all or as many seats as fit, in one commit."""
    spec, who = new.spec, caller.principal
    owner = spec.owner or who.name
    if who.role is Role.USER and owner != who.name:
        raise intake.invalid(("spec.owner", "you can book courses for yourself only"))
    if who.role is Role.USER:
        _few_enough(services, owner)
    new = with_spec(new, owner=owner)
    definition = await session_rules.usable(services, spec.definition, new.namespace)
    seats = _checked(new)
    now = services.clock.now()
    meetings = course_dates.planned(new.spec, definition, _NONE)
    if not meetings:
        raise intake.invalid(("spec.skip", "leaves no date"))
    if meetings[0].start < now:
        raise intake.invalid(("spec.slot.start", "lies in the past; begin with a date to come"))
    course_dates.within(meetings, now)
    course_dates.demand_few(seats, len(meetings))
    if who.role is Role.USER and spec.when_full != "some":
        # All of them at once, so that the refusal names how many there would be.
        session_shares.few_enough(services, owner, new.namespace, seats * len(meetings))
    changes = Changes()
    dates = await course_dates.booked(services, caller, new, meetings, changes)
    message = f"{_had(dates)} of {count(len(dates), 'date')} booked, {_seats(dates, seats)}"
    status = CourseStatus(seats=seats, dates=tuple(dates), message=message)
    return changes.admitted(msgspec.structs.replace(new, status=status))


def _checked(course: Course) -> int:
    """Return how many seats each date has; Invalid names every seat that cannot be."""
    spec = course_dates.group_spec(course.spec, None)
    return len(group_seats.checked(spec))


def _few_enough(services: ServiceContext, owner: str) -> None:
    """Raise QuotaExceeded when the records of an owner's courses are as many as one may have."""
    have = services.cache.count(indices.filter_of("Course", "owner"), owner)
    if have >= KEPT_MOST:
        told = f"{owner} has {count(have, 'course')}, as many as one may have, past ones too"
        raise errors.QuotaExceeded(f"{told}; delete one", reason="TooManyCourses")


def _had(dates: Iterable[CourseDate]) -> int:
    return sum(each.group is not None for each in dates)


def _seats(dates: list[CourseDate], seats: int) -> str:
    booked, asked = sum(each.booked for each in dates), seats * len(dates)
    return f"{booked} of {count(asked, 'seat')} in all"


async def update_course(
    services: ServiceContext, caller: Caller, old: Course, new: Course
) -> Admitted:
    """Book dates that are new, call off those to come that are dropped, change the others.

    Dates that have begun stay as they are. All of it is one commit, or nothing is changed.
    """
    if old.spec == new.spec:
        return Admitted(new)
    before, after = old.spec.slot, new.spec.slot
    if (before.start, before.zone) != (after.start, after.zone):
        what = "the first start and the zone stay; book another course, and delete this one"
        raise intake.invalid(("spec.slot", what), reason="FrozenField")
    seats = _checked(new)
    definition = await services.objects.get(Definition, new.spec.definition, new.namespace)
    await services.fresh()
    now, known = services.clock.now(), {each.day: each for each in old.status.dates}
    # What lasts as long as the definition says goes on lasting so when the definition changes.
    anew = before.end != after.end or not old.status.dates
    found = course_dates.planned(new.spec, definition if anew else None, _long(old))
    meetings = {each.day: each for each in found}
    begun = {day for day, each in known.items() if _as_it_is(services, new, each).start <= now}
    dropped = [each for day, each in known.items() if day not in meetings and day not in begun]
    missing = [each for day, each in meetings.items() if _is_new(known.get(day), each, now)]
    changes = Changes()
    dates = {day: each for day, each in known.items() if each not in dropped}
    off = await _call_off(services, caller, new, dropped, changes)
    longer = _longer(old, new, meetings)
    if longer and missing:
        what = "change the end of the dates and the dates themselves one after the other"
        raise intake.invalid(("spec.slot.end", what))
    changed = await _change(
        services, caller, (old, new), dates=dates, longer=longer, changes=changes
    )
    course_dates.within(missing, now)
    left = (_as_it_is(services, new, each) for each in dates.values())
    ahead = len(missing) + sum(each.end > now for each in left)
    course_dates.demand_few(seats, ahead)
    made = await course_dates.booked(services, caller, new, missing, changes) if missing else []
    dates |= {each.day: each for each in made}
    if len(dates) > _DATES_KEPT:
        what = f"a course has at most {_DATES_KEPT} dates, past ones included; book another one"
        raise intake.invalid(("spec.repeat", what), reason="TooMany")
    told = [
        f"{_had(made)} of {count(len(made), 'date')} added" if made else "",
        f"{count(off, 'date')} called off" if off else "",
        f"{count(changed, 'date')} changed" if changed else "",
    ]
    status = msgspec.structs.replace(
        old.status,
        dates=tuple(sorted(dates.values(), key=lambda each: each.start)),
        message=", ".join(filter(None, told)) or "no date to come is changed",
    )
    return changes.admitted(msgspec.structs.replace(new, status=status))


def _long(course: Course) -> timedelta:
    """Return how long the class lasts on the dates that were booked last."""
    return max((each.end - each.start for each in course.status.dates[-1:]), default=_NONE)


def _is_new(known: CourseDate | None, meeting: Meeting, now: datetime) -> bool:
    """Tell whether a date is to be booked: it is ahead, and was not, or found no room."""
    return meeting.start > now and (known is None or known.group is None)


def _longer(old: Course, new: Course, meetings: Mapping[str, Meeting]) -> timedelta:
    """Return by how much the dates to come last longer; negative for shorter."""
    if old.spec.slot.end == new.spec.slot.end or not meetings:
        return _NONE
    each = next(iter(meetings.values()))
    return (each.end - each.start) - _long(old)


async def _call_off(
    services: ServiceContext,
    caller: Caller,
    course: Course,
    dropped: Iterable[CourseDate],
    changes: Changes,
) -> int:
    """Delete the groups of dates that are no longer meant; return how many there were."""
    done = 0
    for date in dropped:
        found = await course_dates.there(services, course, date)
        if found is None or found.deleting:
            continue
        admitted = await group.delete_group(services, caller, found)
        changes.add(_deleted(services, admitted))
        done += 1
    return done


def _deleted(services: ServiceContext, admitted: Admitted) -> Admitted:
    metadata = msgspec.structs.replace(
        admitted.obj.metadata, deletion_timestamp=services.clock.now()
    )
    return dataclasses.replace(
        admitted, obj=msgspec.structs.replace(admitted.obj, metadata=metadata)
    )


async def _change(
    services: ServiceContext,
    caller: Caller,
    courses: tuple[Course, Course],
    *,
    dates: dict[str, CourseDate],
    longer: timedelta,
    changes: Changes,
) -> int:
    """Give dates that have not begun another end, and seats that are not over other people.

    Writes the new ends into `dates` and returns how many dates were changed.
    """
    old, new = courses
    now, done, people = services.clock.now(), 0, _other_people(old, new)
    for day, date in dates.items():
        present = _as_it_is(services, new, date)
        found = None if present.end <= now else await course_dates.there(services, new, date)
        if found is None or not any(map(group_seats.is_open, group_seats.of(services, found))):
            continue
        end = None
        if longer and present.start > now and found.status.end is not None:
            end = found.status.end + longer
            dates[day] = msgspec.structs.replace(date, end=date.end + longer)
        spec = group_seats.with_people(found.spec, people)
        try:
            admitted = await _other(services, caller, found, spec, end)
        except (Refused, errors.Invalid) as problem:
            raise course_dates.refused_on(day, problem) from None
        if admitted.obj == found:
            continue
        changes.add(dataclasses.replace(admitted, obj=with_generation(found, admitted.obj)))
        done += 1
    return done


async def _other(
    services: ServiceContext, caller: Caller, old: Group, spec: GroupSpec, end: datetime | None
) -> Admitted:
    """Return a group with other people and another end for all its seats; None leaves them theirs."""
    slot = old.spec.slot if end is None else msgspec.structs.replace(old.spec.slot, end=end)
    if end is None or slot != old.spec.slot:
        wanted = msgspec.structs.replace(spec, slot=slot)
        if wanted == old.spec:
            return Admitted(old)
        new = msgspec.structs.replace(old, spec=wanted)
        return await group.update_group(services, caller, old, new)
    # Its seats were extended or shortened since, and are to end again when its manifest says.
    if spec != old.spec:
        what = "change the end and the people one after the other"
        raise intake.invalid(("spec.slot.end", what))
    later = old.status.end is None or end > old.status.end
    return await group_times.ending(services, caller, old, end, later=later)


def _other_people(old: Course, new: Course) -> dict[str, Seat]:
    """Return the seats that somebody else gets, by name; Invalid for other seats than before."""
    before, after = (
        {seat.name: seat for seat in seats_of(course_dates.group_spec(each.spec, None))}
        for each in (old, new)
    )
    if set(before) != set(after):
        what = "seats cannot be added, renamed or removed later; book another course for more"
        raise intake.invalid(("spec.seats", what), reason="FrozenField")
    factors = [name for name, seat in after.items() if seat.factor != before[name].factor]
    if factors:
        what = f"a seat's factor is changed in the group of a date: {', '.join(factors[:_TOLD])}"
        raise intake.invalid(("spec.seats", what), reason="FrozenField")
    return {name: seat for name, seat in after.items() if seat != before[name]}


async def delete_course(services: ServiceContext, caller: Caller, old: Course) -> Admitted:
    """Call off all dates that are not over, in the commit that removes the course."""
    await services.fresh()
    now, changes = services.clock.now(), Changes()
    left = [each for each in old.status.dates if _as_it_is(services, old, each).end > now]
    await _call_off(services, caller, old, left, changes)
    return changes.admitted(old)


def _shown(services: ServiceContext, course: Course) -> Course:
    """Return a course as it is read by others: with how its dates stand."""
    dates = tuple(_as_it_is(services, course, each) for each in course.status.dates)
    ahead = [each.start for each in dates if each.stands == "ahead"]
    return with_status(course, dates=dates, next=min(ahead, default=None), ahead=len(ahead))


def _as_it_is(services: ServiceContext, course: Course, date: CourseDate) -> CourseDate:
    """Return a date with how it stands, and with its group's times, which may have been changed."""
    now, start, end = services.clock.now(), date.start, date.end
    found = None
    if date.group is not None:
        found = services.cache.get(Group, date.group, course.namespace)
    if found is not None and found.metadata.uid == date.uid:
        start, end = found.status.start or start, found.status.end or end
        stands = "over" if end <= now else "ahead" if start > now else "now"
    elif date.group is None:
        stands = "no room"
    else:
        stands = "over" if end <= now else "called off"
    return msgspec.structs.replace(date, start=start, end=end, stands=stands)


async def _explain(services: ServiceContext, course: Course) -> Explanation:
    """Return how each date stands, and what was said when it was booked or changed last."""
    await services.fresh()
    zone, shown = course.spec.slot.zone, _shown(services, course)
    told = plain(shown, f"{course.status.message.rstrip('.')}.")
    dates = tuple(_line_of(each, zone) for each in shown.status.dates)
    return msgspec.structs.replace(told, more=dates, lines=(*told.lines, *dates))


def _line_of(date: CourseDate, zone: str) -> str:
    """Return one date in a line: when, how it stands, as which group, and what is special."""
    seats = f", group {date.group}, {count(date.booked, 'seat')}" if date.group else ""
    note = f"; {date.note}" if date.note else ""
    return f"{zones.span(date.start, date.end, zone)}: {date.stands}{seats}{note}"


def _view(sources: Sources, principal: Principal) -> Callable[[Course], Course] | None:
    """Return what shows a course without addresses to who reads none; None for all others."""
    del sources
    return _private(principal)


def _private(principal: Principal) -> Callable[[Course], Course] | None:
    return None if access.reads_addresses(principal) else _without_addresses


def _without_addresses(course: Course) -> Course:
    seats = tuple(msgspec.structs.replace(each, email="") for each in course.spec.seats)
    return with_spec(course, seats=seats)


def _warns(services: ServiceContext, course: Course) -> tuple[str, ...]:
    del services
    return tuple(f"{each.day}: {each.note}" for each in course.status.dates if each.note)[:20]


def _line(services: ServiceContext, course: Course) -> str | None:
    return session_claims.line(services, course.namespace)


RULES = KindRules(
    name="Course",
    create=create_course,
    update=update_course,
    delete=delete_course,
    grants={Role.USER: _PEOPLE},
    owned=frozenset({Role.USER}),
    line=_line,
    explain=_explain,
    warns=_warns,
    shown=_shown,
    view=_view,
    sight=group_view.sight,
    private=_private,
    derived=("status.next", "status.ahead"),
    event_types=CourseEvent,
    indices=(indices.COURSES_ENDED,),
)
