"""The session's life: total, inside its table, and never giving back what may still be used."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, Server, check_session, definition, session
from session_records import brought_to, running, sessions, sights

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session.budget import TimeBudget
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    Cancellation,
    LabStatus,
    Session,
    SessionPhase,
    Slot,
)

S = SessionPhase
LIVE = [phase for phase in S if phase not in TERMINAL]
HOUR = timedelta(hours=1)
LAB_STATES = ["DEFINED_ON_CORE", "STARTED", "STOPPED", "QUEUED", None]
instants = st.integers(-40_000, 40_000).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


@settings(max_examples=15 * settings.default.max_examples, deadline=None)
@given(sessions(), sights())
def test_any_session_and_any_sight_have_a_lawful_next_step(
    before: Session, seen: lifecycle.SessionObservation
) -> None:
    """decide is total and never breaks a rule, whatever is recorded and whatever is seen."""
    step = lifecycle.decide(before, seen, START)
    check_session(before, seen, step)
    assert step.again > 0


@pytest.mark.parametrize("phase", list(S))
def test_every_phase_is_reached_by_living(phase: SessionPhase) -> None:
    """Some sequence of sights leads from PENDING to each phase."""
    assert brought_to(phase).session.status.phase is phase


def test_a_whole_life_does_each_thing_once_and_in_order() -> None:
    """Imported, started, observed, stopped, wiped, deleted; then capacity is given back."""
    server = running()
    server.until(*TERMINAL)
    assert server.session.status.phase is S.COMPLETED
    assert server.actions == ["import", "start", "observe", "stop", "wipe", "delete"]
    assert server.releases == 1
    assert server.session.metadata.finalizers == ()


@pytest.mark.parametrize("phase", LIVE)
@pytest.mark.parametrize("by", ["cancel", "delete"])
def test_cancel_ends_a_session_from_every_phase(phase: SessionPhase, by: str) -> None:
    """Cancel and deletion lead to an end soon, with nothing left on the server."""
    server = brought_to(phase)
    if by == "cancel":
        server.want(cancel=Cancellation(at=server.now, by="ann"))
    else:
        meta = msgspec.structs.replace(server.session.metadata, deletion_timestamp=server.now)
        server.session = msgspec.structs.replace(server.session, metadata=meta)
    begun = server.now
    server.until(*TERMINAL, steps=60)
    expected = S.CANCELLED if phase not in {S.COLLECTING, S.STOPPING} else S.COMPLETED
    assert server.session.status.phase is expected
    assert server.state is None
    assert server.session.status.ended_at - begun < timedelta(minutes=10)


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(
    st.integers(0, 60),
    st.lists(st.sampled_from(["hang", "answer", "cancel", "die", "vanish"]), max_size=5),
    st.lists(st.integers(1, 40), min_size=5, max_size=5),
)
def test_any_bad_day_still_ends(wait: int, days: list[str], gaps: list[int]) -> None:
    """Hangs, deaths, vanished labs and cancels: once things answer, the session ends."""
    server = Server(session())
    server.bind()
    for _ in range(wait):
        server.step()
    for day, gap in zip(days, gaps, strict=False):
        server.hangs = day == "hang"
        server.dead = server.dead or day == "die"
        if day == "vanish":
            server.state = None
        if day == "cancel":
            server.want(cancel=Cancellation(at=server.now))
        for _ in range(gap):
            server.step()
    server.hangs = False
    server.want(cancel=Cancellation(at=server.now))
    server.until(*TERMINAL, steps=200)
    assert server.dead or server.state is None
    assert server.session.status.reservation is None
    assert FINALIZER_LAB not in server.session.metadata.finalizers


def test_a_hanging_server_does_not_hold_the_end_up() -> None:
    """Observation is best effort: after its time the teardown begins without it."""
    server = running(slot=Slot(end=START + HOUR))
    server.hangs = True
    server.until(S.COLLECTING)
    begun = server.now
    server.until(S.STOPPING)
    assert server.now - begun <= timedelta(seconds=lifecycle.COLLECT_SECONDS + 10)
    collected = conditions.find(server.session.status.conditions, "Collected")
    assert (collected.status, collected.reason) == ("False", "NotSeen")


def test_an_observation_that_never_succeeds_does_not_hold_the_end_up() -> None:
    """A server that answers but cannot be observed is left after the same time."""
    server = running(slot=Slot(end=START + HOUR))
    server.collects = False
    server.until(S.STOPPING)
    assert server.until(*TERMINAL) is S.COMPLETED


def test_a_hanging_server_keeps_its_capacity_taken() -> None:
    """Nothing is given back while the lab may still exist, however long that takes."""
    server = running(slot=Slot(end=START + HOUR))
    server.hangs = True
    server.until(S.STOPPING)
    for _ in range(500):
        server.step()
    assert server.session.status.phase is S.STOPPING
    assert server.releases == 0
    server.dead = True
    assert server.until(*TERMINAL) is S.COMPLETED
    assert server.releases == 1


def test_nodes_that_may_run_are_never_wiped() -> None:
    """A stopped lab whose nodes could not be counted is asked about again, not wiped."""
    lab = LabStatus(title="t", marker="u-1", id="l-1", state="STOPPED", nodes=2)
    for active in (None, 2):
        seen = lifecycle.SessionObservation(looked=True, lab=lab, active=active, converged=True)
        step = lifecycle.decide(session(S.STOPPING, lab=lab), seen, START)
        assert step.action is None


def test_a_session_without_capacity_expires_with_the_reason() -> None:
    """A slot that nobody could serve ends as EXPIRED after its grace, not before."""
    start = START + HOUR
    waiting = session(spec={"slot": Slot(start=start, end=start + HOUR)})
    grace = TimeBudget().grace
    early = lifecycle.decide(
        waiting, lifecycle.SessionObservation(), start + timedelta(seconds=grace - 1)
    )
    late = lifecycle.decide(
        waiting, lifecycle.SessionObservation(), start + timedelta(seconds=grace)
    )
    assert (early.status.phase, late.status.phase) == (S.PENDING, S.EXPIRED)
    assert "no capacity" in late.status.message


def test_a_lab_that_never_boots_fails_and_is_taken_down() -> None:
    """The boot budget ends in FAILED, and only after the lab is gone."""
    server = Server(session())
    server.bind()
    server.until(S.INSTANTIATING)
    for _ in range(5):
        server.step()
        server.since = server.now
    while server.session.status.phase is S.INSTANTIATING:
        server.step()
        server.since = server.now
    assert server.session.status.reason == "BootTimeout"
    assert server.until(*TERMINAL) is S.FAILED
    assert server.state is None


def test_a_slot_that_ends_before_ready_expires() -> None:
    """A session that was never ready within its slot is EXPIRED after its teardown."""
    server = Server(session(spec={"slot": Slot(end=START + timedelta(seconds=10))}))
    server.bind()
    assert server.until(*TERMINAL) is S.EXPIRED
    assert server.state is None


def test_a_future_slot_waits_for_its_head_start_and_its_start() -> None:
    """The lab is brought up ahead of the slot, and the time counts from the slot's start."""
    start = START + timedelta(hours=3)
    server = Server(session(spec={"slot": Slot(start=start)}))
    server.bind()
    server.until(S.INSTANTIATING)
    lead = timedelta(seconds=TimeBudget().lead)
    assert start - lead <= server.now <= start
    server.until(S.RUNNING)
    assert server.now >= start
    assert server.session.status.end == start + HOUR


