"""Definition: a versioned lab; its topology never changes under a session.

`spec` is immutable but for title, description and deprecation: a new version is a new object.
So a session that names a definition has pinned it (facts/upstream.md#definitions: versions are
immutable).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.conditions import Condition, ConditionType, Reason
from labfleet.resources.declaration import Kind, Loud, columns, filters, runbook
from labfleet.resources.kept_work import Keep
from labfleet.resources.lab_orders import LabControl
from labfleet.resources.lab_recommendation import AppliedSize, ProposedSize
from labfleet.resources.learned_demand import DemandRule
from labfleet.resources.meta import Record, Resource
from labfleet.resources.strategy import LabType

TOPOLOGY_LIMIT = 4 * 2**20
FAMILY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
WARN_MINUTES = (15, 5)
"""How long before its end a session is said to end soon, where nobody says otherwise."""
Family = Annotated[str, msgspec.Meta(pattern=FAMILY_PATTERN)]
Variable = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Minute = Annotated[int, msgspec.Meta(ge=1, le=1440)]
CmlVersion = Annotated[str, msgspec.Meta(pattern=r"^\d{1,4}(\.\d{1,4}){0,3}$")]
TagName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,96}$")]


class DefinitionReason(Reason):
    """Why a condition of a definition is as it is."""

    UNKNOWN_NODE_DEFINITION = (
        "UnknownNodeDefinition",
        "A node definition is not in the table; its size is assumed.",
    )
    SEEN = "Seen", "A worker of the same machine image was seen to have all of them."
    MISSING = "Missing", "No worker of the track has one of them; the message says which."
    NOT_SEEN = "NotSeen", "No worker of a machine image of the track was looked at yet."
    NO_PLACE = "NoPlace", "No worker and no pool serves the track."
    ASKS_TOO_MUCH = "AsksTooMuch", "It asks for much more than its sessions use."
    ASKS_TOO_LITTLE = "AsksTooLittle", "It asks for much less than its sessions use."
    NEAR_USE = "NearUse", "What it asks for is near what its sessions use."


class DefinitionCondition(ConditionType):
    """The facts that are recorded of a definition."""

    NODES_KNOWN = (
        "NodesKnown",
        "Every node definition of the topology is known, so its demand is.",
        DefinitionReason.UNKNOWN_NODE_DEFINITION,
    )
    AVAILABLE = (
        "DefinitionsAvailable",
        "A worker of its track has the node and image definitions that the topology names.",
        DefinitionReason.SEEN,
        DefinitionReason.MISSING,
        DefinitionReason.NOT_SEEN,
        DefinitionReason.NO_PLACE,
    )
    NEEDS_REVIEW = (
        "NeedsReview",
        "What it asks for differs significantly from what its sessions use.",
        DefinitionReason.ASKS_TOO_MUCH,
        DefinitionReason.ASKS_TOO_LITTLE,
        DefinitionReason.NEAR_USE,
    )


class PortRequest(Record, frozen=True, kw_only=True):
    """One port a lab needs.

    name: Name of the port, `<label>_<kind>` in upstream 000.
    node: Label of the node in the topology.
    kind: Way to the node: a serial console, a VNC screen, or a port forwarded to it (pat).
    transport: Protocol of the port.
    inner: Port inside the node for pat, line for serial, unused for vnc.
    """

    name: TagName
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    kind: Literal["serial", "vnc", "pat"]
    transport: Literal["tcp", "udp"] = "tcp"
    inner: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class LabUser(Record, frozen=True, kw_only=True):
    """An account on the servers that people of a lab sign in to CML with.

    Labfleet neither makes the account nor lets it into the lab, and its password is kept nowhere.

    name: Name of the account.
    ask: Where its password is to be had; no place for the password.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.@-]{1,32}$")]
    ask: Annotated[str, msgspec.Meta(max_length=256)] = ""


class ExtensionPolicy(Record, frozen=True, kw_only=True):
    """How far people may extend their own sessions; who may do all is bound by the length alone.

    times: How often; null means any number of times, 0 means never.
    longest_minutes: By how much at once; null means by any.
    total_minutes: By how much in all; null means by any.
    """

    times: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    longest_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] | None = None
    total_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] | None = None


