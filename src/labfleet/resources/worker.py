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
from labfleet.resources.idle import ActivityEvent, IdleSignal
from labfleet.resources.machine import Machine, MachineStatus
from labfleet.resources.meta import Effect, Record, Resource

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
    """A request to empty a worker: by when, why, by whom; `force` ends what still runs."""

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
    """

    kind: Literal["imported", "external"]
    instance_id: str | None = None
    region: str | None = None
    url: str | None = None
    managed: bool = False
    source: str = ""


class WorkerSpec(Record, frozen=True, kw_only=True):
    """What people want of a worker.

    `machine` is filled from `template` when the worker is created. `desired` is reachable
    from every live phase; Terminated and Stopped imply a drain first, unless `drain.force`.
    `tags` are kept on the live instance as they are here, beside the template's and ours.
    `origin` None means that we launched it. `idle_detection` False: never stopped for idleness.
    `retries` moves when somebody asks a FAILED worker to try again.
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


class IdleStatus(Record, frozen=True, kw_only=True):
    """The last verdict on idleness and what came of verdicts (facts/upstream.md#idle).

    Written when the verdict or its reasons change, not for each check. `signals` are the
    names of what keeps the worker, `evidence` is the whole table of that check. `since` is
    since when nothing was used, `recent` the newest events of use; counters count pauses and
    resumes by the idle rule (auto) and by people (manual).
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

    `boot` names the boot (instance and launch time) that the fingerprint belongs to, and
    `telemetry` the opt-in that was set on it. `labs` counts labs that have a node.
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


class LicenceStatus(Record, frozen=True, kw_only=True):
    """The licence as last seen. `leak` says why a licence could not be given back.

    `renewed_at` is when a renewal was last asked for, because the licence was about to expire.
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


class LimitStatus(Record, frozen=True, kw_only=True):
    """The time limit of the machine's `limits` that bounds what the worker does now.

    It counts from `since`: from the beginning of what it limits once that has `begun`, of the wait
    for it before. While something outside holds the worker up (`held_since`) it stands still.
    """

    name: str
    since: datetime
    begun: bool = False
    held_since: datetime | None = None


class WorkerStatus(Record, frozen=True, kw_only=True):
    """What was observed of a worker.

    `phase_since` is when the phase was entered (fleet time), `limit` the time limit that runs in it.
    `summary` is upstream 002's coarse word. `capacity` is the real one once seen (None before).
    `attempt` counts launches; it is part of the client token. `foreign_ports` are those seen
    on the server and not allocated by us (`tcp/5041`), quarantined until they are gone.
    `console` is the end of the machine's console text, fetched once after a failed boot.
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
    capacity: Amounts | None = None
    foreign_ports: tuple[str, ...] = ()
    attempt: int = 0
    effect: Effect | None = None
    empty_since: datetime | None = None
    ready_since: datetime | None = None
    message: str = ""
    errors: int = 0
    observed_generation: int = 0


class Worker(Resource, frozen=True, kw_only=True):
    """One CML server on one machine.

    From upstream 001 and 002; its phases: facts/upstream.md#worker-phases.
    """

    spec: WorkerSpec = WorkerSpec()
    status: WorkerStatus = WorkerStatus()
    kind: str = "Worker"
