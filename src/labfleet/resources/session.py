"""Session: one person's use of one definition in a time slot."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from labfleet.resources import zones
from labfleet.resources.amounts import Amounts, Claim, Reservation
from labfleet.resources.conditions import Condition
from labfleet.resources.decision import Decision
from labfleet.resources.definition import DefinitionPin, Family, LabUser, Variable
from labfleet.resources.extensions import Extensions
from labfleet.resources.hand_over import HandedOver, SessionOffer
from labfleet.resources.history import Use
from labfleet.resources.kept_work import KeptWork
from labfleet.resources.lab_orders import LabMember, LabOff, LabOrder, LabOrderProgress
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.meta import Effect, Record, Resource
from labfleet.resources.waiting import SessionOutlook

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
    """From when to when: instants, or times by the clocks of the zone.

    start: When the session begins; null means now. Without an offset it is a time in `zone`.
    end: When it ends; null means start plus the definition's default duration. As `start`.
    zone: IANA name of the zone in which it is shown, and whose clocks a time without an offset means.
    """

    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is not None and value.tzinfo is None:
                at = None if self.zone == "UTC" else zones.at_wall(value, self.zone)
                if at is None and self.zone != "UTC":
                    known = f"{self.zone[:64]!r} is no IANA time zone"
                    raise ValueError(f"zone: {known}; write for example Europe/Warsaw")
                if at is None:
                    example = "give a time zone, for example 2026-11-27T09:00:00Z"
                    raise ValueError(f"{name}: {example}, or say slot.zone")
                msgspec.structs.force_setattr(self, name, at)
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end: must be after start")


class Cancellation(Record, frozen=True, kw_only=True):
    """Somebody ended the session before its time.

    at: When the end was asked for.
    by: Who asked for it.
    reason: Why, in the words of whoever asked.
    """

    at: datetime
    by: str = ""
    reason: str = ""


FACTOR_LIMIT = 4.0  # of sessions and of the seats of groups
VARIABLES = 32
"""Most variables of one session."""
EMAIL = r"^[^@\s<>,;\"]{1,64}@[^@\s<>,;\"]{1,189}$"
Value = Annotated[str, msgspec.Meta(max_length=1024)]


class SessionSpec(Record, frozen=True, kw_only=True):
    """What a person asks for. Only the slot, by verbs, priority and cancel may change later.

    definition: Name of the definition whose lab is run; left out where a family is named.
    family: Family of definitions, whose newest version that is not deprecated becomes the definition
    when the session is accepted; null where the definition is named.
    owner: Whose session it is; a user's own name unless an operator says another.
    slot: From when to when it shall run.
    track: Lab track whose workers may host it; null means the definition's.
    priority: Rank among waiting sessions, higher first; users may not raise it.
    duration_minutes: Length of a slot that names no end; null means the definition's.
    time_factor: How many times as long as others its person may take, such as 1.25, 1.5 or 2: the
    length of the slot is multiplied, in all that is promised too. Users may not set it; a seat has
    the factor that its group says, until somebody changes it here.
    student_email: E-mail address of its person, for webhooks; shown to them, operators and admins.
    environment: Values of variables, kept, shown and given to webhooks, so no place for secrets. They
    stand in configurations of the lab's nodes only where its definition names them.
    limits: The most that its lab may need; a definition that needs more is refused. 0 limits nothing.
    reservation_id: Name of the booking in the system that made it; only kept and shown.
    continue_from: Name of an earlier session of the same owner: its kept configurations stand in the
    nodes from the start. The definition has to allow that (`continuable`).
    cancel: Set when somebody ended the session before its time.
    observe_requested: When an observation was last asked for.
    observe_requested_by: Who asked for it.
    lab_order: What somebody ordered last of its lab while it runs.
    when_full: What becomes of a slot that its pool cannot hold: it is refused, or waits for room
    without a promise.
    """

    definition: Annotated[str, msgspec.Meta(max_length=256)] = ""
    owner: Annotated[str, msgspec.Meta(max_length=256)] = ""
    slot: Slot = Slot()
    track: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    reservation_id: Annotated[str, msgspec.Meta(max_length=256)] | None = None
    cancel: Cancellation | None = None
    observe_requested: datetime | None = None
    observe_requested_by: str = ""
    when_full: Literal["refuse", "wait"] = "refuse"
    duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] | None = None
    time_factor: Annotated[float, msgspec.Meta(ge=1, le=FACTOR_LIMIT)] = 1.0
    student_email: Annotated[str, msgspec.Meta(max_length=254, pattern=EMAIL)] | None = None
    environment: Annotated[dict[Variable, Value], msgspec.Meta(max_length=VARIABLES)] = {}
    limits: Amounts | None = None
    continue_from: Annotated[str, msgspec.Meta(max_length=253)] | None = None
    family: Family | None = None
    lab_order: LabOrder | None = None


class PortAllocation(Record, frozen=True, kw_only=True):
    """One port given to a session, as it was asked for and the number it got.

    name: Name of the port in the definition.
    node: Label of the node that it leads to.
    kind: Way to the node: a serial console, a VNC screen, or a port forwarded to it (pat).
    transport: Protocol of the port.
    inner: Port inside the node for pat, line for serial, unused for vnc.
    number: Number of the port on the worker.
    """

    name: str
    node: str
    kind: Literal["serial", "vnc", "pat"]
    transport: Literal["tcp", "udp"] = "tcp"
    inner: int = 0
    number: int


class PortChange(Record, frozen=True, kw_only=True):
    """How one port differs: allocated None = added on the server, observed None = removed.

    name: Name of the port.
    allocated: Number that it was given; null when the server has it unasked.
    observed: Number seen on the server; null when it is not there.
    """

    name: str
    allocated: int | None = None
    observed: int | None = None


class InterfaceObservation(Record, frozen=True, kw_only=True):
    """One interface as seen (upstream 000).

    interface_id: The id that CML gave the interface.
    label: Label of the interface.
    slot: Slot of the node in which it sits; null for a loopback or when unknown.
    state: State in CML's word.
    mac_address: Hardware address, once the node has booted.
    ip4: IPv4 addresses that CML has seen at it.
    """

    interface_id: str
    label: str
    slot: int | None = None
    state: str | None = None
    mac_address: str | None = None
    ip4: tuple[str, ...] = ()


class NodeObservation(Record, frozen=True, kw_only=True):
    """One node as seen.

    From upstream 000, with the operational values (facts/cml.md#seeds-corrected).

    node_id: The id that CML gave the node.
    label: Label of the node.
    node_definition: Node definition that it runs.
    state: State in CML's word, for example BOOTED.
    cpus: Virtual CPUs that it really has.
    cpu_limit: Share of these CPUs that it may use, in percent.
    ram_mb: Memory that it really has, in MB as CML counts.
    tags: Tags of the node in the topology.
    interfaces: Interfaces of the node.
    used: What it has used since its lab was up, by figure, as far as it was measured.
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
    used: dict[str, Use] = {}


class ResourceObservation(Record, frozen=True, kw_only=True):
    """What was seen of a lab (upstream 000). Unknown is null, with the reason in `gaps`.

    The totals are what its nodes were given, its allocation; what it used is `used`.

    observed_at: When the server was looked at.
    observer: Who looked: session-controller by itself, manual:NAME when that person asked, internal:NAME
    when that program reported it.
    total_cpu_cores: Sum of the nodes' virtual CPUs.
    total_memory_mb: Sum of the nodes' memory, in MB.
    total_storage_mb: Sum of the nodes' disks, in MB.
    nodes: Each node as seen.
    actual_node_count: Number of nodes on the server.
    node_definitions_used: Node definitions that occur, each once.
    observed_ports: Port name to number, as seen on the server.
    simulation_stats: Statistics of the lab as CML sends them.
    used: What the lab has used since it was up, by figure, as far as it was measured.
    measured: How often it was measured: once a minute while it ran.
    gaps: What could not be seen, with the reason.
    """

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
    used: dict[str, Use] = {}
    measured: int = 0
    gaps: tuple[str, ...] = ()


class LabStatus(Record, frozen=True, kw_only=True):
    """The lab object on the worker's CML, as last seen.

    title: Title of the lab on the server.
    marker: Mark in the lab's notes that proves that the lab is this session's.
    id: The id that CML gave the lab; null before its import is known.
    state: State of the lab in CML's word.
    nodes: Number of its nodes.
    booted: Number of its nodes that have booted.
    waiting: What its start waits for; null when it does not wait.
    progress_at: When it last came further: imported, started, or one node more booted.
    seen_gone: Whether the lab was seen to be gone from the server.
    tags_written: How often tags of its ports, which it lacked, were written again.
    members: Its nodes when it was ready; none are listed of a lab with more than 64.
    edits: How its nodes differ from these, as last seen, without an order here.
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
    tags_written: int = 0
    members: tuple[LabMember, ...] = ()
    edits: tuple[str, ...] = ()


# Texts alone, which make no circle: a list has thousands, which the collector need not look at.
class PortAccess(Record, frozen=True, kw_only=True, gc=False):
    """How one port of a lab is reached.

    name: Name of the port.
    node: Label of the node behind it.
    kind: What listens there: a serial console, a VNC screen, or a port of the node itself.
    url: URL for a client, such as telnet://192.0.2.7:2043.
    """

    name: str
    node: str
    kind: Literal["serial", "vnc", "pat"]
    url: str


class SessionAccess(Record, frozen=True, kw_only=True):
    """Where a session's lab is reached while it is up.

    host: Address of the ports; null when there is none now, or the reader may not see it.
    cml_url: CML's page on that server.
    lab_url: The lab on that page.
    lab_user: Account for CML that the definition names; never one of ours, and no password.
    ports: How each port is reached.
    message: Why there is no address; empty when there is one.
    """

    host: str | None = None
    cml_url: str | None = None
    lab_url: str | None = None
    lab_user: LabUser | None = None
    ports: tuple[PortAccess, ...] = ()
    message: str = ""


class SessionLink(Record, frozen=True, kw_only=True):
    """Another session of the same namespace.

    name: Name of the session.
    uid: Its identity: which one is meant, should the name be given again.
    """

    name: str
    uid: str


class SessionSeat(Record, frozen=True, kw_only=True):
    """Which seat of which group a session is.

    group: Name of the group.
    uid: Its identity: which one is meant, should the name be given again.
    seat: Name of the seat.
    booked_by: Who booked the group, and may see, extend and end the session as its owner does.
    """

    group: str
    uid: str
    seat: str
    booked_by: str


class SessionStatus(Record, frozen=True, kw_only=True):
    """What was observed of a session.

    `outcome` and `outcome_message` are kept while `message` tells of the teardown. `worker` stays
    for the record after the end, when `reservation` is null.

    phase: Where the session stands.
    phase_since: When the phase was entered (fleet time).
    conditions: Facts about it, each with its reason.
    definition: The definition as it was when the session was made.
    demand: What it is counted with by a bound of past use; null: with what its definition declares.
    start: Resolved beginning of the slot.
    end: Resolved end of the slot.
    extensions: How far its own person has extended it.
    warned_minutes: Before how many of its last minutes it was last said to end soon; null: not yet.
    checked_in_at: When somebody said that its person has come; null: nobody did.
    checked_in_by: Who said so.
    worker: Name of the worker that hosts or hosted it.
    reservation: Capacity held for it; null before placement and after it was given back.
    claim: What a pool has promised to it; null when no pool has. Kept for the record after its end.
    ports: Ports given to it on the worker.
    lab: Its lab on the worker's CML, as last seen.
    access: Where its lab is reached, worked out whenever it is read, as far as the reader may see it;
    null before the lab is ready and after it has gone.
    outlook: When it starts, worked out while it waits for a worker; null else, and before the first look.
    effect: The open call to the outside, if there is one.
    decision: The last placement decision with its reasons.
    placements: How often it was placed on a worker.
    used: What was measured of its lab's use so far, by figure.
    measured: How often that was measured, once a minute while it runs.
    observed_resources: Its lab as last seen.
    observed_ports: Port name to number, as last seen; null when never seen.
    port_drift_detected: Whether the ports on the server differ from those given.
    port_changes: How each port that differs does so.
    observation_count: How often the lab was observed.
    observed_at: When the newest observation was received.
    observe_handled: The newest request for an observation that was answered.
    outcome: How it ends, once that is decided.
    outcome_message: Why it ends so, in a sentence.
    scheduled_at: When it was placed.
    hosted_since: Since when its lab is on its worker, or was begun there; null before, and after its end.
    ready_at: When its lab was ready.
    started_at: When it began to run.
    ended_at: When it was over.
    reason: Word for why it is in its phase.
    message: Sentence for people on where it stands.
    errors: Failures in a row of what is being tried now.
    observed_generation: Generation of the spec that this status is about.
    retry_count: How many attempts were made before this one.
    retry_of: The last of them.
    retried_as: The next attempt.
    seat: The seat of a group that it is; null when it was asked for by itself.
    offer: To whom its person offers it; null when to nobody.
    handed_over: Since when and by whom it is its present person's; null when it always was.
    kept: What was kept of its lab before its teardown; null when nothing was to be kept.
    continues: The session whose kept configurations it begins with.
    lab_order: How far the last order of its lab is.
    lab_off: What of its lab is off because somebody ordered that; null when nothing is.
    """

    phase: SessionPhase = SessionPhase.PENDING
    phase_since: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    definition: DefinitionPin | None = None
    start: datetime | None = None
    end: datetime | None = None
    worker: str | None = None
    reservation: Reservation | None = None
    claim: Claim | None = None
    ports: tuple[PortAllocation, ...] = ()
    lab: LabStatus | None = None
    effect: Effect | None = None
    decision: Decision | None = None
    placements: int = 0
    used: dict[str, Use] = {}
    measured: int = 0
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
    hosted_since: datetime | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""
    message: str = ""
    errors: int = 0
    observed_generation: int = 0
    access: SessionAccess | None = None
    outlook: SessionOutlook | None = None
    retry_count: int = 0
    retry_of: SessionLink | None = None
    retried_as: SessionLink | None = None
    extensions: Extensions = Extensions()
    warned_minutes: int | None = None
    checked_in_at: datetime | None = None
    checked_in_by: str = ""
    seat: SessionSeat | None = None
    kept: KeptWork | None = None
    continues: SessionLink | None = None
    demand: LearnedDemand | None = None
    offer: SessionOffer | None = None
    handed_over: HandedOver | None = None
    lab_order: LabOrderProgress | None = None
    lab_off: LabOff | None = None


class Session(Resource, frozen=True, kw_only=True):
    """One person's use of one definition in a time slot (upstream 000, 001)."""

    spec: SessionSpec
    status: SessionStatus = SessionStatus()
    kind: str = "Session"


def booker(session: Session) -> str:
    """Return who has to answer for a session: whoever booked its group, else its owner."""
    seat = session.status.seat
    return session.spec.owner if seat is None else seat.booked_by
