"""The decider: one answer for each request, whoever asks where, and whatever breaks on the way."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec
import pytest
from fleet_world import ADMIN, World, who
from loop_time import leap, seen

from labfleet.engine.cache import Cache
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster
from labfleet.resources.kinds import KINDS, encode
from labfleet.resources.queue import Queue
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.kinds import indices
from labfleet.service.reads import explain
from labfleet.service.verbs import admission, objects
from labfleet.service.verbs.deciding import Decider

PROGRAM = who("runner", "runner")
RUN = {"cost": {"cpu": 1, "memory": "1Gi"}, "durationSeconds": 60}
FENCE = stores.Fence("scheduler", 1)


async def ask(world: World, key: str | None = None, **body):
    return await admission.request_run(
        world.services, PROGRAM, {**RUN, **body}, key=key, namespace="default"
    )


def elsewhere(world: World) -> None:
    """Close this process's line: the decider is in another process."""
    world.services.asked.serve(lambda: None, lambda: False)


async def unanswered(world: World, key: str | None = None) -> None:
    """Ask while nobody decides: the caller is told to come again when its time is over."""
    asking = asyncio.create_task(ask(world, key=key))
    undecided = indices.SIMULATIONS_UNDECIDED
    before = world.services.cache.count(undecided, "default/default")
    await seen(lambda: world.services.cache.count(undecided, "default/default") > before)
    leap(10)
    with pytest.raises(errors.Temporary, match="ask again"):
        await asking


async def cluster(world: World, cpu: int = 10) -> None:
    await world.make("Cluster", "default", {"capacity": {"cpu": cpu, "memory": "100Gi"}})
    await world.services.fresh()


@pytest.mark.asyncio
async def test_a_request_of_another_process_is_stored_and_decided(world: World):
    """The leader decides what lies in the store; the caller gets the decision, kept once."""
    await cluster(world, cpu=2)
    elsewhere(world)
    made = await asyncio.gather(*(ask(world) for _ in range(3)))
    assert sorted(each.status.phase for each in made) == ["APPROVED", "DENIED", "DENIED"]
    assert all(each.status.decision is not None for each in made)


@pytest.mark.asyncio
async def test_a_server_without_clusters_learns_nothing(world: World):
    """A round with nothing to decide brings no learner, and so no numpy, until there is a cluster."""
    decider = Decider(world.services)
    assert not await decider.round(None)
    assert world.services.learning.known is None
    await cluster(world)
    assert not await decider.round(None)
    assert world.services.learning.known is not None


@pytest.mark.asyncio
async def test_a_caller_that_nobody_answers_gets_one_answer_later(world: World):
    """Without a decider in time it is 503; the same key later gives the one decision."""
    await cluster(world)
    elsewhere(world)
    world.decides.clear()
    await unanswered(world, key="k")
    await unanswered(world)
    world.decides.set()
    made = await ask(world, key="k")
    assert made.status.phase is SimulationPhase.APPROVED
    again = await ask(world, key="k")
    assert again.name == made.name
    found = world.services.cache.all(type(made))
    # The one without a key was withdrawn, since nobody could ever have learned of its approval.
    assert sorted(each.status.phase for each in found) == ["APPROVED", "CANCELLED"]


@pytest.mark.asyncio
@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_request_that_was_ended_undecided_is_answered_so(world: World, meanwhile: bool):
    """Under its key, at once or to who waits for it: what happened to it, and no 503 for ever."""
    await cluster(world)
    elsewhere(world)
    world.decides.clear()
    await unanswered(world, key="k")
    [stored] = world.services.cache.all(Simulation)
    asking = asyncio.create_task(ask(world, key="k")) if meanwhile else None
    await asyncio.sleep(0)
    await admission.simulation_complete(
        world.services, PROGRAM, stored.name, "default", status="cancelled"
    )
    found = await (ask(world, key="k") if asking is None else asking)
    assert (found.name, found.status.phase) == (stored.name, SimulationPhase.CANCELLED)
    await objects.delete(world.services, ADMIN, KINDS["Simulation"], stored.name, "default")
    with pytest.raises(Refused, match="gone undecided; ask under another key"):
        await ask(world, key="k")


@pytest.mark.asyncio
async def test_a_decision_whose_answer_is_lost_is_found_again(world: World):
    """Killed between commit and reply: the same key gives the decision, and it counts once."""
    await cluster(world, cpu=2)
    caller = asyncio.create_task(ask(world, key="k"))
    while not len(world.services.asked):
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    made = await ask(world, key="k")
    assert made.status.phase is SimulationPhase.APPROVED
    assert (await ask(world)).status.phase is SimulationPhase.DENIED


