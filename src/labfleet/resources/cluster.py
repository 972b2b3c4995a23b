"""Cluster and Simulation: upstream 004's gate by declared costs (facts/upstream.md#gate)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.meta import Record, Resource, Text

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]


class ClusterSpec(Record, frozen=True, kw_only=True):
    """What a cluster has and how far it may be filled (defaults: facts/upstream.md#gate)."""

    capacity: Amounts
    cpu_percent: Percent = 80
    memory_percent: Percent = 80
    network_percent: Percent = 75
    description: str = ""


class ClusterStatus(Record, frozen=True, kw_only=True):
    """What was observed of a cluster; its real usage is not read."""

    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class Cluster(Resource, frozen=True, kw_only=True):
    """A Kubernetes cluster, or one namespace of it, that simulations run on."""

    spec: ClusterSpec
    status: ClusterStatus = ClusterStatus()
    kind: str = "Cluster"


class SimulationPhase(StrEnum):
    """Where a simulation stands; denied requests are kept as records."""

    APPROVED = "APPROVED"
    DENIED = "DENIED"
    COMPLETED = "COMPLETED"
    EXPIRED = "EXPIRED"


class SimulationSpec(Record, frozen=True, kw_only=True):
    """What a runner asks for.

    `cost` is declared by the caller. `duration_seconds` plus a grace bounds an
    approval, so that a crashed caller cannot hold capacity for ever.
    """

    cluster: Text = "default"
    params: dict[str, Any] = {}
    cost: Amounts = Amounts()
    duration_seconds: Annotated[int, msgspec.Meta(ge=1, le=604800)] = 3600
    owner: str = ""


class SimulationStatus(Record, frozen=True, kw_only=True):
    """The decision and what became of it."""

    phase: SimulationPhase = SimulationPhase.DENIED
    conditions: tuple[Condition, ...] = ()
    decision: Decision | None = None
    reservation: Reservation | None = None
    decided_at: datetime | None = None
    completed_at: datetime | None = None
    observed_generation: int = 0


class Simulation(Resource, frozen=True, kw_only=True):
    """One run that asked for admission to a cluster (upstream 004)."""

    spec: SimulationSpec
    status: SimulationStatus = SimulationStatus()
    kind: str = "Simulation"
