"""Worker: one CML server on one machine.

The phases are those of docs/explanation/lifecycles.md; which may follow which is
`decisions/lifecycle/worker`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.conditions import Condition
from labfleet.resources.held_ports import HeldPorts, PortUse
from labfleet.resources.hosted_labs import HostedLab, IgnoredLab
from labfleet.resources.idle import ActivityEvent, IdleSignal
from labfleet.resources.lab_orders import LabOrder, LabOrderProgress
from labfleet.resources.machine import LicenceProduct, LicenceSettings, Machine, MachineStatus
from labfleet.resources.meta import Effect, Record, Resource, SecretRef
from labfleet.resources.paid_time import PaidTime

FINALIZER_MACHINE = "labfleet/machine"
FINALIZER_LICENCE = "labfleet/cml-licence"
FINALIZER_SERVER = "labfleet/cml-server"


class WorkerPhase(StrEnum):
    """Where a worker stands; a summary of its conditions.

    Two phases keep the spelling of upstream, `EC2` and all, whatever the provider is.
    """

    PENDING = "PENDING"
    PROVISIONING_EC2 = "PROVISIONING_EC2"
    EC2_READY = "EC2_READY"
    STARTING = "STARTING"
    READY_UNLICENSED = "READY_UNLICENSED"
    LICENSING = "LICENSING"
    READY = "READY"
    ACTIVE = "ACTIVE"
    DRAINING = "DRAINING"
    UNLICENSING = "UNLICENSING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    TERMINATING_EC2 = "TERMINATING_EC2"
    TERMINATED = "TERMINATED"
    FAILED = "FAILED"


class Health(StrEnum):
    """An axis of its own: a failed check never fails a worker that hosts labs."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    UNREACHABLE = "Unreachable"
    UNKNOWN = "Unknown"


class Drain(Record, frozen=True, kw_only=True):
    """A request to empty a worker: by when, why, by whom; `force` ends what still runs.

    deadline: When the worker shall be empty.
    reason: Why, in the words of whoever asked.
    requested_by: Who asked for it.
    force: Whether what still runs at the deadline is ended.
    """

    deadline: datetime
    reason: str = ""
    requested_by: str = ""
    force: bool = False


class Origin(Record, frozen=True, kw_only=True):
    """Where a worker that we did not launch comes from.

    `imported`: an instance that discovery found or that somebody named; `external`: a CML
    server at a URL with no instance of ours to start or stop. `managed` False means observe
    only: never stopped, started, terminated, licensed or swept (facts/aws.md#ownership: discovery
    is not ownership); `labfleet adopt` sets it, and puts our owner tag on the instance.

    kind: Whether it is an instance of a provider (imported) or a server at a URL (external).
    instance_id: The provider's name for an imported instance.
    region: Region of an imported instance.
    url: Address of an external server.
    managed: Whether we may stop, license and end it; else it is only observed.
    source: Who found it: discovery, a caller of the compatible route, or a person.
    """

    kind: Literal["imported", "external"]
    instance_id: str | None = None
    region: str | None = None
    url: str | None = None
    managed: bool = False
    source: str = ""


class LicenceOrder(Record, frozen=True, kw_only=True):
    """What somebody asked last of a worker's licence; set by its verbs.

    id: Operation id by which `status.licence.order` tells how it went.
    verb: What was asked.
    at: When it was asked.
    by: Who asked.
    licensed: What is wanted since: a registration, none, or (null) what `machine.autoLicense` says.
    product: Product that stands in for the machine's from then on.
    token: Reference of the token that stands in for the machine's from then on.
    renewed: Whether a server that is registered shall register anew with them.
    force: Whether sessions are ended, and what else runs is stopped, for a licence that goes back.
    """

    id: str
    verb: Literal["register", "deregister", "renew"]
    at: datetime
    by: str = ""
    licensed: bool | None = None
    product: LicenceProduct | None = None
    token: SecretRef | None = None
    renewed: bool = False
    force: bool = False


