"""Telemetry: what one reading of a CML server measured, typed, with units in the docstrings.

Samples are not status: they live in a bounded store in memory. What they mean
for a worker is decided in `lifecycle.worker.health` and kept as conditions. Unknown is null,
with the reason under its path in `gaps`; never 0. Source of the shapes: facts/cml.md#system-bodies.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import DEFAULT_NAMESPACE, Key, Record


class Room(Record, frozen=True, kw_only=True):
    """Memory or disk in bytes; used + free may be less than total (caches)."""

    total: int | None = None
    free: int | None = None
    used: int | None = None


class ComputeStats(Record, frozen=True, kw_only=True):
    """One compute host.

    `cpu_percent` 0-100 of the whole host; `load` averages over 1, 5 and 15 minutes;
    `allocated_cpus` vCPUs of running nodes; `allocated_memory_mib` MiB (CML sends KiB).
    Orphans are machines on the host that the controller does not know.
    """

    hostname: str | None = None
    is_controller: bool | None = None
    cpu_count: int | None = None
    cpu_percent: float | None = None
    cpu_model: str | None = None
    cpu_predicted: int | None = None
    load: tuple[float, ...] = ()
    memory: Room = Room()
    disk: Room = Room()
    allocated_cpus: int | None = None
    allocated_memory_mib: int | None = None
    total_nodes: int | None = None
    running_nodes: int | None = None
    total_orphans: int | None = None
    running_orphans: int | None = None


class SystemStats(Record, frozen=True, kw_only=True):
    """GET system_stats: the whole server, its controller's disk, each compute by id.

    Units as in `ComputeStats`. Sums over computes are null when one of them does not tell.
    """

    cpu_count: int | None = None
    cpu_percent: float | None = None
    memory: Room = Room()
    disk: Room = Room()
    controller_disk: Room = Room()
    allocated_cpus: int | None = None
    allocated_memory_mib: int | None = None
    total_nodes: int | None = None
    running_nodes: int | None = None
    running_orphans: int | None = None
    computes: dict[str, ComputeStats] = {}
    gaps: dict[str, str] = {}


class ComputeHealth(Record, frozen=True, kw_only=True):
    """The flags of one compute; null means that CML does not know.

    `docker_shim` came with 2.9, the overload flags with 2.10: true there means that node
    starts are refused.
    """

    hostname: str | None = None
    is_controller: bool | None = None
    admission_state: str | None = None
    valid: bool | None = None
    kvm_vmx_enabled: bool | None = None
    enough_cpus: bool | None = None
    lld_connected: bool | None = None
    lld_synced: bool | None = None
    libvirt: bool | None = None
    fabric: bool | None = None
    device_mux: bool | None = None
    refplat_images_available: bool | None = None
    docker_shim: bool | None = None
    cpu_overload: bool | None = None
    memory_overload: bool | None = None
    disk_overload: bool | None = None


class ControllerHealth(Record, frozen=True, kw_only=True):
    """The flags of the controller."""

    valid: bool | None = None
    core_connected: bool | None = None
    nodes_loaded: bool | None = None
    images_loaded: bool | None = None


class SystemHealth(Record, frozen=True, kw_only=True):
    """GET system_health, each flag as CML gives it."""

    valid: bool | None = None
    is_licensed: bool | None = None
    is_enterprise: bool | None = None
    computes: dict[str, ComputeHealth] = {}
    controller: ControllerHealth = ControllerHealth()
    gaps: dict[str, str] = {}


class Feature(Record, frozen=True, kw_only=True):
    """One licensed feature. `in_use` is the count asked for, `max` what may be bought.

    Source: facts/cml-issues.md#f3.
    """

    id: str | None = None
    name: str | None = None
    in_use: int | None = None
    status: str | None = None
    min: int | None = None
    max: int | None = None


class Licensing(Record, frozen=True, kw_only=True):
    """The licence as the server tells it, raw words kept.

    `node_capacity` = included nodes of the product + expansion `in_use` (facts/cml.md#licensing),
    null when unknown. `licensed` = registration COMPLETED and authorization IN_COMPLIANCE.
    `quota` and `started` are diagnostics' own numbers, to compare with; a user quota is never
    taken for either (facts/cml-issues.md#f4). Dates carry no zone and are kept as they came.
    """

    registration: str | None = None
    authorization: str | None = None
    product: str | None = None
    is_enterprise: bool | None = None
    licensed: bool = False
    registered: bool = False
    node_capacity: int | None = None
    quota: int | None = None
    started: int | None = None
    product_uuid: str | None = None
    hostname: str | None = None
    smart_account: str | None = None
    virtual_account: str | None = None
    registration_expires: str | None = None
    authorization_expires: str | None = None
    reservation_mode: bool | None = None
    transport: str | None = None
    features: dict[str, Feature] = {}
    gaps: dict[str, str] = {}

    @property
    def expires(self) -> str | None:
        """When the nearer of the two ends, as text: authorization first.

        Source: facts/cml.md#licensing.
        """
        return self.authorization_expires or self.registration_expires


class Sample(Record, frozen=True, kw_only=True):
    """Everything that one look at one worker's CML measured; what failed is null.

    `gaps`: path of a null value -> why it is null. `uptime_seconds` counts from the
    instance's launch, because CML does not tell.
    """

    worker: str
    namespace: str = DEFAULT_NAMESPACE
    at: datetime
    boot: str
    version: str | None = None
    ready: bool | None = None
    uptime_seconds: int | None = None
    labs_count: int | None = None
    maintenance: bool | None = None
    stats: SystemStats | None = None
    health: SystemHealth | None = None
    licence: Licensing | None = None
    gaps: dict[str, str] = {}

    @property
    def key(self) -> Key:
        """Return what names the worker in the store."""
        return Key("Worker", self.namespace, self.worker)


class ProviderPoint(Record, frozen=True, kw_only=True):
    """What the provider (CloudWatch) measured of a machine over `seconds` that begin at `at`.

    `cpu_percent` 0-100, average; network in bytes a second (CloudWatch sends bytes over the
    period: facts/aws-bugs.md#case-29). It has no memory and no disk without an agent.
    """

    at: datetime
    seconds: int
    cpu_percent: float | None = None
    network_in_bytes_per_second: float | None = None
    network_out_bytes_per_second: float | None = None


class Change(Record, frozen=True, kw_only=True):
    """A worker's numbers moved by more than the setting: one step of the feed of changes.

    `number` counts up by one within a process. `values` are all numbers by the names of
    `resources.series.METRICS`, null when unknown; `moved` names those that made the change.
    """

    number: int
    worker: str
    namespace: str = DEFAULT_NAMESPACE
    at: datetime
    values: dict[str, float | None]
    moved: tuple[str, ...]
