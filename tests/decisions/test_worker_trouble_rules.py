"""What a worker does when its machine, its checks or its limits fail it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, machine, worker
from worker_starts import born, brought_to

from labfleet.decisions import garbage
from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import MachineState, MachineStatus
from labfleet.resources.worker import (
    Drain,
    Health,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

P = WorkerPhase
STATES = ["booting", "running", "stopping", "stopped", "ending", "gone", None]
STAGES = ["unreachable", "untrusted", "refused", "bad_gateway", "not_ready", "ready", None]
REASONS = ["BootTimeout", "StoppedOutside", "InstanceTerminated", "LaunchTimeout", None]
LIVE = [phase for phase in P if phase is not P.TERMINATED]
instants = st.integers(-40_000, 0).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


@pytest.mark.parametrize("phase", [P.READY, P.STARTING, P.DRAINING, P.STOPPED])
def test_a_machine_ended_from_outside_fails_the_worker(phase: WorkerPhase) -> None:
    """An instance terminated behind our back is FAILED with its leak, and ends when asked."""
    cloud = brought_to(phase)
    cloud.become("gone")
    cloud.until(P.FAILED, P.TERMINATED)
    cloud.want(desired="Terminated")
    cloud.until(P.TERMINATED)
    held = cloud.registration == "COMPLETED"
    assert (cloud.worker.status.licence.leak is not None) == held


def test_an_unlisted_machine_is_given_time() -> None:
    """NotFound is believed only after a minute (EC2 is eventually consistent)."""
    cloud = brought_to(P.TERMINATING_EC2)
    seen = lifecycle.WorkerObservation(absent=True, absent_for=3600.0)
    step = lifecycle.decide(cloud.worker, seen, START)
    assert step.status.phase is P.TERMINATING_EC2
    later = msgspec.structs.replace(cloud.worker, status=step.status)
    early = lifecycle.decide(later, seen, START + timedelta(seconds=59))
    assert early.status.phase is P.TERMINATING_EC2
    after = lifecycle.decide(later, seen, START + timedelta(seconds=70))
    assert after.status.phase is P.TERMINATED


@pytest.mark.parametrize(
    ("counted", "ends"), [(None, False), (0.0, False), (15.0, False), (59.9, False), (60.0, True)]
)
def test_no_other_process_counts_a_minute(counted: float | None, ends: bool) -> None:
    """A machine that EC2 did not show was gone 15 s after its launch: a leader whose clock ran slow wrote since when."""
    cloud = brought_to(P.TERMINATING_EC2)
    seen = lifecycle.WorkerObservation(absent=True, absent_for=0.0)
    step = lifecycle.decide(cloud.worker, seen, START)
    later = msgspec.structs.replace(cloud.worker, status=step.status)
    again = lifecycle.WorkerObservation(absent=True, absent_for=counted)
    after = lifecycle.decide(later, again, START + timedelta(hours=2))
    assert (after.status.phase is P.TERMINATED) is ends


@pytest.mark.parametrize(
    ("shown", "counted", "told"),
    [("stopped", 59.9, False), ("stopped", 60.0, True), ("gone", 60.0, False)],
)
def test_a_failed_worker_says_that_its_machine_vanished(
    shown: MachineState, counted: float, told: bool
) -> None:
    """Once this process has missed it for a minute; what EC2 itself said to be gone is told already."""
    since = START - timedelta(hours=2)
    lost = MachineStatus(id="i-1", state=shown, absent_since=since)
    status = WorkerStatus(phase=P.FAILED, machine=lost, observed_generation=1)
    seen = lifecycle.WorkerObservation(absent=True, absent_for=counted)
    after = lifecycle.decide(worker(status), seen, START).status
    fact = conditions.find(after.conditions, WorkerCondition.EXTERNAL_CHANGE)
    assert (fact is not None and fact.reason == WorkerReason.TERMINATED) is told
    assert garbage.vanished(worker(after)) is (told or shown == "gone")


def test_errors_are_not_absence() -> None:
    """An EC2 that cannot be asked never ends a worker, however long it lasts."""
    cloud = brought_to(P.TERMINATING_EC2)
    late = cloud.now + timedelta(days=2)
    step = lifecycle.decide(
        cloud.worker, lifecycle.WorkerObservation(trouble="provider: throttled"), late
    )
    assert step.status.phase is P.TERMINATING_EC2
    assert step.action is None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.sampled_from(["unreachable", "refused", "bad_gateway", None]))
def test_failed_checks_never_change_the_phase(checks: int, stage: str | None) -> None:
    """A worker that hosts labs stays where it is, however often its check fails."""
    cloud = brought_to(P.ACTIVE)
    machine = MachineStatus(id="i-1", state="running", public_address="127.0.0.2")
    seen = lifecycle.WorkerObservation(
        machine=machine, stage=stage, sessions=2, trouble="timed out"
    )
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
    begun = lifecycle.decide(cloud.worker, cloud.see(), cloud.now)
    cloud.worker = msgspec.structs.replace(cloud.worker, status=begun.status)
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
        (P.PROVISIONING_EC2, "booting", 1800),
        (P.STARTING, "booting", 1800),
        (P.STARTING, "running", 1500),
    ],
)
def test_the_way_up_has_deadlines(phase: WorkerPhase, state: str, limit: int) -> None:
    """A machine or a boot that takes longer than its limit ends in FAILED, not in waiting."""
    cloud = brought_to(phase)
    machine = MachineStatus(id="i-1", state=state)
    seen = lifecycle.WorkerObservation(machine=machine)
    begun = lifecycle.decide(cloud.worker, seen, cloud.now)
    cloud.worker = msgspec.structs.replace(cloud.worker, status=begun.status)
    since = cloud.now
    inside = lifecycle.decide(cloud.worker, seen, since + timedelta(seconds=limit))
    beyond = lifecycle.decide(cloud.worker, seen, since + timedelta(seconds=limit + 1))
    assert (inside.status.phase, beyond.status.phase) == (phase, P.FAILED)


def test_a_boot_counts_from_the_moment_that_the_machine_runs() -> None:
    """Metal may be pending for 25 minutes before CML begins (facts/aws-bugs.md#case-37)."""
    cloud = brought_to(P.STARTING)
    began = cloud.worker.status.phase_since
    assert began is not None
    pending, running = (
        lifecycle.WorkerObservation(machine=MachineStatus(id="i-1", state=each))
        for each in ("booting", "running")
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
    cloud.become("gone")
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
    full = lifecycle.WorkerObservation(stage="ready", sessions=1, booked=Amounts(cpu_milli=5000))
    step = lifecycle.decide(made, full, START)
    assert step.status.phase is P.ACTIVE
    told = conditions.find(step.status.conditions, "OverCommitted")
    assert told is not None
    assert (told.status, told.measured.value, told.measured.unit) == ("True", 125.0, "percent")
    none = msgspec.structs.replace(full, booked=Amounts(labs=1, storage_mib=10))
    told = conditions.find(lifecycle.decide(made, none, START).status.conditions, "OverCommitted")
    assert (told.status, told.measured) == ("True", msgspec.UNSET)  # of nothing is no share
    fits = lifecycle.WorkerObservation(stage="ready", sessions=1, booked=Amounts(cpu_milli=4000))
    again = msgspec.structs.replace(made, status=step.status)
    step = lifecycle.decide(again, fits, START)
    assert not conditions.is_true(step.status.conditions, "OverCommitted")


@pytest.mark.parametrize("phase", sorted(set(P) - phases.WATCHED))
def test_nobody_is_healthy_whom_nobody_asks(phase: P) -> None:
    """Booting, stopping, ended: health is unknown, also where a store says Healthy still."""
    cloud = brought_to(phase, licensed=True)
    assert cloud.worker.status.health is Health.UNKNOWN
    status = msgspec.structs.replace(cloud.worker.status, health=Health.HEALTHY)
    cloud.worker = msgspec.structs.replace(cloud.worker, status=status)
    step = cloud.step()
    assert step.status.phase in phases.WATCHED or step.status.health is Health.UNKNOWN


def test_a_worker_whose_machine_ended_is_neither_healthy_nor_licensed() -> None:
    """At once, also when others ended it: nobody looks again before its record is shown."""
    cloud = brought_to(P.ACTIVE)
    status = msgspec.structs.replace(
        cloud.worker.status,
        health=Health.HEALTHY,
        licence=LicenceStatus(licensed=True, registered=True),
        conditions=conditions.put(
            (), WorkerCondition.LICENSED, "True", WorkerReason.IN_COMPLIANCE, now=cloud.now
        ),
    )
    cloud.worker = msgspec.structs.replace(cloud.worker, status=status)
    seen = lifecycle.WorkerObservation(machine=MachineStatus(id="i-1", state="gone"))
    ended = lifecycle.decide(cloud.worker, seen, cloud.now).status
    assert (ended.phase, ended.health) == (P.FAILED, Health.UNKNOWN)
    assert (ended.licence.licensed, ended.licence.registered) == (None, None)
    assert conditions.find(ended.conditions, WorkerCondition.LICENSED) is None


def without_call(found: Worker) -> Worker:
    """Return the worker as it is once its call was answered and that was recorded."""
    status = msgspec.structs.replace(found.status, effect=None)
    return msgspec.structs.replace(found, status=status)


def test_a_token_that_is_turned_down_later_is_tried_ever_more_rarely() -> None:
    """The cloud refuses after CML took the token: a dozen tries until the limit, not 120."""
    cloud = brought_to(P.LICENSING)
    begun, tries, at, again = cloud.worker.status.phase_since, 0, 0.0, 0.0
    down = LicenceStatus(registration="FAILED", registered=False, licensed=False)
    seen = lifecycle.WorkerObservation(stage="ready", licence=down, has_token=True)
    here = without_call(cloud.worker)
    while here.status.phase is P.LICENSING:
        at += again
        step = lifecycle.decide(here, seen, begun + timedelta(seconds=at))
        tries, again = tries + (step.action == "register"), step.again
        here = msgspec.structs.replace(here, status=step.status)
    assert here.status.message.startswith("not licensed in time")
    assert 600 < at <= 670
    assert 10 <= tries <= 24
    under_way = msgspec.structs.replace(down, registration="IN_PROGRESS", registered=None)
    looks = lifecycle.WorkerObservation(stage="ready", licence=under_way, has_token=True)
    late = lifecycle.decide(without_call(cloud.worker), looks, begun + timedelta(seconds=500))
    assert (late.action, late.again) == (None, 5.0)
