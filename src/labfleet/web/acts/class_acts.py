"""What people do with groups and courses: the times of all seats, a date, the end of all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from labfleet.kernel import clock
from labfleet.kernel.quantity import count
from labfleet.resources import zones
from labfleet.resources.course import Course, CourseDate
from labfleet.resources.group import Group
from labfleet.resources.kinds import KINDS
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import group_seats, group_times, rules
from labfleet.service.verbs import group_verbs, objects
from labfleet.web.acts import edits, fields, hits
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field

HALF_AN_HOUR = timedelta(minutes=30)
_END = "end"


def _open_seats(services: ServiceContext, group: Group) -> list[Any]:
    return [each for each in group_seats.of(services, group) if group_seats.is_open(each)]


def _timed(services: ServiceContext, _c: Caller, group: Group) -> str | None:
    if group_times.wish(group) is None:
        return "it has no times yet"
    return "" if _open_seats(services, group) else "none of its seats may still be used"


def _minutes(label: str) -> Any:
    """Return the fields of another end: so much from the end that the form was made of."""

    def asked(_s: ServiceContext, _c: Caller, group: Any) -> tuple[Field, ...]:
        end = _present(group)
        first = "" if end is None else clock.format_instant(end)
        seen = Field(name=_END, label="End", show="hidden", first=first, most=32)
        return fields.minutes(label, first="30"), seen

    return asked


def _present(group: Group) -> datetime | None:
    asked = group_times.wish(group)
    return None if asked is None else asked.end


def _end(doing: Doing, sign: int) -> datetime:
    """Return the new end. It goes by the end on the form, so that a second click asks the same."""
    try:
        seen = clock.parse_instant(doing.text(_END))
    except ValueError:
        seen = _present(doing.obj) or doing.services.clock.now()
    try:
        return seen + sign * (doing.values.get("minutes") or HALF_AN_HOUR)
    except OverflowError:
        raise intake.invalid(("Minutes", "are too many")) from None


def _says(group: Group, at: datetime) -> str:
    return zones.both(at, group.spec.slot.zone)


async def _extend(doing: Doing) -> str:
    end = _end(doing, 1)
    done = await group_verbs.extend(
        doing.services, doing.caller, *doing.where, end=end, uid=doing.uid
    )
    return _told(done, end)


async def _shorten(doing: Doing) -> str:
    end = _end(doing, -1)
    done = await group_verbs.shorten(
        doing.services, doing.caller, *doing.where, end=end, uid=doing.uid
    )
    return _told(done, end)


def _told(group: Group, end: datetime) -> str:
    changed = sum(len(each.seats) for each in group.status.changes)
    return f"Done: {count(changed, 'seat')} of {group.name} changed; all end {_says(group, end)}."


def _ending(sign: int) -> Any:
    async def follows(doing: Doing) -> Sequence[str]:
        end = _end(doing, sign)
        admitted = await group_times.ending(
            doing.services, doing.caller, doing.obj, end, later=sign > 0
        )
        told = [group_times.words(each) for each in admitted.obj.status.changes[: hits.NAMED]]
        return [f"All seats end {_says(doing.obj, end)}, those with a factor later.", *told]

    return follows


def _move_fields(_s: ServiceContext, _c: Caller, group: Any) -> tuple[Field, ...]:
    return fields.instant("start", "New start"), fields.zone(group.spec.slot.zone)


async def _move(doing: Doing) -> str:
    start = doing.values["start"]
    await group_verbs.move(doing.services, doing.caller, *doing.where, start=start, uid=doing.uid)
    return f"Done: {doing.name} begins {_says(doing.obj, start)}."


async def _move_follows(doing: Doing) -> Sequence[str]:
    asked, start = group_times.wish(doing.obj), doing.values.get("start")
    zone = doing.obj.spec.slot.zone
    now = "" if asked is None else f"It is at {zones.span(asked.start, asked.end, zone)} now."
    if start is None:
        return [now, "All its seats are moved together, or none is."]
    admitted = await group_times.moved(doing.services, doing.caller, doing.obj, start)
    told = [group_times.words(each) for each in admitted.obj.status.changes[: hits.NAMED]]
    return [now, *told]


def _by(doing: Doing) -> str:
    return f"--by {int((doing.values.get('minutes') or HALF_AN_HOUR).total_seconds() // 60)}m"


def _aim(doing: Doing) -> str:
    return f"group/{doing.name}"


def _to(doing: Doing) -> str:
    at = doing.values.get("start")
    return "--to INSTANT" if at is None else f"--to {clock.format_instant(at)}"


async def _delete(doing: Doing) -> str:
    kind = doing.obj.kind
    await objects.delete(doing.services, doing.caller, KINDS[kind], *doing.where, uid=doing.uid)
    return f"Asked: all of {doing.name} that is not over is ended, and its record goes."


async def _delete_follows(doing: Doing) -> Sequence[str]:
    admitted = await rules.delete(doing.services, doing.caller, doing.obj)
    ended = [each for each in admitted.others if each.kind == "Session"]
    both = ("are ended, with their labs", "is ended, with its lab")
    hit = hits.sessions(ended, *both)  # type: ignore[arg-type]  # by kind
    return [hit or "None of its sessions is left to be ended.", "Its record goes."]


def _ahead(services: ServiceContext, course: Course) -> list[CourseDate]:
    now = services.clock.now()
    return [each for each in course.status.dates if each.start > now and each.group is not None]


def _date_fields(services: ServiceContext, _c: Caller, course: Any) -> tuple[Field, ...]:
    dates = tuple((each.day, _day(course, each)) for each in _ahead(services, course))
    picked = Field(name="day", label="Date", show="choice", required=True, choices=dates)
    return picked, edits.version(course)


def _day(course: Course, date: CourseDate) -> str:
    return f"{zones.both(date.start, course.spec.slot.zone)}, {count(date.booked, 'seat')}"


def _callable(services: ServiceContext, _c: Caller, course: Course) -> str | None:
    return "" if len(_ahead(services, course)) > 0 else "no date of it is ahead"


def _skip(doing: Doing) -> dict[str, Any]:
    days = {*doing.obj.spec.skip, *filter(None, [doing.text("day")])}
    return {"skip": sorted(days)}


async def _call_off(doing: Doing) -> str:
    await edits.write(doing, "Course", _skip(doing))
    return f"Done: {doing.name} does not meet on {doing.text('day')}."


async def _call_off_follows(doing: Doing) -> Sequence[str]:
    if not doing.text("day"):
        return ["All seats of that date are ended, and its group goes; the other dates stay."]
    tried = await edits.tried(doing, [doing.manifest("Course", _skip(doing))])
    date = next((each for each in doing.obj.status.dates if each.day == doing.text("day")), None)
    told = "" if date is None else f"{count(date.booked, 'seat')} of group {date.group} are ended."
    said = getattr(getattr(tried, "status", None), "message", "")
    return [told, f"{said[:1].upper()}{said[1:]}." if said else "", "The other dates stay."]


def _again_fields(services: ServiceContext, _c: Caller, course: Any) -> tuple[Field, ...]:
    today = f"{services.clock.now().astimezone(zones.zone_of(course.spec.slot.zone)):%Y-%m-%d}"
    days = tuple((each, each) for each in course.spec.skip if each >= today)
    picked = Field(name="day", label="Date", show="choice", required=True, choices=days)
    return picked, edits.version(course)


def _unskip(doing: Doing) -> dict[str, Any]:
    return {"skip": [each for each in doing.obj.spec.skip if each != doing.text("day")]}


async def _book_again(doing: Doing) -> str:
    done: Any = await edits.write(doing, "Course", _unskip(doing))
    return f"Done: {doing.name}: {done.status.message}."


async def _again_follows(doing: Doing) -> Sequence[str]:
    if not doing.text("day"):
        return ["All seats of that date are booked anew, where there is still room."]
    tried: Any = await edits.tried(doing, [doing.manifest("Course", _unskip(doing))])
    return [] if tried is None else [f"It would be: {tried.status.message}."]


ACTS = (
    Act(
        verb="extend", kind="Group", title="Extend all", right="extend", routes="extendGroup",
        does=_extend, follows=_ending(1), fields=_minutes("Minutes longer"), opens=_timed,
        line=lambda doing: doing.line("extend", _by(doing), target=_aim(doing)),
        back="Shorten ends them earlier again.",
    ),
    Act(
        verb="shorten", kind="Group", title="Shorten all", right="shorten", routes="shortenGroup",
        does=_shorten, follows=_ending(-1), fields=_minutes("Minutes earlier"), opens=_timed,
        line=lambda doing: doing.line("shorten", _by(doing), target=_aim(doing)),
        back="Extend gives the time back, while nobody else has it.",
    ),
    Act(
        verb="move", kind="Group", title="Move all", right="move", routes="moveGroup",
        does=_move, follows=_move_follows, fields=_move_fields, opens=_timed,
        line=lambda doing: doing.line("move", _to(doing), target=_aim(doing)),
        back="Move them back, while nobody else has the old slot.",
    ),
    Act(
        verb="delete", kind="Group", title="Cancel all", right="delete", routes="deleteGroup",
        does=_delete, follows=_delete_follows, grave=True, goes=lambda _doing: "/groups",
        line=lambda doing: doing.line("delete group"),
        back="Nothing brings the labs back; book the group again.",
    ),
    Act(
        verb="call-off", kind="Course", title="Call off a date", right="update", grave=True,
        routes="patchCourse", does=_call_off, follows=_call_off_follows, fields=_date_fields,
        opens=_callable, line=lambda doing: doing.applied("Course", _skip(doing)),
        back="Book a date again asks for its seats anew.",
        undo=lambda doing: same(doing, "courses", "book-again", day=doing.text("day")),
    ),
    Act(
        verb="book-again", kind="Course", title="Book a date again", right="update",
        routes="patchCourse", does=_book_again, follows=_again_follows, fields=_again_fields,
        opens=lambda services, caller, course:
        "" if _again_fields(services, caller, course)[0].choices else None,
        line=lambda doing: doing.applied("Course", _unskip(doing)),
        undo=lambda doing: same(doing, "courses", "call-off", day=doing.text("day")),
    ),
    Act(
        verb="delete", kind="Course", title="Cancel all dates", right="delete",
        routes="deleteCourse", does=_delete, follows=_delete_follows, grave=True,
        goes=lambda _doing: "/courses", line=lambda doing: doing.line("delete course"),
        back="Nothing brings the labs back; book the course again.",
    ),
)  # fmt: skip
