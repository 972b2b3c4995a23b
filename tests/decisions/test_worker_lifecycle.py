"""The worker's life: total, inside its table, and honest about machine, sessions and licence."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, Cloud, check_worker, machine, worker

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.worker import (
    FINALIZER_INSTANCE,
    FINALIZER_LICENCE,
    Drain,
    Ec2Status,
    Health,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
EC2_STATES = ["pending", "running", "stopping", "stopped", "shutting-down", "terminated", None]
STAGES = ["unreachable", "refused", "bad_gateway", "not_ready", "ready", None]
REASONS = ["BootTimeout", "StoppedOutside", "InstanceTerminated", "LaunchTimeout", None]
LIVE = [phase for phase in P if phase is not P.TERMINATED]
instants = st.integers(-40_000, 0).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


@st.composite
def ec2s(draw: st.DrawFn) -> Ec2Status:
    """Any instance."""
    return Ec2Status(
        instance_id=draw(st.sampled_from(["i-1", None])),
        state=draw(st.sampled_from(EC2_STATES)),
        public_ip=draw(st.sampled_from(["127.0.0.2", None])),
        absent_since=draw(st.none() | instants),
    )


@st.composite
def licences(draw: st.DrawFn) -> LicenceStatus:
    """Any licence."""
    words = ["NOT_REGISTERED", "IN_PROGRESS", "COMPLETED", "FAILED", None]
    return LicenceStatus(
        registration=draw(st.sampled_from(words)),
        registered=draw(maybe),
        licensed=draw(maybe),
        node_capacity=draw(st.sampled_from([None, 5, 200])),
    )


@st.composite
def workers(draw: st.DrawFn) -> Worker:
    """Any record of a worker; PENDING alone never has an instance."""
    phase = draw(st.sampled_from(list(P)))
    reason = draw(st.sampled_from(REASONS))
    known = () if reason is None else conditions.put((), "Failed", "True", reason, now=START)
    status = WorkerStatus(
        phase=phase,
        phase_since=draw(st.none() | instants),
        ec2=Ec2Status() if phase is P.PENDING else draw(ec2s()),
        licence=draw(licences()),
        conditions=known,
        failed_checks=draw(st.integers(0, 5)),
        observed_generation=draw(st.integers(0, 1)),
    )
    drain = draw(st.sampled_from([None, Drain(deadline=START, force=True)]))
    licensed, on_stop = draw(st.booleans()), draw(st.sampled_from(["keep", "return"]))
    made = worker(
        status,
        desired=draw(st.sampled_from(["Ready", "Stopped", "Terminated"])),
        cordoned=draw(st.booleans()),
        drain=drain,
        machine=machine(licensed=licensed, on_stop=on_stop),
    )
    promises = draw(st.sets(st.sampled_from([FINALIZER_INSTANCE, FINALIZER_LICENCE])))
    ended = START if draw(st.booleans()) else None
    meta = msgspec.structs.replace(
        made.metadata, finalizers=tuple(sorted(promises)), deletion_timestamp=ended
    )
    return msgspec.structs.replace(made, metadata=meta)


@st.composite
def sights(draw: st.DrawFn) -> lifecycle.Seen:
    """Any observation."""
    return lifecycle.Seen(
        ec2=draw(st.none() | ec2s()),
        absent=draw(st.booleans()),
        stage=draw(st.sampled_from(STAGES)),
        login_refused=draw(st.sampled_from([None, "denied"])),
        licence=draw(st.none() | licences()),
        refused=draw(st.sampled_from([None, "no such type"])),
        nodes_running=draw(st.booleans()),
        cloud_told=draw(st.booleans()),
        sessions=draw(st.integers(0, 3)),
        has_token=draw(st.booleans()),
        wanted_nodes=draw(st.sampled_from([None, 200])),
        trouble=draw(st.sampled_from(["", "EC2: throttled"])),
    )


@settings(max_examples=1500, deadline=None)
@given(workers(), sights())
def test_any_worker_and_any_sight_have_a_lawful_next_step(
    before: Worker, seen: lifecycle.Seen
) -> None:
    """decide is total and never breaks a rule, whatever is recorded and whatever is seen."""
    step = lifecycle.decide(before, seen, START)
    check_worker(before, seen, step, START)
    assert step.again > 0
    assert step.status.summary == phases.coarse(step.status.phase) or (
        step.status.phase is before.status.phase
    )


@settings(max_examples=300, deadline=None)
@given(workers(), sights())
def test_deciding_is_repeatable(before: Worker, seen: lifecycle.Seen) -> None:
    """The same record and the same sight give the same step."""
    assert lifecycle.decide(before, seen, START) == lifecycle.decide(before, seen, START)


def born(**spec: object) -> Cloud:
    return Cloud(worker(**spec))


def brought_to(phase: WorkerPhase, *, licensed: bool = True) -> Cloud:
    """A world whose worker came to a phase by living, not by being written there."""
    cloud = born(machine=machine(licensed=licensed))
    if phase is P.FAILED:
        cloud.until(P.STARTING)
        cloud.broken = True
        cloud.until(P.FAILED)
        cloud.broken = False
    elif phase is P.READY_UNLICENSED:
        cloud.want(machine=machine(licensed=False))
        cloud.until(phase)
    elif phase is P.ACTIVE:
        cloud.until(P.READY, P.READY_UNLICENSED)
        cloud.sessions = 2
        cloud.until(phase)
    elif phase in phases.ENDING:
        cloud.until(P.READY, P.READY_UNLICENSED)
        wanted = "Stopped" if phase in {P.STOPPING, P.STOPPED} else "Terminated"
        cloud.want(desired=wanted)
        cloud.until(phase)
    else:
        cloud.until(phase)
    return cloud


UNLICENSED = [each for each in LIVE if each not in {P.LICENSING, P.READY, P.UNLICENSING}]


@pytest.mark.parametrize("phase", list(P))
def test_every_phase_is_reached_by_living(phase: WorkerPhase) -> None:
    """Some sequence of sights leads from PENDING to each phase."""
    assert brought_to(phase).worker.status.phase is phase


@pytest.mark.parametrize(
    ("phase", "licensed"),
    [*((each, True) for each in LIVE), *((each, False) for each in UNLICENSED)],
)
def test_termination_is_honoured_from_every_live_phase(phase: WorkerPhase, licensed: bool) -> None:
    """In a fair world a worker that shall end ends, with nothing left and no leak."""
    cloud = brought_to(phase, licensed=licensed)
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert cloud.state in {None, "terminated"}
    assert cloud.worker.metadata.finalizers == ()
    assert cloud.registration == "NOT_REGISTERED"
    assert cloud.worker.status.licence.leak is None


@pytest.mark.parametrize("phase", [each for each in LIVE if each is not P.PENDING])
def test_stopping_is_honoured_from_every_live_phase(phase: WorkerPhase) -> None:
    """In a fair world a worker that shall stop stops, or is past stopping."""
    cloud = brought_to(phase)
    cloud.want(desired="Stopped")
    cloud.until(P.STOPPED, P.TERMINATED)
    assert cloud.state in {"stopped", "terminated", None}


@pytest.mark.parametrize("phase", [P.STOPPED, P.FAILED, P.DRAINING, P.STOPPING, P.ACTIVE])
def test_ready_is_honoured_again(phase: WorkerPhase) -> None:
    """A worker that shall be ready again comes back, from rest, failure and half-way down."""
    cloud = brought_to(phase)
    cloud.want(desired="Ready", drain=None)
    assert cloud.until(P.READY, P.ACTIVE) in phases.HOSTING
    assert cloud.launches == 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["Ready", "Stopped", "Terminated"]), max_size=4),
    st.lists(st.integers(1, 60), min_size=4, max_size=4),
    st.integers(0, 3),
    st.booleans(),
)
def test_any_change_of_mind_still_ends(
    minds: list[str], gaps: list[int], sessions: int, licensed: bool
) -> None:
    """Whatever was wanted before, and however long, termination comes in the end."""
    cloud = born(machine=machine(licensed=licensed))
    for mind, gap in zip(minds, gaps, strict=False):
        cloud.want(desired=mind)
        for _ in range(gap):
            cloud.step()
        if cloud.worker.status.phase in phases.HOSTING:
            cloud.sessions = sessions
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert cloud.state in {None, "terminated"}
    assert cloud.worker.metadata.finalizers == ()


def test_a_licence_asked_back_while_stopping_is_returned_after_a_start() -> None:
    """A licensed worker that is stopping when its end is asked for is started to return it."""
    cloud = brought_to(P.STOPPING)
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert P.STARTING in cloud.trail[cloud.trail.index(P.STOPPING) :]
    assert cloud.registration == "NOT_REGISTERED"


def test_a_registration_under_way_is_not_taken_for_none() -> None:
    """A worker that ends while it registers waits for the outcome and gives it back."""
    cloud = brought_to(P.LICENSING)
    cloud.registration = "IN_PROGRESS"
    cloud.want(desired="Terminated")
    seen = registering()
    cloud.step()
    step = lifecycle.decide(cloud.worker, seen, cloud.now)
    assert FINALIZER_LICENCE in step.finalizers
    cloud.until(P.TERMINATED)
    assert cloud.registration == "NOT_REGISTERED"


def registering() -> lifecycle.Seen:
    """What is seen of a server whose registration is under way."""
    found = LicenceStatus(registration="IN_PROGRESS", registered=False, licensed=False)
    ec2 = Ec2Status(instance_id="i-1", state="running", public_ip="127.0.0.2")
    return lifecycle.Seen(ec2=ec2, stage="ready", licence=found, has_token=True)


def test_running_nodes_are_stopped_before_the_licence_goes() -> None:
    """HTTP 400 on deregistration stops the labs first."""
    cloud = brought_to(P.READY)
    cloud.nodes_run = True
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert not cloud.nodes_run
    assert cloud.worker.status.licence.leak is None


def test_a_cloud_that_was_not_told_is_a_leak_on_record() -> None:
    """HTTP 202 on deregistration ends the worker and records the leak."""
    cloud = brought_to(P.READY)
    cloud.cloud_told = False
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert "202" in (cloud.worker.status.licence.leak or "")
    assert conditions.is_true(cloud.worker.status.conditions, "LicenceLeaked")


def test_a_cloud_that_was_not_told_is_kept_when_the_next_look_fails() -> None:
    """The leak is recorded at once, not when the licence is next seen."""
    cloud = brought_to(P.UNLICENSING)
    step = lifecycle.decide(cloud.worker, lifecycle.Seen(cloud_told=False), cloud.now)
    assert step.status.licence.leak is not None


@pytest.mark.parametrize("phase", [P.READY, P.STOPPED, P.FAILED])
def test_a_server_that_never_answers_again_ends_with_a_leak(phase: WorkerPhase) -> None:
    """A licence that cannot be returned in time holds nothing up for ever."""
    cloud = brought_to(P.READY)
    if phase is P.STOPPED:
        cloud.want(desired="Stopped")
        cloud.until(P.STOPPED)
    if phase is P.FAILED:
        cloud.become("stopping")
        cloud.until(P.FAILED)
    cloud.broken = True
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert cloud.worker.status.licence.leak is not None


def test_a_start_that_never_succeeds_is_given_up() -> None:
    """An instance that EC2 will not start (no capacity) fails after the boot limit."""
    cloud = brought_to(P.STOPPED)
    cloud.do_start = lambda: None
    cloud.want(desired="Ready")
    assert cloud.until(P.FAILED) is P.FAILED


def test_sessions_on_a_dead_server_do_not_hold_the_machine_for_ever() -> None:
    """Sessions that cannot be ended on a server that is out of reach end with its machine."""
    cloud = brought_to(P.ACTIVE)
    cloud.become("stopping")
    cloud.until(P.FAILED)
    cloud.broken = True
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert cloud.sessions == 0


def test_sessions_of_a_failed_worker_are_drained_once_it_answers() -> None:
    """A failed worker that hosts sessions is started, drained and only then terminated."""
    cloud = brought_to(P.ACTIVE)
    cloud.become("stopping")
    cloud.until(P.FAILED)
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    assert P.DRAINING in cloud.trail
    assert cloud.worker.status.licence.leak is None


@pytest.mark.parametrize("state", ["stopped", "running"])
def test_an_outside_stop_is_mended(state: str) -> None:
    """A worker stopped from outside comes back by itself, also when somebody starts it."""
    cloud = brought_to(P.READY)
    cloud.become("stopped")
    cloud.until(P.FAILED)
    cloud.become(state)
    cloud.until(P.READY)
    assert not conditions.is_true(cloud.worker.status.conditions, "Failed")


def test_an_outside_start_is_undone() -> None:
    """A worker that shall be stopped is stopped again when somebody starts its instance."""
    cloud = brought_to(P.STOPPED)
    cloud.become("running")
    for _ in range(10):
        cloud.step()
    assert cloud.state == "stopped"


@pytest.mark.parametrize("phase", [P.READY, P.STARTING, P.DRAINING, P.STOPPED])
def test_a_machine_ended_from_outside_fails_the_worker(phase: WorkerPhase) -> None:
    """An instance terminated behind our back is FAILED with its leak, and ends when asked."""
    cloud = brought_to(phase)
    cloud.become("terminated")
    cloud.until(P.FAILED, P.TERMINATED)
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    held = cloud.registration == "COMPLETED"
    assert (cloud.worker.status.licence.leak is not None) == held


def test_an_unlisted_machine_is_given_time() -> None:
    """NotFound is believed only after a minute (EC2 is eventually consistent)."""
    cloud = brought_to(P.TERMINATING_EC2)
    seen = lifecycle.Seen(absent=True)
    step = lifecycle.decide(cloud.worker, seen, START)
    assert step.status.phase is P.TERMINATING_EC2
    later = msgspec.structs.replace(cloud.worker, status=step.status)
    early = lifecycle.decide(later, seen, START + timedelta(seconds=59))
    assert early.status.phase is P.TERMINATING_EC2
    after = lifecycle.decide(later, seen, START + timedelta(seconds=70))
    assert after.status.phase is P.TERMINATED


def test_errors_are_not_absence() -> None:
    """An EC2 that cannot be asked never ends a worker, however long it lasts."""
    cloud = brought_to(P.TERMINATING_EC2)
    late = cloud.now + timedelta(days=2)
    step = lifecycle.decide(cloud.worker, lifecycle.Seen(trouble="EC2: throttled"), late)
    assert step.status.phase is P.TERMINATING_EC2
    assert step.action is None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.sampled_from(["unreachable", "refused", "bad_gateway", None]))
def test_failed_checks_never_change_the_phase(checks: int, stage: str | None) -> None:
    """A worker that hosts labs stays where it is, however often its check fails."""
    cloud = brought_to(P.ACTIVE)
    ec2 = Ec2Status(instance_id="i-1", state="running", public_ip="127.0.0.2")
    seen = lifecycle.Seen(ec2=ec2, stage=stage, sessions=2, trouble="timed out")
    for _ in range(checks):
        step = lifecycle.decide(cloud.worker, seen, cloud.now)
        cloud.worker = msgspec.structs.replace(cloud.worker, status=step.status)
    assert cloud.worker.status.phase is P.ACTIVE
    tolerated = checks < lifecycle.TOLERATED_CHECKS
    assert cloud.worker.status.health is (Health.DEGRADED if tolerated else Health.UNREACHABLE)


def test_a_drain_waits_says_when_it_is_late_and_can_be_cancelled() -> None:
    """Draining keeps sessions past its deadline, says so, and gives way to a cancel."""
    cloud = brought_to(P.ACTIVE)
    deadline = cloud.now + timedelta(minutes=10)
    cloud.want(drain=Drain(deadline=deadline))
    step = lifecycle.decide(cloud.worker, cloud.see(), cloud.now)
    assert step.status.phase is P.DRAINING
    cloud.worker = msgspec.structs.replace(cloud.worker, status=step.status)
    late = lifecycle.decide(cloud.worker, cloud.see(), deadline + timedelta(seconds=1))
    drained = conditions.find(late.status.conditions, "Drained")
    assert (late.status.phase, drained.reason) == (P.DRAINING, "Late")
    cloud.want(drain=None)
    assert lifecycle.decide(cloud.worker, cloud.see(), cloud.now).status.phase is P.ACTIVE


def test_late_is_said_and_taken_back() -> None:
    """A stop that takes too long raises Late; the next phase drops it."""
    cloud = brought_to(P.STOPPING)
    cloud.become("stopping")
    late = cloud.now + timedelta(hours=2)
    step = lifecycle.decide(cloud.worker, cloud.see(), late)
    assert conditions.is_true(step.status.conditions, "Late")
    cloud.worker = msgspec.structs.replace(cloud.worker, status=step.status)
    cloud.become("stopped")
    assert cloud.until(P.STOPPED) is P.STOPPED
    assert conditions.find(cloud.worker.status.conditions, "Late") is None


@pytest.mark.parametrize(
    ("phase", "state", "limit"),
    [
        (P.PROVISIONING_EC2, "pending", 1800),
        (P.STARTING, "pending", 1800),
        (P.STARTING, "running", 1500),
    ],
)
def test_the_way_up_has_deadlines(phase: WorkerPhase, state: str, limit: int) -> None:
    """A machine or a boot that takes longer than its limit ends in FAILED, not in waiting."""
    cloud = brought_to(phase)
    ec2 = Ec2Status(instance_id="i-1", state=state)
    seen = lifecycle.Seen(ec2=ec2)
    since = cloud.worker.status.phase_since
    assert since is not None
    inside = lifecycle.decide(cloud.worker, seen, since + timedelta(seconds=limit))
    beyond = lifecycle.decide(cloud.worker, seen, since + timedelta(seconds=limit + 1))
    assert (inside.status.phase, beyond.status.phase) == (phase, P.FAILED)


def test_a_boot_counts_from_the_moment_that_the_machine_runs() -> None:
    """A started machine of metal may be pending for 25 minutes before CML begins (case 37)."""
    cloud = brought_to(P.STARTING)
    began = cloud.worker.status.phase_since
    assert began is not None
    pending, running = (
        lifecycle.Seen(ec2=Ec2Status(instance_id="i-1", state=each))
        for each in ("pending", "running")
    )
    at = began
    for seen, minutes in ((pending, 1), (pending, 25), (running, 26), (running, 50)):
        at = began + timedelta(minutes=minutes)
        step = lifecycle.decide(cloud.worker, seen, at)
        assert step.status.phase is P.STARTING, minutes
        assert conditions.find(step.status.conditions, "PhaseStuck") is None
        cloud.worker = msgspec.structs.replace(cloud.worker, status=step.status)
    late = lifecycle.decide(cloud.worker, running, at + timedelta(minutes=2))
    assert late.status.phase is P.FAILED


def test_a_failed_worker_is_tried_again_after_a_new_spec_only() -> None:
    """Waiting does not retry; a new generation does, with a fresh launch when nothing is left."""
    cloud = brought_to(P.READY)
    cloud.become("terminated")
    cloud.until(P.FAILED)
    for _ in range(5):
        cloud.step()
    assert cloud.worker.status.phase is P.FAILED
    cloud.registration = "NOT_REGISTERED"
    cloud.want(cordoned=False)
    cloud.until(P.READY)
    assert cloud.launches == 2
    assert cloud.worker.status.attempt == 2


def test_the_deletion_of_a_worker_is_its_termination() -> None:
    """A worker with a deletion timestamp ends whatever its spec says."""
    cloud = brought_to(P.ACTIVE)
    meta = msgspec.structs.replace(cloud.worker.metadata, deletion_timestamp=cloud.now)
    cloud.worker = msgspec.structs.replace(cloud.worker, metadata=meta)
    cloud.until(P.TERMINATED)
    assert cloud.worker.spec.desired == "Ready"
    assert cloud.worker.metadata.finalizers == ()


def test_the_licence_goes_back_on_stop_when_the_template_says_so() -> None:
    """onStop return gives the licence back before a stop; keep keeps it over the restart."""
    for on_stop, left in (("return", "NOT_REGISTERED"), ("keep", "COMPLETED")):
        cloud = born(machine=machine(on_stop=on_stop))
        cloud.until(P.READY)
        cloud.want(desired="Stopped")
        cloud.until(P.STOPPED)
        assert cloud.registration == left


def test_less_capacity_than_reserved_is_said_and_breaks_nothing() -> None:
    """A worker whose capacity shrank is OverCommitted, stays in its phase, and recovers."""
    capacity = Amounts(cpu_milli=4000, memory_mib=8192, labs=5, nodes=20, ports=10)
    made = worker(WorkerStatus(phase=P.ACTIVE, capacity=capacity))
    full = lifecycle.Seen(stage="ready", sessions=1, booked=Amounts(cpu_milli=5000))
    step = lifecycle.decide(made, full, START)
    assert step.status.phase is P.ACTIVE
    assert conditions.is_true(step.status.conditions, "OverCommitted")
    fits = lifecycle.Seen(stage="ready", sessions=1, booked=Amounts(cpu_milli=4000))
    again = msgspec.structs.replace(made, status=step.status)
    step = lifecycle.decide(again, fits, START)
    assert not conditions.is_true(step.status.conditions, "OverCommitted")
