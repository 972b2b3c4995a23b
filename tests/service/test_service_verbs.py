"""Drain, cordon, desired; cancel, extend, observe, record; explain."""

from __future__ import annotations

from datetime import timedelta, timezone

import msgspec
import pytest
from fleet_world import ADMIN, World, who

from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts, Reservation, Shortage
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import (
    TERMINAL,
    NodeObservation,
    PortAllocation,
    ResourceObservation,
    Session,
    SessionPhase,
)
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core import ledger_rows
from labfleet.service.core.service_context import Refused
from labfleet.service.reads import explain
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import observations

HOUR = timedelta(hours=1)


async def running(
    world: World, name: str = "s1", worker: str | None = None, cpu: int = 4
) -> Session:
    """A running session of an hour, holding CPU on a worker when one is named."""
    made = await world.session(name)
    now = world.clock.now()
    held = Reservation(
        holder=name, amounts=Amounts(cpu_milli=cpu * 1000), start=now, end=now + HOUR
    )
    return await world.status(
        made,
        phase=SessionPhase.RUNNING,
        start=now,
        end=now + HOUR,
        worker=worker,
        reservation=held if worker else None,
        ports=(PortAllocation(name="r1_serial", node="r1", kind="serial", number=2000),),
    )


async def a_worker(world: World, cpu: int = 10) -> Worker:
    """A ready worker with so many CPUs."""
    await world.template()
    made = await world.make("Worker", "w", {"template": "metal"})
    return await world.status(
        made,
        phase=WorkerPhase.READY,
        phase_since=world.clock.now(),
        capacity=Amounts(cpu_milli=cpu * 1000),
    )


@pytest.mark.asyncio
async def test_drain_is_recorded_and_taken_back(world: World):
    """Deadline, reason and who asked are kept; the default deadline is the machine's limit."""
    await a_worker(world)
    made = await verbs.drain(world.services, ADMIN, "w", "default", reason="patch day", force=True)
    drain = made.spec.drain
    assert drain.deadline == world.clock.now() + timedelta(seconds=14400)
    assert (drain.reason, drain.requested_by, drain.force) == ("patch day", "ada", True)
    assert (await verbs.cancel_drain(world.services, ADMIN, "w", "default")).spec.drain is None
    with pytest.raises(errors.Invalid):
        await verbs.drain(world.services, ADMIN, "w", "default", deadline=world.clock.now())
    with pytest.raises(errors.Gone):
        await verbs.drain(world.services, ADMIN, "nope", "default")
    with pytest.raises(errors.Denied):
        await verbs.drain(world.services, who("user", "eve"), "w", "default")


@pytest.mark.asyncio
async def test_a_drain_can_be_extended_and_forced(world: World):
    """The deadline moves, force without one ends it now; without a drain there is none to move."""
    await a_worker(world)
    with pytest.raises(Refused, match="nobody asked"):
        await verbs.change_drain(world.services, ADMIN, "w", "default", force=True)
    await verbs.drain(world.services, ADMIN, "w", "default", reason="patch day")
    later = world.clock.now() + timedelta(hours=9)
    moved = await verbs.change_drain(world.services, ADMIN, "w", "default", deadline=later)
    assert (moved.spec.drain.deadline, moved.spec.drain.force) == (later, False)
    again = await verbs.change_drain(world.services, ADMIN, "w", "default", deadline=later)
    assert again.metadata.generation == moved.metadata.generation
    forced = await verbs.change_drain(world.services, ADMIN, "w", "default", force=True)
    assert (forced.spec.drain.deadline, forced.spec.drain.force) == (world.clock.now(), True)
    assert forced.spec.drain.reason == "patch day"
    for wrong in ({}, {"deadline": world.clock.now()}, {"deadline": later.replace(tzinfo=None)}):
        with pytest.raises(errors.Invalid):
            await verbs.change_drain(world.services, ADMIN, "w", "default", **wrong)


@pytest.mark.asyncio
async def test_what_a_stop_waits_for_can_be_forced(world: World):
    """A worker that is to stop or end drains by itself, and that drain can be forced as well."""
    await a_worker(world)
    await verbs.desire(world.services, ADMIN, "w", "default", desired="Terminated")
    forced = await verbs.change_drain(world.services, ADMIN, "w", "default", force=True)
    assert forced.spec.drain.force
    assert forced.spec.drain.deadline <= world.clock.now()


