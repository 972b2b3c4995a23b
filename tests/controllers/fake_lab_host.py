"""CML servers, small: boot by stages, labs with notes and tags, nodes, licence, ports.

One `Server` lives on each instance's disk and outlives its stops; what runs does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripted_ec2 import FakeInstance, ScriptedEc2

from labfleet.interfaces.lab_host import (
    HostAddress,
    InterfaceState,
    Lab,
    LabObservation,
    NodeState,
    Readiness,
)
from labfleet.kernel import errors
from labfleet.resources import port_tags, topology
from labfleet.resources.idle import Activity, ActivityEvent
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Licensing,
    Room,
    SystemHealth,
    SystemStats,
)

ExpectLab = Callable[[str, str, str], Awaitable[None]]
STAGES = ("unreachable", "refused", "bad_gateway", "not_ready")


@dataclass
class FakeNode:
    """One node: when it is up, and until when it stops."""

    id: str
    label: str
    tags: tuple[str, ...]
    up_at: float | None = None
    down_at: float | None = None


@dataclass
class FakeLab:
    """One lab on a server's disk."""

    id: str
    title: str
    notes: str
    nodes: list[FakeNode]
    wiped: bool = True

    @property
    def marker(self) -> str:
        return topology.marker_of(self.notes) or ""


@dataclass
class Server:
    """What an instance's disk holds."""

    worker: str
    labs: dict[str, FakeLab] = field(default_factory=dict)
    registered_at: float | None = None
    product: str | None = None
    extra: int = 0
    boot: str = ""


class FakeLabHosts:
    """All servers. Seconds are fleet time."""

    def __init__(self, compute: ScriptedEc2, expect: Callable[..., Any], lab: ExpectLab) -> None:
        self.compute = compute
        self.expect = expect
        self.expect_lab = lab
        self.servers: dict[str, Server] = {}
        self.boot = 200.0
        self.node_boot = 40.0
        self.node_stop = 15.0
        self.register_seconds = 20.0
        self.password = "right"
        self.token = "good"
        self.extra_limit = 480
        self.never_compliant = False
        self.cloud_told = True
        self.refuse: dict[str, str] = {}
        self.full = False
        self.early_stop = False
        self.cut: set[str] = set()
        self.hang_observe = False
        self.silent: set[int] = set()
        self.calls: list[str] = []
        self.wrong: list[str] = []
        self.labs_made = 0
        self.failing: set[str] = set()
        self.disk = Room(total=500 * 2**30, free=499 * 2**30, used=2**30)
        self.orphans = 0
        self.cpus = 48
        self.admission = "READY"
        self.kvm = True
        self.core_connected = True
        self.maintenance = False
        self.identity: str | None = None
        self.expires: str | None = None
        self.lose_tags = 0
        self.events: dict[str, list[ActivityEvent]] = {}
        self.declined = False
        self.cpu = 1.0
        self.at_activity: Callable[[str], None] | None = None
        self.at_nodes: Callable[[str], None] | None = None
        self.most_starting = 0

    @property
    def now(self) -> float:
        return self.compute.now

    def server(self, machine: FakeInstance) -> Server:
        """Return the server on a machine; what ran before this boot stands still."""
        made = self.servers.setdefault(machine.id, Server(machine.request.worker))
        boot = str(machine.launched)
        if made.boot != boot:
            made.boot = boot
            for lab in made.labs.values():
                for node in lab.nodes:
                    node.up_at = node.down_at = None
        return made

    def of(self, worker: str) -> Server:
        """Return the server of a worker's one machine."""
        [machine] = self.compute.alive(worker)
        return self.server(machine)

    def labs_left(self) -> list[str]:
        """Return the labs on machines that are still there."""
        return [
            lab.marker
            for machine in self.compute.alive()
            for lab in self.server(machine).labs.values()
        ]

    def licences_left(self) -> list[str]:
        """Return the workers whose licence was never given back, living or not."""
        return [each.worker for each in self.servers.values() if each.registered_at is not None]

    def edit(self, worker: str, *tags: str) -> FakeLab:
        """Make a lab of somebody else's on a worker."""
        made = FakeLab(f"x{self.labs_made}", "theirs", "", [FakeNode("x", "x", tags)])
        self.labs_made += 1
        self.of(worker).labs[made.id] = made
        return made

    def at(self, address: HostAddress) -> FakeLabHost:
        host = address.base_url.removeprefix("https://").partition(":")[0]
        return FakeLabHost(self, address, host)

    async def forget(self, worker: str) -> None:
        return

    async def close(self) -> None:
        return