class DefinitionSpec(Record, frozen=True, kw_only=True):
    """What a lab is and asks for.

    topology: CML's topology of the lab, as YAML.
    title: Title of the lab, for people.
    description: What the lab is for, for people.
    version: Version of the definition, as semantic versioning writes it.
    family: Which labs it is one of, in the history of past runs; null means that it is its own. All
    versions of a lab name the same one, so that what was learned of one holds for the next.
    track: Lab track whose workers may host it; null means any.
    resources: What one lab needs; null means computed from the topology and the node definitions'
    defaults.
    demand: With what its sessions are counted: what is declared, or a bound of what past ones used;
    null means what its track's pools say.
    lab_user: Account for CML that the sessions' `status.access` names; null means none.
    port_template: Ports that a lab needs; null means read from the topology's port tags.
    variables: Variables that stand as ${NAME} in configurations of the topology's nodes; each lab gets
    its session's value, and a session without one is refused.
    licence_affinity: Kinds of licence whose workers may host it; empty means any.
    lab_type: What the lab is made of; of the others than CML no session is made yet.
    cml_version_min: First version of CML that it runs under, such as 2.8; null means any.
    cml_version_max: Last version of CML that it runs under, with all that begin like it; null means
    any.
    default_duration_minutes: Length of a slot that names no end.
    max_duration_minutes: Greatest length of a slot.
    extension: How far people may extend their own sessions.
    grace_minutes: How long after the slot's start a session may still begin.
    teardown_minutes: How long after a slot's end its lab may still hold its capacity: it is part of
    what is promised, so that the next slot never meets the cleaning up of this one.
    warn_minutes: How many minutes before its end a running session is said to end soon; each is said
    once, and again after the end has moved away.
    no_show_minutes: How long after its lab runs a session is released when nobody has checked in to
    it; null means never, so that nobody loses a lab for being late.
    on_worker_loss: What becomes of a session that has not begun when its worker fails: placed
    again, or failed.
    keep: Who may have what was configured in a lab, which is kept at its session's end for some days:
    nobody, since nothing is kept, operators alone, or its owner too.
    lab_control: What people may order of their session's lab while it runs: nothing, start, stop and
    restart, or wipe as well; operators may order all.
    continuable: Whether a session may begin with what was configured in an earlier one of its owner.
    deprecated: Whether no new session may use it.
    replacement: Name of the definition to use instead.
    """

    topology: Annotated[str, msgspec.Meta(min_length=1, max_length=TOPOLOGY_LIMIT)]
    title: Annotated[str, msgspec.Meta(max_length=200)] = ""
    description: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    version: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?$")] = "1.0.0"
    family: Family | None = None
    track: str | None = None
    resources: Amounts | None = None
    port_template: tuple[PortRequest, ...] | None = None
    licence_affinity: tuple[Literal["personal", "enterprise", "evaluation"], ...] = ()
    lab_type: LabType = LabType.CML
    cml_version_min: CmlVersion | None = None
    cml_version_max: CmlVersion | None = None
    default_duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 60
    max_duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] = 480
    extension: ExtensionPolicy = ExtensionPolicy()
    grace_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 30
    teardown_minutes: Annotated[int, msgspec.Meta(ge=1, le=240)] = 10
    warn_minutes: Annotated[tuple[Minute, ...], msgspec.Meta(max_length=5)] = WARN_MINUTES
    no_show_minutes: Annotated[int, msgspec.Meta(ge=5, le=1440)] | None = None
    on_worker_loss: Literal["replace", "fail"] = "replace"
    keep: Keep = "none"
    continuable: bool = False
    lab_control: LabControl = "power"
    deprecated: bool = False
    replacement: str | None = None
    lab_user: LabUser | None = None
    variables: Annotated[tuple[Variable, ...], msgspec.Meta(max_length=32)] = ()
    demand: DemandRule | None = None


