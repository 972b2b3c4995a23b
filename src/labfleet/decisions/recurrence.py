"""On which dates a class meets, and at which instants: the part of RFC 5545's rules that it needs.

Pure. A rule says how often (`FREQ=WEEKLY;BYDAY=MO,WE;INTERVAL=2`) and until when (`COUNT` or
`UNTIL`). What a rule can cost is bounded by its form: it steps by days or weeks, never by less, and
ends at `DATES` dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

DATES = 60
"""Dates of one rule at most: a year of weeks and some."""
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = "FREQ, INTERVAL, BYDAY, COUNT and UNTIL"
_LONGEST = {"DAILY": 366, "WEEKLY": 52}
_DAY = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How a first date recurs: every `interval` days, or on `days` (Monday is 0) of such weeks.

    It ends after `count` dates, the first one included, or with the day `until`, which counts.
    """

    weekly: bool
    interval: int = 1
    days: frozenset[int] = frozenset()
    count: int | None = None
    until: date | None = None


def parsed(text: str) -> Recurrence:
    """Return the rule of a text such as `FREQ=WEEKLY;COUNT=12`; ValueError says what cannot be."""
    parts = dict[str, str]()
    for each in text.strip().upper().removeprefix("RRULE:").rstrip(";").split(";"):
        name, equals, value = (one.strip() for one in each.partition("="))
        if not equals or not value:
            raise ValueError("write NAME=VALUE;NAME=VALUE, for example FREQ=WEEKLY;COUNT=12")
        if name not in {"FREQ", "INTERVAL", "BYDAY", "COUNT", "UNTIL"}:
            raise ValueError(f"{name[:32]} is not taken here, only {_PARTS}")
        if name in parts:
            raise ValueError(f"{name} is given twice")
        parts[name] = value
    often = parts.get("FREQ", "")
    if often not in _LONGEST:
        raise ValueError("FREQ must be WEEKLY or DAILY, for example FREQ=WEEKLY;COUNT=12")
    if ("COUNT" in parts) == ("UNTIL" in parts):
        raise ValueError("say with one of COUNT and UNTIL when it ends, for example COUNT=12")
    return Recurrence(
        weekly=often == "WEEKLY",
        interval=_number(parts, "INTERVAL", _LONGEST[often]) or 1,
        days=frozenset(map(_weekday, parts["BYDAY"].split(",")))
        if "BYDAY" in parts
        else frozenset(),
        count=_number(parts, "COUNT", DATES),
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
    )


def _number(parts: dict[str, str], name: str, most: int) -> int | None:
    text = parts.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most))):
        raise ValueError(f"{name} must be a number from 1 to {most}")
    if not 1 <= int(text) <= most:
        raise ValueError(f"{name} must be a number from 1 to {most}")
    return int(text)


def _weekday(text: str) -> int:
    if text.strip() not in DAYS:
        raise ValueError(f"BYDAY takes {', '.join(DAYS)}, not {text.strip()[:16]!r}")
    return DAYS.index(text.strip())


def _until(text: str) -> date:
    found = _DAY.fullmatch(text)
    try:
        if found is not None:
            return date(*map(int, found.groups()))
    except ValueError:
        pass
    raise ValueError("UNTIL must be a day, such as 20261221; a class of that day still meets")


def dates(rule: Recurrence, first: date) -> list[date]:
    """Return the dates from the first one on; ValueError when there are too many, or it is none.

    A first date that the rule does not meet would silently be left out, so it is refused.
    """
    if rule.days and first.weekday() not in rule.days:
        wanted = ",".join(DAYS[each] for each in sorted(rule.days))
        told = f"the first date, {first}, is a {_NAMES[first.weekday()]}"
        raise ValueError(f"{told}, which BYDAY={wanted} leaves out")
    if rule.until is not None and rule.until < first:
        raise ValueError(f"UNTIL lies before the first date, {first}")
    found = list[date]()
    try:
        for day in _days(rule, first):
            if rule.until is not None and day > rule.until:
                break
            if len(found) == DATES:
                raise ValueError(
                    f"these are more than {DATES} dates; end it earlier, extend it later"
                )
            found.append(day)
            if len(found) == rule.count:
                break
    except OverflowError:
        pass  # the calendar ends
    return found


def _days(rule: Recurrence, first: date) -> Iterator[date]:
    """Yield what a rule without an end meets; of seven steps one at least is a date."""
    if not rule.weekly:
        step, day = timedelta(days=rule.interval), first
        while True:
            if not rule.days or day.weekday() in rule.days:
                yield day
            day += step
    wanted = sorted(rule.days) or [first.weekday()]
    monday = first - timedelta(days=first.weekday())
    while True:
        for weekday in wanted:
            day = monday + timedelta(days=weekday)
            if day >= first:
                yield day
        monday += timedelta(weeks=rule.interval)


def instant(day: date, at: time, zone: tzinfo) -> tuple[datetime, str]:
    """Return a wall-clock time of a zone as an instant, with a sentence where clocks change there.

    As RFC 5545 has it: a time that is skipped is read with the offset before, so 02:30 becomes
    03:30; of one that comes twice the first is meant.
    """
    wall = datetime.combine(day, at.replace(tzinfo=None, fold=0))
    local = wall.replace(tzinfo=zone)
    utc = local.astimezone(UTC)
    there = utc.astimezone(zone).replace(tzinfo=None, fold=0)
    if there != wall:
        told = (
            f"there is no {wall:%H:%M} on {day}: clocks go forward, so it starts at {there:%H:%M}"
        )
        return utc, told
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        return utc, f"{wall:%H:%M} comes twice on {day}: clocks go back, and the first is taken"
    return utc, ""
