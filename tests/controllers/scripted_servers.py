"""The rehearsal's CML servers for tests of controllers: nothing goes wrong unless a test says so.

The servers are those of `rehearsal.worlds.cml` without chance: fixed times, no latency. What a
test changes has the simulator's own words: `hosts.set(stop_seconds=300.0)` for all servers, also
those to come; `hosts.of("w1").maintenance = True` for one. Here is only what no server does by
itself, and what a test wants to know afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from cml_simulator.core import builder, lifecycle, outside, world
from cml_simulator.core.licensing import Stage
from cml_simulator.core.model import Lab as CmlLab
from cml_simulator.core.model import Node, State
from cml_simulator.core.profile import Machine, Rules
from cml_simulator.core.server import ADMIN_ID, Server
from cml_simulator.core.server_conditions import ServerConditions
from labfleet.interfaces.lab_host import (
    HostAddress,
    Lab,
    LabHost,
    LabObservation,
    NodeState,
    NodeVerb,
)
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers, DirectHost, DirectHosts
from labfleet.rehearsal.worlds.port_probe import PortProbe
from labfleet.rehearsal.worlds.wire import CallProfile, Repeat, Wire
from labfleet.resources import topology
from labfleet.resources.idle import Activity
from labfleet.resources.image import Catalogue

T = TypeVar("T")
Expect = Callable[[str, str], Awaitable[None]]
ExpectLab = Callable[[str, str, str], Awaitable[None]]
NODE = "alpine"
"""The definition that the labs of these tests are made of."""
EVENTS = "telemetry/events"
"""The call that reads people's activity."""
BOOT = 200.0
NODE_BOOT = 40.0
MANNERS = CallProfile("CML", low=0.0, high=0.0, patience=10.0, trouble="temporary")


class Machines(Protocol):
    """What a test of CML has to know of the cloud: the machines of a worker that are not ended."""

    def alive(self, worker: str | None = None) -> Sequence[Any]:
        """Return machines, each with the `server_id` of the server on its disk."""
        ...


class StraightWire(Wire):
    """Carries each call at once: without latency and faults, none needs a turn of the loop."""

    async def ask(
        self, what: str, effect: Callable[[], T], *, repeat: Repeat = "read", down: bool = False
    ) -> T:
        if down:
            return await super().ask(what, effect, repeat=repeat, down=True)
        return effect()