class DefinitionStatus(Record, frozen=True, kw_only=True):
    """What the topology says: demand, nodes, ports; computed when the definition is made.

    phase: Whether new sessions may use it.
    conditions: Facts about it, each with its reason.
    demand: What one lab needs.
    reserved: What its nodes reserve on a server by themselves, whatever `resources` says; all 0 where
    an earlier version made it.
    ports: Ports that one lab gets.
    node_count: Nodes of the topology that take capacity.
    node_definitions: How many nodes there are of each node definition.
    unknown_definitions: Node definitions whose needs are not known here.
    image_definitions: Image definitions that its nodes name; the other nodes take CML's default.
    topology_digest: SHA-256 of the topology.
    boot_seconds: How long the lab is taken to boot.
    applied: Which recommendation made this version; null when none did.
    proposal: What somebody proposes that it asks for; null when nobody does.
    unplaced: Nodes whose file gives no x or no y; they get a place at each import.
    observed_generation: Generation of the spec that this status is about.
    """

    phase: Literal["ACTIVE", "DEPRECATED"] = "ACTIVE"
    conditions: tuple[Condition, ...] = ()
    demand: Amounts = Amounts()
    reserved: Amounts = Amounts()
    ports: tuple[PortRequest, ...] = ()
    node_count: int = 0
    node_definitions: dict[str, int] = {}
    unknown_definitions: tuple[str, ...] = ()
    image_definitions: tuple[str, ...] = ()
    topology_digest: str = ""
    boot_seconds: int = 0
    applied: AppliedSize | None = None
    proposal: ProposedSize | None = None
    unplaced: int = 0
    observed_generation: int = 0


class Definition(Resource, frozen=True, kw_only=True):
    """A versioned lab (upstream 000's LabletDefinition)."""

    spec: DefinitionSpec
    status: DefinitionStatus = DefinitionStatus()
    kind: str = "Definition"


def family_of(definition: Definition) -> str:
    """Return the family that a definition is of: the one that it names, else its own."""
    return definition.spec.family or definition.name


class DefinitionPin(Record, frozen=True, kw_only=True):
    """Which definition a session uses, fixed when the session was created.

    name: Name of the definition.
    uid: Identity of the definition.
    version: Its version then.
    topology_digest: SHA-256 of its topology then.
    pinned_at: When it was fixed.
    """

    name: str
    uid: str
    version: str
    topology_digest: str
    pinned_at: datetime


_RUNBOOK = runbook(
    "Definition",
    (
        "NodesKnown",
        "",
        "False: a node definition is unknown, so its demand is too.",
        "labfleet explain definition/NAME",
        "Give `resources` in the definition.",
    ),
    (
        "DefinitionsAvailable",
        "",
        (
            "False: no worker of the track has a node or image definition that the topology names; "
            "its sessions wait, and no worker is started for them."
        ),
        "labfleet get images -o wide",
        (
            "Correct the name, give the pool a template whose image has it, or add it to a running "
            "server: workers are looked at each hour."
        ),
    ),
    (
        "NeedsReview",
        "",
        "True: what it asks for differs significantly from what its past sessions used.",
        "labfleet recommend definition/NAME",
        (
            "Read the recommendation, and apply it as the next version of its family: "
            "`labfleet recommend definition/NAME --apply bound`; sessions that are booked keep theirs."
        ),
    ),
)
KIND = Kind(
    name="Definition",
    plural="definitions",
    navigable=True,
    short=("def",),
    type=Definition,
    summary="A versioned lab: topology, requested resources, port template.",
    columns=columns(
        "VERSION=spec.version",
        "PHASE=status.phase",
        "NODES=status.nodeCount",
        "CPU(m)=status.demand.cpuMilli",
        "MEMORY(MiB)=status.demand.memoryMib",
        "PORTS=status.demand.ports",
        "TITLE=spec.title*",
        "FAMILY=spec.family*",
    ),
    text_limit=TOPOLOGY_LIMIT,
    filters=filters("phase=status.phase"),
    frozen=(
        "topology",
        "version",
        "track",
        "resources",
        "port_template",
        "licence_affinity",
        "variables",
        "lab_type",
        "cml_version_min",
        "cml_version_max",
    ),
    amounts=(("resources", False),),
    conditions=DefinitionCondition,
    reasons=DefinitionReason,
    news=(
        (DefinitionCondition.NODES_KNOWN, "False"),
        (DefinitionCondition.AVAILABLE, "False"),
        (DefinitionCondition.NEEDS_REVIEW, "True"),
    ),
    loud=(Loud(DefinitionCondition.NEEDS_REVIEW, "True", "info"),),
    runbook=_RUNBOOK,
)
