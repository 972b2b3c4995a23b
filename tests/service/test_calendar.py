"""The calendar of pools: what is promised and free, and to whom it names others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from counting_cache import CountingCache
from fleet_world import ADMIN, World, who
from fleet_world import world as opened
from test_service_claims import MORNING, at, booked, fleet

from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.service.core.service_context import Caller
from labfleet.service.reads import calendar

DAY = {
    "start": format_instant(MORNING - timedelta(hours=9)),
    "end": format_instant(MORNING + timedelta(hours=15)),
}


@pytest.mark.asyncio
async def test_an_exam_in_the_calendar(world: World):
    """Fifteen sessions need two of three workers; the rest of the day is free."""
    await fleet(world, workers=3)
    await booked(world, 15)
    found = await calendar.read(world.services, ADMIN, namespace="default", **DAY)
    [pool] = found.pools
    assert (pool.pool, pool.maximum, pool.workers, pool.next) == ("exam", 3, 0, None)
    free, exam, after = pool.items
    assert (exam.sessions, exam.places, exam.free, exam.in_danger) == (15, 2, 1, 0)
    assert [(each.name, each.sessions) for each in exam.parts] == [("two", 15)]
    assert exam.start < MORNING < exam.end
    assert (free.free, after.free, free.sessions) == (3, 3, 0)


@pytest.mark.asyncio
async def test_who_sees_only_their_own_sees_what_is_free(world: World):
    """A candidate learns how many places are free and which are theirs; of others nothing."""
    await fleet(world)
    bob = who("user", "bob")
    await booked(world, 3)
    await world.session("mine", bob, slot=at())
    found = await calendar.read(world.services, bob, namespace="default", **DAY)
    _, exam, _ = found.pools[0].items
    assert (exam.free, exam.mine) == (0, 1)
    assert (exam.sessions, exam.places, exam.in_danger, exam.parts) == (None, None, None, ())


@pytest.mark.asyncio
async def test_seats_that_one_booked_for_others_are_ones_own(world: World):
    """The booker counts all seats as theirs, who sits there their own; a group is named by its seats.

    A label says nothing of whose a session is, nor of which group.
    """
    await fleet(world)
    teacher, ana = who("user", "teacher"), who("user", "ana")
    spec = {"definition": "two", "slot": at(), "size": 3, "seats": [{"person": "ana"}]}
    await world.make("Group", "class", spec, teacher)
    await world.session("other", who("user", "bob"), slot=at())

    async def exam(caller: Caller) -> calendar.CalendarSpan:
        found = await calendar.read(world.services, caller, namespace="default", **DAY)
        return found.pools[0].items[1]

    assert [(await exam(each)).mine for each in (teacher, ana, ADMIN)] == [3, 1, 0]
    parts = (await exam(ADMIN)).parts
    assert [(each.name, each.sessions) for each in parts] == [("class", 3), ("two", 1)]


@pytest.mark.asyncio
async def test_pages_go_on_where_the_last_one_ended(world: World):
    """Read by two times at once, the calendar is that of one look."""
    await fleet(world)
    for number in range(4):
        await world.session(f"s{number}", slot=at(number * 3))
    whole = await calendar.read(world.services, ADMIN, namespace="default", **DAY)
    pages, begin = [], DAY["start"]
    while begin:
        part = await calendar.read(
            world.services, ADMIN, namespace="default", pool="exam", start=begin, end=DAY["end"],
            limit=2,
        )  # fmt: skip
        pages += part.pools[0].items
        begin = part.pools[0].next and format_instant(part.pools[0].next)
    assert tuple(pages) == whole.pools[0].items


@pytest.mark.asyncio
async def test_bad_spans_are_told(world: World):
    """No zone, a wrong order and more than a month are refused by field; an unknown pool is gone."""
    await fleet(world)
    for bad in (
        {"start": "2026-12-11T09:00:00"},
        {"start": DAY["end"], "end": DAY["start"]},
        {"start": DAY["start"], "end": format_instant(MORNING + timedelta(days=40))},
    ):
        with pytest.raises(errors.Invalid):
            await calendar.read(world.services, ADMIN, namespace="default", **bad)
    with pytest.raises(errors.Gone):
        await calendar.read(world.services, ADMIN, namespace="default", pool="no")


@pytest.mark.asyncio
async def test_a_day_costs_what_lives_on_it():
    """A calendar of one day does not read the sessions of other days, however many they are."""
    async with opened(CountingCache) as world:
        await fleet(world, workers=2)
        await booked(world, 5)
        cache = world.services.cache
        assert isinstance(cache, CountingCache)

        async def cost() -> int:
            before = cache.touched
            await calendar.read(world.services, ADMIN, namespace="default", **DAY)
            return cache.touched - before

        alone = await cost()
        await booked(world, 15, first=5, hours=200)
        assert await cost() == alone