class Broken:
    """A store whose commits fail as told, before or after they happened."""

    def __init__(self, store: stores.ObjectStore, problem: Exception, *, after: bool) -> None:
        self._store, self._problem, self._after = store, problem, after

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    async def commit(self, commit: stores.Commit) -> stores.Committed:
        if self._after:
            await self._store.commit(commit)
        raise self._problem


@pytest.mark.parametrize(
    ("problem", "happened"),
    [
        (errors.Ambiguous("lost"), True),
        (errors.Ambiguous("lost"), False),
        (errors.Unreachable("away"), False),
    ],
)
@pytest.mark.asyncio
async def test_a_commit_in_doubt_is_looked_up_and_counted_once(world: World, problem, happened):
    """What happened is answered, what did not is refused; neither is counted twice or lost."""
    await cluster(world, cpu=2)
    kept = world.services.objects
    sound = kept.store
    kept.store = Broken(sound, problem, after=happened)
    if happened:
        assert (await ask(world)).status.phase is SimulationPhase.APPROVED
    else:
        with pytest.raises(type(problem)):
            await ask(world)
    kept.store = sound
    later = (await ask(world)).status.phase
    assert later is (SimulationPhase.DENIED if happened else SimulationPhase.APPROVED)


@pytest.mark.asyncio
async def test_a_process_that_no_longer_leads_decides_nothing(world: World):
    """The fence refuses its commits, its callers are asked to come again, nothing is counted."""
    await cluster(world, cpu=2)
    world.decides.clear()
    decider = Decider(world.services)
    waiting = asyncio.create_task(ask(world))
    while not len(world.services.asked):
        await asyncio.sleep(0)
    with pytest.raises(errors.Fenced):
        await decider.round(FENCE)
    with pytest.raises(errors.Temporary, match="ask again"):
        await waiting
    world.decides.set()
    assert (await ask(world)).status.phase is SimulationPhase.APPROVED


@pytest.mark.asyncio
async def test_a_queued_run_gets_room_when_another_ends(world: World):
    """It waits with its reason, is approved in its turn, and has to be taken up in time."""
    await cluster(world, cpu=2)
    first = await ask(world)
    queued = [await ask(world, queue="default") for _ in range(2)]
    assert [each.status.phase for each in queued] == ["QUEUED", "QUEUED"]
    assert queued[0].status.decision.outcome == "waiting"
    never = await ask(world, queue="default", cost={"cpu": 5})
    assert (never.status.phase, never.status.decision.reason) == ("DENIED", "NeverFits")
    await admission.simulation_complete(world.services, PROGRAM, first.name, "default")
    row = KINDS["Simulation"]
    second = await world.services.awaited.settled(row, queued[0].key, 2, "ada")
    assert second.status.phase is SimulationPhase.APPROVED
    assert second.status.take_up_by is not None
    later = await world.services.objects.get(type(first), queued[1].name, "default")
    assert later == queued[1]
    world.clock.instant = second.status.take_up_by + timedelta(seconds=1)
    assert await admission.expire(world.services, PROGRAM) == 1
    third = await world.services.awaited.settled(row, queued[1].key, 2, "ada")
    assert third.status.phase is SimulationPhase.APPROVED
    taken = await admission.simulation_heartbeat(world.services, PROGRAM, third.name, "default")
    assert (taken.status.phase, taken.status.take_up_by) == ("RUNNING", None)


@pytest.mark.asyncio
async def test_a_changed_target_holds_for_the_next_decision(world: World):
    """A cluster that shrank since the cache was read is noticed by its revision, not overfilled."""
    await cluster(world, cpu=10)
    made = [await ask(world) for _ in range(3)]
    found = await world.services.objects.get(Cluster, "default", "default")
    smaller = msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, capacity=Amounts(cpu_milli=4000))
    )
    await world.services.objects.save(
        smaller, cause=stores.Cause("ada", world.clock.now(), reason="Changed")
    )
    assert len(made) == 3
    assert (await ask(world, cost={"cpu": 1})).status.phase is SimulationPhase.DENIED


@pytest.mark.asyncio
async def test_a_run_that_was_reported_teaches_the_next_one(world: World):
    """Approved, run, complete, learned: the next request of its kind needs what it used."""
    await cluster(world, cpu=100)
    asked = {"cost": None, "durationSeconds": None, "params": {"chart": "waku", "nodecount": 50}}
    first = await ask(world, **asked)
    assert first.status.decision.requested.cpu_milli == 25_000
    assert "no past run is like it" in first.status.evidence[0]
    world.clock.instant += timedelta(seconds=90)
    used = {"cpuMilli": 4000, "memoryMib": {"peak": 2000, "mean": 1500}}
    await admission.simulation_complete(
        world.services, PROGRAM, first.name, "default", observed=used
    )
    await world.services.fresh()
    second = await ask(world, **asked)
    needs = second.status.decision.requested
    assert 4000 <= needs.cpu_milli < 25_000
    assert 2000 <= needs.memory_mib < 30_000
    assert "waku" in second.status.evidence[0]
    assert second.status.prediction.of("cpu_milli").runs == (first.name,)


