"""Seats of groups against those who sat there before, and a booker's own mistakes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World
from test_service_groups import ANA, HOUR, MORNING, ROW, TEACHER, book, change, fleet, seats

from labfleet.decisions.lifecycle.session import closing
from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.kinds import group
from labfleet.service.verbs import lifecycle, objects
from labfleet.service.verbs.retrying import retry

pytestmark = pytest.mark.asyncio


async def failed(world: World) -> Session:
    """A group of two, of whose seats ana's has failed."""
    await fleet(world)
    people = [{"name": "a", "person": "ana"}, {"name": "b", "person": "bo"}]
    await book(world, caller=TEACHER, seats=people)
    made = (await seats(world))["a"]
    stored: Session = await world.status(made, phase=SessionPhase.FAILED, claim=None)
    await world.services.fresh()
    return stored


async def gone(world: World) -> Any:
    """Delete the group."""
    return await objects.delete(world.services, TEACHER, ROW, "exam", namespace="default")


async def test_a_seat_of_a_deleted_group_is_not_tried_again(world: World) -> None:
    """Neither by who sat there nor by an operator, nor when another group has the name by now."""
    old = await failed(world)
    await gone(world)
    for taken in (False, True):
        if taken:
            await book(world, caller=TEACHER, seats=[{"name": "a", "person": "ana"}])
        for caller in (ANA, TEACHER, ADMIN):
            with pytest.raises(Refused, match="was deleted") as refusal:
                await retry(world.services, caller, old.name, "default")
            assert refusal.value.reason == "GroupGone"


async def test_no_seat_outlives_a_group_that_is_deleted_as_it_is_tried_again(world: World) -> None:
    """Whichever comes first: all sessions of the group that are not over are being ended."""
    old = await failed(world)
    await asyncio.gather(
        retry(world.services, ANA, old.name, "default"), gone(world), return_exceptions=True
    )
    await world.services.fresh()
    assert await world.services.objects.get(ROW.type, "exam", "default") is None
    left = [each for each in world.services.cache.all(Session) if each.name != old.name]
    assert [each.name for each in left if each.spec.cancel is None] == []


async def test_a_failed_seat_that_was_given_away_is_the_new_persons(world: World) -> None:
    """Who sat there before gets nothing; the booker's next try is of who sits there now."""
    old = await failed(world)
    given = [{"name": "a", "person": "zoe"}, {"name": "b", "person": "bo"}]
    await change(world, {"seats": given}, TEACHER)
    with pytest.raises(errors.Denied) as refusal:
        await retry(world.services, ANA, old.name, "default")
    assert refusal.value.reason == "SeatOfGroup"
    again = await retry(world.services, TEACHER, old.name, "default")
    assert again.spec.owner == "zoe"


async def test_nobody_gets_the_address_of_who_sat_there_before(world: World) -> None:
    """Neither with a seat that is given away, nor with the next try of one that had failed before."""
    old = await failed(world)
    for name, each in (await seats(world)).items():
        sent = {"spec": {"studentEmail": f"{name}@private.example"}}
        row = KINDS["Session"]
        await objects.patch(world.services, ADMIN, row, each.name, sent, namespace="default")
    await world.services.fresh()
    given = [{"name": "a", "person": "zoe"}, {"name": "b", "person": "kim"}]
    await change(world, {"seats": given}, TEACHER)
    assert (await seats(world))["b"].spec.student_email is None
    again = await retry(world.services, TEACHER, old.name, "default")
    assert (again.spec.owner, again.spec.student_email) == ("zoe", None)


async def test_a_group_ends_earlier_beside_a_seat_that_does_already(world: World) -> None:
    """A seat that was shortened keeps its end, if that is before the new end of the others."""
    await fleet(world)
    await book(world, caller=TEACHER, seats=[{"person": "ana"}, {"person": "bo"}])
    name = (await seats(world))["001"].name
    soon, later = MORNING + timedelta(minutes=10), MORNING + timedelta(minutes=20)
    await lifecycle.shorten(world.services, TEACHER, name, "default", end=soon)
    await world.services.fresh()
    await change(world, {"slot": {"end": later.isoformat()}}, TEACHER)
    found = await seats(world)
    assert [found[seat].status.end for seat in ("001", "002")] == [soon, later]


