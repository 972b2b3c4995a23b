"""LabHost: one CML server, as controllers see it.

Errors are kernel types. Unreachable: no connection. Booting: refused, 502/503/504. Denied:
bad credentials, forbidden. Temporary reason Maintenance: maintenance mode. Gone: 404.
Conflict: 409, "later". Invalid: 400. OutOfCapacity: licence, queue, disk. Protocol: broken
answer. Ambiguous: a mutation whose reply was lost (facts/cml.md#client-rules).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from labfleet.resources.idle import Activity
from labfleet.resources.image import Catalogue
from labfleet.resources.lab_use import NodeFigures
from labfleet.resources.machine import TlsSettings
from labfleet.resources.telemetry import Licensing, SystemHealth, SystemStats

NodeVerb = Literal["start", "stop", "wipe"]
Stage = Literal["unreachable", "untrusted", "refused", "bad_gateway", "not_ready", "ready"]


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Where and how one boot of one server is reached.

    `boot` names the boot (instance id and launch time): tokens and first-seen certificates
    belong to it and are dropped when it changes (facts/aws.md#boot-facts).
    """

    worker: str
    base_url: str
    boot: str
    username: str
    password: str = field(repr=False)
    tls: TlsSettings = TlsSettings()


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far a server has booted; `detail` is a sentence for people."""

    stage: Stage
    detail: str
    version: str | None = None
    tls_fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Lab:
    """One lab on a server: identity, title, notes (which contain the marker), state, CML's owner."""

    id: str
    title: str
    notes: str
    state: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node with effective values (operational before override), tags and progress."""

    id: str
    lab_id: str
    label: str
    definition: str
    state: str
    cpus: int | None = None
    cpu_limit: int | None = None
    ram_mib: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """One interface of a node, with learned addresses when the lab-wide call gave them."""

    id: str
    node_id: str
    label: str
    slot: int | None
    state: str | None
    mac_address: str | None
    ip4: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabObservation:
    """All that one best-effort reading of a lab found; `gaps` names what failed."""

    nodes: tuple[NodeState, ...]
    interfaces: tuple[InterfaceState, ...]
    simulation_stats: dict[str, Any] | None
    gaps: tuple[str, ...]


class LabHost(Protocol):
    """One CML server for one boot. Every call has its own deadline."""

    async def readiness(self) -> Readiness:
        """Return how far the server has booted; never raises for a server that is down."""
        ...

    async def authenticate(self) -> None:
        """Log in; Denied when the password is wrong."""
        ...

    async def system_stats(self) -> SystemStats:
        """Return sizes and use."""
        ...

    async def system_health(self) -> SystemHealth:
        """Return the flags of the controller and the computes."""
        ...

    async def maintenance(self) -> bool:
        """Tell whether the server is closed for maintenance; needs no login.

        Source: facts/cml-issues.md#f42.
        """
        ...

    async def licensing(self) -> Licensing:
        """Return the licence, with the numbers of its diagnostics if the server has them."""
        ...

    async def register(
        self, product: str, token: str, *, expansion_nodes: int, again: bool = False
    ) -> None:
        """Set product, register the token, ask for expansion nodes; asynchronous, poll it.

        Safe to repeat: a step that is already done is skipped, but with `again` a registered
        server registers anew with this token. Invalid when refused.
        """
        ...

    async def renew_licence(self) -> None:
        """Renew authorization and registration at the licence cloud; asynchronous, poll it.

        Conflict reason Later while another licensing operation runs; Invalid when refused.
        """
        ...

    async def deregister(self) -> Literal["done", "not_registered", "cloud_not_told"]:
        """Give the licence back; Conflict reason NodesRunning when nodes still run."""
        ...

    async def set_telemetry(self, *, enabled: bool) -> None:
        """Opt in or out of telemetry (upstream 001's enable_telemetry)."""
        ...

    async def activity(self) -> Activity:
        """Return people's activity on the server, from its telemetry; newest first."""
        ...

    async def catalogue(self) -> Catalogue:
        """Return the node and image definitions that the server has, in one request.

        All of them in order, or an error: Protocol when there are more than can be kept.
        """
        ...

    async def labs(self) -> tuple[Lab, ...]:
        """Return every lab on the server, whoever owns it."""
        ...

    async def import_lab(self, topology: str, *, title: str) -> str:
        """Import a topology and return the lab's id; Ambiguous when the reply was lost.

        The topology's notes contain the marker; the caller looks it up before repeating.
        """
        ...

    async def lab(self, lab_id: str) -> Lab:
        """Return one lab; Gone when it is not there."""
        ...

    async def nodes(self, lab_id: str) -> tuple[NodeState, ...]:
        """Return the lab's nodes with effective values, using one request."""
        ...

    async def all_nodes(self) -> tuple[NodeState, ...]:
        """Return every node on the server: all port tags in one request."""
        ...

    async def converged(self, lab_id: str) -> bool:
        """Tell whether nothing is in transition; check the states as well.

        Source: facts/cml-issues.md#f1.
        """
        ...

    async def queue(self) -> Mapping[str, str]:
        """Return node id -> why it waits in the launch queue, as far as the server says."""
        ...

    async def start(self, lab_id: str) -> None:
        """Start all nodes; no error when already started."""
        ...

    async def stop(self, lab_id: str) -> None:
        """Stop all nodes; no error when already stopped; Gone when the lab does not exist."""
        ...

    async def set_tags(self, lab_id: str, node_id: str, tags: Sequence[str]) -> None:
        """Replace a node's tags, to write back lost port tags; safe to repeat."""
        ...

    async def wipe(self, lab_id: str) -> None:
        """Wipe a stopped lab; no error when already wiped."""
        ...

    async def operate_node(self, lab_id: str, node_id: str, verb: NodeVerb) -> None:
        """Start, stop or wipe one node; no error when that is so already.

        Gone when the lab or the node is not there, OutOfCapacity when a start has no licence or room,
        Conflict reason Later for a wipe while the node runs.
        """
        ...

    async def delete(self, lab_id: str) -> None:
        """Delete a wiped lab; no error when it does not exist."""
        ...

    async def lab_use(self, lab_id: str) -> Mapping[str, NodeFigures]:
        """Return node id -> what it uses now, of the nodes that run, using one request.

        Gone when the lab is not there. The caller judges the figures.
        """
        ...

    async def observe(self, lab_id: str) -> LabObservation:
        """Read everything of a lab, best effort: a failing call does not lose the others' data."""
        ...

    async def extract(self, lab_id: str, node_id: str) -> None:
        """Have a booted node's configuration read out of it into the lab; safe to repeat.

        Invalid when the node is not booted or has none to read, Gone when it is not there. It may
        take long: the caller bounds it.
        """
        ...

    async def download(self, lab_id: str) -> bytes:
        """Return the lab as a topology file, with the configurations that the lab has.

        They may hold passwords: the answer belongs into no log and no message.
        """
        ...

    async def close(self) -> None:
        """Drop connections and the login."""
        ...


class LabHosts(Protocol):
    """Hands out the LabHost of a worker's present boot and keeps connections between calls."""

    def at(self, address: HostAddress) -> LabHost:
        """Return the host; an older boot of the same worker is forgotten."""
        ...

    async def forget(self, worker: str) -> None:
        """Close what is kept for a worker that is gone."""
        ...

    async def close(self) -> None:
        """Close everything."""
        ...
