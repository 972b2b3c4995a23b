"""Admission of simulations: ask, report the end, expire.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.fleet_settings import Admission
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import explain
from labfleet.service.verbs import admission, objects

RUN = {"cost": {"cpu": 1, "memory": "1Gi"}, "durationSeconds": 60}
PROGRAM = who("runner", "runner")
GRACE = timedelta(seconds=Admission().grace_seconds)


async def ask(world: World, key: str | None = None, **body):
    return await admission.request_run(
        world.services, PROGRAM, {**RUN, **body}, key=key, namespace="default"
    )


@pytest.mark.asyncio
async def test_racing_requests_never_pass_the_target(world: World):
    """T21: of twenty racing requests exactly as many are approved as fit under 80 %."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 10, "memory": "100Gi"}})
    made = await asyncio.gather(*(ask(world) for _ in range(20)))
    approved = [each for each in made if each.status.phase is SimulationPhase.APPROVED]
    assert len(approved) == 8
    assert all(each.status.reservation is not None for each in approved)
    denied = next(each for each in made if each.status.phase is SimulationPhase.DENIED)
    assert denied.status.decision.candidates[0].shortages
    assert denied.status.reservation is None


@pytest.mark.asyncio
async def test_a_reported_end_gives_the_capacity_back_once(world: World):
    """Completion is idempotent; an unknown id is Gone."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 2, "memory": "10Gi"}})
    first = await ask(world)
    assert (await ask(world)).status.phase is SimulationPhase.DENIED
    ended = await admission.simulation_complete(world.services, PROGRAM, first.name, "default")
    assert ended.status.phase is SimulationPhase.COMPLETED
    assert (
        await admission.simulation_complete(world.services, PROGRAM, first.name, "default") == ended
    )
    assert (await ask(world)).status.phase is SimulationPhase.APPROVED
    for name in ("nope", "", "x" * 100, "a\0"):
        with pytest.raises(errors.Gone):
            await admission.simulation_complete(world.services, PROGRAM, name, "default")


@pytest.mark.asyncio
async def test_the_cache_has_what_the_store_gives(world: World):
    """Decided or ended here, denied too: what the cache was handed is what would be decoded."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 2, "memory": "10Gi"}})
    first, second = await ask(world, params={"n": 1, "x": [1.5, None]}), await ask(world)
    assert second.status.phase is SimulationPhase.DENIED

    async def same() -> None:
        await world.services.fresh()
        for each in (first, second):
            kept = world.services.cache.get(Simulation, each.name, "default")
            assert kept == await world.services.objects.get(Simulation, each.name, "default")

    await same()
    await admission.simulation_complete(
        world.services, PROGRAM, first.name, "default", observed={"peak_cpu_delta": 1}
    )
    await same()


@pytest.mark.asyncio
async def test_a_forgotten_approval_expires_after_its_duration_and_grace(world: World):
    """Not a second earlier, and only once."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 2, "memory": "10Gi"}})
    made = await ask(world)
    await world.services.fresh()
    world.clock.instant += timedelta(seconds=60) + GRACE - timedelta(seconds=1)
    assert await admission.expire(world.services, ADMIN) == 0
    world.clock.instant += timedelta(seconds=1)
    assert await admission.expire(world.services, ADMIN) == 1
    await world.services.fresh()
    assert await admission.expire(world.services, ADMIN) == 0
    found = await explain.explain(world.services, ADMIN, KINDS["Simulation"], made.name, "default")
    assert found.phase == "EXPIRED"


@pytest.mark.asyncio
async def test_one_key_is_one_decision(world: World):
    """Equal requests under one key give one simulation, racing or not."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 100, "memory": "100Gi"}})
    made = await asyncio.gather(*(ask(world, key="k") for _ in range(10)))
    assert len({each.name for each in made}) == 1
    with pytest.raises(Refused):
        await ask(world, key="k", durationSeconds=61)


@pytest.mark.asyncio
async def test_bad_requests_are_named(world: World):
    """An unknown cluster, an unknown key, a negative cost, huge parameters."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 1}})
    for body in ({"cluster": "nope"}, {"costs": {}}, {"cost": {"cpu": -1}}, {"durationSeconds": 0},
                 {"params": {"x": "y" * 70_000}}, {"params": []}):  # fmt: skip
        with pytest.raises(errors.Invalid) as caught:
            await ask(world, **body)
        assert caught.value.problems
    with pytest.raises(errors.Denied):
        await admission.request_run(world.services, who("user", "eve"), RUN, namespace="default")


@pytest.mark.asyncio
async def test_a_cluster_with_approvals_stays_and_so_does_their_record(world: World):
    """Both deletions are refused until the end is reported."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 10, "memory": "10Gi"}})
    made = await ask(world)
    for kind, name in (("Cluster", "default"), ("Simulation", made.name)):
        with pytest.raises(Refused):
            await objects.delete(world.services, ADMIN, KINDS[kind], name, "default")
    await admission.simulation_complete(world.services, PROGRAM, made.name, "default")
    for kind, name in (("Cluster", "default"), ("Simulation", made.name)):
        await objects.delete(world.services, ADMIN, KINDS[kind], name, "default")
