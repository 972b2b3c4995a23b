"""When the workers for what is promised are up, and whose will be late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.claims.arrivals import Fleet, arrivals, at_risk, up_by
from labfleet.decisions.claims.danger import LATE
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims
from labfleet.decisions.placement import WorkerShape
from labfleet.resources.amounts import Amounts, Claim

NOW = datetime(2026, 11, 27, 8, tzinfo=UTC)
SHAPE = WorkerShape(name="t", track="default", capacity=Amounts(cpu_milli=1000), product="C")
HOUR = NOW + timedelta(hours=1)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def claimed(place: int, begins: float, worker: str | None = None) -> Claimed:
    """A claim on a place that begins so many minutes from now."""
    start = NOW + minutes(begins)
    claim = Claim(
        pool="p", place=place, amounts=Amounts(cpu_milli=1), start=start, end=start + minutes(60)
    )
    return Claimed(uid=f"{place}/{begins}", claim=claim, worker=worker)


def claims(*found: Claimed, places: int = 20) -> PoolClaims:
    return PoolClaims(Extent(pool="p", places=places, shape=SHAPE), NOW, found)


def fleet(*ready: str, makes: bool = True, **coming: datetime | None) -> Fleet:
    """Workers that are up, and those that boot, in a pool whose boots take 17 minutes."""
    return Fleet(ready=set(ready), coming=coming, early=minutes(18), boot=minutes(17), makes=makes)


def test_the_morning_of_an_exam():
    """Of 19 places 17 are up, one boots and one is to be made: all by the later of the two."""
    held = claims(*(claimed(place, 40) for place in range(19)))
    ready = [f"w{number}" for number in range(17)]
    found = arrivals(held, HOUR, fleet(*ready, w17=NOW + minutes(9)))
    assert sum(each.name in ready for each in found) == 17
    assert max(each.by for each in found if each.by) == NOW + minutes(40 - 18 + 17)
    assert at_risk(held, HOUR, found) == []


def test_a_boot_that_takes_longer_than_nearly_all_endangers_its_place():
    """Nobody knows when it is up, so the promise of its place is at risk before its time."""
    assert up_by(NOW - minutes(18), minutes(17), NOW) is None
    held = claims(claimed(0, 10), claimed(1, 30))
    found = arrivals(held, HOUR, fleet("w1", w2=None))
    assert [(each.name, each.late) for each in found] == [("w1", False), ("w2", True)]
    assert [each.uid for each in at_risk(held, HOUR, found)] == ["1/30"]


def test_a_failed_boot_endangers_what_begins_before_another_one_is_up():
    """A new worker takes a whole boot from now: what begins later is safe, on the same place too."""
    held = claims(claimed(0, 5), claimed(0, 70))
    found = arrivals(held, NOW + minutes(90), fleet())
    assert [each.uid for each in at_risk(held, NOW + minutes(90), found)] == ["0/5"]


def test_a_paused_pool_endangers_what_is_due():
    """It makes no worker, so what would need one now is at risk; what is due later may be resumed."""
    held = claims(claimed(0, 15), claimed(1, 50))
    found = arrivals(held, HOUR, fleet(makes=False))
    assert [each.uid for each in at_risk(held, HOUR, found)] == ["0/15"]


def test_a_place_that_is_gone_takes_no_worker_from_others():
    """A pool that may have one worker keeps it for the place that is there."""
    found = arrivals(claims(claimed(1, 5), claimed(0, 6), places=1), HOUR, fleet("w"))
    assert [(each.place, each.name) for each in found] == [(1, ""), (0, "w")]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), max_size=12),
    st.integers(0, 6),
    st.lists(st.integers(1, 20), max_size=6),
)
def test_each_worker_serves_one_place_and_more_of_them_endanger_nobody(begins, up, coming):
    """No worker is counted twice; with one more that is up no other promise comes to be at risk."""
    made = {(place, start) for place, start in begins}
    held = claims(*(claimed(place, start) for place, start in made))
    booting = {f"c{number}": NOW + minutes(each) for number, each in enumerate(coming)}
    ready = [f"r{number}" for number in range(up)]
    found = arrivals(held, HOUR, fleet(*ready, **booting))
    names = [each.name for each in found if each.name]
    assert len(names) == len(set(names))
    before = {each.uid for each in at_risk(held, HOUR, found)}
    more = arrivals(held, HOUR, fleet(*ready, "r9", **booting))
    assert {each.uid for each in at_risk(held, HOUR, more)} <= before
    assert all(each.by <= each.start + LATE for each in found if not each.late and each.by)
