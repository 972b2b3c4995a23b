"""A session's time changes in one commit and never at the cost of what is promised to others."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World, who
from fleet_world import world as opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_service_claims import HOUR, MORNING, at, booked, bound, fleet, packs, sessions

from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import PortAllocation, Session, SessionPhase
from labfleet.resources.worker import WorkerPhase
from labfleet.service.core.service_context import Refused
from labfleet.service.kinds import session_told
from labfleet.service.reads import explain, history
from labfleet.service.verbs import lifecycle, objects

ANN = who("user", "ann")
MINUTE = timedelta(minutes=1)
HALF = 30 * MINUTE


async def extend(world: World, caller: Any = ANN, name: str = "mine", **how: Any) -> Session:
    """Extend the session `mine`."""
    return await lifecycle.extend(world.services, caller, name, "default", **how)


async def limited(world: World, caller: Any = ANN, **policy: Any) -> Session:
    """A session of Ann's whose definition has this policy."""
    await world.definition(extension=policy)
    return await world.session("mine", caller=caller, slot=at(), owner="ann")


@pytest.mark.asyncio
async def test_people_extend_as_often_as_their_definition_says(world: World):
    """The third time of two is refused, for their own people; an operator may still."""
    made = await limited(world, times=2)
    for number in (1, 2):
        longer = await extend(world, by=MINUTE)
        assert longer.status.extensions.times == number
    with pytest.raises(Refused, match="extend it at most 2 times") as refusal:
        await extend(world, by=MINUTE)
    assert (refusal.value.reason, refusal.value.problems) == ("ExtensionLimit", ())
    longer = await extend(world, ADMIN, by=MINUTE)
    assert longer.status.end == made.status.end + 3 * MINUTE
    assert longer.status.extensions.times == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("field", ["longestMinutes", "totalMinutes"])
async def test_a_refused_extension_names_the_longest_that_is_given(world: World, field: str):
    """What is named is given, and a minute more in all is not."""
    made = await limited(world, **{field: 20})
    with pytest.raises(Refused, match="at most 20 minutes") as refusal:
        await extend(world, by=HALF)
    latest = made.status.end + 20 * MINUTE
    assert refusal.value.problems == (("end", f"{latest:%F %H:%M:%S}Z fits"),)
    assert (await extend(world, end=latest)).status.end == latest
    if field == "totalMinutes":
        with pytest.raises(Refused):
            await extend(world, by=MINUTE)


@pytest.mark.asyncio
async def test_the_longest_counts_what_is_promised_to_others_too(world: World):
    """A policy of 20 minutes names 10 when the time after those is another's."""
    await fleet(world)
    definition = KINDS["Definition"]
    policy = {"spec": {"extension": {"longestMinutes": 20}}}
    await objects.patch(world.services, ADMIN, definition, "two", policy, namespace="default")
    mine = await world.session("mine", caller=ANN, slot=at())
    gap = (mine.status.claim.end - mine.status.claim.start + 10 * MINUTE) / HOUR
    await booked(world, 10, hours=gap)
    with pytest.raises(Refused, match="one extension adds") as refusal:
        await extend(world, by=HALF)
    latest = mine.status.end + 10 * MINUTE
    assert refusal.value.problems == (("end", f"{latest:%F %H:%M:%S}Z fits"),)
    await extend(world, end=latest)
    await packs(world, 1)


@pytest.mark.asyncio
async def test_explain_says_what_is_left_to_extend(world: World):
    """The person reads how often and by how much, where the definition bounds it."""
    await limited(world, times=2, totalMinutes=60)
    await extend(world, by=HALF)
    told = await explain.explain(world.services, ANN, KINDS["Session"], "mine", "default")
    assert "Its people may extend it 1 time more, by at most 30 minutes more in all." in told.lines


@pytest.mark.asyncio
async def test_a_full_worker_names_the_latest_end(world: World):
    """The worker's own reservations bound an extension, and the latest end that is named fits."""
    await world.definition()
    made = await world.make("Worker", "w", {"machine": {"provider": {"kind": "aws", "amiId": "ami-1"},
                            "cml": {"adminPassword": {"env": "P"}}}})  # fmt: skip
    await world.status(made, phase=WorkerPhase.READY, capacity=Amounts(cpu_milli=10_000, labs=9))
    half = Amounts(cpu_milli=6000)
    for name, start in (("mine", MORNING), ("other", MORNING + 2 * HOUR)):
        each = await world.session(name, slot={"start": start.isoformat()})
        held = Reservation(
            holder=name, amounts=half, start=start, end=each.status.end + 10 * MINUTE
        )
        await world.status(each, phase=SessionPhase.SCHEDULED, worker="w", reservation=held)
    await world.services.fresh()
    with pytest.raises(Refused, match="worker 'w' has no room") as refusal:
        await extend(world, ADMIN, by=HOUR)
    latest = MORNING + 2 * HOUR - 10 * MINUTE
    assert refusal.value.problems == (("end", f"{latest:%F %H:%M:%S}Z fits"),)
    assert (await extend(world, ADMIN, end=latest)).status.end == latest