@pytest.mark.asyncio
async def test_a_worker_to_be_terminated_stays_so(world: World):
    """Neither a cancelled drain nor another wish saves it."""
    await a_worker(world)
    await verbs.drain(world.services, ADMIN, "w", "default")
    await verbs.desire(world.services, ADMIN, "w", "default", desired="Terminated")
    with pytest.raises(Refused):
        await verbs.cancel_drain(world.services, ADMIN, "w", "default")
    with pytest.raises(Refused):
        await verbs.desire(world.services, ADMIN, "w", "default", desired="Ready")


@pytest.mark.asyncio
async def test_a_failed_worker_is_asked_to_try_again(world: World):
    """Ready said of a FAILED worker moves its generation, which is what makes it try again."""
    made = await a_worker(world)
    await world.status(made, phase=WorkerPhase.FAILED)
    again = await verbs.desire(world.services, ADMIN, "w", "default", desired="Ready")
    assert again.metadata.generation == made.metadata.generation + 1


@pytest.mark.asyncio
async def test_cordon_again_changes_nothing(world: World):
    """The same wish twice is one event and one generation."""
    await a_worker(world)
    once = await verbs.cordon(world.services, ADMIN, "w", "default")
    assert await verbs.cordon(world.services, ADMIN, "w", "default") == once
    assert (
        await verbs.cordon(world.services, ADMIN, "w", "default", closed=False)
    ).spec.cordoned is False


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", list(SessionPhase))
async def test_cancel_is_accepted_in_every_phase(world: World, phase: SessionPhase):
    """Ended sessions stay as they are; live ones carry who and why; twice is once."""
    await world.definition()
    await world.status(await world.session("s"), phase=phase)
    once = await verbs.cancel(world.services, ADMIN, "s", "default", reason="enough")
    ended = phase in {
        SessionPhase.COMPLETED, SessionPhase.EXPIRED, SessionPhase.FAILED, SessionPhase.CANCELLED,
    }  # fmt: skip
    assert (once.spec.cancel is None) is ended
    assert await verbs.cancel(world.services, ADMIN, "s", "default", reason="again") == once


@pytest.mark.asyncio
async def test_extend_takes_capacity_in_the_same_commit(world: World):
    """The reservation grows with the slot; a full worker refuses and says what is short."""
    await world.definition()
    await a_worker(world, cpu=10)
    one = await running(world, "s1", "w", cpu=6)
    longer = await verbs.extend(world.services, ADMIN, "s1", "default", by=HOUR)
    assert longer.status.end == longer.spec.slot.end == one.status.end + HOUR
    assert longer.status.reservation.end == one.status.reservation.end + HOUR
    assert longer.metadata.generation == 2
    booked = await world.session("later")
    start = longer.status.end + timedelta(minutes=5)
    held = Reservation(
        holder="later", amounts=Amounts(cpu_milli=6000), start=start, end=start + HOUR
    )
    await world.status(booked, phase=SessionPhase.SCHEDULED, worker="w", reservation=held)
    with pytest.raises(Refused, match="short 2 CPU") as caught:
        await verbs.extend(world.services, ADMIN, "s1", "default", by=HOUR)
    assert caught.value.reason == "NoCapacity"
    assert (
        await verbs.extend(world.services, ADMIN, "s1", "default", by=timedelta(minutes=5))
    ).status.end == start


@pytest.mark.asyncio
async def test_an_extension_loses_against_a_reservation_that_it_has_not_seen(world: World):
    """The ledger row moved after the decision: decide again from fresh state."""
    await world.definition()
    await a_worker(world)
    await running(world, "s1", "w")
    before = world.services.cache.revision
    await verbs.extend(world.services, ADMIN, "s1", "default", by=HOUR)
    row = ledger_rows.row("Worker", "w", "default")
    other = await world.session("other")
    with pytest.raises(errors.Conflict):
        await world.services.objects.save(
            other,
            cause=world.services.cause(ADMIN, "x"),
            preconditions=(ledger_rows.untouched(row, before),),
        )


