"""A class now: the seats of a group, each with its session; and the classes that are not over.

Whoever booked a group sees its seats whoever sits there; whoever only sits there sees no group.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from labfleet.resources.course import LABEL as COURSE
from labfleet.resources.course import Course
from labfleet.resources.definition import Definition
from labfleet.resources.group import Group, SeatCounts, seats_of
from labfleet.resources.meta import Ref
from labfleet.resources.session import Session
from labfleet.service.core import access, lookup, views
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import group_seats, group_times, indices, session_outlook

MOST = 100
"""Classes that a list shows, those of now and next first."""
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SeatNow:
    """One seat: who sits there, and its session; None when it has none any more, or never had."""

    name: str
    person: str
    session: Session | None


@dataclass(frozen=True, slots=True)
class ClassNow:
    """One class: its group with counts, its seats in their order, and the course that it is a date of.

    `course` is None for a group of no course, and for one whose course the caller may not see.
    """

    group: Group
    definition: Definition | None
    seats: tuple[SeatNow, ...]
    counts: SeatCounts
    course: Course | None = None


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes that are not over, the next to begin first; `left_out` says how many more."""

    groups: tuple[Group, ...] = ()
    left_out: int = 0


async def read(services: ServiceContext, caller: Caller, name: str, namespace: str) -> ClassNow:
    """Return a class; Gone when there is no such group, or it is not for the caller to see."""
    access.demand(caller.principal, "read", Group.__name__)
    found = await lookup.found(services, caller, Group, name, namespace)
    await services.fresh()
    group = views.of(services, caller.principal, group_times.shown(services, found))
    sessions = {group_seats.name_in(each): each for each in group_seats.of(services, found)}
    named = {each.name: each.person for each in seats_of(found.spec)}
    names = [each.name for each in found.status.seats] or list(named)
    return ClassNow(
        group=group,
        definition=services.cache.find(Ref(Definition, namespace, found.spec.definition)),
        seats=tuple(
            _seat(services, caller, each, named.get(each, ""), sessions.get(each)) for each in names
        ),
        counts=group.status.counts or group_seats.counts(services, found),
        course=course_of(services, caller, found),
    )


def _seat(
    services: ServiceContext, caller: Caller, name: str, person: str, session: Session | None
) -> SeatNow:
    if session is None or not access.sees(caller.principal, session):
        return SeatNow(name, person, None)
    shown = session_outlook.shown(services, session)
    seen = views.of(services, caller.principal, shown)
    return SeatNow(name, seen.spec.owner or person, seen)


def course_of(services: ServiceContext, caller: Caller, group: Group) -> Course | None:
    """Return the course that a group is a date of, to who may see it."""
    name = group.metadata.labels.get(COURSE)
    course = None if name is None else services.cache.get(Course, name, group.namespace)
    if course is None or not access.sees(caller.principal, course):
        return None
    mine = any(each.uid == group.metadata.uid for each in course.status.dates)
    return course if mine else None


async def ahead(services: ServiceContext, caller: Caller) -> Classes:
    """Return the classes of the caller that are not over; all that there are for operators."""
    access.demand(caller.principal, "read", Group.__name__)
    await services.fresh()
    who, now = caller.principal, services.clock.now()
    owner = access.only_owner(who, Group.__name__)
    rows = (
        services.cache.all(Group)
        if owner is None
        else services.cache.by(indices.filter_of(Group.__name__, "owner"), owner)
    )
    found = [
        group_times.shown(services, each)
        for each in rows
        if access.sees(who, each) and not _over(each, now)
    ]
    live = sorted((each for each in found if not _gone(each, now)), key=_first)
    shown = tuple(views.of(services, who, each) for each in live[:MOST])
    return Classes(shown, len(live) - len(shown))


def _over(group: Group, now: datetime) -> bool:
    """Tell whether a group has ended by its own times for longer than a seat's factor could last."""
    start, end = group.status.start, group.status.end
    return start is not None and end is not None and end + 3 * (end - start) < now


def _gone(group: Group, now: datetime) -> bool:
    times = group.status.times
    last = group.status.end if times is None or times.last_end is None else times.last_end
    return last is not None and last < now


def _first(group: Group) -> tuple[datetime, str, str]:
    return group.status.start or _NEVER, group.namespace, group.name
