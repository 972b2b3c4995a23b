"""The worker's life: total, inside its table, and honest about machine, sessions and licence.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from call_records import CALLS, EFFECTS, OFFERS
from drawn_together import combinations
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_worlds import START, check_worker, machine, worker
from worker_starts import born, brought_to

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_MACHINE,
    Drain,
    LicenceOrder,
    LicenceProgress,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
STATES = ["booting", "running", "stopping", "stopped", "ending", "gone", None]
STAGES = ["unreachable", "untrusted", "refused", "bad_gateway", "not_ready", "ready", None]
REASONS = ["BootTimeout", "StoppedOutside", "InstanceTerminated", "LaunchTimeout", None]
LIVE = [phase for phase in P if phase is not P.TERMINATED]
BOTH = (True, False)
MAYBE = (True, False, None)
# What is drawn together costs one draw: every combination is as likely as when drawn one by one.
instants = st.integers(-40_000, 0).map(lambda seconds: START + timedelta(seconds=seconds))
since = st.none() | instants
licences = combinations(
    ["NOT_REGISTERED", "IN_PROGRESS", "COMPLETED", "FAILED", None], MAYBE, MAYBE, [None, 5, 200]
).map(lambda drawn: LicenceStatus(
    registration=drawn[0], registered=drawn[1], licensed=drawn[2], node_capacity=drawn[3]
))  # fmt: skip
instances = combinations(["i-1", None], STATES, ["127.0.0.2", None])
records = combinations(list(P), REASONS, range(6), range(2))
wishes = combinations(
    ["Ready", "Stopped", "Terminated"], BOTH, [None, Drain(deadline=START, force=True)], BOTH,
    ["keep", "return"],
)  # fmt: skip
promises = combinations([(), (FINALIZER_MACHINE,)], [(), (FINALIZER_LICENCE,)], [None, START])
orders = combinations(
    [None, "register", "deregister", "renew"], MAYBE, BOTH, [None, "CML_Personal"],
    [None, "waiting", "calling", "asked", "done", "refused"], range(2),
).map(lambda drawn: ordered(*drawn))  # fmt: skip
told = combinations(
    BOTH, STAGES, [None, "denied"], range(4), BOTH, [None, 200], ["", "provider: throttled"],
)  # fmt: skip


def ordered(
    verb: Any, licensed: bool | None, force: bool, product: str | None, state: Any, old: int
) -> tuple[LicenceOrder | None, LicenceProgress | None]:
    """What was asked of a licence, and how far it is, or another thing that was asked before."""
    order = None
    if verb is not None:
        order = LicenceOrder(
            id="o-2", verb=verb, at=START, licensed=licensed, product=product,
            renewed=force, force=force,
        )  # fmt: skip
    progress = None if state is None else LicenceProgress(id=f"o-{2 - old}", state=state, at=START)
    return order, progress


@st.composite
def machines(draw: st.DrawFn) -> MachineStatus:
    """Any instance."""
    id_, state, address = draw(instances)
    return MachineStatus(id=id_, state=state, public_address=address, absent_since=draw(since))


some_machine = machines()
open_call, calls, offers = st.none() | EFFECTS, st.none() | CALLS, st.none() | OFFERS
maybe_machine = st.none() | some_machine
maybe_licence = st.none() | licences


@st.composite
def workers(draw: st.DrawFn) -> Worker:
    """Any record of a worker; PENDING alone never has an instance."""
    phase, reason, failed, generation = draw(records)
    known = () if reason is None else conditions.put((), "Failed", "True", reason, now=START)
    status = WorkerStatus(
        phase=phase,
        phase_since=draw(since),
        machine=MachineStatus() if phase is P.PENDING else draw(some_machine),
        licence=draw(licences),
        conditions=known,
        failed_checks=failed,
        observed_generation=generation,
        effect=draw(open_call),
    )
    desired, cordoned, drain, licensed, on_stop = draw(wishes)
    made = worker(
        status,
        desired=desired,
        cordoned=cordoned,
        drain=drain,
        machine=machine(licensed=licensed, on_stop=on_stop),
    )
    order, progress = draw(orders)
    made = msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(made.spec, licence=order),
        status=msgspec.structs.replace(
            made.status, licence=msgspec.structs.replace(made.status.licence, order=progress)
        ),
    )
    one, other, ended = draw(promises)
    meta = msgspec.structs.replace(
        made.metadata, finalizers=tuple(sorted(one + other)), deletion_timestamp=ended
    )
    return msgspec.structs.replace(made, metadata=meta)


missed = st.sampled_from([None, 59.9, 60.0])


@st.composite
def sights(draw: st.DrawFn) -> lifecycle.WorkerObservation:
    """Any observation."""
    absent, stage, login, hosted, token, wanted, trouble = draw(told)
    return lifecycle.WorkerObservation(
        machine=draw(maybe_machine),
        absent=absent,
        absent_for=draw(missed) if absent else None,
        stage=stage,
        login_refused=login,
        licence=draw(maybe_licence),
        call=draw(calls),
        offer=draw(offers),
        sessions=hosted,
        has_token=token,
        wanted_nodes=wanted,
        trouble=trouble,
    )


@settings(max_examples=15 * settings.default.max_examples, deadline=None)
@given(workers(), sights())
def test_any_worker_and_any_sight_have_a_lawful_next_step(
    before: Worker, seen: lifecycle.WorkerObservation
) -> None:
    """decide is total and never breaks a rule, whatever is recorded and whatever is seen."""
    step = lifecycle.decide(before, seen, START)
    check_worker(before, seen, step, START)
    assert step.again > 0 or step.status.phase is not before.status.phase
    assert step.status.summary == phases.coarse(step.status.phase) or (
        step.status.phase is before.status.phase
    )


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(workers(), sights())
def test_deciding_is_repeatable(before: Worker, seen: lifecycle.WorkerObservation) -> None:
    """The same record and the same sight give the same step."""
    one, two = (lifecycle.decide(before, seen, START) for _ in range(2))
    # Errors are equal when they are the same one; two that say the same are as good.
    assert repr(one.problem) == repr(two.problem)
    assert msgspec.structs.replace(one, problem=None) == msgspec.structs.replace(two, problem=None)


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
    assert cloud.state in {None, "gone"}
    assert cloud.worker.metadata.finalizers == ()
    assert cloud.registration == "NOT_REGISTERED"
    assert cloud.worker.status.licence.leak is None


@pytest.mark.parametrize("phase", [each for each in LIVE if each is not P.PENDING])
def test_stopping_is_honoured_from_every_live_phase(phase: WorkerPhase) -> None:
    """In a fair world a worker that shall stop stops, or is past stopping."""
    cloud = brought_to(phase)
    cloud.want(desired="Stopped")
    cloud.until(P.STOPPED, P.TERMINATED)
    assert cloud.state in {"stopped", "gone", None}


@pytest.mark.parametrize("phase", [P.STOPPED, P.FAILED, P.DRAINING, P.STOPPING, P.ACTIVE])
def test_ready_is_honoured_again(phase: WorkerPhase) -> None:
    """A worker that shall be ready again comes back, from rest, failure and half-way down."""
    cloud = brought_to(phase)
    cloud.want(desired="Ready", drain=None)
    assert cloud.until(P.READY, P.ACTIVE) in phases.HOSTING
    assert cloud.launches == 1


@settings(max_examples=3 * settings.default.max_examples // 2, deadline=None)
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
    assert cloud.state in {None, "gone"}
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


def registering() -> lifecycle.WorkerObservation:
    """What is seen of a server whose registration is under way."""
    found = LicenceStatus(registration="IN_PROGRESS", registered=False, licensed=False)
    machine = MachineStatus(id="i-1", state="running", public_address="127.0.0.2")
    return lifecycle.WorkerObservation(
        machine=machine, stage="ready", licence=found, has_token=True
    )


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
    while cloud.worker.status.effect is None:
        cloud.step()
    told = lifecycle.WorkerObservation(call=Call("answered", Answer(cloud_told=False)))
    step = lifecycle.decide(cloud.worker, told, cloud.now)
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


@pytest.mark.parametrize("phase", [each for each in P if each is not P.PENDING])
def test_provisioning_has_a_beginning_and_an_end(phase: WorkerPhase) -> None:
    """The launch's bounds are instants of the newest launch: open while it goes on, then in order."""
    status = brought_to(phase).worker.status
    began, ended = status.provisioning_started_at, status.provisioning_ended_at
    if phase is P.PROVISIONING_EC2:
        assert (began, ended) == (status.phase_since, None)
    elif began is not None:
        assert ended is not None
        assert began <= ended <= (status.phase_since or ended)
    assert began is not None or phase is P.TERMINATED


@settings(deadline=None)
@given(workers(), sights())
def test_a_failed_check_has_an_instant(before: Worker, seen: lifecycle.WorkerObservation) -> None:
    """It moves exactly with the count, so that it costs no write of its own."""
    after = lifecycle.decide(before, seen, START).status
    grew = after.failed_checks > before.status.failed_checks
    assert after.failed_check_at == (START if grew else before.status.failed_check_at)