class WorkerSpec(Record, frozen=True, kw_only=True):
    """What people want of a worker.

    `machine` is filled from `template` when the worker is created.

    track: Lab track whose sessions it hosts.
    pool: Name of the pool that it belongs to; null for a worker of its own.
    template: Name of the template that its machine was copied from.
    machine: What it is made of; its own copy, which no change of the template moves.
    desired: State that people want; Stopped and Terminated mean a drain first, unless it is
    forced.
    cordoned: Whether nothing more is placed on it.
    drain: Set while somebody wants it empty by a deadline.
    origin: Where it comes from when we did not launch it; null when we did.
    idle_detection: Whether it may be stopped when nobody uses it.
    tags: Tags kept on the live instance, beside the template's and ours.
    retries: Raised by one when somebody asks a failed worker to try again.
    licence: What was asked last of its licence, beside what the machine says.
    console_asked: When its console text was last asked for.
    ignored_labs: Labs that are no session's and are left alone, as somebody said.
    lab_order: What somebody ordered last of a lab there that is no session's.
    """

    track: str = "default"
    pool: str | None = None
    template: str | None = None
    machine: Machine | None = None
    desired: Literal["Ready", "Stopped", "Terminated"] = "Ready"
    cordoned: bool = False
    drain: Drain | None = None
    origin: Origin | None = None
    idle_detection: bool = True
    tags: Annotated[dict[str, str], msgspec.Meta(max_length=30)] = {}
    retries: Annotated[int, msgspec.Meta(ge=0)] = 0
    licence: LicenceOrder | None = None
    console_asked: datetime | None = None
    ignored_labs: tuple[IgnoredLab, ...] = ()
    lab_order: LabOrder | None = None

    @property
    def licensing(self) -> LicenceSettings | None:
        """Return the licence settings that hold: the machine's, where no order stands in for them."""
        if self.machine is None or self.licence is None:
            return None if self.machine is None else self.machine.licence
        own, order = self.machine.licence, self.licence
        return msgspec.structs.replace(
            own, product=order.product or own.product, token=order.token or own.token
        )


class IdleStatus(Record, frozen=True, kw_only=True):
    """The last verdict on idleness and what came of verdicts (facts/upstream.md#idle).

    Written when the verdict or its reasons change, not for each check.

    verdict: Whether the worker is in use, unused, or unknown.
    signals: Names of what keeps it from being stopped.
    evidence: The whole table of signals of that check.
    checked_at: When it was last judged.
    recent: The newest events of use.
    since: Since when nothing was used.
    last_activity_at: When it was last used.
    warned_at: When its coming stop was announced.
    snoozed_until: Until when it is not judged after a start.
    auto_pauses: Stops by the idle rule.
    manual_pauses: Stops by people.
    auto_resumes: Starts by the pool because it was needed.
    manual_resumes: Starts by people.
    last_paused_at: When it was last stopped.
    last_paused_by: Who stopped it last.
    last_paused_reason: Why it was last stopped.
    last_resumed_at: When it was last started.
    """

    verdict: Literal["busy", "idle", "unknown"] = "unknown"
    signals: tuple[str, ...] = ()
    evidence: tuple[IdleSignal, ...] = ()
    checked_at: datetime | None = None
    recent: tuple[ActivityEvent, ...] = ()
    since: datetime | None = None
    last_activity_at: datetime | None = None
    warned_at: datetime | None = None
    snoozed_until: datetime | None = None
    auto_pauses: int = 0
    manual_pauses: int = 0
    auto_resumes: int = 0
    manual_resumes: int = 0
    last_paused_at: datetime | None = None
    last_paused_by: str = ""
    last_paused_reason: str = ""
    last_resumed_at: datetime | None = None


