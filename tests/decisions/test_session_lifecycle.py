"""The session's life: total, inside its table, and never giving back what may still be used."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, Server, check_session, session

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    Cancellation,
    LabStatus,
    PortAllocation,
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


@st.composite
def labs(draw: st.DrawFn) -> LabStatus:
    """Any lab."""
    return LabStatus(
        title="t",
        marker="u-1",
        id=draw(st.sampled_from(["l-1", None])),
        state=draw(st.sampled_from(LAB_STATES)),
        nodes=draw(st.integers(0, 3)),
        booted=draw(st.integers(0, 3)),
    )


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    """Any slot."""
    start, end = draw(st.none() | instants), draw(st.none() | instants)
    if start is not None and end is not None and end <= start:
        end = start + HOUR
    return Slot(start=start, end=end)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Any record of a session."""
    phase = draw(st.sampled_from(list(S)))
    collected = draw(st.booleans())
    known = conditions.put((), "Collected", "True", "Observed", now=START) if collected else ()
    port = PortAllocation(name="p", node="r1", kind="serial", number=5000)
    made = session(
        phase,
        spec={
            "slot": draw(slots()),
            "cancel": draw(st.sampled_from([None, Cancellation(at=START)])),
            "observe_requested": draw(st.none() | instants),
        },
        end=draw(st.none() | instants),
        lab=draw(st.none() | labs()),
        ports=draw(st.sampled_from([(), (port,)])),
        placements=draw(st.integers(0, 6)),
        conditions=known,
        outcome=draw(st.sampled_from([None, *TERMINAL])) if phase is S.STOPPING else None,
    )
    status = msgspec.structs.replace(made.status, phase_since=draw(st.none() | instants))
    held = (FINALIZER_LAB,) if draw(st.booleans()) else ()
    ended = START if draw(st.booleans()) else None
    meta = msgspec.structs.replace(made.metadata, finalizers=held, deletion_timestamp=ended)
    return msgspec.structs.replace(made, status=status, metadata=meta)


@st.composite
def sights(draw: st.DrawFn) -> lifecycle.Seen:
    """Any observation."""
    looked = draw(st.booleans())
    return lifecycle.Seen(
        host_lost=draw(st.booleans()),
        host_dead=draw(st.booleans()),
        host_leaving=draw(st.booleans()),
        looked=looked,
        lab=draw(st.none() | labs()) if looked else None,
        active=draw(st.sampled_from([None, 0, 2])),
        converged=draw(maybe),
        ports_open=draw(maybe),
        refused=draw(st.sampled_from([None, "no such image"])),
        forced_out=draw(st.booleans()),
        room_held=draw(st.sampled_from(["", "w1 lacks 1 CPU"])),
    )


@settings(max_examples=1500, deadline=None)
@given(sessions(), sights())
def test_any_session_and_any_sight_have_a_lawful_next_step(
    before: Session, seen: lifecycle.Seen
) -> None:
    """decide is total and never breaks a rule, whatever is recorded and whatever is seen."""
    step = lifecycle.decide(before, seen, START)
    check_session(before, seen, step)
    assert step.again > 0


def running(**spec: object) -> Server:
    """A server whose session came to RUNNING by living."""
    server = Server(session(spec=spec))
    server.bind()
    server.until(S.RUNNING)
    return server


def brought_to(phase: SessionPhase) -> Server:
    """A server whose session came to a phase by living."""
    server = Server(session())
    if phase is S.PENDING:
        return server
    if phase is S.EXPIRED:
        server.now += lifecycle.ON_DEMAND_PATIENCE
    elif phase is S.CANCELLED:
        server.want(cancel=Cancellation(at=START))
    else:
        server.bind()
    server.refuses = phase is S.FAILED
    server.until(phase)
    return server


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


@settings(max_examples=200, deadline=None)
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
        seen = lifecycle.Seen(looked=True, lab=lab, active=active, converged=True)
        step = lifecycle.decide(session(S.STOPPING, lab=lab), seen, START)
        assert step.action is None


