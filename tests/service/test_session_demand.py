"""A session is counted with what past ones used where its definition or its pools ask for that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import ADMIN, MACHINE, START, World, who
from fleet_world import world as opened

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.amounts import Reservation
from labfleet.resources.history import Run, RunKind, Use
from labfleet.resources.kinds import KINDS
from labfleet.resources.prediction import Evidence
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.template import Template
from labfleet.resources.worker import WorkerPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.kinds import definition_rules, family_use
from labfleet.service.reads import explain
from labfleet.service.verbs import lifecycle, objects, retrying

MORNING = START + timedelta(days=14)
SLOT = {
    "start": MORNING.isoformat(),
    "end": (MORNING + timedelta(hours=1)).isoformat(),
}
HELD = 10
"""Labs that a worker's memory holds as they are declared."""


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with opened() as made:
        yield made


async def fleet(world: World, demand: str | None = "bound", pool: str = "declared") -> Any:
    """A pool of one worker and a lab that declares four times what its nodes reserve."""
    plain = (await world.definition("plain")).status.demand
    resources = {"memoryMib": plain.memory_mib * 4, "cpuMilli": plain.cpu_milli * 4}
    spec = {"resources": resources, **({} if demand is None else {"demand": demand})}
    made = await world.definition("two", family="two", **spec)
    capacity = {"memoryMib": resources["memoryMib"] * HELD, "cpuMilli": resources["cpuMilli"] * HELD,
                "storageMib": 10**7, "labs": 500, "ports": 6000, "nodes": 900}  # fmt: skip
    machine = {**MACHINE, "capacity": capacity, "licence": {"token": {"env": "CML_TOKEN"}}}
    machine["cml"] = {**machine["cml"], "maxNodesLicensed": 900}
    await world.make("Template", "metal", {"machine": machine})
    scaling = {"maxWorkers": 1}
    spec = {"template": "metal", "scaling": scaling, "demand": pool}
    await world.make("Pool", "exam", spec)
    await world.services.fresh()
    return made


async def past(world: World, count: int, share: float = 0.1, first: int = 0) -> None:
    """So many sessions of the family have used this share of what it declares."""
    lab = await world.services.objects.get(KINDS["Definition"].type, "two", "default")
    need, now = lab.status.demand, world.clock.now()
    runs = [
        Run(
            kind=RunKind.SESSION, uid=f"past-{number}", family="two", owner="somebody",
            name=f"secret-of-{number}", parameters={"definition": "two"},
            use={name: Use(peak=share * getattr(need, name))
                 for name in ("cpu_milli", "memory_mib", "storage_mib")},
            ended_at=now,
        )
        for number in range(first, first + count)
    ]  # fmt: skip
    cause, writes = stores.Cause("tester", now), tuple(stores.Teach(each) for each in runs)
    await world.store.commit(stores.Commit(cause, writes))


async def fill(world: World) -> int:
    """Return how many sessions of one slot are promised before the next is refused."""
    for number in range(HELD * 5):
        try:
            await world.session(f"s{number:03d}", slot=SLOT)
        except Refused:
            return number
    raise AssertionError("nothing was ever refused")


@pytest.mark.asyncio
async def test_a_lab_declared_at_four_times_its_need_gets_its_pool_back(world: World) -> None:
    """After five sessions of it the same pool promises at least two and a half times as many."""
    await fleet(world, "declared")
    await past(world, 5)
    assert await fill(world) == HELD
    async with opened() as other:
        await fleet(other, "bound")
        await past(other, 5)
        assert await fill(other) >= 2.5 * HELD


@pytest.mark.asyncio
async def test_the_claim_and_the_session_pin_the_same_amounts_with_their_evidence(
    world: World,
) -> None:
    """Memory and CPU are what the nodes reserve, storage what is declared; nobody is named."""
    made = await fleet(world)
    await past(world, 6)
    session = await world.session(slot=SLOT)
    demand, claim = session.status.demand, session.status.claim
    assert demand.amounts == claim.amounts
    assert demand.amounts.memory_mib == made.status.demand.memory_mib // 4
    assert demand.amounts.cpu_milli == made.status.demand.cpu_milli // 4
    assert demand.amounts.storage_mib == made.status.demand.storage_mib
    known = await family_use.bounds(world.services, made)
    for each in demand.learned:
        assert each.evidence is Evidence.EXACT
        assert (each.bound, each.sessions) == (known[each.dimension].bound, 6)
        assert "secret-of" not in each.sentence


