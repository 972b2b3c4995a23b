"""Telemetry: what one reading of a CML server measured, typed, with units in the docstrings.

Samples are not status: they live in a bounded store in memory. What they mean
for a worker is decided in `lifecycle.worker.health` and kept as conditions. Unknown is null,
with the reason under its path in `gaps`; never 0. Source of the shapes: facts/cml.md#system-bodies.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import DEFAULT_NAMESPACE, Key, Record


class Room(Record, frozen=True, kw_only=True):
    """Memory or disk in bytes; used + free may be less than total (caches).

    total: All there is, in bytes.
    free: What is free, in bytes.
    used: What is used, in bytes.
    """

    total: int | None = None
    free: int | None = None
    used: int | None = None


class ComputeStats(Record, frozen=True, kw_only=True):
    """One compute host.

    hostname: Name of the host.
    is_controller: Whether the controller runs on it.
    cpu_count: CPUs of the host.
    cpu_percent: Use of all its CPUs, 0 to 100.
    cpu_model: Name of its CPU.
    cpu_predicted: CPUs that CML expects its nodes to use.
    load: Load averages over 1, 5 and 15 minutes.
    memory: Its memory.
    disk: Its disk.
    allocated_cpus: Virtual CPUs of its running nodes.
    allocated_memory_mib: Memory of its running nodes in MiB (CML sends KiB).
    total_nodes: Nodes on it, running or not.
    running_nodes: Nodes that run on it.
    total_orphans: Machines on it that the controller does not know.
    running_orphans: Those of them that run.
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

    Sums over computes are null when one of them does not tell.

    cpu_count: CPUs of all hosts.
    cpu_percent: Use of all CPUs, 0 to 100.
    memory: Memory of all hosts.
    disk: Disks of all hosts.
    controller_disk: Disk of the controller.
    allocated_cpus: Virtual CPUs of all running nodes.
    allocated_memory_mib: Memory of all running nodes in MiB.
    total_nodes: Nodes on all hosts, running or not.
    running_nodes: Nodes that run.
    running_orphans: Running machines that the controller does not know.
    computes: Each compute host, by its id.
    gaps: Path of a null value to why it is null.
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

    `docker_shim` came with 2.9, the overload flags with 2.10: true there means that node starts
    are refused.

    hostname: Name of the host.
    is_controller: Whether the controller runs on it.
    admission_state: Whether it takes nodes, in CML's word.
    valid: CML's verdict on the whole host.
    kvm_vmx_enabled: Whether the host can run virtual machines.
    enough_cpus: Whether it has enough CPUs.
    lld_connected: Whether its low-level driver is connected to the controller.
    lld_synced: Whether its low-level driver agrees with the controller.
    libvirt: Whether libvirt works.
    fabric: Whether the fabric between nodes works.
    device_mux: Whether the consoles' multiplexer works.
    refplat_images_available: Whether the reference platform's images are there.
    docker_shim: Whether containers can run.
    cpu_overload: Whether its CPUs are overloaded.
    memory_overload: Whether its memory is overloaded.
    disk_overload: Whether its disk is overloaded.
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
    """The flags of the controller.

    valid: CML's verdict on the controller.
    core_connected: Whether the core of CML is connected.
    nodes_loaded: Whether node definitions are loaded.
    images_loaded: Whether image definitions are loaded.
    """

    valid: bool | None = None
    core_connected: bool | None = None
    nodes_loaded: bool | None = None
    images_loaded: bool | None = None


class SystemHealth(Record, frozen=True, kw_only=True):
    """GET system_health, each flag as CML gives it.

    valid: CML's verdict on the whole server.
    is_licensed: Whether CML says that it is licensed.
    is_enterprise: Whether it is an enterprise product.
    computes: Each compute host, by its id.
    controller: The controller.
    gaps: Path of a null value to why it is null.
    """

    valid: bool | None = None
    is_licensed: bool | None = None
    is_enterprise: bool | None = None
    computes: dict[str, ComputeHealth] = {}
    controller: ControllerHealth = ControllerHealth()
    gaps: dict[str, str] = {}


class Feature(Record, frozen=True, kw_only=True):
    """One licensed feature. `in_use` is the count asked for, `max` what may be bought.

    Source: facts/cml-issues.md#f3.

    id: Name of the feature for the licence cloud.
    name: Name of the feature for people.
    in_use: The count asked for, not what runs.
    status: State in CML's word.
    min: Least count.
    max: Greatest count that may be bought.
    """

    id: str | None = None
    name: str | None = None
    in_use: int | None = None
    status: str | None = None
    min: int | None = None
    max: int | None = None


class Licensing(Record, frozen=True, kw_only=True):
    """The licence as the server tells it, raw words kept.

    `quota` and `started` are diagnostics' own numbers, to compare with; a user quota is never
    taken for either (facts/cml-issues.md#f4). Dates carry no zone and are kept as they came.

    registration: State of the registration in CML's word.
    authorization: State of the authorization in CML's word.
    product: Product that is registered.
    is_enterprise: Whether it is an enterprise product.
    licensed: Whether registration is COMPLETED and authorization IN_COMPLIANCE.
    registered: Whether a registration is there.
    node_capacity: Included nodes of the product plus the expansion in use
    (facts/cml.md#licensing).
    quota: Nodes that diagnostics say may run.
    started: Nodes that diagnostics say run.
    product_uuid: Identity of the machine as CML tells it.
    hostname: Name that the server calls itself.
    smart_account: Smart account that it is registered to.
    virtual_account: Virtual account that it is registered to.
    registration_expires: When the registration ends.
    authorization_expires: When the authorization ends.
    reservation_mode: Whether the licence is reserved without a connection.
    transport: Address of the licence cloud.
    features: Each licensed feature, by its id.
    gaps: Path of a null value to why it is null.
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

    `uptime_seconds` counts from the instance's launch, because CML does not tell.

    worker: Name of the worker.
    namespace: Namespace of the worker.
    at: When it was measured.
    boot: The boot (instance and launch time) that it was measured on.
    version: CML's version.
    ready: Whether CML says that it is ready.
    uptime_seconds: Seconds since the machine's launch.
    labs_count: Labs that have a node.
    maintenance: Whether CML is in maintenance mode.
    stats: What CML says of CPU, memory, disk and nodes.
    health: CML's flags.
    licence: The licence.
    gaps: Path of a null value to why it is null.
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

    Network is in bytes a second (CloudWatch sends bytes over the period:
    facts/aws-bugs.md#case-29). It has no memory and no disk without an agent.

    at: When the period begins.
    seconds: Length of the period.
    cpu_percent: Average use of the machine's CPUs, 0 to 100.
    network_in_bytes_per_second: Bytes a second that came in.
    network_out_bytes_per_second: Bytes a second that went out.
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
