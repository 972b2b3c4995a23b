"""What a pool has promised, time by time: nothing is left out and nothing counted twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.claims.calendar import Entry, intervals
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims
from labfleet.decisions.placement import WorkerShape
from labfleet.resources.amounts import Amounts, Claim

NOW = datetime(2026, 11, 27, 8, tzinfo=UTC)
SHAPE = WorkerShape(name="t", track="default", capacity=Amounts(cpu_milli=2), product="C")
LAST = NOW + timedelta(hours=60)


def entry(place: int, start: int, hours: int, about: str = "ccna") -> Entry:
    """A claim of one thousandth of a CPU that begins so many hours from now."""
    begin = NOW + timedelta(hours=start)
    claim = Claim(
        pool="p", place=place, amounts=Amounts(cpu_milli=1), start=begin,
        end=begin + timedelta(hours=hours),
    )  # fmt: skip
    return Entry(claim, about)


def seen(*entries: Entry, places: int = 3):
    """The intervals of these claims in a pool of three workers that hold two labs each."""
    extent = Extent(pool="p", places=places, shape=SHAPE)
    claimed = [Claimed(uid=str(number), claim=each.claim) for number, each in enumerate(entries)]
    claims = PoolClaims(extent, NOW, claimed)
    return list(intervals(claims, list(entries), NOW, LAST))


def test_without_promises_all_is_one_free_interval():
    """An empty pool has one row, from now to the end."""
    [only] = seen()
    assert (only.start, only.end, only.sessions, only.places) == (NOW, LAST, 0, 0)


def test_an_exam_between_two_free_times():
    """A thousand sessions of one slot are one row, which names their groups by size."""
    many = [entry(number // 2, 10, 2, "ccnp" if number % 4 else "ccna") for number in range(1000)]
    before, exam, after = seen(*many, places=500)
    assert (exam.sessions, exam.places, exam.danger) == (1000, 500, 0)
    assert exam.about == (("ccnp", 750), ("ccna", 250))
    assert (before.sessions, after.sessions) == (0, 0)


def test_what_is_gone_or_too_full_is_in_danger():
    """Sessions of a place beyond the maximum, and of one that holds more than it has."""
    _, gone, _ = seen(entry(0, 10, 1), entry(5, 10, 1))
    assert gone.danger == 1
    _, full, _ = seen(*(entry(0, 10, 1) for _ in range(3)), entry(1, 10, 1))
    assert full.danger == 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 70), st.integers(1, 9)), max_size=20))
def test_each_instant_tells_what_holds_then(drawn):
    """Intervals follow each other without gaps, and each counts the claims that live in it."""
    entries = [entry(*each) for each in drawn]
    found = seen(*entries)
    assert (found[0].start, found[-1].end) == (NOW, LAST)
    assert all(a.end == b.start and a.what != b.what for a, b in pairwise(found))
    for each in found:
        middle = each.start + (each.end - each.start) / 2
        live = [e.claim for e in entries if e.claim.start <= middle < e.claim.end]
        # What has begun and ends within the overdue time holds its place somewhat longer.
        if each.start > NOW + timedelta(hours=2):
            assert (each.sessions, each.places) == (len(live), len({e.place for e in live}))
