"""Instants go through the store unharmed, also those that no calendar holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from labfleet.stores.instants import from_micros, to_micros


@pytest.mark.parametrize("instant", [datetime.max, datetime.min])
@pytest.mark.parametrize("hours", [-12, 0, 12])
def test_an_instant_beyond_the_calendar_reads_back_as_its_end(instant: datetime, hours: int):
    """A zone at the end of time makes one row odd, never its table unreadable."""
    kept = instant.replace(tzinfo=timezone(timedelta(hours=hours)))
    found = from_micros(to_micros(kept))
    assert found.tzinfo is UTC
    assert abs(found.year - instant.year) <= 1
