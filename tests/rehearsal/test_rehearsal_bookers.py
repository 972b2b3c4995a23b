"""People of a rehearsal who book ahead: alone or as a class, for today or beyond the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.rehearsal import faults
from labfleet.rehearsal.people.bookers import SOONEST, Bookers
from labfleet.rehearsal.replicas.fleet_client import DirectClient
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.resources.session import TERMINAL

HOUR = 3600.0


@given(seed=st.integers(0, 10_000), hours=st.sampled_from([1.0, 1.5, 4.0, 6.0, 24.0, 72.0]))
def test_each_booking_is_long_ahead(seed: int, hours: float) -> None:
    """A slot of the same day is asked for in time and over before the end; others lie beyond it."""
    desk: Any = None
    made = Bookers(hours, SeededRng(str(seed)), DirectClient(), desk).bookings()
    assert any(each.away for each in made)
    for each in made:
        assert 300 <= each.at < hours * HOUR
        if each.away:
            assert each.start >= hours * HOUR
        else:
            assert each.start - each.at >= SOONEST - 300
            assert each.start + each.minutes * 60 <= hours * HOUR


@pytest.mark.timeout(120)
def test_all_that_is_booked_beyond_the_end_is_given_back() -> None:
    """A seed with nobody else comes to rest, and its classes of bookers did ask."""
    report = rehearse(1, Options(hours=1, sessions=1, workers=1, harshness=faults.NONE))
    assert report.violations == []
    assert report.phases["CANCELLED"] >= 1
    assert set(report.phases) <= {str(each) for each in TERMINAL}
