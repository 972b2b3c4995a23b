"""Slots are promised: what is accepted packs into the pool's workers, the rest is refused at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, START, World, who
from fleet_world import world as opened

from labfleet.engine.cache import Cache
from labfleet.engine.objects import Objects
from labfleet.kernel import errors
from labfleet.resources.amounts import DIMENSIONS, Amounts, Reservation
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import StrayLabs, WorkerPhase
from labfleet.service.core.service_context import Refused, ServiceContext
from labfleet.service.kinds import indices, pool_claims
from labfleet.service.verbs import lifecycle, objects

MORNING = START + timedelta(days=14)
HOUR = timedelta(hours=1)


def at(hours: float = 0, length: float = 1) -> dict[str, str]:
    """A slot from so many hours after the exam's start."""
    begin = MORNING + hours * HOUR
    return {"start": begin.isoformat(), "end": (begin + length * HOUR).isoformat()}


async def fleet(world: World, workers: int = 1, **pool: Any) -> None:
    """A pool of at most so many workers, each of which holds ten labs of the definition."""
    made = await world.definition()
    need = made.status.demand
    capacity = {"memoryMib": need.memory_mib * 11 - 1, "cpuMilli": 10**6, "storageMib": 10**7,
                "labs": 50, "ports": 6000, "nodes": 900}  # fmt: skip
    machine = {**MACHINE, "capacity": capacity, "licence": {"token": {"env": "CML_TOKEN"}}}
    machine["cml"] = {**machine["cml"], "maxNodesLicensed": 900}
    await world.make("Template", "metal", {"machine": machine})
    scaling = {"maxWorkers": workers, **pool}
    await world.make("Pool", "exam", {"template": "metal", "scaling": scaling})
    await world.services.fresh()


async def booked(world: World, count: int, first: int = 0, **slot: Any) -> list[Session]:
    """So many sessions of one slot, asked for one after the other."""
    return [
        await world.session(f"s{number:03d}", slot=at(**slot))
        for number in range(first, first + count)
    ]


async def sessions(world: World) -> list[Session]:
    await world.services.fresh()
    return list(world.services.cache.all(Session))


async def packs(world: World, workers: int) -> None:
    """Assert that all claims fit into so many of the template's workers, summed at each start."""
    claims = [
        each.status.claim
        for each in await sessions(world)
        if each.status.claim and each.status.ended_at is None
    ]
    pool = world.services.cache.get(KINDS["Pool"].type, "exam", "default")
    size = pool_claims.extent(world.services.cache, pool).shape.capacity
    for now in {each.start for each in claims}:
        for place in {each.place for each in claims}:
            held = [e.amounts for e in claims if e.place == place and e.start <= now < e.end]
            assert place < workers or not held
            for name in DIMENSIONS:
                assert sum(getattr(each, name) for each in held) <= getattr(size, name)


