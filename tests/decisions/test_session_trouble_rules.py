"""What a session does when its lab, its worker or its server fails it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, Server, definition, session
from session_records import brought_to, running, sessions

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import phases
from labfleet.resources import conditions
from labfleet.resources.session import (
    TERMINAL,
    Cancellation,
    LabStatus,
    PortAllocation,
    Session,
    SessionPhase,
    Slot,
)
from labfleet.resources.session_conditions import PhaseReason

S = SessionPhase
LIVE = [phase for phase in S if phase not in TERMINAL]
HOUR = timedelta(hours=1)
LAB_STATES = ["DEFINED_ON_CORE", "STARTED", "STOPPED", "QUEUED", None]
instants = st.integers(-40_000, 40_000).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


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
        seen = lifecycle.SessionObservation(looked=True, lab=lab, converged=True, ports_open=answer)
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


def looking(lab: LabStatus, **more: object) -> lifecycle.SessionObservation:
    """Return a clear sight of a lab with a budget of ten minutes."""
    return lifecycle.SessionObservation(looked=True, lab=lab, converged=False, **more)


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
    seen = lifecycle.SessionObservation(looked=True, lab=up, converged=True)
    step = lifecycle.decide(session(S.INSTANTIATING, lab=up), seen, START + HOUR)
    assert step.status.phase is S.READY


def test_ports_that_stay_silent_end_in_a_named_failure() -> None:
    """Booted nodes whose ports never answer fail the session with the ports' names."""
    up = booting(3, START)
    port = PortAllocation(name="PC_serial", node="PC", kind="serial", number=5000)
    seen = lifecycle.SessionObservation(
        looked=True, lab=up, converged=True, ports_open=False,
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
    step = lifecycle.decide(made, lifecycle.SessionObservation(host_dead=True), START)
    assert step.status.phase is S.COMPLETED
    assert [each.type for each in step.status.conditions] == ["Collected"]


@pytest.mark.parametrize("phase", [S.INSTANTIATING, S.READY])
@pytest.mark.parametrize(
    ("lost", "why", "said"),
    [
        ("host_lost", True, "WorkerLost"),
        ("forced_out", PhaseReason.DRAINED, "Drained"),
        ("forced_out", PhaseReason.LICENCE_RETURNED, "LicenceReturned"),
    ],
)
def test_a_session_that_has_not_begun_moves_when_its_definition_allows(
    phase: SessionPhase, lost: str, why: Any, said: str
) -> None:
    """Its lab goes first, then it queues again; a definition that says fail fails it instead."""
    before = session(phase, worker="w1", placements=1, lab=booting(1))
    before = msgspec.structs.replace(
        before, spec=msgspec.structs.replace(before.spec, slot=Slot(start=START + HOUR))
    )
    for may, outcome in ((True, S.PENDING), (False, S.FAILED)):
        seen = looking(booting(1), definition=definition(replaces=may), **{lost: why})
        step = lifecycle.decide(before, seen, START)
        assert (step.status.phase, step.status.outcome) == (S.STOPPING, outcome)
        assert not step.release
        ended = msgspec.structs.replace(before, status=step.status)
        gone = lifecycle.SessionObservation(
            looked=True, lab=None, definition=definition(replaces=may)
        )
        last = lifecycle.decide(ended, gone, START)
        assert (last.status.phase, last.release) == (outcome, True)
        assert last.status.worker == (None if may else "w1")
        assert last.status.reason == said


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (PhaseReason.DRAINED, "its worker was drained by force"),
        (PhaseReason.LICENCE_RETURNED, "its worker gave its licence back by force"),
    ],
)
def test_a_session_that_is_forced_out_fails_with_what_was_done_to_its_worker(
    why: PhaseReason, said: str
) -> None:
    """Nobody looks for a drain that nobody asked for."""
    before = session(S.RUNNING, worker="w1", lab=booting(1))
    seen = looking(booting(1), definition=definition(replaces=False), forced_out=why)
    step = lifecycle.decide(before, seen, START)
    assert (step.status.outcome, step.status.reason, step.status.message) == (S.FAILED, why, said)


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
    step = lifecycle.decide(before, lifecycle.SessionObservation(looked=True, lab=None), START)
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
    seen = lifecycle.SessionObservation(
        looked=True, lab=None if dead else booting(), host_dead=dead, host_lost=lost,
        forced_out=PhaseReason.DRAINED if forced else None,
    )  # fmt: skip
    step = lifecycle.decide(before, seen, START)
    if begun:
        assert step.status.phase is not S.PENDING
        assert step.status.outcome is not S.PENDING