def test_a_session_without_capacity_expires_with_the_reason() -> None:
    """A slot that nobody could serve ends as EXPIRED after its grace, not before."""
    start = START + HOUR
    waiting = session(spec={"slot": Slot(start=start, end=start + HOUR)})
    grace = lifecycle.Seen().grace_seconds
    early = lifecycle.decide(waiting, lifecycle.Seen(), start + timedelta(seconds=grace - 1))
    late = lifecycle.decide(waiting, lifecycle.Seen(), start + timedelta(seconds=grace))
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
    lead = timedelta(seconds=lifecycle.Seen().lead_seconds)
    assert start - lead <= server.now <= start
    server.until(S.RUNNING)
    assert server.now >= start
    assert server.session.status.end == start + HOUR


def test_a_slot_stays_out_while_its_room_is_held_and_moves_in_time() -> None:
    """It says who holds the room, waits five minutes, then queues again; no placement is lost."""
    held = Reservation(holder="w1", amounts=Amounts(cpu_milli=1000), start=START)
    most = lifecycle.PLACEMENTS
    before = session(S.SCHEDULED, worker="w1", placements=most, reservation=held)
    told = "w1 lacks 4 CPU; past their end and still there: s-late"
    for may in (True, False):
        seen = lifecycle.Seen(room_held=told, may_replace=may)
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
        free = lifecycle.decide(waiting, lifecycle.Seen(), START + timedelta(minutes=4))
        assert free.status.phase is S.INSTANTIATING
        assert conditions.find(free.status.conditions, "StartTurn") is None


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


@pytest.mark.parametrize("phase", [S.READY, S.RUNNING])
def test_a_lab_deleted_from_outside_fails_its_session(phase: SessionPhase) -> None:
    """A lab that is not on its server any more ends its session with that reason."""
    server = brought_to(phase)
    server.state = None
    assert server.until(*TERMINAL) is S.FAILED
    assert server.session.status.reason == "LabDeletedOutside"


def test_a_hanging_server_does_not_fail_a_running_session() -> None:
    """Not seen is not gone: the session runs on until its time is over."""
    server = running(slot=Slot(end=START + HOUR))
    server.hangs = True
    for _ in range(20):
        server.step()
    assert server.session.status.phase is S.RUNNING
    found = conditions.find(server.session.status.conditions, "HostReachable")
    assert found.status == "Unknown"


@pytest.mark.parametrize("phase", [S.SCHEDULED, S.INSTANTIATING])
def test_a_lost_worker_means_another_placement_a_bounded_number_of_times(
    phase: SessionPhase,
) -> None:
    """Sessions that have not run yet are placed again, at most PLACEMENTS times in all."""
    server = Server(session())
    for _ in range(lifecycle.PLACEMENTS + 2):
        if server.session.status.phase is not S.PENDING:
            break
        server.dead = False
        server.bind()
        server.until(phase)
        server.dead = True
        server.until(S.PENDING, *TERMINAL)
        server.state = None
    assert server.session.status.phase is S.FAILED
    assert server.session.status.placements == lifecycle.PLACEMENTS
    assert server.releases == lifecycle.PLACEMENTS


def test_a_placement_given_up_leaves_nothing_behind() -> None:
    """A session that queues again holds no ports, no worker, no lab and no promise."""
    server = brought_to(S.INSTANTIATING)
    server.dead = True
    server.until(S.PENDING)
    status = server.session.status
    assert (status.ports, status.worker, status.lab, status.reservation) == ((), None, None, None)
    assert server.session.metadata.finalizers == ()


def test_a_refused_import_fails_with_the_servers_words() -> None:
    """A topology that CML will never take is FAILED, and its reason is told."""
    server = brought_to(S.FAILED)
    assert server.session.status.reason == "Refused"
    assert "no such image" in server.session.status.message


