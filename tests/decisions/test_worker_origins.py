"""Workers that others launched: what no step may do to them, over every phase and observation.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from call_records import CALLS, EFFECTS
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, machine, worker

from labfleet.decisions.lifecycle.worker import decide as workers
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Call
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect
from labfleet.resources.providers import aws_words
from labfleet.resources.worker import (
    FINALIZER_LICENCE,
    FINALIZER_MACHINE,
    FINALIZER_SERVER,
    LicenceStatus,
    Origin,
    Worker,
    WorkerPhase,
    WorkerStatus,
)

P = WorkerPhase
STATES = ["booting", "running", "stopping", "stopped", "ending", "gone"]
MACHINES = st.none() | st.builds(
    MachineStatus,
    id=st.just("i-1"),
    state=st.sampled_from(STATES),
    public_address=st.just("1.1"),
)
LICENCES = st.none() | st.builds(
    LicenceStatus,
    registration=st.sampled_from(["COMPLETED", "NOT_REGISTERED", "IN_PROGRESS"]),
    registered=st.booleans(),
    licensed=st.booleans(),
)
SEEN = st.builds(
    workers.WorkerObservation,
    machine=MACHINES,
    absent=st.booleans(),
    absent_for=st.sampled_from([None, 59.9, 60.0]),
    stage=st.sampled_from([None, "ready", "not_ready", "unreachable"]),
    licence=LICENCES,
    call=st.none() | CALLS,
    sessions=st.integers(0, 2),
    has_token=st.booleans(),
    trouble=st.sampled_from(["", "late"]),
)
OPEN = st.none() | EFFECTS.filter(lambda effect: effect.kind != "launch")
FINALIZERS = st.sets(st.sampled_from([FINALIZER_MACHINE, FINALIZER_LICENCE, FINALIZER_SERVER])).map(
    lambda some: tuple(sorted(some))
)
SPECS = st.fixed_dictionaries(
    {"desired": st.sampled_from(["Ready", "Stopped", "Terminated"]), "cordoned": st.booleans()}
)


def made(
    origin: Origin,
    phase: WorkerPhase,
    spec: dict[str, Any],
    held: tuple[str, ...],
    effect: Effect | None = None,
) -> Worker:
    status = WorkerStatus(
        phase=phase,
        phase_since=START,
        machine=MachineStatus(id=origin.instance_id),
        effect=effect,
    )
    found = worker(status, machine=machine(), origin=origin, **spec)
    metadata = msgspec.structs.replace(found.metadata, finalizers=held)
    return msgspec.structs.replace(found, metadata=metadata)


def check(before: Worker, step: workers.Step) -> None:
    old, new = before.status.phase, step.status.phase
    assert new is old or new in phases.edges(before, old)
    assert 0 < step.again <= 3600


@given(st.sampled_from(P), st.booleans(), SPECS, FINALIZERS, SEEN, st.integers(0, 20_000), OPEN)
def test_an_observed_worker_is_only_ever_claimed(
    phase: WorkerPhase,
    managed: bool,
    spec: dict[str, Any],
    held: tuple[str, ...],
    seen: workers.WorkerObservation,
    late: int,
    effect: Effect | None,
) -> None:
    """Whatever is seen and wanted: no act but the claim that was asked for, and no session."""
    origin = Origin(kind="imported", instance_id="i-1", region="eu", managed=managed)
    before = made(origin, phase, spec, held, effect)
    step = workers.decide(before, seen, START + timedelta(seconds=late))
    check(before, step)
    assert step.action in {None, "claim"}
    if step.action == "claim":
        assert managed
        assert FINALIZER_MACHINE in step.finalizers
    claimed = effect is not None and seen.call is not None and seen.call.answer.claimed
    if not claimed and phase is not P.TERMINATED:
        after = msgspec.structs.replace(before, status=step.status)
        assert not phases.accepting(after)


@pytest.mark.parametrize(
    ("phase", "known"), [(P.PENDING, True), (P.PENDING, False), (P.ACTIVE, False)]
)
def test_an_imported_worker_is_first_looked_at_by_its_origins_id(
    phase: WorkerPhase, known: bool
) -> None:
    """When it is new, and whenever its record has lost the machine's id: one of the two is enough."""
    origin = Origin(kind="imported", instance_id="i-1", region="eu", managed=False)
    before = made(origin, phase, {"desired": "Ready"}, ())
    if not known:
        status = msgspec.structs.replace(before.status, machine=MachineStatus())
        before = msgspec.structs.replace(before, status=status)
    step = workers.decide(before, workers.WorkerObservation(), START)
    assert (step.status.phase, step.status.machine.id) == (P.PROVISIONING_EC2, "i-1")


@pytest.mark.parametrize("phase", sorted(phases.HOSTING))
def test_what_is_only_observed_hosts_nothing_before_a_record_says_so(phase: WorkerPhase) -> None:
    """No session is placed on an instance that is not ours, though no fact closes it yet."""
    origin = Origin(kind="imported", instance_id="i-1", region="eu", managed=False)
    found = phases.closure(made(origin, phase, {"desired": "Ready"}, ()))
    assert found is not None
    assert found.word == "NotAdopted"