class ScriptedCml(DirectHosts):
    """Every server; keeps the calls that change something, and what was wrong with them."""

    def __init__(
        self, cml_servers: CmlServers, machines: Machines, expect: Expect, lab: ExpectLab
    ) -> None:
        self.cml_servers = cml_servers
        self.machines = machines
        self.expect = expect
        self.expect_lab = lab
        calls = SeededRng("calls")
        self.wire = StraightWire(cml_servers.loop, calls, cml_servers.injector, MANNERS)
        self.probe = PortProbe(cml_servers, self.wire)
        self.rules = Rules(stop_seconds=15.0, registration_seconds=16.0)
        self.conditions = ServerConditions()
        self.hardware = Machine(silent_seconds=BOOT / 4)
        self.product_uuid: str | None = None
        self._fitted: set[str] = set()
        self._reached: dict[str, ScriptedHost] = {}
        self.refusals: dict[str, errors.LabfleetError] = {}
        self.cut: set[str] = set()
        self.most_granted = 480
        self.stopped_early = False
        self.hang_observe = False
        self.lose_tags = 0
        self.at_activity: Callable[[str], None] | None = None
        self.at_nodes: Callable[[str], None] | None = None
        self.calls: list[str] = []
        self.wrong: list[str] = []
        self.most_starting = 0
        super().__init__(cml_servers, self.wire)
        self.boot(BOOT)
        self.node_boot(NODE_BOOT)

    def at(self, address: HostAddress) -> LabHost:
        known = self._reached.get(address.worker)
        if known is not None and known.address == address:
            return known
        host = ScriptedHost(self, address)
        server = host.server()
        if server is not None:
            self.fit(server)
            self._reached[address.worker] = host
        return host

    # --- what a test changes -------------------------------------------------------------

    def boot(self, seconds: float) -> None:
        """Let each boot from now on take so long."""
        self.cml_servers.boot_range = (seconds, seconds)

    def node_boot(self, seconds: float) -> None:
        """Let each node that starts from now on boot so long, give or take a tenth."""
        self.set(boot_seconds={NODE: seconds})

    def set(self, **changes: Any) -> None:
        """Change rules, server conditions and hardware, each by its name, of every server."""
        for name in ("rules", "conditions", "hardware"):
            part = getattr(self, name)
            mine = {key: changes.pop(key) for key in list(changes) if hasattr(part, key)}
            setattr(self, name, replace(part, **mine))
        assert not changes, changes
        self._fitted.clear()
        for server in self.cml_servers.fleet.servers.values():
            self.fit(server)

    def fit(self, server: Server) -> None:
        """Bring a server into the conditions that were asked for, once."""
        if server.id in self._fitted or server.power.destroyed:
            return
        self._fitted.add(server.id)
        hardware = replace(self.hardware, boot_seconds=server.config.machine.boot_seconds)
        server.config = replace(server.config, machine=hardware)
        if self.product_uuid is not None:
            identity = replace(server.config.identity, product_uuid=self.product_uuid)
            server.config = replace(server.config, identity=identity)
            server.licence.product_uuid = self.product_uuid
        world.set_rules(server, self.rules)
        world.set_conditions(server, self.conditions, self.now)

    def fail(self, *calls: str) -> None:
        """Let these calls, and no others, be answered by server trouble."""
        self.refusals = {call: errors.Temporary(f"{call}: 500") for call in calls}

    # --- what people do there --------------------------------------------------------------

    def edit(
        self, worker: str, *tags: str, title: str = "theirs", notes: str = "", nodes: int = 1
    ) -> CmlLab:
        """Make a lab as somebody does in CML's own pages."""
        server = self.of(worker)
        lab = builder.new_lab(server, ADMIN_ID, self.now, title)
        lab.notes = notes
        for number in range(nodes):
            node = Node(server.new_id(), lab.id, f"x{number}", NODE, 0, 0, tags=list(tags))
            builder.add_node(server, lab, node)
        return lab

    def run(self, worker: str, *tags: str, **how: Any) -> CmlLab:
        """Make such a lab and start it."""
        lab = self.edit(worker, *tags, **how)
        lifecycle.start_lab(self.of(worker), lab, self.now)
        return lab

    def remove(self, worker: str, *lab_ids: str) -> None:
        """Remove labs, all if none is named, whatever they are doing."""
        server = self.of(worker)
        for lab_id in lab_ids or list(server.labs):
            lifecycle.force_delete_lab(server, server.labs[lab_id], self.now)

    def use(self, worker: str, category: str, user: str) -> None:
        """Leave one telemetry event of a user's."""
        outside.act(self.of(worker), outside.Edit(action="use", text=category, tag=user), self.now)

    # --- what a test looks at --------------------------------------------------------------

    @property
    def now(self) -> float:
        """Return the servers' seconds since 1970."""
        return self.cml_servers.now()

    @property
    def servers(self) -> Iterable[Server]:
        """Return every server there ever was."""
        return self.cml_servers.fleet.servers.values()

    def of(self, worker: str) -> Server:
        """Return the server of a worker's one machine."""
        [machine] = self.machines.alive(worker)
        server = self.cml_servers.server(machine.server_id)
        self.fit(server)
        return server

    @property
    def labs_made(self) -> int:
        """Return how many labs were ever made."""
        return sum(each.tally.labs_created for each in self.servers)

    def labs_left(self) -> list[str]:
        """Return the markers of the labs on machines that are still there."""
        there = [each.server_id for each in self.machines.alive()]
        servers = [each for each in self.servers if each.id in there]
        return [marker(lab) for each in servers for lab in each.labs.values()]

    def licences_left(self) -> list[str]:
        """Return the servers, living or not, whose licence was never given back."""
        return [each.id for each in self.servers if registered(each)]


