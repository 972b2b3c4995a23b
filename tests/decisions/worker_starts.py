"""Workers that were born, and brought to a phase."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from lifecycle_worlds import START, Cloud, machine, worker

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.worker import (
    WorkerPhase,
)

P = WorkerPhase
STATES = ["booting", "running", "stopping", "stopped", "ending", "gone", None]
STAGES = ["unreachable", "untrusted", "refused", "bad_gateway", "not_ready", "ready", None]
REASONS = ["BootTimeout", "StoppedOutside", "InstanceTerminated", "LaunchTimeout", None]
LIVE = [phase for phase in P if phase is not P.TERMINATED]
instants = st.integers(-40_000, 0).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


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
