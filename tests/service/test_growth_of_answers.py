"""What verbs and lists read does not grow with what has ended: counted in objects, not in time."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from counting_cache import CountingCache
from fleet_world import ADMIN, MACHINE, START, World, who
from fleet_world import world as opened

from labfleet.decisions.idle import IdleFacts
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect, Metadata, Resource
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    LabStatus,
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
)
from labfleet.resources.simulation import (
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.core import lookup, views
from labfleet.service.kinds import indices, outlook
from labfleet.service.reads import explain, idle_facts, listing
from labfleet.service.reads.idle_facts import Reading
from labfleet.service.verbs import admission, objects, observations

RUN = {"cluster": "c1", "cost": {"cpu": 1, "memory": "1Gi"}, "durationSeconds": 60}
PROGRAM = who("runner", "runner")
KEPT = 150


def simulation(number: int) -> Simulation:
    """Return a simulation that completed."""
    return Simulation(
        metadata=Metadata(name=f"sim-{number}", uid=f"sim-{number}"),
        spec=SimulationSpec(cluster="c1"),
        status=SimulationStatus(phase=SimulationPhase.COMPLETED, completed_at=START),
    )


def session(number: int) -> Session:
    """Return a session that ended on w1."""
    return Session(
        metadata=Metadata(name=f"old-{number}", uid=f"old-{number}"),
        spec=SessionSpec(definition="two", owner="bob"),
        status=SessionStatus(phase=SessionPhase.COMPLETED, worker="w1", ended_at=START),
    )


async def keep(world: World, *ended: Resource) -> None:
    """Store records of what has ended, as a busy month leaves them."""
    await world.services.objects.save(*ended, cause=stores.Cause("past", world.clock.now()))
    await world.services.fresh()


async def touched(world: World, work) -> int:
    """Return how many objects a piece of work reads from the cache."""
    cache = world.services.cache
    before = cache.touched
    await work()
    return cache.touched - before


async def alike(world: World, ended: list[Resource], work) -> None:
    """Hold that the work reads as much after these records are kept as before, and something."""
    await work()
    first = await touched(world, work)
    await keep(world, *ended)
    assert 0 < await touched(world, work) == first


@pytest.mark.asyncio
async def test_admission_does_not_read_what_has_ended() -> None:
    """A request, its end and the round that expires others read only what holds capacity."""
    async with opened(CountingCache) as world:
        await world.make("Cluster", "c1", {"capacity": {"cpu": 100, "memory": "100Gi"}})

        await admission.request_run(world.services, PROGRAM, RUN, namespace="default")

        async def pair() -> None:
            asked = await admission.request_run(world.services, PROGRAM, RUN, namespace="default")
            await admission.simulation_complete(world.services, PROGRAM, asked.name, "default")
            await admission.expire(world.services, PROGRAM)

        await alike(world, [simulation(number) for number in range(KEPT)], pair)


@pytest.mark.asyncio
async def test_a_request_that_waits_does_not_read_what_waits_already() -> None:
    """Neither its decision, nor its queue's bound, nor its place and range, read those before it."""
    async with opened(CountingCache) as world:
        spec = {"capacity": {"cpu": 2, "memory": "100Gi"}, "rule": "declared"}
        await world.make("Cluster", "c1", spec)
        await world.make("Queue", "q", {"cluster": "c1"})
        await admission.request_run(world.services, PROGRAM, RUN, namespace="default")
        waiting = {**RUN, "queue": "q"}

        async def wait() -> None:
            asked = await admission.request_run(
                world.services, PROGRAM, waiting, namespace="default"
            )
            assert asked.status.phase is SimulationPhase.QUEUED
            await world.services.fresh()
            told = await outlook.of(world.services, asked)
            assert told is not None
            assert told.position == world.services.cache.count(
                indices.SIMULATIONS_OF_QUEUE, ("default/q", False)
            )

        for _ in range(2):
            await wait()
        first = await touched(world, wait)
        for _ in range(40):
            await wait()
        assert await touched(world, wait) == first


@pytest.mark.parametrize(
    "filters",
    [(("phase", "PENDING"),), (("phase", "PENDING,RUNNING"), ("owner", "ada")), ()],
    ids=["phase", "two", "own"],
)
@pytest.mark.asyncio
async def test_a_filtered_list_reads_what_matches(filters) -> None:
    """By phase, by several filters at once, and a person's own: others' ended ones are not read."""
    async with opened(CountingCache) as world:
        await world.definition()
        await world.session(owner="ada")
        caller = ADMIN if filters else who("user", "ada")

        async def look() -> None:
            query = listing.Query(filters=filters)
            page = await listing.listed(world.services, caller, KINDS["Session"], query)
            assert [each.name for each in page.items] == ["s1"]
            assert page.total == 1

        await alike(world, [session(number) for number in range(KEPT)], look)


