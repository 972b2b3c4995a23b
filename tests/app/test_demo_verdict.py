"""The demo's judgement of a log, and of the figures at the end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from labfleet.app.demo import command, verdict
from labfleet.app.demo.run_counts import RunCounts
from labfleet.interfaces.store import Event, EventType
from labfleet.resources import conditions, kinds
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.prediction import Evidence, Forecast, Prediction
from labfleet.resources.simulation import (
    Cost,
    Simulation,
    SimulationPhase,
    SimulationSpec,
    SimulationStatus,
)
from labfleet.resources.worker import Origin, Worker, WorkerPhase, WorkerSpec, WorkerStatus

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
GOOD = {
    "sessions_failed": 0, "instances_left": 0, "licences_left": 0, "labs_left": 0, "ports_left": 0,
    "port_conflicts": 0, "invariant_violations": 0, "volumes_left": 0,
    "sessions_requested": 3, "sessions_completed": 2, "sessions_refused": 1,
    "sessions_cancelled": 0, "workers_provisioned": 1, "workers_terminated": 1,
    "simulations_approved": 5, "simulations_learned": 1, "simulations_denied": 1,
    "simulations_queued": 1, "simulations_crashed": 1, "simulations_played": True, "pods_left": 0,
}  # fmt: skip


def _event(revision: int, kind: EventType, worker: Worker) -> Event:
    return Event(
        revision=revision,
        type=kind,
        key=worker.key,
        uid=worker.metadata.uid,
        doc=kinds.encode(worker),
        at=AT,
        actor="worker-controller",
        request_id="",
        reason="",
    )


def test_a_worker_that_a_person_deletes_has_ended() -> None:
    """Such a worker never shows TERMINATED; the demo said "NOT as it must be" of a clean end."""
    worker = Worker(
        metadata=Metadata(name="w", uid="u"),
        spec=WorkerSpec(),
        status=WorkerStatus(phase=WorkerPhase.TERMINATING_EC2, machine=MachineStatus(id="i-1")),
    )
    replay = verdict.Replay()
    replay.take(_event(1, "ADDED", worker))
    assert replay.terminated == set()
    replay.take(_event(2, "DELETED", worker))
    assert replay.provisioned == replay.terminated == {"u"}


def test_a_server_of_others_may_be_anywhere_in_its_life() -> None:
    """Adopting a running one is no violation; launching one of ours straight to STARTING is."""
    external = Origin(kind="external", url="https://cml.example", managed=True)
    for origin, violations in ((external, 0), (None, 1)):
        replay = verdict.Replay()
        for revision, phase in enumerate((WorkerPhase.PENDING, WorkerPhase.STARTING), start=1):
            worker = Worker(
                metadata=Metadata(name="w", uid="u"),
                spec=WorkerSpec(origin=origin),
                status=WorkerStatus(phase=phase),
            )
            replay.take(_event(revision, "ADDED" if revision == 1 else "MODIFIED", worker))
        assert len(replay.violations) == violations


def test_an_end_before_the_first_worker_is_good() -> None:
    """Ctrl-C in the first second cancels all and leaves nothing; labs that ran need a worker."""
    early = GOOD | {
        "sessions_completed": 0, "sessions_cancelled": 2,
        "workers_provisioned": 0, "workers_terminated": 0,
    }  # fmt: skip
    # private _good: the verdict of a demo, without a demo of minutes
    assert command._good(GOOD)
    assert command._good(early)
    assert not command._good(GOOD | {"workers_terminated": 0})
    assert not command._good(GOOD | {"workers_provisioned": 0, "workers_terminated": 0})


@pytest.mark.parametrize(
    "missing",
    ["simulations_approved", "simulations_learned", "simulations_denied", "simulations_queued",
     "simulations_crashed"],
)  # fmt: skip
def test_each_kind_of_run_is_demanded_once_all_were_played(missing: str) -> None:
    """A demo without one of them is not good, unless somebody interrupted it before."""
    # private _good: as above
    assert not command._good(GOOD | {missing: 0})
    assert command._good(GOOD | {missing: 0, "simulations_played": False})


def test_a_pod_that_is_left_is_not_good() -> None:
    """Neither at the end of the whole play nor after an interrupt."""
    # private _good: as above
    for played in (True, False):
        assert not command._good(GOOD | {"pods_left": 1, "simulations_played": played})


# --- runs ------------------------------------------------------------------------------------


def _run(name: str, phase: SimulationPhase, *, chart: str = "waku", **status: Any) -> Simulation:
    spec = SimulationSpec(params={"chart": chart}, cost=status.pop("cost", None))
    return Simulation(
        metadata=Metadata(name=name, uid=f"u-{name}"),
        spec=spec,
        status=SimulationStatus(phase=phase, **status),
    )


def _learned(*runs: str) -> Prediction:
    forecast = Forecast(
        resource="cpu_milli", expected=1, bound=2, coverage=0.95, evidence=Evidence.EXACT, runs=runs
    )
    return Prediction(family="waku", forecasts=(forecast,))


def test_learned_is_a_run_whose_evidence_names_runs_of_its_family() -> None:
    """Neither one that rests on another family's run, nor one whose caller stated its CPU."""
    seen = RunCounts()
    seen.take(_run("a", SimulationPhase.APPROVED))
    seen.take(_run("x", SimulationPhase.RUNNING, chart="mesh"))
    seen.take(_run("b", SimulationPhase.RUNNING, prediction=_learned("a")))
    seen.take(_run("c", SimulationPhase.RUNNING, prediction=_learned("a", "x")))
    stated = Cost(cpu_milli=10)
    seen.take(_run("d", SimulationPhase.RUNNING, prediction=_learned("a"), cost=stated))
    seen.take(_run("e", SimulationPhase.QUEUED, prediction=_learned("a")))
    assert seen.learned == {"b"}
    assert seen.admitted == {"a", "b", "c", "d", "x"}


