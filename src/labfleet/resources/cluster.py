"""Cluster and Simulation: upstream 004's gate by declared costs (facts/upstream.md#gate)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.declaration import OVER, Kind, Page, PageColumn, State, columns, filters
from labfleet.resources.meta import Record, Resource, Text

Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]


class ClusterSpec(Record, frozen=True, kw_only=True):
    """What a cluster has and how far it may be filled (defaults: facts/upstream.md#gate).

    capacity: What the cluster has.
    cpu_percent: Share of its CPUs that may be reserved.
    memory_percent: Share of its memory that may be reserved.
    network_percent: Share of its network that may be reserved.
    description: What it is, for people.
    """

    capacity: Amounts
    cpu_percent: Percent = 80
    memory_percent: Percent = 80
    network_percent: Percent = 75
    description: str = ""


class ClusterStatus(Record, frozen=True, kw_only=True):
    """What was observed of a cluster; its real usage is not read.

    conditions: Facts about it, each with its reason.
    observed_generation: Generation of the spec that this status is about.
    """

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

    `duration_seconds` plus a grace bounds an approval, so that a crashed caller cannot hold
    capacity for ever.

    cluster: Name of the cluster that it asks to run on.
    params: What the runner wants to remember of it; nothing reads it here.
    cost: What it needs, as the caller declares it.
    duration_seconds: How long it may hold what it got.
    owner: Whose run it is.
    """

    cluster: Text = "default"
    params: dict[str, Any] = {}
    cost: Amounts = Amounts()
    duration_seconds: Annotated[int, msgspec.Meta(ge=1, le=604800)] = 3600
    owner: str = ""


class SimulationStatus(Record, frozen=True, kw_only=True):
    """The decision and what became of it.

    phase: Where the run stands.
    conditions: Facts about it, each with its reason.
    decision: The decision with its reasons.
    reservation: What it holds; null when denied or over.
    decided_at: When it was decided.
    completed_at: When it was over.
    observed_generation: Generation of the spec that this status is about.
    """

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


_CLUSTER_PAGE = Page(
    2,
    "Clusters",
    (
        PageColumn("Cluster", "name", wide=3),
        PageColumn("Running", "live"),
        PageColumn("CPU of target", "load", "cpuMilli", wide=3),
        PageColumn("Memory GiB of target", "load", "memoryMib", wide=3),
        PageColumn("About", "text", "spec.description", "", wide=5),
    ),
    none="No clusters",
    hints=(
        (
            "A cluster is what simulations run on. Describe one:",
            "labfleet apply -f cluster.yaml",
        ),
    ),
)
CLUSTER = Kind(
    name="Cluster",
    plural="clusters",
    type=Cluster,
    summary="A Kubernetes cluster, or one namespace of it, that simulations run on.",
    columns=columns(
        "CPU(m)=spec.capacity.cpuMilli",
        "MEMORY(MiB)=spec.capacity.memoryMib",
        "TARGET%=spec.cpuPercent",
    ),
    amounts=(("capacity", True),),
    page=_CLUSTER_PAGE,
    followed=True,
)
_DONE = State("ended", OVER, "calm", "✓")
_SIMULATION_STATES: dict[str, State] = {
    SimulationPhase.APPROVED: State("running", 2, "good", "●"),
    SimulationPhase.DENIED: State("denied", OVER, "warn", "▲"),
    SimulationPhase.EXPIRED: State("ended", OVER, "warn", "▲"),
    SimulationPhase.COMPLETED: _DONE,
}
_SIMULATION_PAGE = Page(
    3,
    "Simulations",
    (
        PageColumn("Simulation", "name", wide=3),
        PageColumn("State", "state", "status.phase", wide=2),
        PageColumn("Cluster", "link:clusters", "spec.cluster", wide=2),
        PageColumn("Owner", "text", "spec.owner", "none given"),
        PageColumn("Decided", "time", "status.decidedAt"),
        PageColumn("Ends", "time", "status.completedAt|status.reservation.end", "has not run"),
        PageColumn("Why", "why", "status.decision.message", "", wide=5),
    ),
    since="status.decidedAt",
    groups=("running", "denied", "ended"),
    none="No simulations have asked yet",
    hints=(
        (
            "A runner asks before it starts:",
            (
                "curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json'"
                ' -d \'{"cost": {"cpu": 4, "memory": "8Gi"}}\' BASE/request_run'
            ),
        ),
    ),
)
SIMULATION = Kind(
    name="Simulation",
    plural="simulations",
    short=("sim",),
    type=Simulation,
    summary="One run that asked for admission to a cluster.",
    columns=columns(
        "PHASE=status.phase",
        "CLUSTER=spec.cluster",
        "CPU(m)=spec.cost.cpuMilli",
        "MEMORY(MiB)=spec.cost.memoryMib",
        "DECIDED=status.decidedAt",
    ),
    filters=filters("phase=status.phase", "owner=spec.owner", "cluster=spec.cluster"),
    frozen=("cluster", "params", "cost", "duration_seconds", "owner"),
    amounts=(("cost", False),),
    creatable=False,
    states=_SIMULATION_STATES,
    page=_SIMULATION_PAGE,
    followed=True,
)