class FakeLabHost:
    """One server, reached at the address of one boot."""

    def __init__(self, hosts: FakeLabHosts, address: HostAddress, host: str) -> None:
        self.hosts = hosts
        self.address = address
        self.host = host

    # --- the server ----------------------------------------------------------------------

    def _stage(self) -> tuple[str, FakeInstance | None]:
        machine = self.hosts.compute.at(self.host)
        if machine is None or machine.request.worker in self.hosts.cut:
            return "unreachable", None
        since = self.hosts.compute.running_since(machine)
        share = (self.hosts.now - (since or 0.0)) / self.hosts.boot
        return ("ready" if share >= 1 else STAGES[int(share * len(STAGES))]), machine

    def _server(self) -> Server:
        stage, machine = self._stage()
        if machine is None:
            raise errors.Unreachable("no route")
        if stage != "ready":
            raise errors.Booting(f"CML is {stage}")
        return self.hosts.server(machine)

    def _lab(self, lab_id: str) -> FakeLab:
        try:
            return self._server().labs[lab_id]
        except KeyError:
            raise errors.Gone(f"Lab not found: {lab_id}") from None

    def _state(self, node: FakeNode, *, wiped: bool) -> str:
        now = self.hosts.now
        if node.down_at is not None:
            return "STARTED" if now < node.down_at else "STOPPED"
        if node.up_at is not None:
            return "BOOTED" if now >= node.up_at else "STARTED"
        return "DEFINED_ON_CORE" if wiped else "STOPPED"

    def _active(self, lab: FakeLab) -> int:
        states = [self._state(each, wiped=lab.wiped) for each in lab.nodes]
        return sum(state in {"STARTED", "BOOTED"} for state in states)

    def _show(self, lab: FakeLab) -> Lab:
        stopping = any(each.down_at is not None for each in lab.nodes)
        if self._active(lab) and not (stopping and self.hosts.early_stop):
            state = "STARTED"
        else:
            state = "DEFINED_ON_CORE" if lab.wiped else "STOPPED"
        if not lab.nodes and not lab.wiped:
            state = "STARTED" if getattr(lab, "started", False) else "STOPPED"
        return Lab(lab.id, lab.title, lab.notes, state)

    async def readiness(self) -> Readiness:
        stage, _ = self._stage()
        version = "2.9.1" if stage == "ready" else None
        return Readiness(stage, f"CML is {stage}", version)  # type: ignore[arg-type]

    async def authenticate(self) -> None:
        self._server()
        if self.address.password != self.hosts.password:
            raise errors.Denied("wrong password")

    async def system_stats(self) -> SystemStats:
        server = self._server()
        running = sum(self._active(lab) for lab in server.labs.values())
        self._may("system_stats")
        return SystemStats(
            cpu_count=self.hosts.cpus,
            cpu_percent=self.hosts.cpu,
            memory=Room(total=188 * 2**30, free=187 * 2**30, used=2**30),
            disk=self.hosts.disk,
            controller_disk=self.hosts.disk,
            total_nodes=running,
            running_nodes=running,
            running_orphans=self.hosts.orphans,
            computes={"c1": ComputeStats()},
        )

    async def system_health(self) -> SystemHealth:
        self._server()
        self._may("system_health")
        compute = ComputeHealth(
            admission_state=self.hosts.admission, kvm_vmx_enabled=self.hosts.kvm, valid=True
        )
        core = self.hosts.core_connected
        controller = ControllerHealth(valid=core, core_connected=core)
        return SystemHealth(valid=core, computes={"c1": compute}, controller=controller)

    async def maintenance(self) -> bool:
        self._server()
        return self.hosts.maintenance

    def _may(self, call: str) -> None:
        if call in self.hosts.failing:
            raise errors.Temporary(f"{call}: 500")

    # --- licence -------------------------------------------------------------------------

    async def licensing(self) -> Licensing:
        server = self._server()
        self._may("licensing")
        at = server.registered_at
        done = at is not None and self.hosts.now >= at + self.hosts.register_seconds
        compliant = done and not self.hosts.never_compliant
        registration = None if at is None else ("COMPLETED" if done else "IN_PROGRESS")
        return Licensing(
            registration=registration or "NOT_REGISTERED",
            authorization="IN_COMPLIANCE" if compliant else "INIT",
            product=server.product if done else None,
            licensed=compliant,
            registered=done,
            node_capacity=20 + server.extra if compliant else None,
            product_uuid=self.hosts.identity or server.worker,
            hostname="cml",
            authorization_expires=self.hosts.expires,
        )

    async def renew_licence(self) -> None:
        self.hosts.calls.append(f"renew {self._server().worker}")

    async def register(self, product: str, token: str, *, expansion_nodes: int) -> None:
        server = self._server()
        self.hosts.calls.append(f"register {server.worker}")
        await self.hosts.expect(server.worker, "register")
        if token != self.hosts.token:
            raise errors.Invalid("the token is invalid")
        if server.registered_at is None:
            server.registered_at, server.product = self.hosts.now, product
        elif self.hosts.now >= server.registered_at + self.hosts.register_seconds:
            server.extra = min(expansion_nodes, self.hosts.extra_limit)

    async def deregister(self) -> str:
        server = self._server()
        self.hosts.calls.append(f"deregister {server.worker}")
        await self.hosts.expect(server.worker, "deregister")
        self._may("deregister")
        if any(self._active(lab) for lab in server.labs.values()):
            raise errors.Conflict("nodes are running", reason="NodesRunning")
        if server.registered_at is None:
            return "not_registered"
        server.registered_at, server.product, server.extra = None, None, 0
        return "done" if self.hosts.cloud_told else "cloud_not_told"

    async def set_telemetry(self, *, enabled: bool) -> None:
        self.hosts.calls.append(f"telemetry {self._server().worker} {enabled}")

    async def activity(self) -> Activity:
        server = self._server()
        self._may("activity")
        told = tuple(reversed(self.hosts.events.get(server.worker, [])))
        self.hosts.calls.append(f"activity {server.worker}")
        if self.hosts.at_activity is not None:
            self.hosts.at_activity(server.worker)
        return Activity(events=told, declined=self.hosts.declined)

    # --- labs ----------------------------------------------------------------------------

    async def labs(self) -> tuple[Lab, ...]:
        return tuple(self._show(each) for each in self._server().labs.values())

    async def import_lab(self, text: str, *, title: str) -> str:
        server, hosts = self._server(), self.hosts
        parsed = topology.parse(text)
        made = FakeLab(f"lab{hosts.labs_made}", parsed.title, parsed.notes, [])
        hosts.labs_made += 1
        hosts.calls.append(f"import {made.marker}")
        await hosts.expect_lab(made.marker, "import", made.id)
        if "import" in hosts.refuse:
            raise errors.Invalid(hosts.refuse["import"])
        if any(each.marker == made.marker for each in server.labs.values()):
            hosts.wrong.append(f"imported twice: {made.marker}")
        if made.title != title or len(title) > 64:
            hosts.wrong.append(f"title {title!r} is not {made.title!r}")
        made.nodes = [
            FakeNode(f"{made.id}-{each.id}", each.label, () if hosts.lose_tags else each.tags)
            for each in parsed.nodes
        ]
        hosts.lose_tags = max(hosts.lose_tags - 1, 0)
        server.labs[made.id] = made
        return made.id

    async def lab(self, lab_id: str) -> Lab:
        return self._show(self._lab(lab_id))

    async def nodes(self, lab_id: str) -> tuple[NodeState, ...]:
        return self._nodes(self._lab(lab_id))

    def _nodes(self, lab: FakeLab) -> tuple[NodeState, ...]:
        return tuple(
            NodeState(
                id=each.id,
                lab_id=lab.id,
                label=each.label,
                definition="iosv",
                state=self._state(each, wiped=lab.wiped),
                cpus=1,
                cpu_limit=100,
                ram_mib=512,
                tags=each.tags,
            )
            for each in lab.nodes
        )

    async def all_nodes(self) -> tuple[NodeState, ...]:
        server = self._server()
        if self.hosts.at_nodes is not None:
            self.hosts.at_nodes(server.worker)
        return tuple(node for lab in server.labs.values() for node in self._nodes(lab))

    async def converged(self, lab_id: str) -> bool:
        lab = self._lab(lab_id)
        return all(self._state(each, wiped=lab.wiped) != "STARTED" for each in lab.nodes)

    async def queue(self) -> Mapping[str, str]:
        return {}

    async def start(self, lab_id: str) -> None:
        lab = self._lab(lab_id)
        self.hosts.calls.append(f"start {lab.marker}")
        await self.hosts.expect_lab(lab.marker, "start", lab_id)
        if "start" in self.hosts.refuse:
            raise errors.Invalid(self.hosts.refuse["start"])
        if self.hosts.full:
            raise errors.OutOfCapacity("no licence for more nodes")
        lab.wiped = False
        lab.started = True  # type: ignore[attr-defined]
        for node in lab.nodes:
            if node.up_at is None or node.down_at is not None:
                node.up_at, node.down_at = self.hosts.now + self.hosts.node_boot, None
        going = [
            each
            for each in self._server().labs.values()
            if any(n.up_at is not None and n.up_at > self.hosts.now for n in each.nodes)
        ]
        self.hosts.most_starting = max(self.hosts.most_starting, len(going))

    async def stop(self, lab_id: str) -> None:
        lab = self._lab(lab_id)
        self.hosts.calls.append(f"stop {lab.marker}")
        await self.hosts.expect_lab(lab.marker, "stop", lab_id)
        lab.started = False  # type: ignore[attr-defined]
        for node in lab.nodes:
            if node.up_at is not None and node.down_at is None:
                node.down_at = self.hosts.now + self.hosts.node_stop

    async def set_tags(self, lab_id: str, node_id: str, tags: Sequence[str]) -> None:
        lab = self._lab(lab_id)
        self.hosts.calls.append(f"tags {lab.marker}")
        [node] = [each for each in lab.nodes if each.id == node_id]
        node.tags = tuple(tags)

    async def wipe(self, lab_id: str) -> None:
        lab = self._lab(lab_id)
        self.hosts.calls.append(f"wipe {lab.marker}")
        await self.hosts.expect_lab(lab.marker, "wipe", lab_id)
        if self._active(lab):
            self.hosts.wrong.append(f"wiped while nodes run: {lab_id}")
            raise errors.Conflict("the lab is running")
        lab.wiped = True
        for node in lab.nodes:
            node.up_at = node.down_at = None

    async def delete(self, lab_id: str) -> None:
        try:
            lab = self._lab(lab_id)
        except errors.Gone:
            return
        self.hosts.calls.append(f"delete {lab.marker}")
        await self.hosts.expect_lab(lab.marker, "delete", lab_id)
        if not lab.wiped:
            self.hosts.wrong.append(f"deleted before it was wiped: {lab_id}")
            raise errors.Conflict("the lab is not wiped")
        del self._server().labs[lab_id]

    async def observe(self, lab_id: str) -> LabObservation:
        if self.hosts.hang_observe:
            await self.hosts.compute.clock.sleep(1e9)
        nodes = self._nodes(self._lab(lab_id))
        links = tuple(
            InterfaceState(f"{each.id}-0", each.id, "eth0", 0, "STARTED", None) for each in nodes
        )
        return LabObservation(nodes, links, {"cpu": 1}, ())

    async def close(self) -> None:
        return


class FakeProbe:
    """A port answers when a running lab's tag names it and its node is up."""

    def __init__(self, hosts: FakeLabHosts) -> None:
        self.hosts = hosts

    async def answers(self, address: str, port: int) -> bool:
        machine = self.hosts.compute.at(address)
        if machine is None or port in self.hosts.silent:
            return False
        for lab in self.hosts.server(machine).labs.values():
            for node in lab.nodes:
                up = node.up_at is not None and node.down_at is None
                if up and node.up_at <= self.hosts.now and _names(node.tags, port):
                    return True
        return False


def _names(tags: tuple[str, ...], port: int) -> bool:
    found = [port_tags.parse(tag) for tag in tags]
    return any(each is not None and each.outer == port for each in found)
