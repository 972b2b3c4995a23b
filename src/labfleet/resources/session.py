"""Session: one person's use of one definition in a time slot."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from labfleet.resources.amounts import Reservation
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.definition import DefinitionPin
from labfleet.resources.meta import Effect, Record, Resource, Text

FINALIZER_LAB = "labfleet/cml-lab"


class SessionPhase(StrEnum):
    """Where a session stands; docs/explanation/lifecycles.md says what each phase means."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    INSTANTIATING = "INSTANTIATING"
    READY = "READY"
    RUNNING = "RUNNING"
    COLLECTING = "COLLECTING"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    EXPIRED = "EXPIRED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset(
    {
        SessionPhase.COMPLETED,
        SessionPhase.EXPIRED,
        SessionPhase.FAILED,
        SessionPhase.CANCELLED,
    }
)


RETRIABLE = frozenset({SessionPhase.FAILED, SessionPhase.EXPIRED})
"""Ends that nobody chose: the session did not get what it asked for."""


class Slot(Record, frozen=True, kw_only=True):
    """From when to when; zone is an IANA name for showing, instants are absolute.

    `start` None means now. `end` None means start plus the definition's default duration.
    """

    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is not None and value.tzinfo is None:
                message = f"{name}: give a time zone, for example 2026-11-27T09:00:00Z"
                if self.zone != "UTC":
                    message += " or 2026-11-27T10:00:00+01:00; slot.zone is only for showing"
                raise ValueError(message)
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end: must be after start")


class Cancellation(Record, frozen=True, kw_only=True):
    """Somebody ended the session before its time."""

    at: datetime
    by: str = ""
    reason: str = ""


class SessionSpec(Record, frozen=True, kw_only=True):
    """What a person asks for. Only slot.end (extend), priority and cancel may change later."""

    definition: Text
    owner: Annotated[str, msgspec.Meta(max_length=256)] = ""
    slot: Slot = Slot()
    track: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    reservation_id: Annotated[str, msgspec.Meta(max_length=256)] | None = None
    cancel: Cancellation | None = None
    observe_requested: datetime | None = None


class PortAllocation(Record, frozen=True, kw_only=True):
    """One port given to a session, as it was asked for and the number it got."""

    name: str
    node: str
    kind: Literal["serial", "vnc", "pat"]
    transport: Literal["tcp", "udp"] = "tcp"
    inner: int = 0
    number: int


class PortChange(Record, frozen=True, kw_only=True):
    """How one port differs: allocated None = added on the server, observed None = removed."""

    name: str
    allocated: int | None = None
    observed: int | None = None


class InterfaceObservation(Record, frozen=True, kw_only=True):
    """One interface as seen (upstream 000)."""

    interface_id: str
    label: str
    slot: int | None = None
    state: str | None = None
    mac_address: str | None = None
    ip4: tuple[str, ...] = ()


class NodeObservation(Record, frozen=True, kw_only=True):
    """One node as seen.

    From upstream 000, with the operational values (facts/cml.md#seeds-corrected).
    """

    node_id: str
    label: str
    node_definition: str
    state: str
    cpus: int | None = None
    cpu_limit: int | None = None
    ram_mb: int | None = None
    tags: tuple[str, ...] = ()
    interfaces: tuple[InterfaceObservation, ...] = ()


class ResourceObservation(Record, frozen=True, kw_only=True):
    """What a lab really used (upstream 000). Unknown is null, with the reason in `gaps`."""

    observed_at: datetime
    observer: str
    total_cpu_cores: float | None = None
    total_memory_mb: int | None = None
    total_storage_mb: int | None = None
    nodes: tuple[NodeObservation, ...] = ()
    actual_node_count: int = 0
    node_definitions_used: tuple[str, ...] = ()
    observed_ports: dict[str, int] = {}
    simulation_stats: dict[str, Any] | None = None
    gaps: tuple[str, ...] = ()


class LabStatus(Record, frozen=True, kw_only=True):
    """The lab object on the worker's CML, as last seen.

    `marker` is what proves that a lab is ours; it stands in the lab's notes. `progress_at` is
    when it last came further (imported, started, one node more booted).
    """

    title: str
    marker: str
    id: str | None = None
    state: str | None = None
    nodes: int = 0
    booted: int = 0
    waiting: str | None = None
    progress_at: datetime | None = None
    seen_gone: bool = False


class SessionLink(Record, frozen=True, kw_only=True):
    """Another session of the same namespace; the uid says which, should the name be given again."""

    name: str
    uid: str


class SessionStatus(Record, frozen=True, kw_only=True):
    """What was observed of a session.

    `retry_count` is how many attempts were made before this one (upstream 001), `retry_of` the last
    of them, `retried_as` the next.
    `outcome` and `outcome_message` are how and why it ends, kept while `message` tells of the
    teardown. `observe_handled` is the newest observe request that was answered. `start` and
    `end` are the slot's resolved instants. `worker` stays for the record after the end;
    `reservation` is None once capacity was given back.
    """

    phase: SessionPhase = SessionPhase.PENDING
    phase_since: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    definition: DefinitionPin | None = None
    start: datetime | None = None
    end: datetime | None = None
    worker: str | None = None
    reservation: Reservation | None = None
    ports: tuple[PortAllocation, ...] = ()
    lab: LabStatus | None = None
    effect: Effect | None = None
    decision: Decision | None = None
    placements: int = 0
    observed_resources: ResourceObservation | None = None
    observed_ports: dict[str, int] | None = None
    port_drift_detected: bool = False
    port_changes: tuple[PortChange, ...] = ()
    observation_count: int = 0
    observed_at: datetime | None = None
    observe_handled: datetime | None = None
    outcome: SessionPhase | None = None
    outcome_message: str = ""
    scheduled_at: datetime | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""
    message: str = ""
    errors: int = 0
    observed_generation: int = 0
    retry_count: int = 0
    retry_of: SessionLink | None = None
    retried_as: SessionLink | None = None


class Session(Resource, frozen=True, kw_only=True):
    """One person's use of one definition in a time slot (upstream 000, 001)."""

    spec: SessionSpec
    status: SessionStatus = SessionStatus()
    kind: str = "Session"