@pytest.mark.asyncio
async def test_the_last_place_is_promised_once(world: World):
    """Ten fit on the pool's one worker; the eleventh is told minute, shortage and nearest slots."""
    await fleet(world)
    made = await booked(world, 10)
    assert {each.status.claim.place for each in made} == {0}
    with pytest.raises(Refused) as refusal:
        await booked(world, 1, first=10)
    told = refusal.value
    assert told.reason == "NoCapacity"
    claim = made[0].status.claim
    assert f"short 1 MiB at {claim.start:%Y-%m-%d %H:%M}Z" in told.message
    assert "pool exam, which may have 1 worker" in told.message
    assert "whenFull: wait" in told.message
    assert "maxWorkers" in told.message
    span = claim.end - claim.start
    minutes = -(-span // timedelta(minutes=1)) * timedelta(minutes=1)
    for (where, what), move in zip(told.problems, (-minutes, minutes), strict=True):
        start, end = MORNING + move, MORNING + HOUR + move
        assert (where, what) == ("spec.slot", f"{start:%F %H:%M}Z to {end:%F %H:%M}Z fits")
    await booked(world, 10, first=20, hours=span / HOUR)
    await packs(world, 1)


@pytest.mark.asyncio
async def test_who_may_not_grow_the_pool_is_not_told_to(world: World):
    """A user reads what a user can do: another slot, or the waiting list."""
    await fleet(world)
    await booked(world, 10)
    with pytest.raises(Refused) as refusal:
        await world.session("mine", caller=who("user", "ann"), slot=at())
    assert "maxWorkers" not in refusal.value.message
    assert "whenFull: wait" in refusal.value.message


@pytest.mark.asyncio
async def test_waiting_for_room_is_no_promise(world: World):
    """A slot that may wait is accepted without a claim, and takes nothing from who has one."""
    await fleet(world)
    await booked(world, 10)
    waits = await world.session("waits", slot=at(), whenFull="wait")
    assert waits.status.claim is None
    assert await world.session("at-once") is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("end", [SessionPhase.CANCELLED, SessionPhase.COMPLETED])
async def test_an_end_gives_the_place_back(world: World, end: SessionPhase):
    """What has ended holds nothing: its place goes to the next who asks."""
    await fleet(world)
    made = await booked(world, 10)
    await world.status(made[3], phase=end, ended_at=world.clock.now())
    assert (await booked(world, 1, first=10))[0].status.claim.place == 0
    await packs(world, 1)


@pytest.mark.asyncio
async def test_an_unknown_bound_refuses_nothing(world: World):
    """Without a pool, or without its template, nobody knows what there can be: nothing is promised."""
    await world.definition()
    assert (await world.session("s1", slot=at())).status.claim is None
    await world.template()
    template = KINDS["Template"]
    await world.make("Pool", "exam", {"template": "metal"})
    await objects.patch(world.services, ADMIN, template, "metal", {"spec": {"enabled": False}},
                        namespace="default")  # fmt: skip
    assert (await world.session("s2", slot=at())).status.claim is None


@pytest.mark.asyncio
async def test_a_fixed_pool_promises_its_minimum(world: World):
    """A pool that does not grow can hold what its minimum can, whatever its maximum is."""
    await fleet(world, workers=5, minWorkers=1, enabled=False)
    await booked(world, 10)
    with pytest.raises(Refused, match="may have 1 worker"):
        await booked(world, 1, first=10)


@pytest.mark.asyncio
async def test_an_extension_takes_nothing_from_others(world: World):
    """Time that is promised to another is refused, with the longest that is free; other time is taken."""
    await fleet(world)
    first = (await booked(world, 10))[0].status.claim
    await booked(world, 10, first=10, hours=(first.end - first.start) / HOUR + 0.5)
    change = {"name": "s000", "namespace": "default"}
    with pytest.raises(Refused, match="promised to others") as refusal:
        await lifecycle.extend(world.services, ADMIN, **change, by=HOUR)
    longest = MORNING + 1.5 * HOUR
    assert f"it may last until {longest:%F %H:%M:%S}Z at most" in refusal.value.message
    longer = await lifecycle.extend(world.services, ADMIN, **change, end=longest)
    assert longer.status.claim.end - first.end == 0.5 * HOUR
    await packs(world, 1)


@pytest.mark.asyncio
async def test_an_extension_may_change_the_place(world: World):
    """What waits for its worker takes another place when only that one has the time."""
    await fleet(world, workers=2)
    first = (await booked(world, 10))[0].status.claim
    await booked(world, 10, first=10, hours=(first.end - first.start) / HOUR)
    moved = await lifecycle.extend(world.services, ADMIN, "s000", "default", by=HOUR)
    assert moved.status.claim.place == 1
    await packs(world, 2)


async def bound(world: World, made: list[Session], phase: SessionPhase) -> None:
    """Bind sessions to the worker w1 of the pool, as the scheduler does."""
    for each in made:
        claim = each.status.claim
        held = Reservation(holder="w1", amounts=claim.amounts, start=claim.start, end=claim.end)
        await world.status(each, phase=phase, worker="w1", reservation=held)
    await world.services.fresh()


@pytest.mark.asyncio
async def test_overdue_labs_hold_their_place_past_midnight(world: World):
    """A lab of yesterday that was not seen gone holds its place today: nobody is promised it."""
    await fleet(world)
    await world.make("Worker", "w1", {"pool": "exam"})
    late = world.clock.now().replace(hour=22, minute=0)
    slot = {"start": late.isoformat(), "end": (late + HOUR).isoformat()}
    made = [await world.session(f"s{number}", slot=slot) for number in range(10)]
    await bound(world, made, SessionPhase.STOPPING)
    world.clock.forward((late + timedelta(hours=2.1) - world.clock.now()).total_seconds())
    soon = world.clock.now() + timedelta(minutes=1)
    slot = {"start": soon.isoformat(), "end": (soon + HOUR).isoformat()}
    with pytest.raises(Refused, match="pool exam, which may have 1 worker"):
        await world.session("next", slot=slot)


@pytest.mark.asyncio
async def test_an_extension_waits_for_a_known_bound(world: World):
    """While nobody knows what the pool can hold, a promise is not made longer: its time stays true."""
    await fleet(world)
    await booked(world, 1)
    off = {"spec": {"enabled": False}}
    template = KINDS["Template"]
    await objects.patch(world.services, ADMIN, template, "metal", off, namespace="default")
    with pytest.raises(Refused, match="template 'metal' of pool 'exam' cannot be used"):
        await lifecycle.extend(world.services, ADMIN, "s000", "default", by=HOUR)
    on = {"spec": {"enabled": True}}
    await objects.patch(world.services, ADMIN, template, "metal", on, namespace="default")
    before = (await sessions(world))[0].status.claim
    longer = await lifecycle.extend(world.services, ADMIN, "s000", "default", by=HOUR)
    assert longer.status.claim.end - before.end == HOUR


@pytest.mark.asyncio
async def test_no_extension_on_a_place_that_is_gone(world: World):
    """A promise on a place beyond the maximum is refused more time, unless another place has it."""
    await fleet(world, workers=2)
    await booked(world, 11)
    fewer = {"spec": {"scaling": {"maxWorkers": 1}}}
    await objects.patch(world.services, ADMIN, KINDS["Pool"], "exam", fewer, namespace="default")
    with pytest.raises(Refused, match="promised to others"):
        await lifecycle.extend(world.services, ADMIN, "s010", "default", by=HOUR)
    await lifecycle.cancel(world.services, ADMIN, "s000", "default")
    await world.status(
        (await sessions(world))[0], phase=SessionPhase.CANCELLED, ended_at=world.clock.now()
    )
    moved = await lifecycle.extend(world.services, ADMIN, "s010", "default", by=HOUR)
    assert moved.status.claim.place == 0


@pytest.mark.asyncio
async def test_stray_labs_endanger_no_promise(world: World):
    """What they hold of a worker today is taken of nothing that is promised: they are removed."""
    await fleet(world, workers=2)
    pool = world.services.cache.get(KINDS["Pool"].type, "exam", "default")
    before = pool_claims.extent(world.services.cache, pool)
    made = await world.make("Worker", "w1", {"template": "metal", "pool": "exam"})
    strays = StrayLabs(count=1, held=Amounts(memory_mib=4096))
    size = before.shape.capacity
    left = msgspec.structs.replace(size, memory_mib=size.memory_mib - 4096)
    await world.status(made, phase=WorkerPhase.READY, capacity=left, stray_labs=strays)
    await world.services.fresh()
    after = pool_claims.extent(world.services.cache, pool)
    assert after.shape.capacity == size
    assert after.sizes == {"w1": size}


def beside(world: World, cache: Cache) -> ServiceContext:
    """The services of another process: its own cache and locks, the same store."""
    store = world.store
    return ServiceContext(
        Objects(store), cache, world.clock, world.ids,
        log=store, replies=store, series=store, history=store, kept=store,
    )  # fmt: skip


async def ask(services: ServiceContext, name: str, answers: dict[str, str]) -> None:
    """Ask for one place of the exam until there is an answer."""
    body = {"metadata": {"name": name}, "spec": {"definition": "two", "slot": at()}}
    while name not in answers:
        try:
            await objects.create(services, ADMIN, KINDS["Session"], body, key=f"key-{name}")
            answers[name] = "accepted"
        except Refused as refusal:
            answers[name] = f"{refusal.reason} {len(refusal.problems)}"
        except errors.Conflict:
            await asyncio.sleep(0)


async def crowd(services: list[ServiceContext], answers: dict[str, str]) -> None:
    """Fifty callers at once ask for four places each, spread over the processes."""

    async def caller(number: int) -> None:
        for each in range(4):
            await ask(services[number % len(services)], f"s{4 * number + each:03d}", answers)

    await asyncio.gather(*(caller(number) for number in range(50)))


@pytest.mark.asyncio
async def test_two_hundred_at_once_and_a_kill(tmp_path: Path):
    """Of 200 asked for by 50 callers at once, killed in between, exactly the 180 that pack are held."""
    url, answers = f"sqlite:///{tmp_path}/fleet.db", dict[str, str]()
    async with opened(url=url) as world:
        await fleet(world, workers=18)
        killed = asyncio.create_task(crowd([world.services], answers))
        while len(answers) < 70:
            await asyncio.sleep(0.001)
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)
    before = dict(answers)
    assert 70 <= len(before) < 200
    async with opened(url=url) as world:
        world.ids.count = 100_000
        await crowd([world.services], answers)
        assert Counter(answers.values()) == {"accepted": 180, "NoCapacity 2": 20}
        assert before.items() <= answers.items()
        assert len(await sessions(world)) == 180
        await packs(world, 18)


