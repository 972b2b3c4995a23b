"""What a decision reads grows neither with what has ended nor with the fleet squared.

Counted in objects that the cache hands out, not in time.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
import world as worlds
from counting_cache import CountingCache
from virtual_time import play
from world import MACHINE, Process, World, world

from labfleet.controllers.discovery import KEY as DISCOVERY
from labfleet.controllers.garbage import KEY as GARBAGE
from labfleet.controllers.scheduler import KEY as SCHEDULER
from labfleet.controllers.upkeep import KEY as UPKEEP
from labfleet.interfaces import store as stores
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Key, Metadata, Resource
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus

KEPT = 60
START = datetime(2026, 11, 1, tzinfo=UTC)
POOL = Key("Pool", "default", "p1")


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each process a cache that counts."""
    monkeypatch.setattr(worlds, "Cache", CountingCache)


def ended(number: int, machine: Machine) -> tuple[Resource, ...]:
    """Return a session, a simulation and a worker without a pool that are over."""
    at = START + timedelta(seconds=number)

    def named(kind: str) -> Metadata:
        return Metadata(name=f"{kind}-{number}", uid=f"{kind}-{number}", creation_timestamp=at)

    return (
        Session(
            metadata=named("old"),
            spec=SessionSpec(definition="two"),
            status=SessionStatus(phase=SessionPhase.COMPLETED, worker="w1", ended_at=at),
        ),
        Simulation(
            metadata=named("sim"),
            spec=SimulationSpec(cluster="c1"),
            status=SimulationStatus(phase=SimulationPhase.COMPLETED, completed_at=at),
        ),
        Worker(
            metadata=named("gone"),
            spec=WorkerSpec(desired="Terminated", machine=machine),
            status=WorkerStatus(phase=WorkerPhase.TERMINATED, phase_since=at),
        ),
    )


async def reads(w: World, process: Process, controller: str, key: Key) -> int:
    """Return how many objects one reconcile reads from the cache, once nothing is new to it."""
    for _ in range(3):
        await process.reconcile(controller, key)
    await process.services.fresh()
    before = process.cache.touched
    await process.reconcile(controller, key)
    return int(process.cache.touched - before)


@pytest.mark.parametrize(
    ("controller", "key"),
    [
        ("scheduler", SCHEDULER),
        ("pool", POOL),
        ("garbage", GARBAGE),
        ("discovery", DISCOVERY),
        ("upkeep", UPKEEP),
    ],
)
def test_a_decision_does_not_read_what_has_ended(controller: str, key: Key) -> None:
    """Placement, a pool's step, both looks at the provider and the upkeep read the living."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=())
            await w.definition()
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 2})
            made = await w.worker()
            await w.session()
            await w.make("Webhook", "h1", {"url": "https://example.com/in", "enabled": False})
            first = await reads(w, process, controller, key)
            kept = (ended(number, made.spec.machine) for number in range(KEPT))
            cause = stores.Cause("past", w.clock.now())
            await w.services.objects.save(*itertools.chain(*kept), cause=cause)
            assert 0 < await reads(w, process, controller, key) == first

    play(story)


async def pools_read(count: int) -> int:
    """Return what the step of one of so many pools reads; five sessions wait for each."""
    async with world() as w:
        process = await w.start(run=())
        await w.make("Template", "metal", {"machine": MACHINE})
        for number in range(1, count + 1):
            track = f"t{number}"
            await w.pool(f"p{number}", track=track, scaling={"minWorkers": 0, "maxWorkers": 1})
            await w.definition(f"d{number}", track=track)
            for name in "abcde":
                await w.session(f"s{number}{name}", definition=f"d{number}")
        return await reads(w, process, "pool", POOL)


def test_a_pools_step_does_not_read_what_waits_for_other_pools() -> None:
    """Of ten pools each reads what two would, one value a waiting definition and each pool's lead."""

    async def story() -> None:
        few, many = await pools_read(2), await pools_read(10)
        assert few > 0
        assert many - few == 2 * (10 - 2)

    play(story)
