"""What a refusal says would fit does fit, and what it did not look at it does not deny."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from fleet_world import ADMIN, World
from test_service_claims import HOUR, MORNING, booked, fleet

from labfleet.resources.amounts import Reservation
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.verbs import objects


async def refused(world: World, start: datetime, length: timedelta = HOUR) -> Refused:
    """What is said to a slot without room."""
    slot = {"start": start.isoformat(), "end": (start + length).isoformat()}
    with pytest.raises(Refused) as refusal:
        await world.session("asked", slot=slot)
    return refusal.value


def named(told: Refused) -> list[tuple[datetime, datetime]]:
    """The slots that a refusal names."""
    slots = [what.removesuffix(" fits").split(" to ") for _, what in told.problems]
    return [(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in slots]


async def fit(world: World, told: Refused) -> None:
    """Assert that each slot that is named is accepted with a promise."""
    for number, (start, end) in enumerate(named(told)):
        slot = {"start": start.isoformat(), "end": end.isoformat()}
        made: Session = await world.session(f"named{number}", slot=slot)
        assert made.status.claim is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("second", [0, 1, 30, 59])
async def test_a_named_slot_is_accepted_whatever_the_seconds(world: World, second: int):
    """A slot is named in whole minutes, so it is one of whole minutes that was found to fit."""
    await fleet(world)
    await booked(world, 10)
    told = await refused(world, MORNING + timedelta(minutes=3, seconds=second))
    assert len(named(told)) == 2
    await fit(world, told)


@pytest.mark.asyncio
async def test_no_slot_beyond_the_last_day_is_named(world: World):
    """Of the last day that may be booked only earlier slots are named."""
    await fleet(world)
    last = world.clock.now() + timedelta(days=366, minutes=-1)
    await booked(world, 10, hours=(last - MORNING) / HOUR)
    told = await refused(world, last)
    assert [start < last for start, _ in named(told)] == [True]
    await fit(world, told)


@pytest.mark.asyncio
async def test_overdue_labs_are_not_named_free(world: World):
    """A lab past its end holds its place a little longer: the slot that is named begins after."""
    await fleet(world)
    soon = world.clock.now() + timedelta(minutes=1)
    for each in await booked(world, 10, hours=(soon - MORNING) / HOUR):
        claim = each.status.claim
        held = Reservation(holder="w", amounts=claim.amounts, start=claim.start, end=claim.end)
        await world.status(each, phase=SessionPhase.STOPPING, worker="w", reservation=held)
    world.clock.forward(7200)
    await world.services.fresh()
    told = await refused(world, world.clock.now() + timedelta(minutes=1))
    assert len(named(told)) == 1
    await fit(world, told)


@pytest.mark.asyncio
async def test_a_fixed_pool_is_advised_what_it_needs(world: World):
    """A pool that does not grow holds more with a greater minWorkers, and the slot then fits."""
    await fleet(world, workers=5, minWorkers=1, enabled=False)
    await booked(world, 10)
    told = await refused(world, MORNING)
    assert "a greater minWorkers would hold it" in told.message
    await objects.patch(world.services, ADMIN, KINDS["Pool"], "exam",
                        {"spec": {"scaling": {"minWorkers": 2}}}, namespace="default")  # fmt: skip
    assert (await booked(world, 1, first=10))[0].status.claim.place == 1


@pytest.mark.asyncio
async def test_others_have_their_turn_while_slots_are_looked_for(world: World):
    """Between two tries of a refusal the loop turns, so a long look holds nobody up."""
    await fleet(world)
    for layer in range(16):
        await booked(world, 10, first=10 * layer, hours=layer * 25 / 60, length=5 / 60)
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beating = asyncio.create_task(beat())
    await refused(world, MORNING, timedelta(minutes=5))
    beating.cancel()
    assert turns > 16
