"""The demo's judgement of a log, and of the figures at the end."""

from __future__ import annotations

from datetime import UTC, datetime

from labfleet.app.demo import command, verdict
from labfleet.interfaces.store import Event, EventType
from labfleet.resources import kinds
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Metadata
from labfleet.resources.worker import Origin, Worker, WorkerPhase, WorkerSpec, WorkerStatus

AT = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
GOOD = {
    "sessions_failed": 0, "instances_left": 0, "licences_left": 0, "labs_left": 0, "ports_left": 0,
    "port_conflicts": 0, "invariant_violations": 0, "volumes_left": 0,
    "sessions_requested": 3, "sessions_completed": 2, "sessions_refused": 1,
    "sessions_cancelled": 0, "workers_provisioned": 1, "workers_terminated": 1,
    "simulations_approved": 1,
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