@pytest.mark.asyncio
async def test_what_runs_without_a_claim_takes_no_promise(world: World):
    """A lab bound before there were claims is not extended into a slot that is promised."""
    await fleet(world)
    await world.make("Worker", "w1", {"pool": "exam"})
    made = await booked(world, 10)
    await bound(world, made, SessionPhase.SCHEDULED)
    for each in await sessions(world):
        await world.status(each, claim=None)
    await world.services.fresh()
    span = made[0].status.claim.end - made[0].status.claim.start
    await booked(world, 10, first=10, hours=span / HOUR)
    with pytest.raises(Refused, match="promised to others"):
        await extend(world, ADMIN, "s000", by=HALF)


@pytest.mark.asyncio
async def test_a_shorter_end_frees_its_tail_at_once(world: World):
    """What was refused before fits right after the commit; an earlier end is no cancellation."""
    await fleet(world)
    made = await booked(world, 10, length=2)
    later = (made[0].status.claim.end - made[0].status.claim.start) / HOUR - 1
    with pytest.raises(Refused):
        await booked(world, 1, first=10, hours=later)
    less = await lifecycle.shorten(world.services, ADMIN, "s004", "default", by=HOUR)
    assert less.status.end == less.spec.slot.end == MORNING + HOUR
    assert made[4].status.claim.end - less.status.claim.end == HOUR
    await booked(world, 1, first=10, hours=later)
    for wrong in (less.status.end + HOUR, MORNING, world.clock.now()):
        with pytest.raises(errors.Invalid, match="to end it now, cancel it"):
            await lifecycle.shorten(world.services, ADMIN, "s004", "default", end=wrong)
    await packs(world, 1)


@pytest.mark.asyncio
async def test_an_earlier_end_in_a_manifest_shortens(world: World):
    """`apply` of an earlier end is the same as the verb; the start moves by the verb alone."""
    await fleet(world)
    made = (await booked(world, 1))[0]
    earlier = (made.status.end - HALF).isoformat()
    patched = await objects.patch(world.services, ADMIN, KINDS["Session"], "s000",
                                  {"spec": {"slot": {"end": earlier}}}, namespace="default")  # fmt: skip
    assert made.status.claim.end - patched.status.claim.end == HALF
    with pytest.raises(errors.Invalid, match="labfleet move"):
        await objects.patch(world.services, ADMIN, KINDS["Session"], "s000",
                            {"spec": {"slot": {"start": MORNING.replace(hour=1).isoformat()}}},
                            namespace="default")  # fmt: skip


async def move(world: World, name: str, start: datetime, caller: Any = ADMIN) -> Session:
    """Move a session's slot."""
    return await lifecycle.move(world.services, caller, name, "default", start=start)


@pytest.mark.asyncio
async def test_a_slot_moves_with_its_promise(world: World):
    """Start, end and claim move together, and a slot never stands in its own way."""
    await fleet(world)
    made = (await booked(world, 10))[3]
    new = await move(world, "s003", MORNING + HALF)
    assert (new.status.start, new.status.end) == (MORNING + HALF, made.status.end + HALF)
    assert new.spec.slot.start == new.status.start
    assert new.status.claim.start - made.status.claim.start == HALF
    assert new.status.claim.end - made.status.claim.end == HALF
    assert await move(world, "s003", MORNING + HALF) == new
    await packs(world, 1)


