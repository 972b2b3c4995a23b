"""Which time holds when clocks part: jumps are not followed, small corrections and sleep are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.clock_trust import (
    LIMIT_SECONDS,
    Heard,
    Trust,
    doubted,
    judged,
    told_by_log,
)

DAY = 86400.0
START = Trust(1000.0, 50.0)


@pytest.mark.parametrize("jump", [DAY, -DAY, LIMIT_SECONDS + 1, -LIMIT_SECONDS - 1])
def test_a_jump_is_not_followed_and_its_end_is(jump: float) -> None:
    """A day ahead for 12 s: the time that holds moved by 12 s, then both agree again."""
    held = judged(START, 1001.0 + jump, 51.0)
    assert (held.time, held.apart, held.since) == (1001.0, jump, 1001.0)
    later = judged(held, 1013.0 + jump, 63.0)
    assert (later.time, later.apart, later.since) == (1013.0, jump, 1001.0)
    assert judged(later, 1014.0, 64.0) == Trust(1014.0, 64.0)


@given(st.floats(0, 30 * DAY))
def test_what_slept_or_was_paused_holds_nothing(seconds: float) -> None:
    """Both clocks went on alike, however long."""
    found = judged(START, 1000.0 + seconds, 50.0 + seconds)
    assert (found.time, found.apart, found.since) == (1000.0 + seconds, 0.0, None)


@given(st.lists(st.tuples(st.floats(0, 3600), st.floats(-290, 290)), max_size=20))
def test_small_corrections_are_followed(steps: list[tuple[float, float]]) -> None:
    """NTP, leap seconds and drift: the wall clock is followed, also when they add up."""
    trust, wall, steady = START, START.time, START.steady
    for passed, corrected in steps:
        wall, steady = wall + passed + corrected, steady + passed
        trust = judged(trust, wall, steady)
        assert (trust.time, trust.since) == (wall, None)


@given(st.lists(st.tuples(st.floats(0, 3600), st.floats(-1e6, 1e6)), max_size=20))
def test_the_time_that_holds_never_moves_more_than_the_limit_by_itself(
    readings: list[tuple[float, float]],
) -> None:
    """Whatever the wall clock does between two readings."""
    trust = START
    for passed, wall in readings:
        steady = trust.steady + passed
        expected = trust.at(steady)
        trust = judged(trust, wall, steady)
        assert abs(trust.time - expected) <= LIMIT_SECONDS + 1e-3


def test_the_log_of_others_tells_that_our_clock_is_ahead() -> None:
    """A commit between two readings that lies before the first is of an earlier clock."""
    now = 10_000.0
    before = Heard(7, now - 10)
    assert told_by_log(before, 8, now - 5, now) == (None, 0.0)
    assert told_by_log(before, 8, now - DAY, now) == (now - DAY, 0.0)
    assert told_by_log(before, 7, now - DAY, now) == (None, 0.0)
    assert told_by_log(None, 8, now - 7 * DAY, now) == (None, 0.0)
    assert told_by_log(None, 8, now + DAY, now) == (None, DAY)
    slept = Heard(7, now - DAY)
    assert told_by_log(slept, 8, now - DAY / 2, now) == (None, 0.0)


def test_of_two_clocks_the_earlier_holds() -> None:
    """It ends nobody's work before its time; a later one is not believed."""
    told = doubted(Trust(DAY + 1000.0, 50.0), 1000.0, 50.0)
    assert (told.time, told.apart, told.since) == (1000.0, DAY, 1000.0)
    assert judged(told, DAY + 1010.0, 60.0).time == 1010.0
    assert doubted(START, 1000.0 + DAY, 50.0) == START
