"""When a request that waits will start: told from a line that is kept while people ask."""

from __future__ import annotations

import asyncio
import random

import pytest
from fleet_world import ADMIN, World, who
from loop_time import leap

from labfleet.resources.cluster import Cluster
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import HOLDING, OPEN, Simulation, SimulationPhase
from labfleet.service.kinds import indices, outlook
from labfleet.service.kinds.outlook import Followed
from labfleet.service.verbs import admission, objects

PROGRAM = who("runner", "runner")


async def ask(world: World, **body: object) -> Simulation:
    """Ask for a run of one CPU that lasts a minute."""
    asked = {"cost": {"cpu": 1, "memory": "1Gi"}, "durationSeconds": 60, **body}
    return await admission.request_run(world.services, PROGRAM, asked, namespace="default")


async def clustered(world: World, cpu: int = 5, *queues: str) -> None:
    """Make a cluster and queues of it, which share what it has."""
    spec = {"capacity": {"cpu": cpu, "memory": "100Gi"}, "rule": "declared"}
    await world.make("Cluster", "default", spec)
    for name in queues:
        await world.make("Queue", name, {"cohort": "all"})


def anew(world: World) -> Followed:
    """Return the line of the cluster as it is made by what is stored now."""
    services = world.services
    cluster = services.cache.get(Cluster, "default", "default")
    assert cluster is not None
    queues = services.cache.by(indices.QUEUES_OF_CLUSTER, cluster.key.path)
    return Followed(services, cluster, queues)


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(3))
async def test_a_line_that_is_kept_is_the_one_made_anew(world: World, seed: int) -> None:
    """After requests, starts, reports, withdrawals and another queue: places and ranges alike."""
    rng = random.Random(seed)
    await clustered(world, 5, "a", "b")
    made: list[str] = []
    runs: tuple[Simulation, ...] = ()
    for step in range(25):
        if step == 12:
            await world.make("Queue", "c", {"cohort": "all", "weight": 3})
        what = rng.choice(("ask", "ask", "ask", "end", "live"))
        if what == "ask" or not made:
            queue = rng.choice(("a", "b", "default"))
            made.append((await ask(world, queue=queue, priority=rng.randint(0, 9))).name)
        elif what == "end":
            name = made.pop(rng.randrange(len(made)))
            await admission.simulation_complete(world.services, PROGRAM, name, "default")
        else:
            for each in runs:
                if each.status.phase in HOLDING:
                    await admission.simulation_heartbeat(
                        world.services, PROGRAM, each.name, "default"
                    )
        await world.services.fresh()
        runs = world.services.cache.all(Simulation)
        fresh = anew(world)
        ranges = await fresh.ranges()
        leap(60)  # what was told before is no longer told
        for run in runs:
            told = await outlook.of(world.services, run)
            place = fresh.position(run.metadata.uid)
            assert (None if told is None else told.position) == place
            found = ranges.get(run.metadata.uid)
            if told is not None and found is not None:
                assert (told.earliest, told.latest) == (found.earliest, found.latest)
    assert sum(each.status.phase in OPEN for each in runs) > 5


@pytest.mark.asyncio
async def test_one_plays_and_the_others_are_told_their_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that ask while starts are played wait for nothing; who asks later is told the range."""
    await clustered(world, 2)
    await ask(world)
    waiting = [await ask(world, queue="default") for _ in range(4)]
    await world.services.fresh()
    going, played = asyncio.Event(), 0

    class Slow:
        """Work that takes until the test says so."""

        async def run(self, size: int, work):
            """Return what the work returns, later."""
            nonlocal played
            del size
            played += 1
            await going.wait()
            return work()

    monkeypatch.setattr(type(world.services), "aside", Slow(), raising=False)
    first = asyncio.create_task(outlook.of(world.services, waiting[0]))
    await asyncio.sleep(0)
    others = [await outlook.of(world.services, each) for each in waiting[1:]]
    assert [each and (each.position, each.earliest) for each in others] == [
        (2, None), (3, None), (4, None)
    ]  # fmt: skip
    going.set()
    told = await first
    assert told is not None
    assert (told.position, told.earliest is None, played) == (1, False, 1)
    later = await outlook.of(world.services, waiting[2])
    assert later is not None
    assert later.earliest is not None
    assert played == 1


@pytest.mark.asyncio
async def test_a_denied_run_is_told_when_it_would_start(world: World) -> None:
    """When there is room for it now, when there will be, and nothing of what never fits."""
    await clustered(world, 2)
    first = await ask(world)
    denied = await ask(world)
    never = await ask(world, cost={"cpu": 9})
    await world.services.fresh()
    assert (await outlook.again(world.services, denied)).startswith("with a queue it starts ")
    assert await outlook.again(world.services, never) == ""
    await admission.simulation_complete(world.services, PROGRAM, first.name, "default")
    await world.services.fresh()
    assert await outlook.again(world.services, denied) == "it fits now"
    assert denied.status.phase is SimulationPhase.DENIED


@pytest.mark.asyncio
async def test_a_line_that_nobody_asks_about_is_not_kept(world: World) -> None:
    """The next question makes it anew; changes of a gone cluster's runs are no error."""
    await clustered(world, 2)
    first = await ask(world)
    waits = await ask(world, queue="default")
    await world.services.fresh()
    assert await outlook.of(world.services, waits) is not None
    assert list(world.services.outlooks.of) == ["default/default"]
    leap(outlook.UNASKED_SECONDS + 1)
    await admission.simulation_complete(world.services, PROGRAM, waits.name, "default")
    await world.services.fresh()
    assert list(world.services.outlooks.of) == []
    await admission.simulation_complete(world.services, PROGRAM, first.name, "default")
    await objects.delete(world.services, ADMIN, KINDS["Simulation"], first.name, "default")
    await world.services.fresh()
    assert world.services.cache.get(Simulation, first.name, "default") is None