@settings(max_examples=settings.default.max_examples // 5)
@given(st.integers(0, 3000), st.integers(60, 900))
def test_no_wait_is_longer_than_until_the_next_instant_of_the_slot(begin: int, length: int) -> None:
    """Who waits for head start, start or end is looked at then, and does not sleep over it."""
    start = START + timedelta(seconds=begin)
    end = start + timedelta(seconds=length)
    server = Server(session(spec={"slot": Slot(start=start, end=end)}))
    server.bind()
    lead = timedelta(seconds=TimeBudget().lead)
    waits_for = {S.SCHEDULED: start - lead, S.READY: start, S.RUNNING: end}
    while (phase := server.session.status.phase) not in {S.COLLECTING, *TERMINAL}:
        before = server.now
        server.step()
        assert not before < waits_for.get(phase, before) < server.now


def test_a_slot_stays_out_while_its_room_is_held_and_moves_in_time() -> None:
    """It says who holds the room, waits five minutes, then queues again; no placement is lost."""
    held = Reservation(holder="w1", amounts=Amounts(cpu_milli=1000), start=START)
    most = lifecycle.PLACEMENTS
    before = session(S.SCHEDULED, worker="w1", placements=most, reservation=held)
    told = "w1 lacks 4 CPU; past their end and still there: s-late"
    for may in (True, False):
        seen = lifecycle.SessionObservation(room_held=told, definition=definition(replaces=may))
        soon = lifecycle.decide(before, seen, START + timedelta(minutes=4))
        assert (soon.status.phase, soon.action, soon.release) == (S.SCHEDULED, None, False)
        assert "s-late" in soon.status.message
        turn = conditions.find(soon.status.conditions, "StartTurn")
        assert turn is not None
        assert (turn.status, turn.reason) == ("False", "RoomHeld")
        waiting = msgspec.structs.replace(before, status=soon.status)
        late = lifecycle.decide(waiting, seen, START + timedelta(minutes=6))
        assert (late.status.phase, late.release) == (S.PENDING, True)
        assert (late.status.placements, late.status.worker) == (most - 1, None)
        assert conditions.find(late.status.conditions, "StartTurn") is None
        free = lifecycle.decide(
            waiting, lifecycle.SessionObservation(), START + timedelta(minutes=4)
        )
        assert free.status.phase is S.INSTANTIATING
        assert conditions.find(free.status.conditions, "StartTurn") is None


@pytest.mark.parametrize("may", [True, False])
def test_what_is_only_booked_leaves_a_worker_on_which_nothing_would_start(may: bool) -> None:
    """At once, though no worker was lost: no placement is counted, and a lab that is up stays."""
    held = Reservation(holder="w1", amounts=Amounts(cpu_milli=1000), start=START)
    booked = session(S.SCHEDULED, worker="w1", placements=lifecycle.PLACEMENTS, reservation=held)
    told = "InstanceChecksPassed: the provider's system check fails"
    seen = lifecycle.SessionObservation(host_unfit=told, definition=definition(replaces=may))
    moved = lifecycle.decide(booked, seen, START)
    assert (moved.status.phase, moved.release) == (S.PENDING, True)
    assert (moved.status.reason, moved.status.worker) == ("WorkerUnfit", None)
    assert moved.status.placements == lifecycle.PLACEMENTS - 1
    assert told in moved.status.message
    up = running().session
    assert lifecycle.decide(up, seen, START).status.phase is S.RUNNING


def test_extending_moves_the_end() -> None:
    """A later end in the spec keeps the session running until then."""
    server = running(slot=Slot(end=START + HOUR))
    end = START + 3 * HOUR
    server.want(slot=Slot(end=end))
    server.step()
    assert server.session.status.end == end
    server.until(S.COLLECTING)
    assert server.now >= end


def test_shortening_ends_at_once() -> None:
    """An end that was moved into the past ends the session."""
    server = running(slot=Slot(end=START + HOUR))
    server.want(slot=Slot(end=server.now))
    server.step()
    assert server.session.status.phase is S.COLLECTING