class ScriptedHost(DirectHost):
    """One server, reached at the address of one boot."""

    def __init__(self, script: ScriptedCml, address: HostAddress) -> None:
        super().__init__(script.cml_servers, script.wire, address)
        self.script = script

    @property
    def _down(self) -> bool:
        return self.address.worker in self.script.cut or super()._down

    def server(self) -> Server | None:
        """Return the server at the address, whether it answers or not."""
        return self._cml_servers.fleet.at_address(self._ip)

    async def _ask(self, what: str, verb: Callable[[Server, float], T], **how: Any) -> T:
        refusal = self.script.refusals.get(what)
        if refusal is not None:
            raise refusal
        return await super()._ask(what, verb, **how)

    # --- the server ------------------------------------------------------------------------

    async def register(
        self, product: str, token: str, *, expansion_nodes: int, again: bool = False
    ) -> None:
        await self._noted("register")
        granted = min(expansion_nodes, self.script.most_granted)
        await super().register(product, token, expansion_nodes=granted, again=again)

    async def deregister(self) -> Any:
        await self._noted("deregister")
        return await super().deregister()

    async def renew_licence(self) -> None:
        self._said("renew")
        await super().renew_licence()

    async def set_telemetry(self, *, enabled: bool) -> None:
        self._said("telemetry", str(enabled))
        await super().set_telemetry(enabled=enabled)

    async def activity(self) -> Activity:
        told = await super().activity()
        self._said("activity")
        if self.script.at_activity is not None:
            self.script.at_activity(self.address.worker)
        return told

    async def all_nodes(self) -> tuple[NodeState, ...]:
        if self.script.at_nodes is not None and self._reached() is not None:
            self.script.at_nodes(self.address.worker)
        return await super().all_nodes()

    async def catalogue(self) -> Catalogue:
        self._said("catalogue")
        if "catalogue" in self.script.refusals:
            raise self.script.refusals["catalogue"]
        return await super().catalogue()

    # --- labs ------------------------------------------------------------------------------

    async def labs(self) -> tuple[Lab, ...]:
        return tuple(map(self._shown, await super().labs()))

    async def lab(self, lab_id: str) -> Lab:
        return self._shown(await super().lab(lab_id))

    async def import_lab(self, text: str, *, title: str) -> str:
        script, server = self.script, self._reached()
        if server is not None:
            parsed = topology.parse(text)
            mark = topology.marker_of(parsed.notes) or ""
            script.calls.append(f"import {mark}")
            await script.expect_lab(mark, "import", "to be made")
            if any(marker(each) == mark for each in server.labs.values()):
                script.wrong.append(f"imported twice: {mark}")
            if parsed.title != title:
                script.wrong.append(f"title {title!r} is not {parsed.title!r}")
        made = await super().import_lab(text, title=title)
        if server is not None and script.lose_tags:
            script.lose_tags -= 1
            for node in server.labs[made].nodes.values():
                node.tags = []
        return made

    async def start(self, lab_id: str) -> None:
        await self._noted("start", lab_id)
        await super().start(lab_id)
        server = self._reached()
        if server is not None:
            labs = {each.lab_id for each in server.active.values() if _boots(each, self.script.now)}
            self.script.most_starting = max(self.script.most_starting, len(labs))

    async def stop(self, lab_id: str) -> None:
        await self._noted("stop", lab_id)
        await super().stop(lab_id)

    async def set_tags(self, lab_id: str, node_id: str, tags: Sequence[str]) -> None:
        self._said("tags", lab_id)
        await super().set_tags(lab_id, node_id, tags)

    async def wipe(self, lab_id: str) -> None:
        await self._noted("wipe", lab_id)
        await self._in_order("wiped while nodes run", super().wipe(lab_id))

    async def operate_node(self, lab_id: str, node_id: str, verb: NodeVerb) -> None:
        await self._noted(f"{verb}_node", lab_id)
        await super().operate_node(lab_id, node_id, verb)

    async def delete(self, lab_id: str) -> None:
        await self._noted("delete", lab_id)
        await self._in_order("deleted before it was wiped", super().delete(lab_id))

    async def observe(self, lab_id: str) -> LabObservation:
        if self.script.hang_observe:
            await asyncio.sleep(1e9)
        return await super().observe(lab_id)

    # --- what is noted ---------------------------------------------------------------------

    def _reached(self) -> Server | None:
        """Return the server that a call would reach now."""
        try:
            return None if self._down else self._up("note")
        except errors.LabfleetError:
            return None

    async def _noted(self, verb: str, lab_id: str | None = None) -> None:
        """Note a change that is asked for, and whether an open effect stands for it."""
        server = self._reached()
        if server is None:
            return
        if lab_id is None:
            self.script.calls.append(f"{verb} {self.address.worker}")
            await self.script.expect(self.address.worker, verb)
        elif lab_id in server.labs:
            mark = marker(server.labs[lab_id])
            self.script.calls.append(f"{verb} {mark}")
            await self.script.expect_lab(mark, verb, lab_id)

    def _said(self, verb: str, *words: str) -> None:
        if self._reached() is not None:
            self.script.calls.append(" ".join((verb, self.address.worker, *words)))

    async def _in_order(self, otherwise: str, step: Awaitable[None]) -> None:
        """Note a step of a teardown that CML refuses because it came too early."""
        try:
            await step
        except errors.Conflict as problem:
            self.script.wrong.append(f"{otherwise}: {problem.message}")
            raise

    def _shown(self, lab: Lab) -> Lab:
        """Return a lab as a server shows it whose labs say STOPPED before their nodes are."""
        server = self._reached() if self.script.stopped_early else None
        if server is None:
            return lab
        stops = any(each.stop_due is not None for each in server.labs[lab.id].nodes.values())
        return replace(lab, state=str(State.STOPPED)) if stops else lab


def marker(lab: CmlLab) -> str:
    """Return the session marker in a lab's notes; empty for somebody else's lab."""
    return topology.marker_of(lab.notes) or ""


def registered(server: Server) -> bool:
    """Tell whether a server has taken a licence, or is taking one."""
    return server.licence.stage in {Stage.COMPLETED, Stage.IN_PROGRESS}


def _boots(node: Node, now: float) -> bool:
    return node.stop_due is None and now < node.booted_at