class CmlStatus(Record, frozen=True, kw_only=True):
    """The CML server as last seen; null means unknown, with the reason in a condition.

    url: Address at which CML is reached.
    boot: Name of the boot (instance and launch time) that the fingerprint belongs to.
    version: CML's version.
    ready: Whether CML says that it is ready.
    stage: How far it was come to: unreachable, refused, bad_gateway, not_ready or ready.
    tls_fingerprint: SHA-256 of its certificate on this boot.
    product_uuid: Identity of the machine as CML tells it.
    hostname: Name that the server calls itself.
    labs: Labs on it that have a node.
    running_nodes: Nodes that run on it.
    telemetry: Whether CML's own product telemetry was switched on for this boot.
    """

    url: str | None = None
    boot: str | None = None
    version: str | None = None
    ready: bool | None = None
    stage: str | None = None
    tls_fingerprint: str | None = None
    product_uuid: str | None = None
    hostname: str | None = None
    labs: int | None = None
    running_nodes: int | None = None
    telemetry: bool | None = None


class LicenceProgress(Record, frozen=True, kw_only=True):
    """How far the last order of a licence is.

    id: Operation id of the order.
    state: Waiting for the server or its sessions; calling CML; asked, when CML took it and the
    licence cloud has not answered yet; done; or refused.
    at: Since when it is so.
    message: Why it was refused, or what it waits for.
    """

    id: str
    state: Literal["waiting", "calling", "asked", "done", "refused"] = "waiting"
    at: datetime
    message: str = ""


class LicenceStatus(Record, frozen=True, kw_only=True):
    """The licence as last seen. `leak` says why a licence could not be given back.

    registration: State of the registration in CML's word.
    authorization: State of the authorization in CML's word.
    product: Product that is registered.
    node_capacity: Nodes that the licence allows.
    registered: Whether a registration is there.
    licensed: Whether it is registered and authorized.
    expires: When the authorization ends, as CML writes it; it tells no zone.
    leak: Why the licence could not be given back.
    renewed_at: When a renewal was last asked for, by a person or because the licence was to expire.
    order: How far the last thing is that was asked of it.
    """

    registration: str | None = None
    authorization: str | None = None
    product: str | None = None
    node_capacity: int | None = None
    registered: bool | None = None
    licensed: bool | None = None
    expires: str | None = None
    leak: str | None = None
    renewed_at: datetime | None = None
    order: LicenceProgress | None = None


class Shares(Record, frozen=True, kw_only=True):
    """Percent of each dimension, with one digit; null where there is none to have, or it is unknown.

    More than 100 while more is promised than there is (condition OverCommitted).

    cpu: Share of the CPU.
    memory: Share of the memory.
    storage: Share of the disk.
    nodes: Share of the nodes that may run.
    labs: Share of the labs at the same time.
    ports: Share of the ports for people.
    network: Share of the network.
    """

    cpu: float | None = None
    memory: float | None = None
    storage: float | None = None
    nodes: float | None = None
    labs: float | None = None
    ports: float | None = None
    network: float | None = None


class Allocation(Record, frozen=True, kw_only=True):
    """What is promised of a worker's capacity: the most at any instant from now on.

    Whether sessions are taken at all says the condition AcceptingLabs. What is *used* is measured
    (telemetry), and is another thing.

    reserved: What sessions were promised.
    available: What no session was promised; null while the capacity is unknown.
    percent: Share of the capacity that was promised.
    """

    reserved: Amounts = Amounts()
    available: Amounts | None = None
    percent: Shares = Shares()


class LimitStatus(Record, frozen=True, kw_only=True):
    """The time limit of the machine's `limits` that bounds what the worker does now.

    name: Which of the limits it is.
    since: When what it limits began; before that, when the wait for it began.
    begun: Whether what it limits has begun.
    held_since: Since when something outside holds the worker up, and the limit stands still.
    """

    name: str
    since: datetime
    begun: bool = False
    held_since: datetime | None = None


class StrayLab(Record, frozen=True, kw_only=True):
    """A lab on the server with our marker that is no session's which still runs.

    id: CML's name for the lab.
    uid: Identity of the session that its marker names.
    since: When it was first seen.
    tried: When its removal last failed.
    refused: Why it failed, in CML's words.
    ignored: Whether somebody said that it is left alone.
    """

    id: str
    uid: str
    since: datetime
    tried: datetime | None = None
    refused: str = ""
    ignored: bool = False


