"""The dates of a course as rows of its page, each with its group and the page of its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labfleet.resources import zones
from labfleet.resources.course import Course, CourseDate
from labfleet.resources.meta import Resource
from labfleet.web import values
from labfleet.web.values import Cell

_STATES = {
    "ahead": ("wait", "○"), "now": ("good", "●"), "over": ("calm", "✓"),
    "called off": ("calm", "■"), "no room": ("warn", "▲"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DateRow:
    """One date: when, how it stands, its group, and its class's page ("" when there is none)."""

    day: str
    when: str
    state: Cell
    group: Cell
    room: str
    seats: str
    note: str


def of(obj: Resource | None) -> tuple[DateRow, ...]:
    """Return the dates of a course in their order; nothing of another kind."""
    return tuple(_rows(obj)) if isinstance(obj, Course) else ()


def _rows(course: Course) -> Iterator[DateRow]:
    for each in course.status.dates:
        tone, shape = _STATES.get(each.stands or "", ("calm", "?"))
        state = Cell("state", each.stands or "unknown", tone=tone, shape=shape)
        # A group that is gone has no class any more; its page tells what became of it.
        there = each.group is not None and each.stands in {"ahead", "now", "over"}
        yield DateRow(
            day=each.day,
            when=zones.span(each.start, each.end, course.spec.slot.zone),
            state=state,
            group=_group(course, each),
            room=values.address("class", each.group, course.namespace) if there else "",
            seats=f"{each.booked} of {course.status.seats}",
            note=each.note,
        )


def _group(course: Course, date: CourseDate) -> Cell:
    if date.group is None:
        return Cell("absent", "none")
    href = values.address("groups", date.group, course.namespace, date.uid)
    return Cell("link", date.group, href=href)
