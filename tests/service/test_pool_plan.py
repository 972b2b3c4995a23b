"""A plan: what so many sessions at one time would need of a pool, and cost; nothing is booked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fleet_world import MACHINE, START, World

from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.service.reads import pool_plan
from labfleet.service.reads.pool_plan import PoolPlan

pytestmark = pytest.mark.asyncio
AT = (START + timedelta(days=7)).isoformat()


async def exam(world: World, most: int = 10, **machine: Any) -> None:
    """Make a pool whose workers hold five sessions of the lab `two` each."""
    size = {"cpu": 48, "memory": "188Gi", "storage": "400Gi", "labs": 5, "ports": 500, "nodes": 100}
    licence = {"token": {"env": "CML_TOKEN"}}
    whole = {**MACHINE, "capacity": size, "licence": licence, **machine}
    await world.make("Template", "metal", {"machine": whole})
    scaling = {"maxWorkers": most, "leadSeconds": 3600}
    await world.make("Pool", "exam", {"template": "metal", "scaling": scaling})
    await world.definition(defaultDurationMinutes=120)


async def planned(world: World, sessions: int, **more: Any) -> PoolPlan:
    """Ask for a plan of the pool."""
    asked = {"at": AT, "definition": "two", **more}
    return await pool_plan.read(world.services, "exam", "default", sessions=sessions, **asked)


async def test_a_class_fits_and_costs_its_workers_from_their_start_to_its_end(world: World) -> None:
    """Twelve sessions stand on three workers of five, made an hour before the labs boot."""
    await exam(world)
    found = await planned(world, 12)
    assert (found.fits, found.needed, found.added, found.per_worker) == (True, 3, 3, 5)
    assert found.workers_start < found.start - timedelta(hours=1)
    hours = (found.workers_end - found.workers_start).total_seconds() / 3600
    disk = (500 * 0.125 + 10_000 * 0.065) / (31 * 24)
    assert found.usd == pytest.approx(3 * hours * (4.3605 + disk), abs=0.3)
    assert await world.services.objects.get(Session, "plan", "default") is None


async def test_one_that_does_not_fit_says_what_it_would_need(world: World) -> None:
    """Of 60 sessions 50 fit on ten workers; all of them would need twelve."""
    await exam(world)
    found = await planned(world, 60)
    assert (found.fits, found.fit, found.needed, found.maximum) == (False, 50, 12, 10)
    assert "may have 10 workers" in found.why


async def test_what_would_be_cheaper_is_named_with_its_price(world: World) -> None:
    """A session too many for a worker is told, and types that cost less, the cheapest first."""
    await exam(world)
    found = await planned(world, 11)
    told = {each.what.split(":")[0]: each for each in found.cheaper}
    assert told["1 session fewer"].workers == 2
    prices = [each.usd for each in found.cheaper]
    assert prices == sorted(prices)
    assert any("nestedVirtualization" in each.what for each in found.cheaper)


async def test_what_is_promised_already_is_counted(world: World) -> None:
    """Beside a session that has a place, a planned one needs no worker of its own."""
    await exam(world)
    slot = {"start": AT, "end": (START + timedelta(days=7, hours=2)).isoformat()}
    await world.session("first", slot=slot)
    found = await planned(world, 4)
    assert (found.needed, found.added, found.peak, found.usd) == (1, 0, 1, 0.0)


async def test_an_unknown_price_is_said_and_not_free(world: World) -> None:
    """A type without a price makes a plan without a cost, which names it."""
    await exam(world, provider={"kind": "aws", "amiId": "a", "instanceTypes": ["q9.metal"]})
    found = await planned(world, 5)
    assert (found.usd, found.unpriced) == (None, "q9.metal in us-east-1")


async def test_what_cannot_be_planned_is_refused_with_the_field(world: World) -> None:
    """A past time, an unknown lab or pool, a lab that no worker could host: each names its field."""
    await exam(world)
    with pytest.raises(errors.Invalid, match="ahead"):
        await planned(world, 1, at=(START - timedelta(days=1)).isoformat())
    with pytest.raises(errors.Invalid, match="zone"):
        await planned(world, 1, at="monday")
    with pytest.raises(errors.Gone, match="definition"):
        await planned(world, 1, definition="none")
    await world.definition("elsewhere", track="other")
    with pytest.raises(errors.Invalid, match="cannot host"):
        await planned(world, 1, definition="elsewhere")


async def test_more_workers_than_any_pool_may_have_are_counted_and_priced(world: World) -> None:
    """With two sessions on each, 3,000 need 1,500 workers, and cost what 1,500 do."""
    size = {"cpu": 48, "memory": "188Gi", "storage": "400Gi", "labs": 2, "ports": 500, "nodes": 100}
    await exam(world, capacity=size)
    few, many = await planned(world, 300), await planned(world, 3000)
    assert (few.needed, many.needed, many.added) == (150, 1500, 1500)
    assert few.usd is not None
    assert many.usd == pytest.approx(10 * few.usd, rel=1e-4)