class StrayLabs(Record, frozen=True, kw_only=True):
    """What is left of sessions that this store does not know, as after restoring a backup.

    labs: The next of them to be removed.
    count: How many there are.
    held: What they hold, as far as nodes and their definitions tell; `capacity` is without it.
    """

    labs: tuple[StrayLab, ...] = ()
    count: int = 0
    held: Amounts = Amounts()


class WorkerStatus(Record, frozen=True, kw_only=True):
    """What was observed of a worker.

    phase: Where the worker stands.
    phase_since: When the phase was entered (fleet time).
    limit: The time limit that runs in the phase; null when none does.
    summary: The same in one of upstream 002's coarse words.
    health: How the server does as a whole.
    failed_checks: Looks at the server in a row that failed; more than ten are not counted.
    conditions: Facts about it, each with its reason.
    machine: The machine as last seen.
    cml: The CML server as last seen.
    licence: The licence as last seen.
    idle: The last verdict on its use.
    console: End of the machine's console text, fetched after a failed boot and when asked for.
    console_handled: The newest asking for it that was answered.
    capacity: What it really has; null before it was seen.
    allocation: What is promised of that, worked out at each reading; null in events.
    provisioning_started_at: When the newest launch began to ask for a machine.
    provisioning_ended_at: When that machine ran, or was given up.
    failed_check_at: When a check of CML last failed; told while checks fail, to five minutes when
    they have failed for long.
    last_health_check_at: When CML was last asked, well or not, worked out at each reading.
    stray_labs: Labs with our marker that are no session's.
    hosted_labs: Labs on the server that have nodes, a hundred of them listed; null before they were
    seen. Titles and owners are for operators and admins.
    lab_order: How far the last order of a lab of no session is.
    foreign_ports: Ports seen on the server that we did not give (tcp/5041), left alone until they
    are gone.
    held_ports: The same as stretches of numbers, with the lab that names them and since when.
    ports: How many ports are used, held and free, worked out at each reading; null in events, and
    before the server's labs were seen.
    attempt: Counts launches; part of the client token.
    effect: The open call to the outside, if there is one.
    empty_since: Since when no session is on it.
    ready_since: Since when it can host sessions.
    paid: What is paid for its machine now, and since when; null when nothing is.
    message: Sentence for people on where it stands.
    errors: Failures in a row of what is being tried now.
    observed_generation: Generation of the spec that this status is about.
    """

    phase: WorkerPhase = WorkerPhase.PENDING
    phase_since: datetime | None = None
    limit: LimitStatus | None = None
    summary: str = "pending"
    health: Health = Health.UNKNOWN
    failed_checks: int = 0
    conditions: tuple[Condition, ...] = ()
    machine: MachineStatus = MachineStatus()
    cml: CmlStatus = CmlStatus()
    licence: LicenceStatus = LicenceStatus()
    idle: IdleStatus = IdleStatus()
    console: str = ""
    console_handled: datetime | None = None
    capacity: Amounts | None = None
    allocation: Allocation | None = None
    foreign_ports: tuple[str, ...] = ()
    held_ports: tuple[HeldPorts, ...] = ()
    ports: PortUse | None = None
    stray_labs: StrayLabs = StrayLabs()
    hosted_labs: tuple[HostedLab, ...] | None = None
    lab_order: LabOrderProgress | None = None
    attempt: int = 0
    effect: Effect | None = None
    empty_since: datetime | None = None
    ready_since: datetime | None = None
    paid: PaidTime | None = None
    provisioning_started_at: datetime | None = None
    provisioning_ended_at: datetime | None = None
    failed_check_at: datetime | None = None
    last_health_check_at: datetime | None = None
    message: str = ""
    errors: int = 0
    observed_generation: int = 0


class Worker(Resource, frozen=True, kw_only=True):
    """One CML server on one machine.

    From upstream 001 and 002, its phases too (facts/upstream.md#worker-phases).
    """

    spec: WorkerSpec = WorkerSpec()
    status: WorkerStatus = WorkerStatus()
    kind: str = "Worker"
