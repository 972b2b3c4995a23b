"""The picture of one pool's calendar: demand over time under its capacity, and what stands out.

Pure. Across, everything is in percent of the span, so the picture fits a telephone and its words
keep their size; downwards it is in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from labfleet.kernel.quantity import count
from labfleet.resources import zones
from labfleet.service.reads.calendar import CalendarSpan, PoolCalendar
from labfleet.service.reads.calendar_marks import Ready

TALL = 72
"""Pixels of a pool's lane; the axis is below."""
_HOURS = timedelta(hours=36)
_WEEKS = timedelta(days=15)


@dataclass(frozen=True, slots=True)
class Bar:
    """One time in which the same is promised: where it stands, how high, in which tone, its words."""

    left: str
    wide: str
    top: int
    tall: int
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One instant: where it stands and its words; `minor` ones are left out on a telephone."""

    left: str
    text: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One pool: its bars, the line of what is up now, marks, and the whole in a sentence."""

    pool: str
    bars: tuple[Bar, ...]
    up: int | None
    marks: tuple[Mark, ...]
    said: str
    tall: int = TALL


def axis(start: datetime, end: datetime, zone: str) -> tuple[Mark, ...]:
    """Return the instants that the axis names, by the clocks of a zone: hours, days or weeks."""
    there, made = zones.zone_of(zone), list[Mark]()
    for number, (at, text) in enumerate(_ticks(start, end, zone, there)):
        if start <= at < end:
            made.append(Mark(_percent(at, start, end), text, minor=number % 2 == 1))
    return tuple(made)


def _ticks(
    start: datetime, end: datetime, zone: str, there: tzinfo
) -> Iterator[tuple[datetime, str]]:
    """Yield instants and words; an hour that clocks leave out is none."""
    whole = end - start
    step = 1 if whole <= _WEEKS else 3
    day, last = start.astimezone(there).date(), end.astimezone(there).date()
    while day <= last:
        hours = range(0, 24, 3) if whole <= _HOURS else range(1)
        for hour in hours:
            wall = datetime(day.year, day.month, day.day, hour)  # noqa: DTZ001 - of the wall
            at = wall.replace(tzinfo=UTC) if zone == "UTC" else zones.at_wall(wall, zone)
            word = f"{wall:%a} {wall.day}" if hour == 0 else f"{wall:%H:%M}"
            if at is not None:
                yield at, word
        day += timedelta(days=step)


def lane(
    pool: PoolCalendar, ready: Sequence[Ready], start: datetime, end: datetime, zone: str
) -> Lane:
    """Return the picture of one pool; without bars when nobody knows its size."""
    most = pool.maximum
    if most is None:
        return Lane(pool.pool, (), None, (), "Nobody knows what it can hold.")
    bars = tuple(_bar(each, most, start, end, zone) for each in pool.items)
    up = None if not most else _height(min(pool.workers, most), most)
    marks = tuple(
        Mark(
            _percent(each.at, start, end),
            f"workers are made ready from {zones.both(each.at, zone)} on for "
            f"{count(each.sessions, 'session')} of {zones.both(each.begins, zone)}",
        )
        for each in ready
        if start <= each.at < end
    )
    return Lane(pool.pool, bars, up, marks, _said(pool, most))


def _said(pool: PoolCalendar, most: int) -> str:
    """Return the picture in a sentence, for who does not see it."""
    known = [each for each in pool.items if each.free is not None]
    least = min((each.free for each in known if each.free is not None), default=None)
    danger = max((each.in_danger or 0 for each in pool.items), default=0)
    said = f"At most {count(most, 'worker')}, {pool.workers} up now"
    said += "" if least is None else f"; at least {least} free all the time"
    return f"{said}; up to {count(danger, 'session')} in danger" if danger else said


def _bar(span: CalendarSpan, most: int, start: datetime, end: datetime, zone: str) -> Bar:
    taken = most if span.free is None else most - span.free
    top = _height(taken, most)
    tone = (
        "danger" if span.in_danger else "mine" if span.mine else "full" if taken >= most else "part"
    )
    when = f"{zones.both(span.start, zone)} to {zones.both(span.end, zone)}"
    said = f"{when}: {span.free} free of {count(most, 'worker')}"
    if span.free is None:
        said = f"{when}: what is free is unknown"
    said += f", {span.mine} of yours" if span.mine else ""
    said += f", {span.in_danger} in danger" if span.in_danger else ""
    begin, last = max(span.start, start), min(span.end, end)
    wide = (last - begin) / (end - start) * 100
    return Bar(_percent(begin, start, end), f"{max(wide, 0):.3f}%", top, TALL - top, tone, said)


def _height(many: int, most: int) -> int:
    return TALL if not most else TALL - round(many / most * TALL)


def _percent(at: datetime, start: datetime, end: datetime) -> str:
    return f"{(at - start) / (end - start) * 100:.3f}%"
