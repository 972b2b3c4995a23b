"""Times on the wall of a zone: when clocks change too, and for zones that are none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from labfleet.resources import zones


def test_a_time_that_is_left_out_or_comes_twice_is_one_instant() -> None:
    """Warsaw goes from 02:00 to 03:00 on 28 March 2027 and back from 03:00 on 31 October 2027."""
    missing = zones.at_wall(datetime(2027, 3, 28, 2, 30), "Europe/Warsaw")
    assert missing == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    twice = zones.at_wall(datetime(2027, 10, 31, 2, 30), "Europe/Warsaw")
    assert twice == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert zones.at_wall(datetime(2027, 10, 31, 2, 30), "Mars/Base") is None
    assert zones.at_wall(datetime.max, "America/New_York") is None


@given(st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2040, 1, 1)),
       st.sampled_from(["Europe/Warsaw", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"]))  # fmt: skip
def test_a_wall_is_shown_as_it_was_written_unless_clocks_leave_it_out(
    wall: datetime, zone: str
) -> None:
    """Back in its zone an instant has the time that was asked for, or lies as far after the gap."""
    at = zones.at_wall(wall, zone)
    assert at is not None
    shown = at.astimezone(zones.zone_of(zone)).replace(tzinfo=None)
    assert shown == wall or timedelta() < shown - wall <= timedelta(hours=1)
    assert zones.contradiction(at.astimezone(zones.zone_of(zone)), zone) == ""