@pytest.mark.asyncio
@pytest.mark.parametrize("full", ["refuse", "wait"])
async def test_a_refused_move_keeps_the_promise(world: World, full: str):
    """The nearest slots that fit are named, nothing is changed, and no promise becomes a wait."""
    await fleet(world)
    mine = await world.session("mine", caller=ANN, slot=at(), whenFull=full)
    await booked(world, 10, hours=9)
    with pytest.raises(Refused, match="short 1 MiB") as refusal:
        await move(world, "mine", MORNING + 9 * HOUR, ANN)
    assert refusal.value.reason == "NoCapacity"
    assert "whenFull" not in refusal.value.message
    kept = (await sessions(world))[0]
    assert (kept.status.claim, kept.spec.slot) == (mine.status.claim, mine.spec.slot)
    named = refusal.value.problems[0][1].split(" to ")[0]
    assert (await move(world, "mine", datetime.fromisoformat(named), ANN)).status.claim is not None


@pytest.mark.asyncio
async def test_a_move_says_from_when_to_when(world: World):
    """The event of a move has the verb as its word, and both starts as its sentence."""
    await fleet(world)
    await world.session("mine", caller=ANN, slot=at())
    await lifecycle.move(world.services, ANN, "mine", "default", start=MORNING + HOUR)
    kind = KINDS["Session"]
    newest, *_ = history.told(
        await objects.events(world.services, ANN, kind, "mine", "default", limit=1)
    )
    assert newest.reason == "Moved"
    assert newest.message == "2026-12-11 10:00Z instead of 2026-12-11 09:00Z"


@pytest.mark.asyncio
async def test_a_lab_that_would_be_too_long_is_told_until_when_it_may_last(world: World):
    """The definition's longest, as an instant too."""
    await fleet(world)
    await world.session("mine", caller=ANN, slot=at())
    with pytest.raises(
        errors.Invalid, match=r"lasts at most 480 minutes, so until 2026-12-11 17:00Z"
    ):
        await extend(world, by=9 * HOUR)


@pytest.mark.asyncio
async def test_a_cancelled_session_says_who_ended_it(world: World):
    """Not its own phase over again."""
    await fleet(world)
    await world.session("mine", caller=ANN, slot=at())
    made = await lifecycle.cancel(world.services, ANN, "mine", "default", reason="ill")
    for reason, said in (("ill", "Cancelled: by ann (ill)"), ("", "Cancelled: by ann")):
        by = msgspec.structs.replace(made.spec.cancel, reason=reason)
        over = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, cancel=by))
        status = msgspec.structs.replace(
            over.status, phase=SessionPhase.CANCELLED, reason="Cancelled"
        )
        over = msgspec.structs.replace(over, status=status)
        assert session_told.headline(world.services, over, None) == said


@pytest.mark.asyncio
async def test_what_has_begun_is_not_moved(world: World):
    """A lab that is made ready or runs stays where it is; without a start there is no slot."""
    await world.definition()
    for phase in (SessionPhase.INSTANTIATING, SessionPhase.READY, SessionPhase.RUNNING):
        made = await world.session(f"s{phase.lower()}", slot=at())
        await world.status(made, phase=phase)
        with pytest.raises(Refused) as refusal:
            await move(world, made.name, MORNING + HOUR)
        assert refusal.value.reason == "HasBegun"
    await world.session("asap")
    with pytest.raises(Refused) as refusal:
        await move(world, "asap", MORNING)
    assert refusal.value.reason == "NoSlot"
    await world.session("late", slot=at())
    with pytest.raises(errors.Invalid, match="in the past"):
        await move(world, "late", world.clock.now() - HOUR)


@pytest.mark.asyncio
async def test_a_booked_worker_is_given_back_by_the_move(world: World):
    """Worker, reservation and ports go in the commit that moves the slot."""
    await fleet(world)
    await world.make("Worker", "w1", {"pool": "exam"})
    made = (await booked(world, 1))[0]
    await bound(world, [made], SessionPhase.SCHEDULED)
    ports = (PortAllocation(name="r1_serial", node="r1", kind="serial", number=2001),)
    await world.status(made, ports=ports)
    new = await move(world, "s000", MORNING + 3 * HOUR)
    status = new.status
    assert (status.phase, status.worker, status.reservation, status.ports) == (
        SessionPhase.PENDING, None, None, (),
    )  # fmt: skip
    assert status.claim.start - made.status.claim.start == 3 * HOUR


@pytest.mark.asyncio
async def test_only_its_own_people_change_its_time(world: World):
    """To others the session does not exist, whatever the verb."""
    await limited(world, caller=ADMIN)
    bob, late = who("user", "bob"), {"start": MORNING + HOUR}
    for verb, how in ((lifecycle.extend, {"by": MINUTE}), (lifecycle.shorten, {"by": MINUTE}),
                      (lifecycle.move, late)):  # fmt: skip
        with pytest.raises(errors.Gone):
            await verb(world.services, bob, "mine", "default", **how)
        await verb(world.services, ANN, "mine", "default", **how)


