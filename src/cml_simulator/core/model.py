"""The data model of one CML server: labs, nodes, interfaces, links, users, and their states."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cml_simulator.core.definitions import DEFINITIONS, UNKNOWN, Definition

EVENTS_KEPT = 5000


class State(StrEnum):
    """The state words of CML 2.9 for nodes, labs, interfaces and links."""

    DEFINED = "DEFINED_ON_CORE"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    STARTED = "STARTED"
    BOOTED = "BOOTED"
    STOPPED = "STOPPED"
    DISCONNECTED = "DISCONNECTED"


@dataclass(slots=True)
class Interface:
    """One interface; `learned_mac` exists from the first start to the wipe."""

    id: str
    node_id: str
    label: str
    slot: int | None
    kind: str = "physical"
    mac: str | None = None
    learned_mac: str | None = None
    link_id: str | None = None
    up: bool = True


@dataclass(slots=True)
class Capture:
    """A packet capture on a link: what was asked, and when it ran."""

    key: str
    link_id: str
    asked: dict[str, Any]
    started_at: float
    stopped_at: float | None = None


@dataclass(slots=True)
class Link:
    """One link between two interfaces."""

    id: str
    lab_id: str
    label: str
    a: str
    b: str
    node_a: str
    node_b: str
    conditioning: dict[str, Any] = field(default_factory=dict)
    up: bool = True
    capture: Capture | None = None


@dataclass(slots=True)
class Node:
    """One node: its requested values, and those in effect since the last start.

    `phase` is one of DEFINED, QUEUED, STARTED (admitted) and STOPPED. BOOTED is computed on read;
    so is DISCONNECTED, while the node is `lost` with its compute host. STARTING exists from 2.10.
    `after` are the nodes that it waits for in a staged start. `running` is what was typed into it since
    its disk was made: the lab has it only once it is extracted, and a wipe loses it.
    """

    id: str
    lab_id: str
    label: str
    definition: str
    x: int
    y: int
    image: str | None = None
    ram: int | None = None
    cpus: int | None = None
    cpu_limit: int | None = None
    data_volume: int | None = None
    boot_disk_size: int | None = None
    hide_links: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    configuration: list[dict[str, str]] = field(default_factory=list)
    running: str | None = None
    pinned_compute_id: str | None = None
    interfaces: list[Interface] = field(default_factory=list)
    phase: State = State.DEFINED
    disk: bool = False
    queued_at: float = 0.0
    started_at: float = 0.0
    booted_at: float = 0.0
    stop_due: float | None = None
    vnc_key: str | None = None
    console_keys: list[str] = field(default_factory=list)
    tagged_at: dict[str, float] = field(default_factory=dict)
    starting_until: float = 0.0
    lost: bool = False
    broken: bool = False
    pool: str | None = None
    priority: int | None = None
    after: tuple[str, ...] = ()
    own_kind: Definition | None = field(default=None, repr=False)

    @property
    def kind(self) -> Definition:
        return self.own_kind or DEFINITIONS.get(self.definition, UNKNOWN)

    @property
    def admitted(self) -> bool:
        """Whether it holds CPU, RAM and a licence now."""
        return self.phase is State.STARTED

    def state(self, now: float) -> State:
        """Return the state word at a time."""
        if self.phase is not State.STARTED:
            return self.phase
        if self.lost:
            return State.DISCONNECTED
        if now >= self.booted_at:
            return State.BOOTED
        return State.STARTING if now < self.starting_until else State.STARTED

    @property
    def want_cpus(self) -> int:
        return self.kind.cpus if self.cpus is None else self.cpus

    @property
    def want_ram(self) -> int:
        """MiB."""
        return self.kind.ram if self.ram is None else self.ram

    @property
    def want_limit(self) -> int:
        """Percent of each vCPU."""
        return 100 if self.cpu_limit is None else self.cpu_limit

    @property
    def points(self) -> int:
        """CPU points: 100 for each whole vCPU."""
        return self.want_cpus * self.want_limit


@dataclass(slots=True)
class Lab:
    """One lab. `intent` answers for a lab without nodes."""

    id: str
    title: str
    description: str
    notes: str
    owner: str
    created: float
    modified: float
    version: str = "0.3.0"
    intent: State = State.DEFINED
    nodes: dict[str, Node] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    smart_annotations: list[dict[str, Any]] = field(default_factory=list)
    shares: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    mappings: dict[str, str | None] = field(default_factory=dict)
    autostart: dict[str, Any] | None = None
    node_staging: dict[str, Any] | None = None
    shown: tuple[State, float] | None = None
    events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))

    def state(self) -> State:
        """Return STARTED if any node is active, else STOPPED if any was, else DEFINED_ON_CORE."""
        if not self.nodes:
            return self.intent
        phases = {node.phase for node in self.nodes.values()}
        if State.QUEUED in phases or State.STARTED in phases:
            return State.STARTED
        return State.STOPPED if State.STOPPED in phases else State.DEFINED


@dataclass(slots=True)
class User:
    """One account; the password never shows in a repr."""

    id: str
    username: str
    password: str = field(repr=False)
    admin: bool = False
    fullname: str = ""
    description: str = ""
    email: str = ""
    resource_pool: str | None = None
    opt_in: bool | None = None
    tour_version: str = ""
    pubkey: str = ""
    created: float = 0.0
    modified: float = 0.0


@dataclass(slots=True)
class Group:
    """One group of users."""

    id: str
    name: str
    description: str = ""
    members: list[str] = field(default_factory=list)
    created: float = 0.0
    modified: float = 0.0


@dataclass(slots=True)
class Pool:
    """One resource pool, or a template of pools. ram MB, cpus whole, disk GB; None is no limit."""

    id: str
    label: str
    description: str = ""
    template: str | None = None
    is_template: bool = False
    licenses: int | None = None
    ram: int | None = None
    cpus: int | None = None
    disk_space: int | None = None
    external_connectors: list[str] | None = None
    users: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Notice:
    """One message to users."""

    id: str
    level: str
    label: str
    content: str = ""
    enabled: bool = False
    groups: list[str] | None = None
    acknowledged: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Connector:
    """One bridge of the host that external connectors may use."""

    id: str
    device_name: str
    label: str
    forwarding: str
    tags: list[str] = field(default_factory=list)
    snooped: bool = True
    protected: bool = False
