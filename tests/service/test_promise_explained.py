"""What is said of a session's promise is what stands behind it now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World, who
from test_service_claims import at, booked, fleet

from labfleet.resources import conditions
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import SessionCondition, SessionReason
from labfleet.service.core.service_context import Caller
from labfleet.service.reads import explain
from labfleet.service.verbs import objects


async def told(world: World, name: str) -> str:
    """What a session that waits for its slot is said to wait for."""
    found = await explain.explain(world.services, ADMIN, KINDS["Session"], name, "default")
    (said,) = found.waiting_for
    return said


async def patched(world: World, kind: str, name: str, **spec: Any) -> None:
    """Change what shall be of an object."""
    await objects.patch(
        world.services, ADMIN, KINDS[kind], name, {"spec": spec}, namespace="default"
    )
    await world.services.fresh()


@pytest.mark.asyncio
async def test_a_place_that_is_gone_is_not_said_to_be_held(world: World):
    """Of a pool that may have one worker less, those of the last place are told so, others not."""
    await fleet(world, workers=2)
    await booked(world, 20)
    assert (await told(world, "s019")).endswith("pool exam holds a place for it")
    await patched(world, "Pool", "exam", scaling={"maxWorkers": 1})
    danger = (
        "promised to it is in danger: pool exam (it may have fewer workers than it has promised)"
    )
    assert (await told(world, "s019")).endswith(danger)
    assert (await told(world, "s000")).endswith("pool exam holds a place for it")
    pool = await world.services.objects.get(Pool, "exam", "default")
    lost = conditions.put(
        pool.status.conditions, PoolCondition.PROMISES_KEPT, "False", PoolReason.PLACES_GONE,
        now=world.clock.now())  # fmt: skip
    await world.status(pool, conditions=lost)
    await world.services.fresh()
    assert (await told(world, "s000")).endswith("some of this pool's promises are in danger")


async def advised(world: World, name: str, caller: Caller = ADMIN) -> tuple[str, str]:
    """Where a session is said to stand, and what a reader is told to do about it."""
    found = await explain.explain(world.services, caller, KINDS["Session"], name, "default")
    assert found.runbook is not None
    return found.headline, found.runbook.fix


@pytest.mark.asyncio
async def test_a_promise_in_danger_is_not_said_to_need_nothing(world: World):
    """Its place gone, its worker late or its pool gone: the pool is named to who may mend it."""
    await fleet(world, workers=2)
    await booked(world, 19)
    await world.session("mine", who("user", "ana"), slot=at())
    assert (await advised(world, "mine"))[1] == "Nothing: a worker is looked for in time."
    await patched(world, "Pool", "exam", scaling={"maxWorkers": 1})
    head, fix = await advised(world, "mine")
    assert head.startswith("In danger: its place in pool exam")
    assert fix.startswith("`labfleet explain pool/exam` says what it lacks")
    _, others = await advised(world, "mine", who("user", "ana"))
    assert others.startswith("Ask for another slot")
    assert (await advised(world, "s000"))[1] == "Nothing: a worker is looked for in time."

    session = await world.services.objects.get(Session, "s000", "default")
    reason = SessionReason.WORKERS_LATE
    late = conditions.put(
        (), SessionCondition.PROMISE_SAFE, "False", reason, reason.sentence, now=world.clock.now()
    )
    session = await world.status(session, conditions=late)
    await world.services.fresh()
    head, fix = await advised(world, "s000")
    assert head.startswith("In danger: its place in pool exam (")
    assert "pool/exam" in fix
    gone = msgspec.structs.replace(session.status.claim, pool="gone")
    await world.status(session, claim=gone)
    await world.services.fresh()
    head, fix = await advised(world, "s000")
    assert head == "In danger: pool gone, which promised it a place, is gone"
    assert "pool/gone" in fix


@pytest.mark.asyncio
async def test_a_pool_that_makes_no_workers_holds_no_place(world: World):
    """Without its template, drained or gone, a pool's promise is said to be in danger, or nothing."""
    await fleet(world)
    await booked(world, 1)
    await patched(world, "Template", "metal", enabled=False)
    assert "its template is missing or disabled" in await told(world, "s000")
    await patched(world, "Template", "metal", enabled=True)
    await patched(world, "Pool", "exam", desired="Draining")
    assert "pool exam (it is being emptied)" in await told(world, "s000")
    session = await world.services.objects.get(KINDS["Session"].type, "s000", "default")
    await world.status(session, claim=msgspec.structs.replace(session.status.claim, pool="gone"))
    await world.services.fresh()
    assert "pool gone, which promised it a place, is gone" in await told(world, "s000")


@pytest.mark.asyncio
async def test_a_slot_without_a_promise_says_so(world: World):
    """A slot that was accepted because nobody knows the bound has no promise, and it is said."""
    await fleet(world)
    await patched(world, "Template", "metal", enabled=False)
    made = await world.session("fresh", slot=at(24))
    assert made.status.claim is None
    assert made.status.start - world.clock.now() > timedelta(days=14)
    assert (await told(world, "fresh")).endswith("; nothing is promised to it")