@pytest.mark.asyncio
async def test_a_late_report_of_an_expired_run_still_teaches_once(world: World):
    """The approval stays EXPIRED; what it used is kept, its duration is not known."""
    await cluster(world, cpu=100)
    made = await ask(world)
    world.clock.instant += timedelta(hours=2)
    await world.services.fresh()
    assert await admission.expire(world.services, PROGRAM) == 1
    assert await world.services.history.history(0) == ()
    for peak in (500, 900):
        ended = await admission.simulation_complete(
            world.services, PROGRAM, made.name, "default", observed={"cpuMilli": peak}
        )
        assert ended.status.phase is SimulationPhase.EXPIRED
    (kept,) = await world.services.history.history(0)
    assert (kept.run.use["cpu_milli"].peak, kept.run.duration_seconds) == (500, None)


@pytest.mark.asyncio
async def test_a_run_never_used_more_than_its_cluster_has(world: World):
    """A caller's word beyond the capacity is left out; the end counts all the same."""
    await cluster(world, cpu=10)
    made = await ask(world)
    await admission.simulation_complete(
        world.services, PROGRAM, made.name, "default", observed={"cpuMilli": 10_001, "memoryMib": 9}
    )
    (kept,) = await world.services.history.history(0)
    assert set(kept.run.use) == {"memory_mib"}


@pytest.mark.asyncio
async def test_by_declared_costs_a_run_holds_what_was_declared(world: World):
    """What it was let in by is what it holds: four times two CPUs fill a target of eight."""
    room = {"cpu": 10, "memory": "100Gi"}
    default = {"waku": {"cost": {"cpuMilli": 2000, "memoryMib": 1024}}}
    spec = {"capacity": room, "rule": "declared", "defaults": default}
    await world.make("Cluster", "default", spec)
    await world.services.fresh()
    asked = {"cost": None, "params": {"chart": "waku"}}
    first = await ask(world, **asked)
    await admission.simulation_complete(
        world.services, PROGRAM, first.name, "default", observed={"cpuMilli": 7000}
    )
    await world.services.fresh()
    made = [await ask(world, **asked) for _ in range(5)]
    assert [each.status.phase for each in made] == ["APPROVED"] * 4 + ["DENIED"]
    for each in made[:4]:
        assert each.status.prediction.of("cpu_milli").bound > 2000
        assert each.status.reservation.amounts == each.status.decision.requested


@pytest.mark.asyncio
async def test_the_end_of_a_run_with_the_longest_parameters_is_kept(world: World):
    """What the history has no room for is left out; the end is not refused for it."""
    await cluster(world)
    params = {f"p{number:03d}": "x" * 600 for number in range(90)} | {"long": "y" * 5000}
    made = await ask(world, params=params)
    ended = await admission.simulation_complete(world.services, PROGRAM, made.name, "default")
    assert ended.status.phase is SimulationPhase.COMPLETED
    (kept,) = await world.services.history.history(0)
    assert 0 < len(kept.run.parameters) < 20


async def queue(world: World, name: str, **spec) -> None:
    await world.make("Queue", name, spec)
    await world.services.fresh()


@pytest.mark.asyncio
async def test_a_later_request_goes_past_those_that_wait_only_if_it_delays_none(world: World):
    """Backfill: a short run fits before the head starts; a long one would delay it and is denied."""
    await cluster(world, cpu=10)
    await ask(world, cost={"cpu": 6}, durationSeconds=3600)
    head = await ask(world, queue="default", cost={"cpu": 7}, durationSeconds=3600)
    assert head.status.phase is SimulationPhase.QUEUED
    long = await ask(world, cost={"cpu": 2}, durationSeconds=86_400)
    assert (long.status.phase, long.status.decision.reason) == ("DENIED", "OthersWait")
    short = await ask(world, cost={"cpu": 2}, durationSeconds=60)
    assert short.status.phase is SimulationPhase.APPROVED
    big = await ask(world, queue="default", cost={"cpu": 8}, durationSeconds=3600)
    assert big.status.phase is SimulationPhase.QUEUED
    found = await explain.explain(world.services, ADMIN, KINDS["Simulation"], big.name, "default")
    assert any("place 2 in its queue" in each for each in found.waiting_for)


