"""The dates of a course: which ones its rule means, and the groups that are booked for them.

All that one request does to a course is one commit, so each date is judged beside those before it
(`Beside`): they are not in the cache yet.
"""

from __future__ import annotations

import dataclasses
import itertools
import zoneinfo
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

import msgspec

from labfleet.decisions import recurrence
from labfleet.decisions.lifecycle.session import budget
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.kernel import errors, ids
from labfleet.kernel.quantity import count
from labfleet.resources.course import LABEL, SESSIONS_LIMIT, Course, CourseDate, CourseSpec
from labfleet.resources.definition import Definition
from labfleet.resources.group import Group, GroupSpec, GroupStatus
from labfleet.resources.meta import Metadata, Resource
from labfleet.resources.session import Session, SessionSpec, Slot
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.core.shared_reads import SharedReads
from labfleet.service.kinds import group
from labfleet.service.kinds.admitted import Admitted
from labfleet.service.kinds.session_claims import AHEAD_DAYS

R = TypeVar("R", bound=Resource)
NEAREST = 8
"""Dates without room of which the nearest slots are looked for: each such look takes a while."""
TOLD = 10
"""Dates that a refusal names in its sentence."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One date as a rule means it; `note` says what clocks do on it."""

    day: str
    start: datetime
    end: datetime
    note: str = ""


class Beside(SharedReads):
    """Reads of one request, beside sessions that its commit will make."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self._before = objects
        self.made: list[Session] = []

    def saved(self, kind: type[R]) -> tuple[R, ...]:
        """Return what was written before, and what is about to be."""
        mine = (each for each in self.made if isinstance(each, kind))
        return (*self._before.saved(kind), *mine)


@dataclass(slots=True)
class Changes:
    """What one commit does to a course's dates: groups and sessions, and what they rest on."""

    others: list[Resource] = field(default_factory=list)
    preconditions: list[stores.Precondition] = field(default_factory=list)
    writes: list[stores.Write] = field(default_factory=list)

    def add(self, admitted: Admitted) -> None:
        """Take in what a rule of groups returned."""
        self.others += (admitted.obj, *admitted.others)
        self.preconditions += admitted.preconditions
        self.writes += admitted.writes

    def admitted(self, course: Course) -> Admitted:
        """Return all of it as one commit; Invalid (TooMany) when it would be too large."""
        oldest = dict[str, int]()
        rest = list[stores.Precondition]()
        for each in self.preconditions:
            if isinstance(each, stores.LedgerUntouched):
                oldest[each.owner] = min(each.since, oldest.get(each.owner, each.since))
            else:
                rest.append(each)
        rows = [stores.LedgerUntouched(owner, revision) for owner, revision in oldest.items()]
        conditions = tuple(dict.fromkeys((*rest, *rows)))
        writes = tuple(dict.fromkeys(self.writes))
        if len(self.others) + 2 + max(len(conditions), len(writes)) > stores.COMMIT_LIMIT:
            what = "this changes too many sessions at once; change the dates in two steps"
            raise intake.invalid(("spec.repeat", what), reason="TooMany")
        return Admitted(course, conditions, writes, others=tuple(self.others))


def planned(spec: CourseSpec, definition: Definition | None, known: timedelta) -> list[Meeting]:
    """Return the dates that a spec means, without those it skips; Invalid names what cannot be.

    `known` is how long a class lasts when neither the spec nor a definition says.
    """
    zone = _zone(spec.slot.zone)
    first = _wall("spec.slot.start", spec.slot.start, zone)
    try:
        days = recurrence.dates(recurrence.parsed(spec.repeat), first.date())
    except ValueError as problem:
        raise intake.invalid(("spec.repeat", str(problem))) from None
    skipped = _skipped(spec, days)
    length = _length(spec, zone, definition, known)
    made = list[Meeting]()
    for day in days:
        if day in skipped:
            continue
        try:
            start, note = recurrence.instant(day, first.time(), zone)
            made.append(Meeting(day.isoformat(), start, start + length, note))
        except OverflowError:
            raise intake.invalid(("spec.repeat", f"{day} is too far ahead")) from None
    for one, other in itertools.pairwise(made):
        if other.start < one.end:
            what = f"the class of {one.day} would still run when that of {other.day} begins"
            raise intake.invalid(("spec.repeat", what))
    return made