@pytest.mark.asyncio
async def test_two_processes_do_not_overbook(world: World):
    """Processes that know nothing of each other's locks promise each place once: the store decides."""
    await fleet(world, workers=2)
    caches = [Cache(world.store) for _ in range(2)]
    for cache in caches:
        cache.declare(*indices.declared())
        world.follow(cache)
        await cache.ready()
    both, answers = [beside(world, cache) for cache in caches], dict[str, str]()
    await asyncio.gather(
        *(ask(both[number % 2], f"s{number:03d}", answers) for number in range(24))
    )
    assert Counter(answers.values()) == {"accepted": 20, "NoCapacity 2": 4}
    await packs(world, 2)


@pytest.mark.asyncio
async def test_a_disabled_template_keeps_no_running_lab_from_more_time(world: World):
    """What has its worker needs no new one, so its time is promised on; others' time still is theirs."""
    await fleet(world)
    made = await booked(world, 10)
    await bound(world, made, SessionPhase.RUNNING)
    host = await world.make("Worker", "w1", {"pool": "exam"})
    await world.status(host, capacity=Amounts(memory_mib=10**6, cpu_milli=10**6, labs=50,
                                              storage_mib=10**7, nodes=900, ports=6000))  # fmt: skip
    end = made[0].status.claim.end
    await booked(world, 10, first=10, hours=(end - made[0].status.claim.start) / HOUR + 0.5)
    off = {"spec": {"enabled": False}}
    await objects.patch(world.services, ADMIN, KINDS["Template"], "metal", off, namespace="default")
    longer = await lifecycle.extend(world.services, ADMIN, "s000", "default", by=0.25 * HOUR)
    assert longer.status.claim.end - end == 0.25 * HOUR
    with pytest.raises(Refused, match="promised to others"):
        await lifecycle.extend(world.services, ADMIN, "s000", "default", by=2 * HOUR)


