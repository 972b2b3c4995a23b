"""Which times of the week are open at an instant, by the wall clock of a zone.

Pure: zones are arguments, since reading one is I/O. A window opens once for each of its days, also
where clocks change: a start that is skipped is the first instant after the gap, of a time that comes
twice the start is the first and the end the second (facts/fleet-bugs.md#t01, #t02).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from labfleet.resources.pool_windows import WEEKDAYS, Window, WorkersWindow

Zones = Mapping[str, tzinfo]
"""The zones that windows name. One that is missing is nobody's time: its windows are never open."""


def is_open(windows: Iterable[Window], zones: Zones, at: datetime) -> bool:
    """Tell whether any of the windows is open at an instant."""
    return any(_open(each, zones.get(each.zone), at) for each in windows)


def workers(windows: Iterable[WorkersWindow], zones: Zones, at: datetime) -> int | None:
    """Return the largest number of the windows that are open at an instant; None: none is."""
    there = (each.workers for each in windows if _open(each, zones.get(each.zone), at))
    return max(there, default=None)


def span(window: Window, zone: tzinfo, day: date) -> tuple[datetime, datetime]:
    """Return from when to when (UTC) the window of a day is open; one that is skipped has no length."""
    start, end = time.fromisoformat(window.start), time.fromisoformat(window.end)
    last = day if end > start else day + timedelta(days=1)
    return _instant(day, start, zone, fold=0), _instant(last, end, zone, fold=1)


def _open(window: Window, zone: tzinfo | None, at: datetime) -> bool:
    if zone is None:
        return False
    today = at.astimezone(zone).date()
    for day in (today - timedelta(days=1), today):
        if window.days and WEEKDAYS[day.weekday()] not in window.days:
            continue
        opens, closes = span(window, zone, day)
        if opens <= at < closes:
            return True
    return False


def _instant(day: date, at: time, zone: tzinfo, *, fold: int) -> datetime:
    """Return a wall-clock time as an instant in UTC; of one that is skipped the end of the gap."""
    wall = datetime.combine(day, at)
    early, late = (wall.replace(tzinfo=zone, fold=each).astimezone(UTC) for each in (0, 1))
    if late >= early:
        return late if fold else early
    # Clocks go forward over it: read with the offset before it lies after the gap, and the reverse.
    before, after = late, early
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)