def test_queued_is_a_run_that_waited_and_then_ran() -> None:
    """One that waits, or was approved and never taken up, has not started."""
    seen = RunCounts()
    for name, phases in {"a": "QUEUED", "b": "QUEUED APPROVED", "c": "QUEUED APPROVED RUNNING",
                         "d": "RUNNING"}.items():  # fmt: skip
        for phase in phases.split():
            seen.take(_run(name, SimulationPhase(phase)))
    assert seen.queued == {"c"}


def test_crashed_is_a_run_that_its_pods_ended() -> None:
    """Not one whose caller reports a failure, nor one whose pods were only taken away."""

    def pods(reason: PodsReason) -> tuple[Condition, ...]:
        return conditions.put((), SimulationCondition.PODS_LIVE, "False", reason, now=AT)

    seen, failed = RunCounts(), SimulationPhase.FAILED
    seen.take(_run("a", failed, conditions=pods(PodsReason.FAILED)))
    seen.take(_run("b", failed, conditions=pods(PodsReason.FAILED), reported=True))
    seen.take(_run("c", failed, conditions=pods(PodsReason.GONE)))
    seen.take(_run("d", failed))
    assert seen.crashed == {"a"}


def test_runs_of_visitors_are_not_counted() -> None:
    """Each is counted once, and by its name, however many events tell of it."""
    seen = RunCounts()
    never = Decision(outcome="denied", reason="NeverFits", message="too large", at=AT)
    for _ in range(3):
        seen.take(_run("ours", SimulationPhase.RUNNING))
        seen.take(_run("theirs", SimulationPhase.RUNNING))
        seen.take(_run("large", SimulationPhase.DENIED, decision=never))
    found = seen.of({"ours", "large"})
    assert (found["simulations_approved"], found["simulations_denied"]) == (1, 1)