@pytest.mark.asyncio
async def test_what_is_learned_later_changes_no_session(world: World) -> None:
    """Past use that is known after a session was accepted counts for the next one only."""
    await fleet(world)
    before = await world.session("s1", slot=SLOT)
    assert before.status.demand.amounts == before.status.claim.amounts
    await past(world, 30)
    after = await world.session("s2", slot=SLOT)
    assert after.status.claim.amounts.memory_mib < before.status.claim.amounts.memory_mib
    later = MORNING + timedelta(days=1)
    moved = await lifecycle.move(world.services, ADMIN, "s1", "default", start=later)
    assert moved.status.claim.amounts == before.status.claim.amounts


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("own", "pool", "learned"),
    [
        (None, "declared", False),
        (None, "bound", True),
        ("declared", "bound", False),
        ("bound", "declared", True),
    ],
)
async def test_who_says_so(world: World, own: Any, pool: str, learned: bool) -> None:
    """The definition's word, else its pools'; by default what is declared, and nothing is pinned."""
    await fleet(world, own, pool)
    await past(world, 5)
    session = await world.session(slot=SLOT)
    assert (session.status.demand is not None) is learned


@pytest.mark.asyncio
async def test_seats_of_a_group_are_counted_alike(world: World) -> None:
    """A group is promised what its seats were learned to need, and the history is read once."""
    await fleet(world)
    await past(world, 5)
    reads = 0
    before = world.services.history.newest_runs

    async def counted(**asked: Any) -> Any:
        nonlocal reads
        reads += 1
        return await before(**asked)

    world.store.newest_runs = counted
    spec = {"definition": "two", "size": HELD * 2, "slot": SLOT}
    group = await world.make("Group", "class", spec)
    assert group.status.booked == HELD * 2
    await world.services.fresh()
    demands = [each.status.demand for each in world.services.cache.all(Session)]
    assert len(demands) == HELD * 2
    assert all(each is not None and each == demands[0] for each in demands)
    assert reads == 1


@pytest.mark.asyncio
async def test_a_new_attempt_is_counted_anew(world: World) -> None:
    """Each attempt is accepted by itself, with what is known by then."""
    await fleet(world)
    old = await world.session("s1")
    await world.status(old, phase=SessionPhase.FAILED, ended_at=world.clock.now())
    await past(world, 5)
    await world.services.fresh()
    new = await retrying.retry(world.services, ADMIN, "s1", "default")
    assert new.status.demand.amounts.memory_mib < old.status.demand.amounts.memory_mib


