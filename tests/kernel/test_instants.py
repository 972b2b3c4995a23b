"""Instants are the same whatever offset they are written with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import clock

SOURCE = Path(__file__).parents[2] / "src/labfleet"
OWN_FORMATS = {
    "kernel/clock.py",  # the formatter
    "web/details.py",  # a slot in the zone that its person named, which is written beside it
    "resources/zones.py",  # the same, for sentences; UTC stands beside it
    "web/timeline.py",  # hours under a picture in the reader's zone, which is written beside it
    "web/acts/session_acts.py",  # what a form's field for the slot's own zone begins with
    "adapters/aws/reading.py",  # reads how EC2 writes an instant into a sentence
    "cli/commands/calendar.py",  # the reader's zone; UTC stands beside it
    "cli/commands/booking.py",  # the slot's zone, which is written beside it
    "cli/commands/booking_courses.py",  # the same, with UTC beside it
    "decisions/recurrence.py",  # what clocks on a wall show, in sentences on that
    "resources/calendar_file.py",  # RFC 5545's form of UTC
    "rehearsal/worlds/ec2_forms.py",  # EC2's wire format, in EC2's place
}
# With days on which the clock is set: forwards, backwards, by half an hour, at midnight.
ZONES = st.sampled_from([
    ZoneInfo("Europe/Warsaw"), ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"),
    ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/Santiago"), ZoneInfo("Pacific/Kiritimati"), UTC,
])  # fmt: skip
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
DST_DAYS = [
    datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC),
    datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 4, 5, tzinfo=UTC), datetime(2026, 9, 6, tzinfo=UTC),
]  # fmt: skip
NEAR_DST = st.builds(
    lambda day, seconds: day + timedelta(seconds=seconds),
    st.sampled_from(DST_DAYS), st.integers(-86400, 2 * 86400),
)  # fmt: skip
INSTANTS = NEAR_DST | st.datetimes(
    datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)
)  # fmt: skip


@given(INSTANTS, ZONES | OFFSETS)
def test_the_text_of_an_instant_does_not_depend_on_its_offset(at: datetime, zone) -> None:
    """A slot at 09:00+01:00 is shown as 08:00Z, on days when the clock is set too."""
    there = at.astimezone(zone)
    assert clock.utc_text(there) == clock.utc_text(at)
    assert clock.utc_text(there, seconds=True) == clock.utc_text(at, seconds=True)
    assert clock.utc_time(there) == clock.utc_time(at)
    assert clock.format_instant(there, "microseconds") == clock.format_instant(at, "microseconds")
    assert clock.parse_instant(clock.format_instant(there, "microseconds")) == at
    read = datetime.strptime(clock.utc_text(there, seconds=True), "%Y-%m-%d %H:%M:%S%z")
    assert read == at.replace(microsecond=0)


@given(st.lists(st.tuples(INSTANTS, ZONES | OFFSETS), max_size=8))
def test_texts_sort_like_their_instants(drawn) -> None:
    """Lists that are sorted by text stand in the order of time."""
    there = [at.astimezone(zone) for at, zone in drawn]
    by_text = sorted(there, key=lambda each: clock.format_instant(each, "microseconds"))
    assert [each.timestamp() for each in by_text] == sorted(each.timestamp() for each in there)


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_years_are_shown_and_no_error(year: int) -> None:
    """The year 1 east of Greenwich lies before all years; the nearest instant is shown."""
    edge = datetime(1, 1, 1) if year == 1 else datetime(9999, 12, 31, 23, 59)
    for hours in (-12, 12):
        zone = timezone(timedelta(hours=hours))
        assert clock.utc_text(edge.replace(tzinfo=zone)).startswith(f"{year:04d}-")


def test_nobody_else_makes_text_of_an_instant() -> None:
    """A format of one's own cuts the offset off; all use the formatter of the kernel."""
    own = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"%H|\bstrftime\b", path.read_text(encoding="utf-8"))
    }
    assert own == OWN_FORMATS