def _skipped(spec: CourseSpec, days: Sequence[date]) -> set[date]:
    found = set[date]()
    for number, text in enumerate(spec.skip):
        where = f"spec.skip[{number}]"
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise intake.invalid((where, f"{text!r} is no date")) from None
        if day not in days and day < days[-1]:
            near = min(days, key=lambda each: abs(each - day))
            what = f"{text} is no date of {spec.repeat}; the nearest one is {near}"
            raise intake.invalid((where, what))
        found.add(day)
    return found


def _length(
    spec: CourseSpec, zone: zoneinfo.ZoneInfo, definition: Definition | None, known: timedelta
) -> timedelta:
    if spec.slot.end is None:
        if definition is None:
            return known
        return budget.length(SessionSpec(definition=spec.definition), definition)
    walls = [
        _wall(f"spec.slot.{each}", getattr(spec.slot, each), zone) for each in ("start", "end")
    ]
    (start, _), (end, _) = (recurrence.instant(each.date(), each.time(), zone) for each in walls)
    if end <= start:
        raise intake.invalid(("spec.slot.end", "must be after start"))
    return end - start


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        what = f"{name[:64]!r} is no IANA time zone; write for example Europe/Warsaw"
        raise intake.invalid(("spec.slot.zone", what)) from None


def _wall(where: str, text: str, zone: zoneinfo.ZoneInfo) -> datetime:
    """Return a wall-clock time; Invalid when its offset is not the zone's on that date."""
    try:
        at = datetime.fromisoformat(text)
        wall = at.replace(tzinfo=None)
        folds = [wall.replace(tzinfo=zone, fold=each).utcoffset() for each in (0, 1)]
        wall.replace(tzinfo=UTC).astimezone(zone)
    except (ValueError, OverflowError):
        raise intake.invalid((where, f"{text!r} is no date and time that there is")) from None
    if at.tzinfo is not None and at.utcoffset() not in folds:
        what = f"{text} is not the time in {zone.key} then; leave the offset out"
        raise intake.invalid((where, what))
    return wall


def within(meetings: Iterable[Meeting], now: datetime) -> None:
    """Raise Invalid for dates that lie further ahead than a slot may."""
    for meeting in meetings:
        if meeting.start > now + timedelta(days=AHEAD_DAYS):
            what = (
                f"{meeting.day} lies more than {AHEAD_DAYS} days ahead; end the rule before it, and "
                "give it a later end when that date is near"
            )
            raise intake.invalid(("spec.repeat", what))


async def booked(
    services: ServiceContext,
    caller: Caller,
    course: Course,
    meetings: Sequence[Meeting],
    into: Changes,
) -> list[CourseDate]:
    """Book a group for each date, all or as many seats as fit; Refused names each that cannot be."""
    objects = Beside(services.objects)
    services = dataclasses.replace(services, objects=objects)
    made, refused, searched = list[CourseDate](), list[tuple[str, Refused]](), 0
    some = course.spec.when_full == "some"
    for meeting in meetings:
        new = _group(services, course, meeting)
        at = CourseDate(day=meeting.day, start=meeting.start, end=meeting.end, note=meeting.note)
        try:
            admitted = await group.create_group(services, caller, new, near=searched < NEAREST)
        except Refused as problem:
            if problem.reason != "NoCapacity":
                raise
            searched += 1
            refused.append((meeting.day, problem))
            made.append(msgspec.structs.replace(at, note=_joined(at.note, problem.message)))
            continue
        into.add(admitted)
        objects.made += [each for each in admitted.others if isinstance(each, Session)]
        status: GroupStatus = admitted.obj.status
        short = status.booked < status.asked
        searched += short
        note = _joined(at.note, status.message if short else "")
        uid = new.metadata.uid
        made.append(
            msgspec.structs.replace(at, group=new.name, uid=uid, booked=status.booked, note=note)
        )
    if refused and not (some and len(refused) < len(meetings)):
        raise _refusal(refused, len(meetings), some=some)
    return made


