"""Capacity over time.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import ledger
from labfleet.resources.amounts import DIMENSIONS, Amounts, Reservation

T0 = datetime(2026, 11, 27, 9, tzinfo=UTC)


def at(minute: int) -> datetime:
    """The instant this many minutes after the start."""
    return T0 + timedelta(minutes=minute)


def held(start: int, end: int | None, cpu: int = 1, memory: int = 0) -> Reservation:
    """A reservation from minute to minute."""
    amounts = Amounts(cpu_milli=cpu, memory_mib=memory)
    stop = None if end is None else at(end)
    return Reservation(holder="s", amounts=amounts, start=at(start), end=stop)


def test_back_to_back_is_no_overlap():
    """One slot may begin at the instant at which another ends."""
    found = ledger.peak([held(0, 10, 5), held(10, 20, 7)], at(0), at(20))
    assert found.cpu_milli == 7


def test_open_end_holds_for_ever():
    """A reservation without an end meets every later window."""
    assert ledger.peak([held(0, None, 5)], at(5000), None).cpu_milli == 5


def test_dimensions_peak_at_their_own_instants():
    """CPU may be highest at one instant and memory at another."""
    found = ledger.peak([held(0, 5, 9, 1), held(5, 9, 1, 9)], at(0), at(9))
    assert (found.cpu_milli, found.memory_mib) == (9, 9)


def test_milli_cpu_is_exact():
    """Four times 250m fill one CPU, and the fifth is short by 250m (T22)."""
    one = Amounts(cpu_milli=1000)
    quarter = Amounts(cpu_milli=250)
    three = [held(0, 9, 250)] * 3
    assert ledger.shortages(quarter, one, ledger.peak(three, at(0), at(9))) == ()
    four = [held(0, 9, 250)] * 4
    short = ledger.shortages(quarter, one, ledger.peak(four, at(0), at(9)))
    assert [(each.dimension, each.wanted, each.free) for each in short] == [("cpu_milli", 250, 0)]


def test_overdue_reservation_still_holds():
    """The end of a slot frees nothing until the reservation is taken away."""
    late = ledger.settled([held(0, 10)], at(12))
    assert ledger.peak(late, at(12), at(20)).cpu_milli == 1
    assert ledger.peak(late, at(12 + 15), at(60)).cpu_milli == 0


def test_shrunk_capacity_gives_no_negative_numbers():
    """Where more is held than there is, free is 0 and never less."""
    assert ledger.free_at(Amounts(cpu_milli=3), [held(0, 9, 5)], at(1)).cpu_milli == 0


@pytest.mark.parametrize("name", DIMENSIONS)
def test_every_dimension_can_be_short(name):
    """No dimension is forgotten by the comparison or by the sums."""
    two = Amounts(**{name: 2})
    holding = Reservation(holder="s", amounts=two, start=T0)
    assert getattr(ledger.peak([holding, holding], T0, None), name) == 4
    assert getattr(ledger.total([holding]), name) == 2
    short = ledger.shortages(two, Amounts(**{name: 3}), two)
    assert [(each.dimension, each.free) for each in short] == [(name, 1)]


spans = st.builds(
    held, st.integers(0, 30), st.none() | st.integers(0, 40), st.integers(0, 9), st.integers(0, 9)
)


@given(st.lists(spans, max_size=12), st.integers(0, 30), st.none() | st.integers(0, 45))
def test_peak_is_the_most_of_any_instant(reservations, start, end):
    """The sweep agrees with looking at every minute of the window."""
    stop = 60 if end is None else end
    sums = [
        sum(
            each.amounts.cpu_milli
            for each in reservations
            if each.start <= at(minute) and (each.end is None or at(minute) < each.end)
        )
        for minute in range(start, stop)
    ]
    found = ledger.peak(reservations, at(start), None if end is None else at(end))
    assert found.cpu_milli == max(sums, default=0)


@given(st.lists(spans, max_size=12), st.integers(0, 30), st.integers(1, 20))
def test_total_bounds_every_peak(reservations, start, length):
    """What is held at an instant never passes the sum of all."""
    found = ledger.peak(reservations, at(start), at(start + length))
    assert found.cpu_milli <= ledger.total(reservations).cpu_milli


@given(
    st.lists(st.tuples(st.integers(-60, 60), st.integers(1, 90), st.integers(0, 9)), max_size=6),
    st.integers(0, 20),
)
def test_what_is_promised_and_what_is_left_are_the_whole(rows, capacity):
    """Reserved and available fill the capacity, or more is promised than there is, over 100 %."""
    held_ = [held(start, start + length, cpu) for start, length, cpu in rows]
    promised = ledger.promised(held_, at(0))
    found = ledger.allocation(promised, Amounts(cpu_milli=capacity))
    left, share = found.available.cpu_milli, found.percent.cpu
    assert left == max(0, capacity - promised.cpu_milli)
    assert (share is None) == (capacity == 0)
    if capacity:
        assert (share > 100) == (promised.cpu_milli > capacity)
        assert (share == 0) == (promised.cpu_milli == 0)
    # The overdue ones are held until they were seen gone.
    begun = sum(cpu for start, _, cpu in rows if start <= 0)
    assert promised.cpu_milli >= begun
    unknown = ledger.allocation(promised, None)
    assert (unknown.available, unknown.percent.cpu) == (None, None)
