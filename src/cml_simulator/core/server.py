"""The state of one CML server: data only. `world` advances it in time."""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cml_simulator.core import ports
from cml_simulator.core.definition_store import DefinitionStore
from cml_simulator.core.faults import Fault
from cml_simulator.core.inputs import Rng, iso, new_id
from cml_simulator.core.licensing import Licence, LicenceCloud
from cml_simulator.core.model import (
    Capture,
    Connector,
    Group,
    Interface,
    Lab,
    Link,
    Node,
    Notice,
    Pool,
    User,
)
from cml_simulator.core.profile import Config
from cml_simulator.core.server_conditions import ServerConditions
from cml_simulator.core.tokens import Sessions
from cml_simulator.core.use_curves import Curve

ADMIN_ID = "00000000-0000-4000-a000-000000000000"
JOURNAL_KEPT = 5000
MIB = 1024 * 1024


class BootStage(StrEnum):
    """How far a boot has come, as seen from outside."""

    OFF = "off"
    REFUSED = "refused"
    BAD_GATEWAY = "bad_gateway"
    NOT_READY = "not_ready"
    READY = "ready"


REFUSED_UNTIL = 0.5
BAD_GATEWAY_UNTIL = 0.75


class Admission(StrEnum):
    """The compute host's admission state, in the order in which it may move."""

    UNREGISTERED = "UNREGISTERED"
    REGISTERED = "REGISTERED"
    ONLINE = "ONLINE"
    READY = "READY"


@dataclass(slots=True)
class Power:
    """Whether the machine is on and when it was switched."""

    on: bool = False
    since: float = 0.0
    ready_at: float = 0.0
    ready_seen: bool = False
    boots: int = 0
    destroyed: bool = False


@dataclass(slots=True)
class Tally:
    """Counters that outlive labs and boots."""

    imports: int = 0
    labs_created: int = 0
    labs_deleted: int = 0
    labs_destroyed: int = 0
    starts: int = 0
    conflicts: int = 0
    requests: int = 0


@dataclass(slots=True)
class Server:
    """All state of one CML server."""

    config: Config
    rng: Rng
    cloud: LicenceCloud
    licence: Licence
    sessions: Sessions
    users: dict[str, User] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    labs: dict[str, Lab] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    captures: dict[str, Capture] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)
    connectors: dict[str, Connector] = field(default_factory=dict)
    repos: dict[str, dict[str, Any]] = field(default_factory=dict)
    definition_store: DefinitionStore = field(default_factory=DefinitionStore)
    queue: list[Node] = field(default_factory=list)
    active: dict[str, Node] = field(default_factory=dict)
    stopping: dict[str, Node] = field(default_factory=dict)
    resuming: list[str] = field(default_factory=list)
    leases: dict[str, int] = field(default_factory=dict)
    power: Power = field(default_factory=Power)
    server_conditions: ServerConditions = field(default_factory=ServerConditions)
    admission: Admission = Admission.READY
    new_hosts: Admission = Admission.READY
    compute_known: bool = True
    tally: Tally = field(default_factory=Tally)
    faults: list[Fault] = field(default_factory=list)
    use_curves: tuple[Curve, ...] = ()
    journal: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=JOURNAL_KEPT))
    clashes: deque[ports.Clash] = field(default_factory=lambda: deque(maxlen=1000))
    telemetry: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))
    feedback: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=100))
    news: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=1000))
    auth: dict[str, Any] = field(default_factory=lambda: {"method": "local"})
    maintenance: bool = False
    notice: str | None = None
    opt_in: bool | None = None
    revision: int = 0
    claims: tuple[int, list[ports.Claim]] = (-1, [])
    opened: tuple[int, float, tuple[list[ports.OpenPort], list[ports.Clash]]] = (-1, 0.0, ([], []))

    @property
    def id(self) -> str:
        return self.config.identity.id

    @property
    def compute_id(self) -> str:
        return self.config.identity.compute_id

    def new_id(self) -> str:
        return new_id(self.rng)

    def stamp(self, at: float) -> str:
        """Return an ISO stamp as this server's clock, right or wrong, would write it."""
        return iso(at + self.server_conditions.clock_skew)


def boot_stage(server: Server, now: float) -> BootStage:
    """Return the stage of the boot at a time."""
    power = server.power
    if not power.on:
        return BootStage.OFF
    whole = power.ready_at - power.since
    if now >= power.ready_at or whole <= 0:
        return BootStage.READY
    if now - power.since < server.config.machine.silent_seconds:
        return BootStage.OFF
    part = (now - power.since) / whole
    if part < REFUSED_UNTIL:
        return BootStage.REFUSED
    return BootStage.BAD_GATEWAY if part < BAD_GATEWAY_UNTIL else BootStage.NOT_READY


def can_start(server: Server, now: float) -> bool:
    """Whether any compute host can start nodes: what system_information calls ready."""
    server_conditions = server.server_conditions
    return (
        boot_stage(server, now) is BootStage.READY
        and server_conditions.ready is not False
        and compute_up(server)
        and server.admission is Admission.READY
    )


def compute_up(server: Server) -> bool:
    """Whether the compute host is connected to a living controller."""
    server_conditions = server.server_conditions
    return (
        server_conditions.core_connected
        and not server_conditions.compute_lost
        and server.compute_known
        and server.admission in {Admission.ONLINE, Admission.READY}
    )
