"""What one caller sends to the decider cannot cost the others: numbers, floods, reports, waits."""

from __future__ import annotations

import asyncio

import pytest
from fleet_world import ADMIN, World, who
from loop_time import leap, seen

from labfleet.kernel import errors
from labfleet.resources import history
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import SimulationPhase, held_by
from labfleet.service.core import awaited
from labfleet.service.verbs import admission, objects

PROGRAM = who("runner", "runner")
OTHER = who("runner", "other")


async def ask(world: World, caller=PROGRAM, **body):
    return await admission.request_run(world.services, caller, body, namespace="default")


async def cluster(world: World, cpu: int = 100) -> None:
    await world.make("Cluster", "default", {"capacity": {"cpu": cpu, "memory": "100Gi"}})
    await world.services.fresh()


@pytest.mark.parametrize("absurd", [1e308, -1e308, 10**400, -(10**400), 5e-324, "1e308"])
@pytest.mark.asyncio
async def test_an_absurd_number_is_answered_and_stops_nobody(world: World, absurd):
    """As a parameter that a default is multiplied by; the next request is decided as ever."""
    await cluster(world)
    made = await ask(world, params={"chart": "waku", "nodecount": absurd})
    assert made.status.decision is not None
    other = await ask(world, OTHER, cost={"cpu": 1, "memory": "1Gi"})
    assert other.status.phase is SimulationPhase.APPROVED


def test_amounts_beyond_any_machine_are_the_most_there_is():
    """Nothing overflows: what is too much to hold is refused as too much, by the rule."""
    assert held_by({"cpu_milli": float("inf"), "memory_mib": 1.2}).memory_mib == 2
    assert isinstance(history.typed({"a": 10**400})["a"], str)


@pytest.mark.parametrize("absurd", [10**400, -1, float("nan"), True, "7"])
def test_a_report_that_cannot_be_is_refused_by_its_field(absurd):
    """As an error of the caller, never as one of ours."""
    for observed in ({"cpuMilli": absurd}, {"cpuMilli": {"peak": 1, "mean": absurd}}):
        with pytest.raises(errors.Invalid, match=r"observed\.cpuMilli"):
            admission.used(observed)


@pytest.mark.asyncio
async def test_one_report_makes_no_stated_cost_free(world: World):
    """What a caller states counts until twenty runs are known, whatever the first ones used."""
    await cluster(world)
    small = await ask(world, cost={"cpu": 1, "memory": "1Gi"}, params={"chart": "game"})
    used = {"cpuMilli": 1, "memoryMib": 1}
    await admission.simulation_complete(
        world.services, PROGRAM, small.name, "default", observed=used
    )
    await world.services.fresh()
    large = await ask(world, cost={"cpu": 70, "memory": "1Gi"}, params={"chart": "game"})
    assert large.status.decision.requested.cpu_milli == 70_000
    again = await ask(world, cost={"cpu": 70, "memory": "1Gi"}, params={"chart": "game"})
    assert again.status.phase is SimulationPhase.DENIED


@pytest.mark.asyncio
async def test_a_burst_does_not_pass_what_a_queue_may_hold(world: World):
    """Many at once are counted one after the other, not by what was there before all of them."""
    await cluster(world, cpu=10)
    await world.make("Queue", "a", {"quota": {"cpu": 1, "memory": "50Gi"}, "maxWaiting": 5})
    await world.services.fresh()
    made = await asyncio.gather(
        *(ask(world, queue="a", cost={"cpu": 1, "memory": "1Gi"}) for _ in range(30))
    )
    phases = [each.status.phase for each in made]
    # Five got in, one of which could start at once.
    assert (phases.count("APPROVED"), phases.count("QUEUED"), phases.count("DENIED")) == (1, 4, 25)
    reasons = {each.status.decision.reason for each in made if each.status.phase == "DENIED"}
    assert reasons == {"QueueFull"}


@pytest.mark.asyncio
async def test_one_token_cannot_take_every_wait(world: World, monkeypatch: pytest.MonkeyPatch):
    """Beyond its share it is asked to come again; another one still waits."""
    monkeypatch.setattr(awaited, "SHARE", 3)
    await cluster(world, cpu=2)
    await ask(world, cost={"cpu": 1, "memory": "1Gi"})
    run = await ask(world, queue="default", cost={"cpu": 1, "memory": "1Gi"})
    await world.services.fresh()
    row = KINDS["Simulation"]

    def wait(caller):
        return asyncio.create_task(
            objects.get(world.services, caller, row, run.name, "default", wait=30)
        )

    mine = [wait(PROGRAM) for _ in range(3)]
    await asyncio.sleep(0.01)
    with pytest.raises(errors.Throttled):
        await wait(PROGRAM)
    theirs = wait(ADMIN)
    await asyncio.sleep(0.01)
    leap(60)
    done = await asyncio.gather(*mine, theirs)
    assert {each.status.phase for each in done} == {SimulationPhase.QUEUED}


@pytest.mark.asyncio
async def test_a_queued_request_of_another_process_is_answered_once_decided(world: World):
    """It does not wait for its turn, only for its decision: the caller polls for the turn."""
    await cluster(world, cpu=2)
    world.services.asked.serve(lambda: None, lambda: False)
    await ask(world, cost={"cpu": 1, "memory": "1Gi"})
    async with asyncio.timeout(4):
        made = await ask(world, queue="default", cost={"cpu": 1, "memory": "1Gi"})
    assert made.status.decision.outcome == "waiting"


@pytest.mark.parametrize("leaves", ["cut off", "waits too long"])
@pytest.mark.asyncio
async def test_a_caller_that_leaves_the_line_holds_nothing(world: World, leaves: str):
    """Without a key its request is not decided later, when nobody could learn of the approval."""
    await cluster(world)
    world.decides.clear()
    asking = asyncio.create_task(ask(world, cost={"cpu": 1, "memory": "1Gi"}))
    await seen(lambda: len(world.services.asked))
    if leaves == "cut off":
        asking.cancel()
    else:
        leap(10)
    await asyncio.gather(asking, return_exceptions=True)
    assert len(world.services.asked) == 0
    world.decides.set()
    await ask(world, OTHER, cost={"cpu": 1, "memory": "1Gi"})
    await world.services.fresh()
    assert len(world.services.cache.all(KINDS["Simulation"].type)) == 1


@pytest.mark.asyncio
async def test_a_caller_that_leaves_takes_its_request_with_it(world: World):
    """Without a key nobody could learn of an approval, so nothing is approved for it."""
    await cluster(world)
    world.services.asked.serve(lambda: None, lambda: False)
    world.decides.clear()
    asking = asyncio.create_task(ask(world, cost={"cpu": 1, "memory": "1Gi"}))
    await seen(lambda: world.services.cache.all(KINDS["Simulation"].type))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    world.decides.set()
    await world.services.fresh()
    (run,) = world.services.cache.all(KINDS["Simulation"].type)
    assert run.status.phase is SimulationPhase.CANCELLED
