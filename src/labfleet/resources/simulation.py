"""Simulation: one run that asks whether it may start on a cluster (facts/upstream.md#gate)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from labfleet.resources.amounts import DIMENSIONS, MOST, Amounts, Reservation
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.history import Use
from labfleet.resources.meta import Record, Resource, Text
from labfleet.resources.prediction import Prediction

Amount = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Duration = Annotated[int, msgspec.Meta(ge=1, le=604800)]
FAMILY_PARAMETER = "chart"
"""The parameter that says which runs one is like, in upstream 004's requests."""


class SimulationPhase(StrEnum):
    """Where a simulation stands; denied requests are kept as records."""

    QUEUED = "QUEUED"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    DENIED = "DENIED"


HOLDING = frozenset({SimulationPhase.APPROVED, SimulationPhase.RUNNING})
"""The phases in which a simulation holds capacity."""
OPEN = HOLDING | {SimulationPhase.QUEUED}
"""The phases that are not the end."""


class Cost(Record, frozen=True, kw_only=True):
    """What a run needs, as far as its caller states it; null is unknown, 0 is none.

    cpu_milli: Thousandths of a CPU.
    memory_mib: Memory in MiB.
    storage_mib: Disk in MiB.
    nodes: Nodes of labs.
    labs: Labs at the same time.
    ports: Ports for people on one server.
    network_kbps: Network in kbit/s, in the busier direction.
    """

    cpu_milli: Amount | None = None
    memory_mib: Amount | None = None
    storage_mib: Amount | None = None
    nodes: Amount | None = None
    labs: Amount | None = None
    ports: Amount | None = None
    network_kbps: Amount | None = None

    @property
    def stated(self) -> dict[str, int]:
        """Return what is stated, by dimension."""
        found = ((name, getattr(self, name)) for name in DIMENSIONS)
        return {name: value for name, value in found if value is not None}


class SimulationSpec(Record, frozen=True, kw_only=True):
    """What a runner asks for.

    cluster: Name of the cluster that it asks to run on.
    params: What makes this run what it is; runs with like parameters are expected to cost alike.
    family: Which runs it is compared with; without one the parameter `chart`, else its owner.
    cost: What it needs, as far as the caller states it; what is left out is predicted.
    duration_seconds: How long it may hold what it got; null leaves that to what was learned.
    owner: Whose run it is.
    queue: Name of the queue in which it may wait; null is answered at once.
    priority: Which of those that wait come first: the greater number.
    ttl_seconds: How often its caller reports that it lives; null owes no such report.
    """

    cluster: Text = "default"
    params: dict[str, Any] = {}
    family: Annotated[str, msgspec.Meta(max_length=256)] = ""
    cost: Cost | None = None
    duration_seconds: Duration | None = None
    owner: str = ""
    queue: Text | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    ttl_seconds: Annotated[int, msgspec.Meta(ge=30, le=86400)] | None = None


class SimulationStatus(Record, frozen=True, kw_only=True):
    """The decision and what became of it.

    phase: Where the run stands.
    conditions: Facts about it, each with its reason.
    decision: The decision with its reasons; null while nobody has decided.
    prediction: What it is expected to need; null while nobody has decided.
    evidence: What that rests on, in sentences.
    reservation: What it holds; null when it holds nothing.
    asked_at: When it asked.
    decided_at: When it was decided.
    started_at: When its caller first reported that it lives.
    lease_until: Until when its caller's last report counts; null while none is owed.
    take_up_by: By when its caller has to take up an approval that it waited for.
    used: What was measured of it so far, by figure.
    observed: What its caller said it used.
    reported: Whether its caller reported its end.
    note: What was done with it that nobody asked for.
    completed_at: When it was over.
    observed_generation: Generation of the spec that this status is about.
    """

    phase: SimulationPhase = SimulationPhase.QUEUED
    conditions: tuple[Condition, ...] = ()
    decision: Decision | None = None
    prediction: Prediction | None = None
    evidence: tuple[str, ...] = ()
    reservation: Reservation | None = None
    asked_at: datetime | None = None
    decided_at: datetime | None = None
    started_at: datetime | None = None
    lease_until: datetime | None = None
    take_up_by: datetime | None = None
    used: dict[str, Use] = {}
    observed: dict[str, Use] = {}
    reported: bool = False
    note: str = ""
    completed_at: datetime | None = None
    observed_generation: int = 0


class Simulation(Resource, frozen=True, kw_only=True):
    """One run that asked for admission to a cluster (upstream 004)."""

    spec: SimulationSpec
    status: SimulationStatus = SimulationStatus()
    kind: str = "Simulation"


def family_of(spec: SimulationSpec) -> str:
    """Return which runs a simulation is like, for the history."""
    chart = spec.params.get(FAMILY_PARAMETER)
    return spec.family or (chart if isinstance(chart, str) else "") or spec.owner


def held_by(amounts: dict[str, float]) -> Amounts:
    """Return amounts in whole base units, each rounded up: demand is never rounded down."""
    whole = {name: MOST if value >= MOST else -int(-value // 1) for name, value in amounts.items()}
    return Amounts(**whole)