def _joined(*texts: str) -> str:
    return "; ".join(each for each in texts if each)


def _refusal(refused: Sequence[tuple[str, Refused]], of: int, *, some: bool) -> Refused:
    days = [day for day, _ in refused[:TOLD]]
    if len(refused) > TOLD:
        days.append(f"and {len(refused) - TOLD} more")
    first, problem = refused[0]
    head = (
        f"{len(refused)} of {count(of, 'date')} cannot be had, so nothing was booked: "
        f"{', '.join(days)}; on {first} {problem.message}"
    )
    if len(refused) < of and not some:
        head += "; skip these dates, or whenFull: some books what fits"
    problems = [(f"spec.repeat {day}", each.message) for day, each in refused]
    return Refused(head, reason="NoCapacity", problems=tuple(problems))


def _group(services: ServiceContext, course: Course, meeting: Meeting) -> Group:
    """Return the group of a date, not admitted yet."""
    spec = course.spec
    name = f"{course.name}-{meeting.day}"
    if not ids.is_name(name):
        name = ids.slug(f"{course.name}/{meeting.day}")
    if services.cache.get(Group, name, course.namespace) is not None:
        tail = services.ids.uid().replace("-", "")[-12:]
        name = f"{name[: ids.NAME_LIMIT - len(tail) - 1].rstrip('-')}-{tail}"
    return Group(
        metadata=Metadata(
            name=name,
            namespace=course.namespace,
            uid=services.ids.uid(),
            labels={**course.metadata.labels, LABEL: course.name},
            generation=1,
            creation_timestamp=services.clock.now(),
        ),
        spec=group_spec(spec, meeting),
    )


def group_spec(spec: CourseSpec, meeting: Meeting | None) -> GroupSpec:
    """Return what is booked on a date; without one, for its seats alone, it has no slot of its own."""
    any_time = datetime(2000, 1, 1, tzinfo=UTC)
    slot = Slot(start=any_time, zone=spec.slot.zone)
    if meeting is not None:
        slot = Slot(start=meeting.start, end=meeting.end, zone=spec.slot.zone)
    return GroupSpec(
        definition=spec.definition,
        owner=spec.owner,
        slot=slot,
        track=spec.track,
        seats=spec.seats,
        size=spec.size,
        spare=spec.spare,
        when_full=spec.when_full,
        description=spec.description,
    )


async def there(services: ServiceContext, course: Course, at: CourseDate) -> Group | None:
    """Return the group of a date as it is stored; None when it was called off or never booked."""
    if at.group is None:
        return None
    found = await services.objects.get(Group, at.group, course.namespace)
    return found if found is not None and found.metadata.uid == at.uid else None


def demand_few(seats: int, dates: int) -> None:
    """Raise Invalid (TooMany) for more sessions that are not over than one commit can end."""
    if seats * dates > SESSIONS_LIMIT:
        what = (
            f"{count(seats, 'seat')} on {count(dates, 'date')} are {count(seats * dates, 'session')}, "
            f"more than the {SESSIONS_LIMIT} of one course; end it earlier, and extend it when some are "
            "over"
        )
        raise intake.invalid(("spec.repeat", what), reason="TooMany")


def refused_on(day: str, problem: errors.LabfleetError) -> Refused:
    """Return a refusal of one date's change as one of the course's."""
    told = f"{day}: {problem.message}; nothing was changed"
    return Refused(told, reason=problem.reason, problems=getattr(problem, "problems", ()))