@pytest.mark.asyncio
async def test_a_repeated_extension_under_one_key_counts_once(world: World):
    """A retry after a lost reply does not add a second hour."""
    await world.definition()
    one = await running(world)
    for _ in range(3):
        longer = await verbs.extend(world.services, ADMIN, "s1", "default", by=HOUR, key="k")
        assert longer.status.end == one.status.end + HOUR
    with pytest.raises(Refused):
        await verbs.extend(world.services, ADMIN, "s1", "default", by=2 * HOUR, key="k")


@pytest.mark.asyncio
async def test_extend_refuses_what_cannot_be(world: World):
    """Earlier, too long, both or neither, ending, without an end."""
    await world.definition()
    one = await running(world)
    end = one.status.end
    for asked in ({"end": end - HOUR}, {"end": end + 12 * HOUR}, {}, {"end": end, "by": HOUR}):
        with pytest.raises(errors.Invalid):
            await verbs.extend(world.services, ADMIN, "s1", "default", **asked)
    await world.session("fresh")
    with pytest.raises(Refused) as caught:
        await verbs.extend(world.services, ADMIN, "fresh", "default", by=HOUR)
    assert caught.value.reason == "NoSlot"
    await verbs.cancel(world.services, ADMIN, "s1", "default")
    with pytest.raises(Refused) as caught:
        await verbs.extend(world.services, ADMIN, "s1", "default", by=HOUR)
    assert caught.value.reason == "SlotOver"


@pytest.mark.asyncio
@pytest.mark.parametrize("phase", sorted(TERMINAL))
@pytest.mark.parametrize("to", [True, False])
async def test_what_is_over_is_said_to_be_over(world: World, phase, to):
    """Not that it has no end yet, nor that it is ending: with and without an end of its own."""
    await world.definition()
    how = {"end": world.clock.now() + HOUR} if to else {"by": HOUR}
    await world.status(await world.session("ghost"), phase=phase)
    with pytest.raises(Refused) as caught:
        await verbs.extend(world.services, ADMIN, "ghost", "default", **how)
    assert caught.value.reason == "SlotOver"
    assert f"is over already ({phase})" in str(caught.value)


@pytest.mark.asyncio
async def test_observe_is_for_running_sessions(world: World):
    """Anything else is refused; the wish is kept in the spec."""
    await world.definition()
    await world.session("s")
    with pytest.raises(errors.Invalid) as caught:
        await verbs.observe(world.services, ADMIN, "s", "default")
    assert caught.value.reason == "NotRunning"
    await running(world)
    asked = await verbs.observe(world.services, ADMIN, "s1", "default")
    assert asked.spec.observe_requested == world.clock.now()


def look(world: World, cores: float | None, minutes: int = 0) -> ResourceObservation:
    """An observation with so many cores."""
    return ResourceObservation(
        observed_at=world.clock.now() + timedelta(minutes=minutes),
        observer="lab-controller",
        total_cpu_cores=cores,
        actual_node_count=2,
    )


@pytest.mark.asyncio
async def test_an_observation_is_recorded_with_its_drift(world: World):
    """Ports are compared by name whenever nodes were seen; the phase stays."""
    await world.definition()
    await running(world)
    program = who("controller", "lab-controller")

    async def record(ports):
        seen = look(world, 1.5)
        return await observations.record(
            world.services, program, "s1", "default", resources=seen, ports=ports
        )

    same = await record({"r1_serial": 2000})
    assert (same.status.observation_count, same.status.port_drift_detected) == (1, False)
    moved = await record({"r1_serial": 5041, "r2_vnc": 5044})
    assert moved.status.port_drift_detected
    assert {each.name for each in moved.status.port_changes} == {"r1_serial", "r2_vnc"}
    bare = await record({})
    assert (bare.status.observation_count, bare.status.port_drift_detected) == (3, True)
    assert [each.observed for each in bare.status.port_changes] == [None]
    for nothing in (None, ResourceObservation(observed_at=world.clock.now(), observer="x")):
        blind = await observations.record(
            world.services, program, "s1", "default", resources=nothing, ports={}
        )
        assert blind == bare
    numbers = msgspec.structs.replace(look(world, 2.0), actual_node_count=0)
    partly = await observations.record(
        world.services, program, "s1", "default", resources=numbers, ports=None
    )
    by_whom = msgspec.structs.replace(numbers, observer="internal:lab-controller")
    assert partly.status.observed_resources == by_whom
    assert (partly.status.observation_count, partly.status.port_drift_detected) == (4, True)
    assert blind.status.phase is SessionPhase.RUNNING
    await world.status(blind, phase=SessionPhase.STOPPING)
    with pytest.raises(errors.Invalid) as caught:
        await record({})
    assert caught.value.reason == "WrongPhase"
    with pytest.raises(errors.Denied):
        await observations.record(
            world.services, who("user", "eve"), "s1", "default", resources=None, ports={}
        )


