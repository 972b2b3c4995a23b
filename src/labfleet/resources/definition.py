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
from labfleet.resources.declaration import Kind, columns, filters, runbook
from labfleet.resources.meta import Record, Resource

TOPOLOGY_LIMIT = 4 * 2**20
TagName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,96}$")]


class DefinitionReason(Reason):
    """Why a condition of a definition is as it is."""

    UNKNOWN_NODE_DEFINITION = (
        "UnknownNodeDefinition",
        "A node definition is not in the table; its size is assumed.",
    )


class DefinitionCondition(ConditionType):
    """The facts that are recorded of a definition."""

    NODES_KNOWN = (
        "NodesKnown",
        "Every node definition of the topology is known, so its demand is.",
        DefinitionReason.UNKNOWN_NODE_DEFINITION,
    )


class PortRequest(Record, frozen=True, kw_only=True):
    """One port a lab needs.

    `name` is the map key of upstream 000, `<label>_<kind>`; `node` is the node's label. `inner`
    is the port inside the node for `pat`, the line for `serial`, unused for `vnc`.
    """

    name: TagName
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    kind: Literal["serial", "vnc", "pat"]
    transport: Literal["tcp", "udp"] = "tcp"
    inner: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class LabUser(Record, frozen=True, kw_only=True):
    """An account on the servers that people of a lab sign in to CML with.

    Only its name is kept and shown; `ask` says where its password is to be had, and is no place
    for the password. Labfleet neither makes the account nor lets it into the lab.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.@-]{1,32}$")]
    ask: Annotated[str, msgspec.Meta(max_length=256)] = ""


class DefinitionSpec(Record, frozen=True, kw_only=True):
    """What a lab is and asks for.

    `resources` None means: computed from the topology and the node definitions' defaults.
    `on_worker_loss` says what becomes of a session that has not begun when its worker fails or
    is drained by force: placed again, or failed.
    `port_template` None means: read from the topology's port tags. Durations are minutes.
    `lab_user` is whom its sessions' `status.access` names as the account for CML.
    """

    topology: Annotated[str, msgspec.Meta(min_length=1, max_length=TOPOLOGY_LIMIT)]
    title: Annotated[str, msgspec.Meta(max_length=200)] = ""
    description: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    version: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.-]+)?$")] = "1.0.0"
    track: str | None = None
    resources: Amounts | None = None
    port_template: tuple[PortRequest, ...] | None = None
    licence_affinity: tuple[Literal["personal", "enterprise", "evaluation"], ...] = ()
    default_duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 60
    max_duration_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] = 480
    grace_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 30
    on_worker_loss: Literal["replace", "fail"] = "replace"
    deprecated: bool = False
    replacement: str | None = None
    lab_user: LabUser | None = None


class DefinitionStatus(Record, frozen=True, kw_only=True):
    """What the topology says: demand, nodes, ports; computed when the definition is made."""

    phase: Literal["ACTIVE", "DEPRECATED"] = "ACTIVE"
    conditions: tuple[Condition, ...] = ()
    demand: Amounts = Amounts()
    ports: tuple[PortRequest, ...] = ()
    node_count: int = 0
    node_definitions: dict[str, int] = {}
    unknown_definitions: tuple[str, ...] = ()
    topology_digest: str = ""
    boot_seconds: int = 0
    observed_generation: int = 0


class Definition(Resource, frozen=True, kw_only=True):
    """A versioned lab (upstream 000's LabletDefinition)."""

    spec: DefinitionSpec
    status: DefinitionStatus = DefinitionStatus()
    kind: str = "Definition"


class DefinitionPin(Record, frozen=True, kw_only=True):
    """Which definition a session uses, fixed when the session was created."""

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
)
KIND = Kind(
    name="Definition",
    plural="definitions",
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
    ),
    amounts=(("resources", False),),
    conditions=DefinitionCondition,
    reasons=DefinitionReason,
    news=((DefinitionCondition.NODES_KNOWN, "False"),),
    runbook=_RUNBOOK,
)