@pytest.mark.asyncio
async def test_a_pool_with_open_promises_is_not_deleted(world: World):
    """It says how many and until when; once its end is asked for, or all are cancelled, it may go."""
    await fleet(world)
    made = await booked(world, 3)
    last = made[0].status.claim.end
    told = f"promised a place to 3 sessions, the last until {last:%F %H:%M}Z"
    with pytest.raises(Refused, match=told) as refusal:
        await objects.delete(world.services, ADMIN, KINDS["Pool"], "exam", "default")
    assert refusal.value.reason == "PromisesOpen"
    for each in made:
        await world.status(each, phase=SessionPhase.CANCELLED, ended_at=world.clock.now())
    await world.services.fresh()
    gone = await objects.delete(world.services, ADMIN, KINDS["Pool"], "exam", "default")
    assert gone.name == "exam"


@pytest.mark.asyncio
async def test_one_person_is_promised_so_many_hours(world: World):
    """Slots of an owner count together, longer ones too; who runs the fleet may book more."""
    await fleet(world, workers=3)
    limit = {"spec": {"limits": {"promisedHours": 5}}}
    await world.make("Settings", "fleet", limit["spec"])
    await world.services.fresh()
    bob = who("user", "bob")
    await world.session("one", bob, slot=at(length=2))
    await world.session("two", bob, slot=at(24, length=2))
    with pytest.raises(
        errors.QuotaExceeded, match=r"slots of 6\.0 hours in default, more than the 5"
    ):
        await world.session("three", bob, slot=at(48, length=2))
    await lifecycle.extend(world.services, bob, "two", "default", by=HOUR)
    with pytest.raises(errors.QuotaExceeded, match="promisedHours"):
        await lifecycle.extend(world.services, bob, "two", "default", by=HOUR)
    await world.session("at-once", bob)
    await world.session("four", ADMIN, owner="bob", slot=at(48, length=2))


@pytest.mark.asyncio
async def test_a_larger_type_is_not_promised_while_smaller_workers_are_there(world: World):
    """After the edit a place is worth what the worker of before has; once that is gone, the new size."""
    await fleet(world)
    small = await world.make("Worker", "w1", {"pool": "exam"})
    template = await world.services.objects.get(KINDS["Template"].type, "metal", "default")
    size = template.spec.machine.capacity
    await world.status(small, phase=WorkerPhase.READY, capacity=size)
    await world.services.fresh()
    double = msgspec.structs.replace(size, memory_mib=2 * size.memory_mib)
    body = {"spec": {"machine": {"capacity": {"memoryMib": double.memory_mib}}}}
    await objects.patch(
        world.services, ADMIN, KINDS["Template"], "metal", body, namespace="default"
    )
    await booked(world, 10)
    with pytest.raises(Refused, match="is short"):
        await booked(world, 1, first=10)
    gone = await world.services.objects.get(KINDS["Worker"].type, "w1", "default")
    await world.status(gone, phase=WorkerPhase.TERMINATED)
    await world.services.fresh()
    await booked(world, 10, first=10)
    await packs(world, 1)
