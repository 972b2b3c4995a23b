"""On which dates a class meets: as RFC 5545 has it, bounded, and at one wall-clock time."""

from __future__ import annotations

import time as clocks
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.decisions import recurrence
from labfleet.decisions.recurrence import DATES, DAYS

MONDAY = date(2026, 10, 5)


def met(text: str, first: date = MONDAY) -> list[date]:
    """The dates of a rule's text."""
    return recurrence.dates(recurrence.parsed(text), first)


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, date]:
    """A rule that is taken, with a first date that it meets."""
    first = draw(st.dates(date(2020, 1, 1), date(2040, 1, 1)))
    parts = [f"FREQ={draw(st.sampled_from(['DAILY', 'WEEKLY']))}"]
    if draw(st.booleans()):
        parts.append(f"INTERVAL={draw(st.integers(1, 9))}")
    if draw(st.booleans()):
        days = draw(st.sets(st.sampled_from(DAYS))) | {DAYS[first.weekday()]}
        parts.append(f"BYDAY={','.join(sorted(days))}")
    if draw(st.booleans()):
        parts.append(f"COUNT={draw(st.integers(1, DATES))}")
    else:
        parts.append(f"UNTIL={first + timedelta(days=draw(st.integers(0, 55))):%Y%m%d}")
    return ";".join(draw(st.permutations(parts))), first


@settings(max_examples=150, deadline=None)
@given(rules())
def test_a_rule_meets_the_dates_that_dateutil_finds(drawn: tuple[str, date]) -> None:
    """Of every rule that is taken the dates are those of python-dateutil."""
    text, first = drawn
    known = rrule.rrulestr(text, dtstart=datetime.combine(first, time()))
    assert met(text, first) == [each.date() for each in known]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("FREQ=SECONDLY;COUNT=5", "WEEKLY or DAILY"),
        ("FREQ=MONTHLY;COUNT=5", "WEEKLY or DAILY"),
        ("FREQ=WEEKLY", "one of COUNT and UNTIL"),
        ("FREQ=WEEKLY;COUNT=3;UNTIL=20261101", "one of COUNT and UNTIL"),
        ("FREQ=WEEKLY;COUNT=61", "from 1 to 60"),
        ("FREQ=WEEKLY;COUNT=0", "from 1 to 60"),
        ("FREQ=WEEKLY;COUNT=" + "9" * 5000, "from 1 to 60"),
        ("FREQ=WEEKLY;COUNT=٣", "from 1 to 60"),
        ("FREQ=DAILY;INTERVAL=0;COUNT=2", "from 1 to 366"),
        ("FREQ=DAILY;UNTIL=99991231", "more than 60 dates"),
        ("FREQ=WEEKLY;UNTIL=20260101", "before the first date"),
        ("FREQ=WEEKLY;UNTIL=20261301", "must be a day"),
        ("FREQ=WEEKLY;UNTIL=20261221T090000Z", "must be a day"),
        ("FREQ=WEEKLY;BYDAY=TU;COUNT=2", "is a Monday, which BYDAY=TU leaves out"),
        ("FREQ=WEEKLY;BYDAY=1MO;COUNT=2", "BYDAY takes MO"),
        ("FREQ=WEEKLY;BYHOUR=1,2,3;COUNT=2", "BYHOUR is not taken"),
        ("FREQ=WEEKLY;COUNT=2;COUNT=3", "given twice"),
        ("every monday", "write NAME=VALUE"),
        ("", "write NAME=VALUE"),
    ],
)
def test_what_cannot_be_met_is_refused_in_words(text: str, told: str) -> None:
    """A rule that is none, has no end, or has too many dates says what to write instead."""
    with pytest.raises(ValueError, match=told):
        met(text)


def test_the_most_hostile_rules_cost_next_to_nothing() -> None:
    """Far ends, long lists and rare days are judged in less than a millisecond each."""
    hostile = [
        "FREQ=DAILY;UNTIL=99991231",
        "FREQ=DAILY;INTERVAL=366;BYDAY=MO;UNTIL=99991231",
        "FREQ=WEEKLY;BYDAY=" + ",".join(["MO"] * 60) + ";UNTIL=99991231",
        "FREQ=WEEKLY;INTERVAL=52;UNTIL=99991231",
    ]
    before = clocks.process_time()
    for text in hostile * 25:
        with pytest.raises(ValueError, match="more than 60 dates"):
            met(text)
    assert clocks.process_time() - before < 0.2
    assert met("FREQ=DAILY;COUNT=60", date(9999, 12, 30)) == [
        date(9999, 12, 30),
        date(9999, 12, 31),
    ]


def test_a_class_keeps_its_wall_clock_time_when_clocks_change() -> None:
    """From October to November a class at nine in Zurich moves by an hour in UTC, not at home."""
    zone = ZoneInfo("Europe/Zurich")
    found = [recurrence.instant(day, time(9), zone) for day in met("FREQ=WEEKLY;COUNT=5")]
    assert [at.astimezone(zone).hour for at, _ in found] == [9] * 5
    assert [at.hour for at, _ in found] == [7, 7, 7, 8, 8]
    assert {told for _, told in found} == {""}


def test_a_time_that_is_skipped_or_comes_twice_is_told() -> None:
    """02:30 is 03:30 where clocks go forward, and the first of two where they go back."""
    zone = ZoneInfo("Europe/Zurich")
    at, told = recurrence.instant(date(2027, 3, 28), time(2, 30), zone)
    assert at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert told == "there is no 02:30 on 2027-03-28: clocks go forward, so it starts at 03:30"
    at, told = recurrence.instant(date(2026, 10, 25), time(2, 30), zone)
    assert at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert told == "02:30 comes twice on 2026-10-25: clocks go back, and the first is taken"
    half = ZoneInfo("Australia/Lord_Howe")  # where clocks change by half an hour
    at, told = recurrence.instant(date(2026, 10, 4), time(2, 15), half)
    assert (at.astimezone(half).strftime("%H:%M"), "02:45" in told) == ("02:45", True)