async def test_a_seat_that_would_end_before_it_begins_is_named(world: World) -> None:
    """A new attempt that began late keeps the group's end where it is; nothing is changed."""
    await fleet(world)
    await book(world, caller=TEACHER, seats=[{"person": "ana"}, {"person": "bo"}])
    late = (await seats(world))["001"]
    slot = msgspec.structs.replace(late.spec.slot, start=None)
    again = msgspec.structs.replace(late, spec=msgspec.structs.replace(late.spec, slot=slot))
    await world.services.objects.save(again, cause=world.services.cause(TEACHER, "again"))
    begun = MORNING + timedelta(minutes=40)
    await world.status(again, start=begun, phase=SessionPhase.RUNNING)
    await world.services.fresh()
    with pytest.raises(Refused, match="seat 001: would end before it begins"):
        await change(
            world, {"slot": {"end": (MORNING + timedelta(minutes=30)).isoformat()}}, TEACHER
        )
    assert (await seats(world))["002"].status.end == MORNING + HOUR
    assert (await seats(world))["001"].status.end == MORNING + HOUR


async def test_a_moved_and_shortened_seat_keeps_what_it_has_of_its_own(world: World) -> None:
    """Ten minutes that begin hours later stay so, whatever end the others get."""
    await fleet(world)
    await book(world, caller=TEACHER, seats=[{"person": "ana", "factor": 2}, {"person": "bo"}])
    name, services = (await seats(world))["001"].name, world.services
    await lifecycle.move(services, TEACHER, name, "default", start=MORNING + 5 * HOUR)
    short = MORNING + 5 * HOUR + timedelta(minutes=10)
    await lifecycle.shorten(services, TEACHER, name, "default", end=short)
    await services.fresh()
    soon = (MORNING + timedelta(minutes=30)).isoformat()
    await change(world, {"slot": {"end": soon}}, TEACHER)
    await change(world, {"seats": [{"person": "ana"}, {"person": "bo"}]}, TEACHER)
    found = await seats(world)
    assert found["001"].status.end == short
    assert found["002"].status.end == MORNING + timedelta(minutes=30)


async def test_a_check_in_is_of_who_sat_there_and_not_of_who_gets_the_seat(world: World) -> None:
    """Both people of a swap have to come themselves, in the full time from then on; others keep theirs."""
    await fleet(world)
    plan = [{"name": "a", "person": "ana"}, {"name": "b", "person": "bo"}, {"name": "c"}]
    await book(world, caller=TEACHER, seats=plan)
    now = world.clock.now()
    for each in (await seats(world)).values():
        came = {"checked_in_at": now, "checked_in_by": each.spec.owner}
        await world.status(each, phase=SessionPhase.RUNNING, started_at=now, start=now, **came)
    await world.services.fresh()
    world.clock.forward(3600)
    swapped = [{"name": "a", "person": "bo"}, {"name": "b", "person": "ana"}, {"name": "c"}]
    await change(world, {"seats": swapped}, TEACHER)
    found = await seats(world)
    assert [found[name].status.checked_in_at is None for name in "abc"] == [True, True, False]
    assert found["a"].status.checked_in_by == ""
    definition = await world.services.objects.get(KINDS["Definition"].type, "two", "default")
    spec = msgspec.structs.replace(definition.spec, no_show_minutes=10)
    strict = msgspec.structs.replace(definition, spec=spec)
    given = world.clock.now()
    assert closing.released_at(found["a"], strict) == given + timedelta(minutes=10)
    assert closing.released_at(found["c"], strict) is None


async def test_a_person_has_a_bounded_number_of_groups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups whose seats are over count too, until they are deleted; operators are not bounded."""
    monkeypatch.setattr(group, "KEPT_MOST", 2)
    await fleet(world)
    for name in ("g1", "g2"):
        await book(world, name, TEACHER, size=1)
        await lifecycle.cancel(world.services, TEACHER, f"{name}-001", "default")
        await world.services.fresh()
    with pytest.raises(errors.QuotaExceeded, match="teacher has 2 groups") as refusal:
        await book(world, "g3", TEACHER, size=1)
    assert refusal.value.reason == "TooManyGroups"
    await book(world, "g3", ADMIN, size=1, owner="teacher")
