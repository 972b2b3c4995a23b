"""One worker that is looked at every 30 seconds, and what a look tells."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lifecycle_worlds import START, worker

from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.resources import conditions
from labfleet.resources.fleet_settings import Thresholds
from labfleet.resources.machine import MachineStatus
from labfleet.resources.telemetry import (
    Room,
    Sample,
    SystemStats,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerStatus

P = WorkerPhase
LOAD = ("CpuHigh", "MemoryHigh")


def measured(at: float = 0, *, cpu: float | None = 10, memory: float | None = 10) -> Sample:
    """A look at a server that tells these numbers."""
    used = None if memory is None else int(memory * 100)
    return Sample(
        worker="w1",
        at=START + timedelta(seconds=at),
        boot="i-1",
        stats=SystemStats(cpu_percent=cpu, memory=Room(total=10_000, used=used)),
    )


class Line:
    """One worker that is looked at every 30 seconds."""

    def __init__(self, phase: WorkerPhase = P.READY, **spec: Any) -> None:
        self.machine = MachineStatus(id="i-1", state="running", host_check="ok", machine_check="ok")
        status = WorkerStatus(phase=phase, phase_since=START, machine=self.machine)
        self.worker: Worker = worker(status, **spec)
        self.spec = spec
        self.samples: list[Sample] = []
        self.now = START
        self.limits = Thresholds()
        self.flips: list[tuple[str, str]] = []

    def look(self, sample: Sample | None = None, *, seconds: float = 30, **seen: Any) -> Worker:
        """Look once; a look without a sample got no answer."""
        self.now += timedelta(seconds=seconds)
        told: dict[str, Any] = {"stage": "unreachable", "trouble": "no answer"}
        if sample is not None:
            self.samples.append(sample)
            told = {"stage": "ready", "samples": tuple(self.samples[-20:])}
        given_ = {"machine": self.machine, "thresholds": self.limits, **told, **seen}
        step = lifecycle.decide(self.worker, lifecycle.WorkerObservation(**given_), self.now)
        for name in LOAD:
            before, after = self._status(self.worker.status, name), self._status(step.status, name)
            if before != after:
                self.flips.append((name, after))
        self.worker = worker(step.status, **self.spec)
        return self.worker

    def load(self, *values: float | None) -> None:
        for each in values:
            self.look(measured(cpu=each))

    @staticmethod
    def _status(status: WorkerStatus, name: str) -> str:
        found = conditions.find(status.conditions, name)
        return "" if found is None else found.status

    def fact(self, name: str) -> tuple[str, str]:
        found = conditions.find(self.worker.status.conditions, name)
        return ("", "") if found is None else (found.status, found.reason)

    def text(self, name: str) -> str:
        found = conditions.find(self.worker.status.conditions, name)
        return "" if found is None else found.message