@pytest.mark.asyncio
async def test_a_port_of_a_lab_that_was_given_none_is_drift(world: World):
    """A node or port added by hand is what drift is for; tags of the nodes tell it too."""
    await world.definition()
    made = await running(world)
    await world.status(made, ports=())
    by_hand = await observations.record(
        world.services, ADMIN, "s1", "default", resources=None, ports={"A_serial": 5041}
    )
    assert by_hand.status.port_drift_detected
    node = NodeObservation(
        node_id="n", label="A", node_definition="iosv", state="BOOTED", tags=("serial:5041",)
    )
    seen = msgspec.structs.replace(look(world, 1.0), nodes=(node,))
    tagged = await observations.record(
        world.services, ADMIN, "s1", "default", resources=seen, ports=None
    )
    assert tagged.status.observed_ports == {"A_serial": 5041}
    assert tagged.status.port_drift_detected


@pytest.mark.asyncio
async def test_an_instant_of_an_observation_has_a_zone_and_lies_in_the_sessions_time(world: World):
    """Python's utcnow().isoformat(), last week and next week are refused; any offset is fine."""
    await world.definition()
    await running(world)
    now = world.clock.now()

    async def record(at):
        seen = msgspec.structs.replace(look(world, 1.0), observed_at=at)
        return await observations.record(
            world.services, ADMIN, "s1", "default", resources=seen, ports={"r1_serial": 2000}
        )

    for wrong, said in (
        (now.replace(tzinfo=None), "time zone"),
        (now - timedelta(days=7), "before the session"),
        (now + timedelta(days=7), "in the future"),
    ):
        with pytest.raises(errors.Invalid) as caught:
            await record(wrong)
        assert said in caught.value.message
    for hours in (-11, 0, 5.75, 14):
        told = await record(now.astimezone(timezone(timedelta(hours=hours))))
        assert told.status.observed_at == now
    await record(now + timedelta(minutes=4))


@pytest.mark.asyncio
async def test_a_stored_instant_without_a_zone_does_not_break_the_list(world: World):
    """Earlier versions took them, and stores keep them for a month."""
    await world.definition()
    for n in range(2):
        made = await running(world, f"s{n}")
        at = world.clock.now() - timedelta(minutes=n)
        seen = msgspec.structs.replace(look(world, 1.0), observed_at=at)
        naive = at.replace(tzinfo=None) if n else at
        await world.status(made, observed_resources=seen, observed_at=naive)
    found = await observations.summary(world.services, ADMIN, "two", "default")
    assert [each.name for each in found.sessions] == ["s0", "s1"]


@pytest.mark.asyncio
async def test_a_definitions_figures_take_the_newest_first(world: World):
    """max, avg and latest of what is known; null when nothing was observed."""
    await world.definition()
    for n, cores in enumerate((1.0, 4.0, None, 2.5)):
        await running(world, f"s{n}")
        seen = look(world, cores, minutes=n)
        await observations.record(
            world.services, ADMIN, f"s{n}", "default", resources=seen, ports={}
        )
    found = await observations.summary(world.services, ADMIN, "two", "default")
    assert [each.name for each in found.sessions] == ["s3", "s2", "s1", "s0"]
    figure = found.aggregate.cpu_cores
    assert (figure.max, figure.avg, figure.latest) == (4.0, 2.5, 2.5)
    assert found.aggregate.memory_mb.max is None
    newest = await observations.summary(world.services, ADMIN, "two", "default", limit=1)
    assert newest.aggregate.cpu_cores.max == 2.5
    with pytest.raises(errors.Gone):
        await observations.summary(world.services, ADMIN, "nope", "default")