def test_ready_only_when_the_ports_answer() -> None:
    """Booted nodes are not enough: the ports must answer as a user would try them."""
    port = PortAllocation(name="p", node="r1", kind="serial", number=5000)
    lab = LabStatus(title="t", marker="u-1", id="l-1", state="STARTED", nodes=2, booted=2)
    rising = session(S.INSTANTIATING, ports=(port,))
    for answer, phase in ((None, S.INSTANTIATING), (False, S.INSTANTIATING), (True, S.READY)):
        seen = lifecycle.Seen(looked=True, lab=lab, converged=True, ports_open=answer)
        assert lifecycle.decide(rising, seen, START).status.phase is phase


def test_an_observation_on_request_is_made_once() -> None:
    """A request to observe is answered once while the session runs."""
    server = running(slot=Slot(end=START + HOUR))
    server.want(observe_requested=server.now)
    for _ in range(5):
        server.step()
    assert server.actions.count("observe") == 1


def test_every_bound_phase_leads_to_an_end() -> None:
    """No phase of the table is a dead end, and the ends are."""
    for phase in S:
        reached, waiting = set(), [phase]
        while waiting:
            at = waiting.pop()
            if at not in reached:
                reached.add(at)
                waiting += phases.EDGES[at]
        assert reached & TERMINAL
    assert all(phases.EDGES[end] == frozenset() for end in TERMINAL)


def booting(booted: int = 0, progress_at=None) -> LabStatus:
    """Return a started lab of three nodes."""
    return LabStatus(
        title="t", marker="u-1", id="l-1", state="STARTED", nodes=3, booted=booted,
        progress_at=progress_at,
    )  # fmt: skip


def looking(lab: LabStatus, **more: object) -> lifecycle.Seen:
    """Return a clear sight of a lab with a budget of ten minutes."""
    return lifecycle.Seen(looked=True, lab=lab, converged=False, boot_seconds=600, **more)


def test_the_absence_of_the_controller_is_no_fault_of_the_lab() -> None:
    """A boot that overran while nobody watched gets its whole budget from the return on."""
    made = session(S.INSTANTIATING, lab=booting(progress_at=START))
    back = START + HOUR
    seen = looking(booting(), watched_since=back)
    soon = lifecycle.decide(made, seen, back + timedelta(seconds=500))
    assert soon.status.phase is S.INSTANTIATING
    late = lifecycle.decide(made, seen, back + timedelta(seconds=700))
    assert (late.status.phase, late.status.reason) == (S.STOPPING, "BootTimeout")


def test_a_lab_that_comes_further_keeps_its_time() -> None:
    """The budget counts from the last node that booted, not from the import."""
    made = session(S.INSTANTIATING, lab=booting(0, START))
    step = lifecycle.decide(made, looking(booting(1)), START + timedelta(seconds=590))
    assert step.status.lab.progress_at == START + timedelta(seconds=590)
    made = session(S.INSTANTIATING, lab=step.status.lab)
    step = lifecycle.decide(made, looking(booting(1)), START + timedelta(seconds=1100))
    assert step.status.phase is S.INSTANTIATING
    step = lifecycle.decide(made, looking(booting(1)), START + timedelta(seconds=1200))
    assert step.status.reason == "BootTimeout"


def test_a_lab_that_is_up_is_never_called_late() -> None:
    """What booted while nobody looked is ready, however long that was."""
    up = booting(3, START)
    seen = lifecycle.Seen(looked=True, lab=up, converged=True, boot_seconds=600)
    step = lifecycle.decide(session(S.INSTANTIATING, lab=up), seen, START + HOUR)
    assert step.status.phase is S.READY