@pytest.mark.asyncio
async def test_queues_of_a_cohort_lend_what_they_do_not_use(world: World):
    """Within its quota a run starts; beyond it it borrows; beyond both it waits for its queue."""
    await cluster(world, cpu=20)
    for name in ("a", "b"):
        await queue(
            world, name, cohort="labs", quota={"cpu": 4, "memory": "50Gi"},
            borrowingLimit={"cpu": 2, "memory": "50Gi"},
        )  # fmt: skip
    made = [await ask(world, queue="a", cost={"cpu": 2}) for _ in range(4)]
    assert [each.status.phase for each in made] == ["APPROVED"] * 3 + ["QUEUED"]
    assert made[3].status.decision.reason == "OthersWait"
    assert "its queue has no more to give" in made[3].status.decision.message
    found = await objects.get(world.services, ADMIN, KINDS["Queue"], "a", "default")
    assert (found.status.running, found.status.waiting) == (3, 1)
    assert found.status.held.cpu_milli == 6000
    other = await ask(world, queue="b", cost={"cpu": 2})
    assert other.status.phase is SimulationPhase.APPROVED
    with pytest.raises(errors.Invalid, match="does not exist"):
        await ask(world, queue="c")
    with pytest.raises(errors.Invalid, match="leave the cluster out"):
        await ask(world, queue="a", cluster="other")


@pytest.mark.asyncio
async def test_a_new_leader_goes_on_with_the_line_as_it_was(world: World):
    """What waits and what is held is made from the store: nobody is overtaken, nothing fits twice."""
    await cluster(world, cpu=10)
    running = await ask(world, cost={"cpu": 8})
    line = [await ask(world, queue="default", cost={"cpu": 8}, priority=n) for n in (0, 5)]
    world.decides.clear()
    heir = Decider(world.services)
    await admission.simulation_complete(world.services, PROGRAM, running.name, "default")
    await world.services.fresh()
    assert await heir.round(None)
    assert not await heir.round(None)
    found = [await world.services.objects.get(type(each), each.name, "default") for each in line]
    assert [each.status.phase for each in found] == ["QUEUED", "APPROVED"]
    world.decides.set()


@pytest.mark.asyncio
async def test_nothing_waits_for_what_never_comes(world: World):
    """More than the queue may ever hold is denied at once; who waits longest ends at last."""
    await cluster(world, cpu=20)
    await queue(world, "a", quota={"cpu": 4, "memory": "50Gi"})
    never = await ask(world, queue="a", cost={"cpu": 5})
    assert (never.status.phase, never.status.decision.reason) == ("DENIED", "NeverFits")
    assert "queue a may never hold as much" in never.status.decision.message
    await ask(world, queue="a", cost={"cpu": 4}, durationSeconds=604_800)
    waits = await ask(world, queue="a", cost={"cpu": 4})
    assert waits.status.phase is SimulationPhase.QUEUED
    await world.services.fresh()
    world.clock.instant += timedelta(days=7)
    await admission.expire(world.services, PROGRAM)
    found = await world.services.objects.get(type(waits), waits.name, "default")
    assert found.status.phase is SimulationPhase.EXPIRED
    assert "waited as long" in found.status.note


@pytest.mark.asyncio
async def test_many_that_wait_do_not_keep_the_decider_busy(world: World):
    """With more waiting than a round takes and no room, a round has nothing more to decide."""
    await cluster(world, cpu=2)
    await ask(world)
    made = [await ask(world, queue="default") for _ in range(110)]
    assert {each.status.phase for each in made} == {SimulationPhase.QUEUED}
    await world.services.fresh()
    world.decides.clear()
    heir = Decider(world.services)
    assert not await heir.round(None)
    world.decides.set()


@pytest.mark.asyncio
async def test_what_is_made_anew_counts_what_the_cache_has_not_yet(world: World):
    """A queue whose quota changes right after an approval does not give the quota twice."""
    await cluster(world, cpu=20)
    await queue(world, "a", quota={"cpu": 4, "memory": "50Gi"})
    world.decides.clear()
    heir = Decider(world.services)
    world.services.asked.serve(lambda: None, lambda: True)
    first = asyncio.create_task(ask(world, queue="a", cost={"cpu": 4}))
    await seen(lambda: len(world.services.asked))
    hold, world.services.cache.event = world.services.cache.event, lambda event: None
    await heir.round(None)
    assert (await first).status.phase is SimulationPhase.APPROVED
    changed = await world.services.objects.get(Queue, "a", "default")
    wider = msgspec.structs.replace(changed.spec, description="changed")
    changed = msgspec.structs.replace(changed, spec=wider)
    Cache.event(
        world.services.cache, stores.Event(
            revision=changed.revision + 1, type="MODIFIED", key=changed.key,
            uid=changed.metadata.uid, doc=encode(changed), at=world.clock.now(), actor="ada",
            request_id="", reason="Changed",
        )
    )  # fmt: skip
    second = asyncio.create_task(ask(world, queue="a", cost={"cpu": 1}))
    await seen(lambda: len(world.services.asked))
    await heir.round(None)
    assert (await second).status.phase is SimulationPhase.QUEUED
    world.services.cache.event = hold
    world.decides.set()
