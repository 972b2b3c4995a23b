"""Lists: filters, sorting, cursors.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import SessionPhase
from labfleet.service.reads import listing
from labfleet.service.reads.listing import Query

ROW = KINDS["Session"]


async def pages(world: World, limit: int, caller=ADMIN, **query):
    """Yield the names of every page in turn."""
    cursor = ""
    while True:
        asked = Query(limit=limit, cursor=cursor, **query)
        page = await listing.listed(world.services, caller, ROW, asked)
        yield [each.name for each in page.items]
        if page.next is None:
            return
        cursor = page.next


@pytest.mark.asyncio
@pytest.mark.parametrize("sort", ["status.end", "-status.end", "metadata.name", "", "-spec.owner"])
async def test_no_row_twice_or_lost_while_others_come(world: World, sort: str):
    """T29: 251 sessions in pages of 50, ten more inserted between any two pages."""
    await world.definition()
    start = world.clock.now()
    for n in range(251):
        at = start + timedelta(minutes=(n * 37) % 251 + 1)
        await world.session(f"s{n:03d}", slot={"start": at.isoformat()}, owner=f"o{n % 7}")
    seen: list[str] = []
    number = 0
    async for names in pages(world, 50, sort=sort):
        seen += names
        for n in range(10):
            at = start + timedelta(minutes=(number + n) * 11 % 251 + 1)
            name = f"{'ab'[n % 2]}new{number + n:03d}"
            await world.session(name, slot={"start": at.isoformat()})
        number += 10
    assert len(seen) == len(set(seen))
    assert {f"s{n:03d}" for n in range(251)} <= set(seen)


@pytest.mark.asyncio
async def test_sorting_is_the_servers_and_over_any_field(world: World):
    """Unknown values come last in both directions; ties go by name."""
    await world.definition()
    day = (world.clock.now() + timedelta(hours=1)).isoformat()
    await world.session("b", slot={"start": day})
    await world.session("a", slot={"start": day})
    await world.session("z", priority=5)

    async def order(sort: str):
        return await anext(pages(world, 1000, sort=sort))

    assert await order("status.start") == ["a", "b", "z"]
    assert await order("-status.start") == ["a", "b", "z"]
    assert await order("-spec.priority") == ["z", "a", "b"]
    assert await order("metadata.labels.x") == ["a", "b", "z"]
    assert await order("-status.worker|spec.priority") == ["z", "a", "b"]  # the first there is
    for path in ("status.start|", "status.start|status.nope", "|".join(["status.start"] * 5)):
        with pytest.raises(errors.Invalid, match="sessions have no"):
            await order(path)
    with pytest.raises(errors.Invalid, match=r"did you mean status\.start"):
        await order("status.strat")


@pytest.mark.asyncio
async def test_a_cursor_belongs_to_its_query(world: World):
    """A new search starts again; forged cursors are refused."""
    await world.definition()
    for n in range(4):
        await world.session(f"s{n}")
    page = await listing.listed(world.services, ADMIN, ROW, Query(limit=2))
    cursor = page.next
    assert cursor is not None
    for query in (
        Query(limit=2, cursor=cursor, sort="status.end"),
        Query(limit=2, cursor=cursor, filters=(("owner", "x"),)),
        Query(limit=2, cursor=cursor, namespace="other"),
        Query(limit=2, cursor="x"),
        Query(limit=2, cursor="é"),
        Query(limit=2, cursor=cursor + "AAAA"),
        Query(limit=2, cursor="W10"),
    ):
        with pytest.raises(errors.Invalid) as caught:
            await listing.listed(world.services, ADMIN, ROW, query)
        assert caught.value.reason == "BadCursor"
    await listing.listed(world.services, ADMIN, ROW, Query(limit=1, cursor=cursor))
    with pytest.raises(errors.Invalid):
        await listing.listed(world.services, who("user", "eve"), ROW, Query(cursor=cursor))


@pytest.mark.asyncio
async def test_filters_and_selectors_hold_together(world: World):
    """Labels, phase, owner and namespace narrow the list; nonsense is refused."""
    await world.definition()
    await world.make("Session", "a", {"definition": "two", "owner": "x"}, labels={"team": "red"})
    await world.make("Session", "b", {"definition": "two", "owner": "y"}, labels={"team": "red"})
    await world.make("Session", "c", {"definition": "two", "owner": "x"})

    async def names(**query):
        page = await listing.listed(world.services, ADMIN, ROW, Query(**query))
        return [each.name for each in page.items], page.total

    assert await names(selector="team=red") == (["a", "b"], 2)
    assert await names(selector="team=red", filters=(("owner", "x"),)) == (["a"], 1)
    assert await names(filters=(("phase", "PENDING,READY"),)) == (["a", "b", "c"], 3)
    assert await names(namespace="elsewhere") == ([], 0)
    for query in ({"selector": "a=b=c"}, {"filters": (("cluster", "x"),)}, {"limit": 0},
                  {"limit": 1001}):  # fmt: skip
        with pytest.raises(errors.Invalid):
            await names(**query)


@pytest.mark.asyncio
async def test_a_list_has_everything_written_before_it(world: World):
    """Read your writes: no pause between a create and the list that shows it."""
    await world.definition()
    for n in range(20):
        await world.session(f"s{n}")
        page = await listing.listed(world.services, ADMIN, ROW, Query())
        assert page.total == n + 1
        assert page.at.revision >= page.items[-1].revision


WORKERS = KINDS["Worker"]


async def tagged(world: World, *tags: str, **query) -> list[str]:
    """Return the names of the workers that a list by tags shows."""
    asked = Query(tags=tags, **query)
    page = await listing.listed(world.services, ADMIN, WORKERS, asked)
    assert page.total == len(page.items) or query
    return [each.name for each in page.items]


@pytest.mark.asyncio
async def test_workers_are_listed_by_the_tags_that_ec2_shows(world: World):
    """All given tags must be there; a key alone takes any value; unknown tags are no tags."""
    await world.template()
    shown = {
        "a": {"course": "net", "Name": "x=y", "team/a": "two words"},
        "b": {"course": "sec", "Name": ""},
        "c": {},
        "static": None,
    }
    for name, tags in shown.items():
        made = await world.make("Worker", name, {"template": "metal"})
        await world.status(made, machine=MachineStatus(id=f"i-{name}", tags_seen=tags))
    assert await tagged(world, "course=net") == ["a"]
    assert await tagged(world, "course") == ["a", "b"]
    assert await tagged(world, "course", "Name=x=y", "team/a=two words") == ["a"]
    assert await tagged(world, "Name=") == ["b"]
    assert await tagged(world, "course=NET") == []
    assert await tagged(world, "course=net", "course=sec") == []
    assert await tagged(world, "course", filters=(("phase", "PENDING"),)) == ["a", "b"]


@pytest.mark.asyncio
async def test_tags_are_bounded_and_only_workers_have_any(world: World):
    """A refusal names the parameter; a cursor belongs to the tags that it was made with."""
    await world.template()
    for tags in (("=x",), ("",), ("k" * 401,), ("k",) * 51):
        with pytest.raises(errors.Invalid) as caught:
            await tagged(world, *tags)
        assert caught.value.problems[0][0] == "tag"
    with pytest.raises(errors.Invalid, match="tag"):
        await listing.listed(world.services, ADMIN, ROW, Query(tags=("a=b",)))
    for name in ("a", "b"):
        made = await world.make("Worker", name, {"template": "metal"})
        await world.status(made, machine=MachineStatus(tags_seen={"k": "v"}))
    first = await listing.listed(world.services, ADMIN, WORKERS, Query(tags=("k",), limit=1))
    with pytest.raises(errors.Invalid):
        await tagged(world, "k=v", cursor=first.next)
    assert await tagged(world, "k", cursor=first.next) == ["b"]


@pytest.mark.asyncio
async def test_workers_sort_by_what_is_only_worked_out(world: World):
    """The share that is promised is in no stored object, and orders the list all the same."""
    await world.template()
    await world.definition()
    for name, cpus in (("a", 1), ("b", 3), ("c", 2), ("d", None)):
        made = await world.make("Worker", name, {"template": "metal"})
        if cpus is None:
            continue
        await world.status(made, capacity=Amounts(cpu_milli=4000))
        held = Reservation(
            holder=name, amounts=Amounts(cpu_milli=cpus * 1000), start=world.clock.now()
        )
        session = await world.session(f"s-{name}")
        await world.status(session, phase=SessionPhase.RUNNING, worker=name, reservation=held)
    for sign, wanted in (("", ["a", "c", "b", "d"]), ("-", ["b", "c", "a", "d"])):
        asked = Query(sort=f"{sign}status.allocation.percent.cpu")
        page = await listing.listed(world.services, ADMIN, WORKERS, asked)
        assert [each.name for each in page.items] == wanted
        assert page.items[-1].status.allocation.available is None