deeds = st.tuples(
    st.sampled_from(["book", "book", "extend", "extend", "shorten", "move"]),
    st.integers(0, 60),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0]),
)


async def deed(world: World, names: list[str], what: str, pick: int, hours: float) -> str | None:
    """Do one thing with a booking, or a new one; return whose it was, None when it was refused."""
    name = f"b{len(names):02d}" if what == "book" or not names else names[pick % len(names)]
    try:
        if name not in names:
            await world.session(name, slot=at(hours, length=1 + pick % 3))
            names.append(name)
        elif what == "extend":
            await extend(world, ADMIN, name, by=(hours or 0.1) * HOUR)
        elif what == "shorten":
            await lifecycle.shorten(
                world.services, ADMIN, name, "default", by=(hours or 0.1) * HOUR
            )
        else:
            await move(world, name, MORNING + hours * HOUR)
    except (Refused, errors.Invalid):
        return None
    return name


@given(st.lists(deeds, min_size=12, max_size=40))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_deed_costs_an_earlier_promise(drawn: list[tuple[str, int, float]]):
    """Whatever is booked, extended, shortened or moved: other claims stay, and all of them pack."""

    async def story() -> None:
        async with opened() as world:
            await fleet(world, workers=1)
            names, before = list[str](), dict[str, Any]()
            await booked(world, 7, hours=0, length=2)
            for what, pick, hours in drawn:
                whose = await deed(world, names, what, pick, hours)
                now = {each.name: each.status.claim for each in await sessions(world)}
                assert all(now[name] == claim for name, claim in before.items() if name != whose)
                assert all(claim is not None for claim in now.values())
                before = now
            await packs(world, 1)

    asyncio.run(story())


@pytest.mark.asyncio
async def test_who_comes_checks_in_once(world: World):
    """Before the lab is made ready it is too early, afterwards the first word counts."""
    made = await limited(world)
    with pytest.raises(Refused) as refusal:
        await lifecycle.check_in(world.services, ANN, "mine", "default")
    assert refusal.value.reason == "NotYet"
    await world.status(made, phase=SessionPhase.READY)
    came = await lifecycle.check_in(world.services, ANN, "mine", "default")
    assert (came.status.checked_in_at, came.status.checked_in_by) == (world.clock.now(), "ann")
    assert await lifecycle.check_in(world.services, ADMIN, "mine", "default") == came


@pytest.mark.asyncio
@pytest.mark.parametrize(("who_asks", "came"), [(ANN, True), (ADMIN, False)])
async def test_who_extends_their_own_session_has_come(world: World, who_asks: Any, came: bool):
    """Asking for more time is a sign of its person; an operator's asking is none."""
    await world.status(await limited(world), phase=SessionPhase.RUNNING)
    longer = await extend(world, who_asks, by=MINUTE)
    assert (longer.status.checked_in_at is not None) is came


@pytest.mark.asyncio
async def test_cleaning_up_is_part_of_the_promise(world: World):
    """The next slot on a place begins after the teardown of the one before, however long that is."""
    await world.definition(teardownMinutes=45, resources={"memoryMib": 64})
    made = await world.definition("short", teardownMinutes=5, resources={"memoryMib": 64})
    assert made.spec.teardown_minutes == 5
    await fleet_of_one(world)
    long = await world.session("long", slot=at())
    assert long.status.claim.end == long.status.end + 45 * MINUTE
    with pytest.raises(Refused):
        await world.session("soon", definition="short", slot=at(hours=1.6))
    lead = long.status.start - long.status.claim.start
    fits = 1 + (45 * MINUTE + lead) / HOUR
    await world.session("after", definition="short", slot=at(hours=fits))


async def fleet_of_one(world: World) -> None:
    """A pool of one worker that holds one lab."""
    capacity = {"memoryMib": 64, "cpuMilli": 9000, "storageMib": 10**6, "labs": 1, "ports": 9,
                "nodes": 9}  # fmt: skip
    cml = {"adminPassword": {"env": "P"}, "maxNodesLicensed": 9}
    machine = {"provider": {"kind": "aws", "amiId": "ami-1"}, "cml": cml, "capacity": capacity,
               "licence": {"token": {"env": "T"}}}  # fmt: skip
    await world.make("Template", "metal", {"machine": machine})
    await world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": 1}})
    await world.services.fresh()