@pytest.mark.asyncio
async def test_a_delete_and_an_explanation_do_not_read_what_has_ended() -> None:
    """Neither whether a definition is in use, nor what is on a worker, reads ended sessions."""
    async with opened(CountingCache) as world:
        await world.definition()
        await world.definition("other")
        await world.template()
        await world.make("Worker", "w1", {"template": "metal"})

        async def look() -> None:
            await explain.explain(world.services, ADMIN, KINDS["Worker"], "w1", "default")
            await observations.summary(world.services, ADMIN, "two", "default")
            await objects.delete(world.services, ADMIN, KINDS["Definition"], "other", "default")
            await world.definition("other")

        await alike(world, [session(number) for number in range(KEPT)], look)


@pytest.mark.asyncio
async def test_an_object_is_found_by_uid_without_reading_others() -> None:
    """The compatible routes address by uid: one look, however many there are."""
    async with opened(CountingCache) as world:
        await world.definition()
        made = await world.session()
        assert len(made.metadata.uid) == 36
        await world.services.fresh()

        async def look() -> None:
            uid = made.metadata.uid
            found = await lookup.found(world.services, ADMIN, Session, uid, "default")
            assert found.name == "s1"

        await alike(world, [session(number) for number in range(KEPT)], look)


def worker(number: int, pool: str | None = "p") -> Worker:
    """Return a worker of a pool that serves."""
    return Worker(
        metadata=Metadata(name=f"w{number}", uid=f"w{number}"),
        spec=WorkerSpec(pool=pool),
        status=WorkerStatus(phase=WorkerPhase.READY),
    )


@pytest.mark.parametrize("pool", ["p", None])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.asyncio
async def test_a_brief_look_at_a_used_worker_does_not_count_its_pool(
    used: bool, pool: str | None
) -> None:
    """It reads as much beside many others as alone; what it left out is said, and nothing else."""
    async with opened(CountingCache) as world:
        await world.template()
        await world.make("Pool", "p", {"template": "metal"})
        first, runs = worker(1, pool), SessionStatus(phase=SessionPhase.RUNNING, worker="w1")
        await keep(world, first, *([msgspec.structs.replace(session(1), status=runs)] * used))

        def look(*, brief: bool) -> tuple[int, IdleFacts]:
            services, before = world.services, world.services.cache.touched
            facts = idle_facts.gather(
                services.cache, services.settings, first, Reading(), START, brief=brief
            )
            return services.cache.touched - before, facts

        world.services.settings.now()  # worked out when it is asked first, then kept
        alone = [look(brief=brief)[0] for brief in (True, False)]
        await keep(world, *(worker(number) for number in range(2, 20)))
        (brief, facts), (whole, all_) = look(brief=True), look(brief=False)
        unread = used and pool is not None
        assert (brief == alone[0], whole == alone[1]) == (unread or pool is None, pool is None)
        assert (facts.pool_unread, all_.pool_unread) == (unread, False)
        assert facts.serving == (None if unread else all_.serving)
        assert all_.serving == (None if pool is None else 19)


@pytest.mark.parametrize("phase", list(SessionPhase))
def test_an_ended_session_is_looked_after_until_it_holds_nothing(phase: SessionPhase) -> None:
    """A finalizer, a deletion or an open call each keeps it among the open ones."""
    call = Effect(id="e", kind="delete", begun=START, expires=START)
    for held, gone, effect in itertools.product((False, True), repeat=3):
        metadata = Metadata(
            name="s",
            finalizers=(FINALIZER_LAB,) if held else (),
            deletion_timestamp=START if gone else None,
        )
        status = SessionStatus(phase=phase, effect=call if effect else None)
        made = msgspec.structs.replace(session(1), metadata=metadata, status=status)
        kept = phase not in TERMINAL or held or gone or effect
        assert tuple(indices.SESSIONS_OPEN.values(made)) == ((True,) if kept else ())


@pytest.mark.asyncio
async def test_a_page_looks_once_at_what_its_rows_share() -> None:
    """The worker, the definition and the policy are read once for all labs of a page."""
    async with opened(CountingCache) as world:
        await world.definition("two")
        worker = await world.make("Worker", "w1", {"machine": MACHINE})
        machine = MachineStatus(id="i-1", state="running", public_address="198.51.100.7")
        await world.status(worker, phase=WorkerPhase.ACTIVE, machine=machine)
        await world.services.fresh()
        lab = LabStatus(title="t", marker="m", id="lab-1")
        status = SessionStatus(
            phase=SessionPhase.RUNNING, worker="w1", lab=lab, ready_at=START, started_at=START
        )
        rows = [msgspec.structs.replace(session(number), status=status) for number in range(KEPT)]
        caller = who("user", "bob").principal
        world.services.settings.now()  # worked out when it is asked first, then kept
        read = []
        for count in (1, KEPT):
            before = world.services.cache.touched
            shown = views.within(world.services, caller, {"items": rows[:count]})["items"]
            read.append(world.services.cache.touched - before)
            assert [each.status.access.host for each in shown] == ["198.51.100.7"] * count
        assert 0 < read[0] == read[1]
