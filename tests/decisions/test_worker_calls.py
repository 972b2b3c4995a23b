"""What the answers of a worker's calls mean, one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from lifecycle_worlds import START, worker

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker.calls import MISMATCH, Answer, Call, Offer
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus

P = WorkerPhase
NONE_LEFT = errors.OutOfCapacity("no m5 in az1", retry_after=90.0)
THROTTLED = errors.Throttled("slow down", retry_after=2.0)


def calling(kind: str, phase: WorkerPhase, **parameters: str) -> Worker:
    """Return a worker with an open call of this kind."""
    ends = START + timedelta(seconds=20)
    effect = Effect(id="e", kind=kind, begun=START, expires=ends, parameters=parameters)
    machine = MachineStatus() if kind == "launch" else MachineStatus(id="i-1", state="running")
    status = WorkerStatus(phase=phase, phase_since=START, machine=machine, effect=effect, attempt=2)
    return worker(status)


def launching(**parameters: str) -> Worker:
    """Return a worker whose second launch is open."""
    return calling("launch", P.PROVISIONING_EC2, attempt="2", token="t", **parameters)


def told(found: Worker, answer: Answer, **seen: Any) -> lifecycle.Step:
    """Return the step after a call was answered."""
    call = Call("answered", answer)
    return lifecycle.decide(found, lifecycle.WorkerObservation(call=call, **seen), START)


def test_while_a_call_may_be_under_way_nothing_is_decided() -> None:
    """Not even what a person asked for meanwhile: the call's outcome could undo it."""
    found = launching()
    wanted = msgspec.structs.replace(found.spec, desired="Terminated")
    found = msgspec.structs.replace(found, spec=wanted)
    for call in (None, Call("running")):
        step = lifecycle.decide(found, lifecycle.WorkerObservation(call=call), START)
        assert (step.status, step.action) == (found.status, None)


def test_a_launched_machine_is_taken_over_in_any_phase() -> None:
    """Also when the worker is wanted no more: what is not recorded cannot be ended."""
    machine = MachineStatus(id="i-9", state="booting")
    for phase in (P.PROVISIONING_EC2, P.TERMINATING_EC2, P.FAILED):
        step = told(calling("launch", phase, attempt="3", token="t"), Answer(machine=machine))
        assert (step.status.machine.id, step.status.effect) == ("i-9", None)
        assert step.status.attempt == 3
        assert step.reason == "instance i-9 launched"


@pytest.mark.parametrize("problem", [NONE_LEFT, errors.QuotaExceeded("32 of 32 vCPU")])
def test_a_place_that_is_full_asks_with_another_token(problem: errors.LabfleetError) -> None:
    """The token is zonal, so the next attempt has its own; the reason is told."""
    step = told(launching(type="m5"), Answer(problem=problem))
    assert (step.status.effect, step.status.attempt, step.problem) == (None, 3, None)
    fact = conditions.find(step.status.conditions, "MachineProvisioned")
    assert fact is not None
    assert fact.message.startswith("m5: ")


def test_a_launch_that_failed_otherwise_keeps_its_token() -> None:
    """So a late first try and the second make one machine; the queue backs off."""
    found = launching()
    step = told(found, Answer(problem=THROTTLED))
    assert step.status.effect == found.status.effect
    assert step.problem is THROTTLED
    again = lifecycle.WorkerObservation(
        call=Call("not_done"), offer=Offer(parameters=found.status.effect.parameters)
    )
    step = lifecycle.decide(found, again, START)
    assert (step.action, step.status.effect) == ("launch", found.status.effect)


def test_a_token_of_another_request_is_looked_up_for_ten_minutes() -> None:
    """Then another attempt begins; until then nothing is launched."""
    step = told(launching(), Answer(problem=errors.Conflict("other parameters")))
    assert isinstance(step.problem, errors.Ambiguous)
    found = msgspec.structs.replace(launching(), status=step.status)
    assert found.status.effect.parameters[MISMATCH] == "yes"
    over = lifecycle.WorkerObservation(call=Call("over"))
    early = lifecycle.decide(found, over, START + timedelta(minutes=9))
    assert (early.action, early.status.attempt) == (None, 2)
    late = lifecycle.decide(found, over, START + timedelta(minutes=10))
    assert (late.action, late.status.attempt, late.status.effect) == (None, 3, None)


def test_an_action_that_failed_is_said_and_tried_anew_after_a_pause() -> None:
    """The call is closed, the message says which one failed, the queue backs off."""
    step = told(calling("stop", P.STOPPING), Answer(problem=THROTTLED))
    assert (step.status.effect, step.status.message) == (None, "stop: slow down")
    assert (step.action, step.problem) == (None, THROTTLED)


def test_a_start_without_room_waits_and_no_other_machine_is_launched() -> None:
    """The machine has the worker's disk and licence, so it is asked again, and told when."""
    step = told(calling("start", P.STARTING), Answer(problem=NONE_LEFT))
    fact = conditions.find(step.status.conditions, "MachineStarted")
    assert fact is not None
    assert (fact.status, fact.reason) == ("False", "OutOfCapacity")
    assert (step.action, step.problem, step.again) == (None, None, 60.0)


def test_a_deregistration_whose_answer_is_lost_is_a_doubt_and_no_leak() -> None:
    """CML may have told the licence cloud or not; the next answer that says so ends the doubt."""
    found = calling("deregister", P.UNLICENSING)
    over = lifecycle.WorkerObservation(call=Call("over"), trouble="no answer")
    step = lifecycle.decide(found, over, START)
    doubt = conditions.find(step.status.conditions, "LicenceLeaked")
    assert doubt is not None
    assert (doubt.status, doubt.reason) == ("Unknown", "OutcomeLost")
    again = msgspec.structs.replace(step.status, effect=found.status.effect)
    step = told(msgspec.structs.replace(found, status=again), Answer(returned=True))
    assert conditions.find(step.status.conditions, "LicenceLeaked") is None


def test_only_a_refused_deregistration_is_followed_by_a_call_at_once() -> None:
    """Its answer alone tells that labs must stop first; all else begins from a look of its own."""
    seen = {"stage": "ready", "machine": MachineStatus(id="i-1", state="running")}
    step = told(calling("deregister", P.UNLICENSING), Answer(nodes_running=True), **seen)
    assert step.action == "stop_labs"
    for kind in ("stop_labs", "deregister"):
        step = told(calling(kind, P.UNLICENSING), Answer(), **seen)
        assert step.action is None
        assert step.again > 0


def test_an_ended_worker_lets_go_of_an_open_call() -> None:
    """Nothing is left that it could be done to, so no finalizer waits for it."""
    found = calling("start", P.TERMINATED)
    step = lifecycle.decide(found, lifecycle.WorkerObservation(), START)
    assert step.status.effect is None
    assert step.finalizers == ()
