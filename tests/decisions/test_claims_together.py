"""Slots that are promised together: they pack as they would one by one, and a look leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.claims import together
from labfleet.decisions.claims.nearest import nearest
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims, claim_of
from labfleet.decisions.placement import PlacementRequest, WorkerShape
from labfleet.resources.amounts import Amounts

NOW = datetime(2026, 12, 14, tzinfo=UTC)
HOUR = timedelta(hours=1)


def pool(name: str, places: int, memory: int) -> PoolClaims:
    """A pool of so many empty places with so much memory each."""
    shape = WorkerShape(name=name, track="default", capacity=Amounts(memory_mib=memory))
    return PoolClaims(Extent(pool=name, places=places, shape=shape), NOW)


def request(start: int, length: int, memory: int) -> PlacementRequest:
    """A slot of some hours with so much memory."""
    begin = NOW + start * HOUR
    return PlacementRequest(
        amounts=Amounts(memory_mib=memory), start=begin, end=begin + length * HOUR
    )


REQUESTS = st.lists(
    st.builds(request, st.integers(0, 3), st.integers(1, 3), st.integers(1, 5)), max_size=12
)


@given(st.integers(0, 3), st.integers(0, 2), REQUESTS)
def test_a_group_gets_the_places_that_its_seats_would_get_alone(
    first: int, second: int, asked: list[PlacementRequest]
) -> None:
    """Each slot is where it would be if it were asked for after those before it, or has no room."""
    pools = [pool("a", first, 6), pool("b", second, 8)]
    alone = [pool("a", first, 6), pool("b", second, 8)]
    packed = together.pack(pools, [(str(number), each) for number, each in enumerate(asked)])
    assert len(packed.claims) == len(asked)
    for number, (claim, each) in enumerate(zip(packed.claims, asked, strict=True)):
        places = [(one, one.find(each)) for one in alone]
        fits = [(one, place) for one, place in places if isinstance(place, int)]
        if claim is None:
            assert fits == []
            continue
        one, place = fits[0]
        assert claim == claim_of(one.extent.pool, place, each)
        one.add(Claimed(uid=str(number), claim=claim))


@given(REQUESTS.filter(bool), REQUESTS)
def test_a_look_for_another_time_leaves_no_trace(
    asked: list[PlacementRequest], before: list[PlacementRequest]
) -> None:
    """What is tried is taken back, whether it fits or not."""
    there = pool("a", 2, 6)
    together.pack([there], [(f"before-{number}", each) for number, each in enumerate(before)])
    known = list(there.claims())
    wanted = [(str(number), each) for number, each in enumerate(asked)]
    fits = together.holds([there], wanted)
    told = [fits(move * HOUR) for move in range(-2, 9)]
    assert told[-1] == (together.most([there], wanted) == len(wanted))
    assert list(there.claims()) == known


def test_the_nearest_slot_holds_all_of_a_group() -> None:
    """Three of five places are taken for an hour: five seats fit only before and after it."""
    there = pool("a", 5, 4)
    together.pack([there], [(f"b{number}", request(4, 1, 4)) for number in range(3)])
    five = [(str(number), request(4, 1, 4)) for number in range(5)]
    found = nearest(
        [there], five[0][1], first=NOW, last=NOW + 9 * HOUR, fits=together.holds([there], five)
    )
    assert (found.earlier, found.later) == (-HOUR, HOUR)


def test_each_place_is_looked_at_once_for_all_equal_seats() -> None:
    """Work grows with places and seats, not with one times the other."""
    there = pool("a", 40, 10)
    same = request(0, 1, 1)
    packed = together.pack([there], [(str(number), same) for number in range(400)])
    assert packed.fit == 400
    # Nine seats beside each other on a place are looked at by the next ones there.
    assert there.looked <= 40 * (sum(range(11)) + 10)
    other = replace(same, amounts=Amounts(memory_mib=2))
    assert together.pack([there], [("x", other)], all_or_none=True).fit == 0