def test_ports_that_stay_silent_end_in_a_named_failure() -> None:
    """Booted nodes whose ports never answer fail the session with the ports' names."""
    up = booting(3, START)
    port = PortAllocation(name="PC_serial", node="PC", kind="serial", number=5000)
    seen = lifecycle.Seen(
        looked=True, lab=up, converged=True, boot_seconds=600, ports_open=False,
        ports_detail="PC_serial (tcp 5000)",
    )  # fmt: skip
    made = session(S.INSTANTIATING, lab=up, ports=(port,))
    step = lifecycle.decide(made, seen, START + HOUR)
    assert (step.status.phase, step.status.reason) == (S.STOPPING, "PortsSilent")
    assert "PC_serial" in step.status.message


def test_an_ended_session_says_nothing_of_a_lab_that_is_gone() -> None:
    """Facts about the running lab leave with it; what was collected stays."""
    facts = conditions.put((), "LabStarted", "True", "Booted", now=START)
    facts = conditions.put(facts, "Collected", "True", "Observed", now=START)
    made = session(S.STOPPING, lab=booting(3), conditions=facts, outcome=S.COMPLETED)
    step = lifecycle.decide(made, lifecycle.Seen(host_dead=True), START)
    assert step.status.phase is S.COMPLETED
    assert [each.type for each in step.status.conditions] == ["Collected"]


@pytest.mark.parametrize("phase", [S.INSTANTIATING, S.READY])
@pytest.mark.parametrize("lost", ["host_lost", "forced_out"])
def test_a_session_that_has_not_begun_moves_when_its_definition_allows(
    phase: SessionPhase, lost: str
) -> None:
    """Its lab goes first, then it queues again; a definition that says fail fails it instead."""
    before = session(phase, worker="w1", placements=1, lab=booting(1))
    before = msgspec.structs.replace(
        before, spec=msgspec.structs.replace(before.spec, slot=Slot(start=START + HOUR))
    )
    for may, outcome in ((True, S.PENDING), (False, S.FAILED)):
        seen = looking(booting(1), may_replace=may, **{lost: True})
        step = lifecycle.decide(before, seen, START)
        assert (step.status.phase, step.status.outcome) == (S.STOPPING, outcome)
        assert not step.release
        ended = msgspec.structs.replace(before, status=step.status)
        gone = lifecycle.Seen(looked=True, lab=None, may_replace=may)
        last = lifecycle.decide(ended, gone, START)
        assert (last.status.phase, last.release) == (outcome, True)
        assert last.status.worker == (None if may else "w1")
        assert last.status.reason == ("Drained" if lost == "forced_out" else "WorkerLost")


def test_a_session_moves_a_bounded_number_of_times() -> None:
    """The sixth worker that is lost under it fails it."""
    before = session(S.INSTANTIATING, worker="w1", placements=lifecycle.PLACEMENTS)
    step = lifecycle.decide(before, looking(booting(1), host_lost=True), START)
    assert step.status.outcome is S.FAILED


def test_a_cancelled_session_that_was_to_move_ends() -> None:
    """Somebody who cancels while the old lab is torn down gets no second one."""
    before = session(S.STOPPING, worker="w1", outcome=S.PENDING, reason="WorkerLost")
    cancel = Cancellation(at=START, by="ann")
    before = msgspec.structs.replace(
        before, spec=msgspec.structs.replace(before.spec, cancel=cancel)
    )
    step = lifecycle.decide(before, lifecycle.Seen(looked=True, lab=None), START)
    assert (step.status.phase, step.release) == (S.CANCELLED, True)


@given(sessions(), st.booleans(), st.booleans(), st.booleans())
def test_a_session_that_has_begun_is_never_placed_again(
    before: Session,
    dead: bool,
    lost: bool,
    forced: bool,
) -> None:
    """Somebody worked in it: an empty lab elsewhere would be a lie."""
    begun = before.status.phase in {S.RUNNING, S.COLLECTING}
    seen = lifecycle.Seen(
        looked=True, lab=None if dead else booting(), host_dead=dead, host_lost=lost,
        forced_out=forced,
    )  # fmt: skip
    step = lifecycle.decide(before, seen, START)
    if begun:
        assert step.status.phase is not S.PENDING
        assert step.status.outcome is not S.PENDING