@given(st.sampled_from(P), SPECS, FINALIZERS, SEEN, st.integers(0, 90_000), OPEN)
def test_an_external_server_is_never_launched_started_stopped_or_ended(
    phase: WorkerPhase,
    spec: dict[str, Any],
    held: tuple[str, ...],
    seen: workers.WorkerObservation,
    late: int,
    effect: Effect | None,
) -> None:
    """Nor are labs of others stopped for a licence; a licence let go of is a leak on record."""
    origin = Origin(kind="external", url="https://cml.example", managed=True)
    before = made(origin, phase, spec, held, effect)
    step = workers.decide(before, seen, START + timedelta(seconds=late))
    check(before, step)
    assert step.action in {None, "register", "deregister", "renew", "telemetry"}
    lost = FINALIZER_LICENCE in held and FINALIZER_LICENCE not in step.finalizers
    if lost and phase is not P.TERMINATED and not seen.sessions:
        returned = seen.licence is not None and seen.licence.registered is False
        assert step.status.licence.leak or returned
    if step.status.phase is P.TERMINATED:
        assert FINALIZER_SERVER not in step.finalizers


def test_a_licence_that_was_there_is_not_ours_to_return() -> None:
    """An external server that came licensed leaves licensed, without a leak."""
    origin = Origin(kind="external", url="https://cml.example", managed=True)
    licence = LicenceStatus(registration="COMPLETED", registered=True, licensed=True)
    seen = workers.WorkerObservation(stage="ready", licence=licence, has_token=True)
    found = made(origin, P.STARTING, {}, (FINALIZER_SERVER,))
    step = workers.decide(found, seen, START)
    assert (step.status.phase, step.finalizers) == (P.READY, (FINALIZER_SERVER,))
    leaving = made(origin, P.DRAINING, {"desired": "Terminated"}, step.finalizers)
    step = workers.decide(leaving, seen, START)
    assert (step.status.phase, step.finalizers, step.action) == (P.TERMINATED, (), None)
    assert step.status.licence.leak is None


def test_what_others_did_is_told_with_its_reason_and_a_hint() -> None:
    """Cases 33 to 35: stopped or ended from outside is a condition that says whom to ask."""
    ready = worker(WorkerStatus(phase=P.READY, phase_since=START, machine=MachineStatus(id="i-1")))
    for state, reason, word in (
        ("gone", "Client.UserInitiatedShutdown", "Terminated"),
        ("stopping", "Server.ScheduledStop", "Stopped"),
    ):
        machine = MachineStatus(id="i-1", state=state)
        step = workers.decide(
            ready, workers.WorkerObservation(machine=machine, state_reason=reason), START
        )
        told = conditions.find(step.status.conditions, "ExternalChange")
        assert step.status.phase is P.FAILED
        assert told is not None
        assert (told.status, told.reason) == ("True", word)
        assert reason in told.message
        assert aws_words.WORDS.hint(reason) in told.message


def test_an_id_that_was_never_seen_is_told_as_such() -> None:
    """Nobody ended what never was: a mistyped id raises no alert about strangers."""
    origin = Origin(kind="imported", instance_id="i-0bad", region="us-east-1", managed=True)
    early = START - timedelta(minutes=5)
    machine = MachineStatus(id="i-0bad", absent_since=early)
    status = WorkerStatus(phase=P.PROVISIONING_EC2, phase_since=early, machine=machine)
    subject = worker(status, origin=origin)
    seen = workers.WorkerObservation(absent=True, absent_for=60.0)
    step = workers.decide(subject, seen, START)
    assert step.status.phase is P.TERMINATED
    assert "the provider knows no instance i-0bad" in step.status.message
    assert conditions.find(step.status.conditions, "ExternalChange") is None
    adopted = conditions.find(step.status.conditions, "Adopted")
    assert adopted is not None
    assert adopted.reason == "NoSuchInstance"


@given(st.sampled_from(sorted(set(P) - {P.TERMINATED})), SEEN, FINALIZERS)
def test_what_is_adopted_to_be_ready_is_never_called_terminated_by_us(
    phase: WorkerPhase, seen: workers.WorkerObservation, held: tuple[str, ...]
) -> None:
    """An instance that ends while our tag is on its way makes its worker FAILED, with the cause."""
    origin = Origin(kind="imported", instance_id="i-1", region="eu", managed=True)
    effect = Effect(id="e-1", kind="claim", begun=START, expires=START + timedelta(seconds=20))
    claim = Call(state="answered", answer=Answer(claimed=True))
    before = made(origin, phase, {"desired": "Ready"}, held, effect)
    step = workers.decide(before, msgspec.structs.replace(seen, call=claim), START)
    adopted = conditions.is_true(step.status.conditions, "Adopted")
    if adopted and step.status.machine.state == "ending":
        assert step.status.phase is P.FAILED
        assert conditions.is_true(step.status.conditions, "ExternalChange")


def test_an_adopted_machine_that_ended_is_not_launched_anew() -> None:
    """It stood for one instance; asking it to try again does not make another."""
    origin = Origin(kind="imported", instance_id="i-1", region="eu", managed=True)
    facts = conditions.put((), "Adopted", "True", "Claimed", now=START)
    facts = conditions.put(facts, "Failed", "True", "InstanceTerminated", now=START)
    found = made(origin, P.FAILED, {}, (FINALIZER_MACHINE,))
    status = msgspec.structs.replace(found.status, conditions=facts)
    found = msgspec.structs.replace(found, status=status)
    ended = workers.WorkerObservation(machine=MachineStatus(id="i-1", state="gone"))
    step = workers.decide(found, ended, START)
    assert (step.status.phase, step.action) == (P.FAILED, None)