@pytest.mark.asyncio
async def test_explain_says_why_a_session_waits(world: World):
    """The recorded decision is told per candidate, with what is short by how much."""
    await world.definition()
    made = await world.session("s")
    before = await explain.explain(world.services, ADMIN, KINDS["Session"], "s", "default")
    assert before.waiting_for == ("the scheduler's first look",)
    short = Shortage(dimension="cpu_milli", wanted=14000, free=10000)
    decision = Decision(
        outcome="waiting",
        reason="NoCapacityAvailable",
        message="needs 14 CPU; best worker w1 is short 4 CPU",
        at=world.clock.now(),
        candidates=(
            Verdict(name="w1", fits=False, reasons=("InsufficientCpu",), shortages=(short,)),
        ),
        evaluated=7,
        rejected_by_reason={"InsufficientCpu": 1, "NotReady": 6},
    )
    await world.status(made, decision=decision)
    found = await explain.explain(world.services, ADMIN, KINDS["Session"], "s", "default")
    assert found.decision == decision
    assert found.phase == "PENDING"
    text = "\n".join(found.lines)
    assert "w1: InsufficientCpu, short 4 CPU" in text
    assert "and 6 more" in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "start",
    ["2026-11-28T08:00:00Z", "2026-11-28T09:00:00+01:00", "2026-11-27T20:30:00-11:30"],
)
async def test_explain_says_when_a_slot_begins_and_when_a_place_is_looked_for(
    world: World, start: str
):
    """Both instants are named, in UTC whatever the offset; the spec stays as it was written."""
    await world.definition()
    made = await world.session("s", slot={"start": start, "zone": "Europe/Warsaw"})
    assert made.spec.slot.start.isoformat() == start.replace("Z", "+00:00")
    assert made.spec.slot.zone == "Europe/Warsaw"
    found = await explain.explain(world.services, ADMIN, KINDS["Session"], "s", "default")
    (said,) = found.waiting_for
    assert "starts at 2026-11-28 08:00:00Z" in said
    # 220 s for the boot, 5 min of turns and looks, and before that the lead, 35 min by default.
    assert "looked for from 2026-11-28 07:16:20Z" in said


@pytest.mark.asyncio
async def test_explain_says_what_a_worker_waits_for_and_until_when(world: World):
    """Phase limits and drains give the next deadline; live sessions hold a drain."""
    await world.definition()
    made = await a_worker(world)
    await world.status(made, phase=WorkerPhase.STARTING)
    found = await explain.explain(world.services, ADMIN, KINDS["Worker"], "w", "default")
    assert found.next_deadline.at == world.clock.now() + timedelta(seconds=1500)
    await running(world, "s1", "w")
    await verbs.drain(world.services, ADMIN, "w", "default")
    await world.status(made, phase=WorkerPhase.DRAINING)
    found = await explain.explain(world.services, ADMIN, KINDS["Worker"], "w", "default")
    assert "sessions: s1" in found.waiting_for
    (blocker,) = found.blockers
    assert (blocker.name, blocker.phase, blocker.owner) == ("s1", "RUNNING", "ada")
    assert blocker.until is not None
    assert "labfleet cancel session/s1" in blocker.help
    assert any(line.startswith("In the way: session s1 of ada") for line in found.lines)
    empty = (
        Condition(
            type="Drained", status="True", reason="Empty", last_transition_time=world.clock.now()
        ),
    )
    await world.status(made, phase=WorkerPhase.DRAINING, conditions=empty)
    found = await explain.explain(world.services, ADMIN, KINDS["Worker"], "w", "default")
    assert found.waiting_for == ("somebody to undo the drain or to delete the worker",)
    assert found.next_deadline is None
    for kind, name in (("Definition", "two"), ("Template", "metal")):
        plain = await explain.explain(world.services, ADMIN, KINDS[kind], name, "default")
        assert plain.lines