@pytest.mark.asyncio
async def test_limits_are_judged_by_what_it_is_counted_with(world: World) -> None:
    """A session may be limited to less than is declared, once past ones stayed within it."""
    made = await fleet(world)
    limits = {"memoryMib": made.status.demand.memory_mib // 2}
    with pytest.raises(errors.Invalid):
        await world.session("s1", slot=SLOT, limits=limits)
    await past(world, 5)
    assert (await world.session("s1", slot=SLOT, limits=limits)).status.claim is not None


@pytest.mark.asyncio
async def test_a_definition_of_an_earlier_version_is_read_again(world: World) -> None:
    """What its nodes reserve is found in its topology where an earlier version kept no record."""
    made = await fleet(world)
    known = made.status.reserved
    await world.status(made, reserved=type(known)())
    await past(world, 5)
    await world.services.fresh()
    session = await world.session(slot=SLOT)
    assert session.status.demand.amounts.memory_mib == known.memory_mib
    fresh = await world.services.objects.get(type(made), "two", "default")
    assert await definition_rules.reserved(world.services, fresh) == known


@pytest.mark.asyncio
async def test_explain_says_what_it_is_counted_with(world: World) -> None:
    """One sentence for each measured dimension, and one for what the lab uses beyond it."""
    await fleet(world)
    await past(world, 5)
    session = await world.session("s1")
    told = await explain.explain(world.services, ADMIN, KINDS["Session"], "s1", "default")
    said = [each for each in told.lines if each.startswith("Counted with ")]
    assert len(said) == 3
    assert "MiB memory" in said[1]
    amounts = session.status.demand.amounts
    held = Reservation(holder="w1", amounts=amounts, start=world.clock.now())
    used = {"storage_mib": Use(peak=10.0 + amounts.storage_mib)}
    await world.status(session, reservation=held, used=used)
    lab = await explain.explain(world.services, ADMIN, KINDS["Definition"], "two", "default")
    assert "counted with a bound of what past ones used" in lab.summary
    told = await explain.explain(world.services, ADMIN, KINDS["Session"], "s1", "default")
    assert any("Its lab used" in each and "MiB storage" in each for each in told.lines)


async def hosted(world: World) -> Session:
    """A session that a worker of the pool hosts until long after the morning's slot."""
    end = (MORNING + timedelta(hours=4)).isoformat()
    slot = {"start": MORNING.isoformat(), "end": end}
    made = await world.session("live", slot=slot)
    worker = await world.make("Worker", "w1", {"template": "metal", "pool": "exam"})
    claim = made.status.claim
    held = Reservation(holder=worker.name, amounts=claim.amounts, start=MORNING, end=claim.end)
    size = (await world.services.objects.get(Template, "metal", "default")).spec.machine.capacity
    await world.status(worker, phase=WorkerPhase.READY, capacity=size)
    return await world.status(
        made, phase=SessionPhase.RUNNING, worker=worker.name, reservation=held
    )


@pytest.mark.asyncio
async def test_what_a_lab_really_uses_is_not_promised_to_others(world: World) -> None:
    """Of a place whose lab uses nearly all storage, no more is promised, and it stays itself."""
    await fleet(world)
    await past(world, 5)
    live = await hosted(world)
    assert (await world.session("s1", slot=SLOT)).status.claim is not None
    await world.status(live, used={"storage_mib": Use(peak=10.0**7)})
    await world.services.fresh()
    with pytest.raises(Refused, match=r"short .* disk"):
        await world.session("s2", slot=SLOT)
    after = await world.services.objects.get(Session, "live", "default")
    assert after.status.reservation == live.status.reservation


@pytest.mark.asyncio
async def test_a_lab_is_not_extended_over_others_by_the_little_that_was_learned(
    world: World,
) -> None:
    """Its own longer time is judged by what it uses: an earlier promise there is kept."""
    await fleet(world)
    await past(world, 5)
    live = await hosted(world)
    begin = live.status.claim.end
    slot = {"start": begin.isoformat(), "end": (begin + timedelta(hours=1)).isoformat()}
    await world.session("next", slot=slot)
    hour = timedelta(hours=1)
    await world.services.fresh()
    await world.status(live, used={"storage_mib": Use(peak=10.0**7)})
    await world.services.fresh()
    with pytest.raises(Refused, match="promised to others"):
        await lifecycle.extend(world.services, ADMIN, "live", "default", by=hour)
    await world.status(live, used={})
    await world.services.fresh()
    longer = await lifecycle.extend(world.services, ADMIN, "live", "default", by=hour)
    assert longer.status.claim.end == begin + hour
    assert longer.status.claim.amounts == live.status.claim.amounts


@pytest.mark.asyncio
async def test_a_user_cannot_choose_it(world: World) -> None:
    """Only who may make definitions and pools says how sessions are counted."""
    await fleet(world)
    ann = who("user", "ann")
    for spec in ({"demand": "bound"}, {"status": {}}):
        with pytest.raises(errors.LabfleetError):
            await world.session("mine", caller=ann, **spec)
    body = {"metadata": {"name": "mine"}, "spec": {"topology": "x", "demand": "bound"}}
    with pytest.raises(errors.Denied):
        await objects.create(world.services, ann, KINDS["Definition"], body)
