"""CML servers without HTTP ("direct"): the CML simulator's core behind the LabHost interface.

`CmlServers` holds the state (servers, addresses, the licence cloud); one process of the product
talks to a `DirectHosts`. Refusals have the simulator's words and are translated by the adapter's
own rules, so that direct and wire seeds give the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import msgspec

from cml_simulator.core import (
    addresses,
    builder,
    configurations,
    export,
    host_views,
    licensing,
    lifecycle,
    topology,
    usage,
)  # fmt: skip
from cml_simulator.core import fleet as servers
from cml_simulator.core.errors import CmlError
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.model import Lab as CmlLab
from cml_simulator.core.model import Node
from cml_simulator.core.use_curves import Curve
from cml_simulator.core.world import (
    ADMIN_ID,
    BootStage,
    Server,
    admit,
    boot_stage,
    can_start,
    in_use,
    settle,
    why_waiting,
)  # fmt: skip
from labfleet.adapters.cml import activity, parsing, telemetry
from labfleet.adapters.cml import errors as translate
from labfleet.adapters.cml import licensing as licences
from labfleet.adapters.http.transport import Reply
from labfleet.interfaces.lab_host import (
    HostAddress,
    Lab,
    LabHost,
    LabObservation,
    NodeState,
    NodeVerb,
    Readiness,
    Stage,
)  # fmt: skip
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import EPOCH, SECRET, SeededRng
from labfleet.rehearsal.worlds.cml_answers import interfaces_seen, lab_seen, node_seen
from labfleet.rehearsal.worlds.wire import CallProfile, Repeat, Wire
from labfleet.resources.idle import Activity
from labfleet.resources.image import Catalogue
from labfleet.resources.lab_use import NodeFigures
from labfleet.resources.telemetry import Licensing, SystemHealth, SystemStats

T = TypeVar("T")

CALL_PROFILE = CallProfile("CML", low=0.005, high=0.15, patience=10.0, trouble="temporary")
NEVER = 1e9
START = EPOCH.timestamp()
_STAGES: dict[BootStage, Stage] = {
    BootStage.OFF: "unreachable",
    BootStage.REFUSED: "refused",
    BootStage.BAD_GATEWAY: "bad_gateway",
    BootStage.NOT_READY: "not_ready",
    BootStage.READY: "ready",
}


@dataclass(slots=True)
class CmlServers:
    """Every CML server, and the licence cloud."""

    loop: Loop
    rng: SeededRng
    injector: FaultInjector
    boot_range: tuple[float, float] = (120.0, 420.0)
    use_curves: tuple[Curve, ...] = ()
    fleet: Fleet = field(init=False)
    boots: SeededRng = field(init=False)
    _told: dict[tuple[str, Any], tuple[dict[str, Any], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.rng, SECRET, port=443)
        self.boots = self.rng.stream("boots")

    def told(self, server: Server, read: Callable[[Any], T], raw: dict[str, Any]) -> T:
        """Return what the adapter parses from an answer; parsed anew only when it differs."""
        key = (server.id, read)
        known = self._told.get(key)
        if known is None or known[0] != raw:
            known = self._told[key] = (raw, read(raw))
        found: T = known[1]
        return found

    def now(self) -> float:
        """Return the simulator's seconds since 1970."""
        return START + self.loop.time()

    def boot_seconds(self) -> float:
        """Return how long the next boot takes."""
        slow = 2.0 if self.injector.holds("slow_metal", None) else 1.0
        return self.boots.between(*self.boot_range) * slow

    def boot(self, server_id: str, *, hangs: bool) -> str:
        """Switch a server on and return its new address."""
        server = servers.find(self.fleet, server_id)
        seconds = NEVER if hangs else self.boot_seconds()
        machine = replace(server.config.machine, boot_seconds=seconds)
        server.config = replace(server.config, machine=machine)
        server.use_curves = self.use_curves
        return servers.boot(self.fleet, server, self.now())

    def stop(self, server_id: str) -> None:
        """Switch a server off."""
        servers.stop(self.fleet, servers.find(self.fleet, server_id), self.now())

    def destroy(self, server_id: str) -> None:
        """Lose a server with its disk."""
        servers.destroy(self.fleet, servers.find(self.fleet, server_id), self.now())

    def server(self, server_id: str) -> Server:
        """Return a server, advanced to now."""
        found = servers.find(self.fleet, server_id)
        settle(found, self.now())
        return found


class DirectHosts:
    """LabHosts of one process."""

    def __init__(self, cml_servers: CmlServers, wire: Wire) -> None:
        self._cml_servers = cml_servers
        self._wire = wire
        self._kept: dict[str, DirectHost] = {}

    def at(self, address: HostAddress) -> LabHost:
        kept = self._kept.get(address.worker)
        if kept is None or kept.address != address:
            kept = self._kept[address.worker] = DirectHost(self._cml_servers, self._wire, address)
        return kept

    async def forget(self, worker: str) -> None:
        self._kept.pop(worker, None)

    async def close(self) -> None:
        self._kept.clear()


class DirectHost:
    """One server for one boot."""

    def __init__(self, cml_servers: CmlServers, wire: Wire, address: HostAddress) -> None:
        self.address = address
        self._cml_servers = cml_servers
        self._wire = wire
        self._ip = address.base_url.removeprefix("https://").partition(":")[0]

    @property
    def _down(self) -> bool:
        return self._cml_servers.injector.holds("server_unreachable", self._ip)

    async def _ask(
        self,
        what: str,
        verb: Callable[[Server, float], T],
        *,
        repeat: Repeat = "read",
        licence: bool = False,
    ) -> T:
        where = f"{self.address.worker}: {what}"

        def effect() -> T:
            server = self._up(where)
            now = self._cml_servers.now()
            settle(server, now)
            server.tally.requests += 1
            try:
                return verb(server, now)
            except CmlError as problem:
                raise _refusal(problem, where, repeat, licence=licence) from None

        return await self._wire.ask(where, effect, repeat=repeat, down=self._down)

    def _up(self, where: str) -> Server:
        server = self._cml_servers.fleet.at_address(self._ip)
        stage = BootStage.OFF if server is None else boot_stage(server, self._cml_servers.now())
        if server is None or stage is BootStage.OFF:
            raise errors.Unreachable(f"{where}: no route", reason="NoRoute")
        if stage is BootStage.REFUSED:
            raise errors.Booting(f"{where}: connection refused", reason="Refused")
        if stage is BootStage.BAD_GATEWAY:
            raise errors.Booting(f"{where}: 502 Bad Gateway", reason="BadGateway")
        return server

    async def readiness(self) -> Readiness:
        def effect() -> Readiness:
            server, now = self._cml_servers.fleet.at_address(self._ip), self._cml_servers.now()
            told = _STAGES[BootStage.OFF if server is None else boot_stage(server, now)]
            if server is None or told not in {"ready", "not_ready"}:
                return Readiness(told, f"the server is {told}")
            told = "ready" if can_start(server, now) else "not_ready"
            return Readiness(told, f"the server is {told}", server.config.profile.version)

        try:
            return await self._wire.ask("system_information", effect, down=self._down)
        except errors.LabfleetError as problem:
            return Readiness("unreachable", problem.message)

    async def authenticate(self) -> None:
        if self._down:
            raise errors.Unreachable("authenticate: no route", reason="NoRoute")
        self._up("authenticate")
        if self.address.password != SECRET:
            raise errors.Denied("wrong password", reason="Unauthorized")

    async def system_stats(self) -> SystemStats:
        return await self._ask(
            "system_stats",
            lambda server, now: self._cml_servers.told(
                server, telemetry.system_stats, host_views.stats(server, now)
            ),
        )

    async def system_health(self) -> SystemHealth:
        return await self._ask(
            "system_health",
            lambda server, now: self._cml_servers.told(
                server, telemetry.system_health, host_views.health(server, now, admin=True)
            ),
        )

    async def maintenance(self) -> bool:
        return await self._ask("maintenance_mode", lambda server, _: server.maintenance)

    async def licensing(self) -> Licensing:
        return await self._ask(
            "licensing",
            lambda server, now: self._cml_servers.told(
                server, licences.parse, licensing.status(server.licence, now)
            ),
        )

    async def register(
        self, product: str, token: str, *, expansion_nodes: int, again: bool = False
    ) -> None:
        def verb(server: Server, now: float) -> None:
            licence = server.licence
            told = licences.parse(licensing.status(licence, now))
            if told.registered and told.product != product:
                raise errors.Invalid(f"registered as {told.product}", reason="OtherProduct")
            anew = told.registered and again
            if anew or (not told.registered and told.registration != "IN_PROGRESS"):
                if told.product != product:
                    licensing.set_product(licence, product)
                seconds = server.config.rules.registration_seconds
                licensing.register(licence, token, now, seconds, again=anew)
                server.revision += 1
                told = licences.parse(licensing.status(licence, now))
            if told.registered and product in licences.EXPANDABLE:
                feature = told.features.get(licences.EXPANSION)
                identifier = None if feature is None else feature.id
                if identifier is not None and licence.expansion != expansion_nodes:
                    licensing.set_counts(licence, [(identifier, expansion_nodes)])
                    admit(server, now)
                    server.revision += 1

        await self._ask("register", verb, repeat="safe", licence=True)

    async def renew_licence(self) -> None:
        def verb(server: Server, now: float) -> None:
            for authorization in (True, False):
                licensing.renew(server.licence, now, authorization=authorization)

        await self._ask("renew", verb, repeat="safe", licence=True)

    async def deregister(self) -> Literal["done", "not_registered", "cloud_not_told"]:
        def verb(server: Server, now: float) -> bool:
            del now
            busy = len(server.active) + len(server.queue)
            told = licensing.deregister(server.licence, server.cloud, active_nodes=busy)
            server.revision += 1
            return told

        try:
            told = await self._ask("deregister", verb, repeat="once", licence=True)
        except errors.Invalid as problem:
            words = problem.message.lower()
            if "running" in words:
                raise errors.Conflict(problem.message, reason="NodesRunning") from None
            if "already" in words or "not registered" in words:
                return "not_registered"
            raise
        return "done" if told else "cloud_not_told"

    async def set_telemetry(self, *, enabled: bool) -> None:
        def verb(server: Server, now: float) -> None:
            del now
            server.opt_in = enabled

        await self._ask("telemetry", verb, repeat="safe")

    async def activity(self) -> Activity:
        return await self._ask(
            "telemetry/events",
            lambda server, _: activity.parse(list(server.telemetry), server.opt_in),
        )

    async def catalogue(self) -> Catalogue:
        def verb(server: Server, now: float) -> Catalogue:
            del now
            store = server.definition_store
            return parsing.catalogue([store.simplified(name) for name in store.names()])

        return await self._ask("simplified_node_definitions", verb)

    async def labs(self) -> tuple[Lab, ...]:
        return await self._ask(
            "labs", lambda server, _: tuple(lab_seen(server, each) for each in server.labs.values())
        )

    async def import_lab(self, topology: str, *, title: str) -> str:
        text = topology.encode()
        return await self._ask(
            "import", lambda server, now: _import(server, text, title, now), repeat="once"
        )

    async def lab(self, lab_id: str) -> Lab:
        return await self._ask("lab", lambda server, _: lab_seen(server, _of(server, lab_id)))

    async def nodes(self, lab_id: str) -> tuple[NodeState, ...]:
        return await self._ask(
            "nodes",
            lambda server, now: tuple(
                node_seen(each, now) for each in _of(server, lab_id).nodes.values()
            ),
        )

    async def all_nodes(self) -> tuple[NodeState, ...]:
        return await self._ask(
            "all nodes",
            lambda server, now: tuple(node_seen(each, now) for each in server.nodes.values()),
        )

    async def converged(self, lab_id: str) -> bool:
        return await self._ask(
            "check_if_converged",
            lambda server, now: lifecycle.converged(
                server, list(_of(server, lab_id).nodes.values()), now
            ),
        )

    async def queue(self) -> Mapping[str, str]:
        def verb(server: Server, now: float) -> dict[str, str]:
            del now
            use = in_use(server)
            return {
                each.id: f"{each.label} is in the launch queue: "
                + (why_waiting(server, each, use) or "starting")
                for each in server.queue
            }

        return await self._ask("node_launch_queue", verb)

    async def start(self, lab_id: str) -> None:
        def verb(server: Server, now: float) -> None:
            lifecycle.start_lab(server, _of(server, lab_id), now)

        await self._ask("start", verb, repeat="safe")

    async def stop(self, lab_id: str) -> None:
        def verb(server: Server, now: float) -> None:
            lifecycle.stop_lab(server, _of(server, lab_id), now)

        await self._ask("stop", verb, repeat="safe")

    async def set_tags(self, lab_id: str, node_id: str, tags: Sequence[str]) -> None:
        def verb(server: Server, now: float) -> None:
            del now
            _node_of(server, lab_id, node_id).tags = list(tags)
            server.revision += 1

        await self._ask("tags", verb, repeat="safe")

    async def wipe(self, lab_id: str) -> None:
        def verb(server: Server, now: float) -> None:
            lifecycle.wipe_lab(server, _of(server, lab_id), now)

        await self._teardown("wipe", verb)

    async def operate_node(self, lab_id: str, node_id: str, verb: NodeVerb) -> None:
        calls = {
            "start": lifecycle.start_node, "stop": lifecycle.stop_node, "wipe": lifecycle.wipe_node,
        }  # fmt: skip

        def effect(server: Server, now: float) -> None:
            calls[verb](server, _node_of(server, lab_id, node_id), now)

        if verb == "wipe":
            await self._teardown("wipe node", effect)
        else:
            await self._ask(f"{verb} node", effect, repeat="safe")

    async def delete(self, lab_id: str) -> None:
        def verb(server: Server, now: float) -> None:
            lifecycle.delete_lab(server, _of(server, lab_id), now)

        try:
            await self._teardown("delete", verb)
        except errors.Gone:
            return

    async def _teardown(self, what: str, verb: Callable[[Server, float], None]) -> None:
        try:
            await self._ask(what, verb, repeat="safe")
        except errors.Invalid as problem:
            raise errors.Conflict(problem.message, reason="Later") from None

    async def lab_use(self, lab_id: str) -> dict[str, NodeFigures]:
        def verb(server: Server, now: float) -> dict[str, NodeFigures]:
            return parsing.node_figures(usage.simulation_stats(server, _of(server, lab_id), now))

        return await self._ask("lab_use", verb)

    async def extract(self, lab_id: str, node_id: str) -> None:
        def verb(server: Server, now: float) -> None:
            configurations.extract(server, _node_of(server, lab_id, node_id), now)

        await self._ask("extract", verb, repeat="safe")

    async def download(self, lab_id: str) -> bytes:
        def verb(server: Server, now: float) -> bytes:
            del now
            return export.download(_of(server, lab_id)).encode()

        return await self._ask("download", verb)

    async def observe(self, lab_id: str) -> LabObservation:
        def verb(server: Server, now: float) -> LabObservation:
            lab = _of(server, lab_id)
            learned = parsing.addresses(addresses.layer3(server, lab, now))
            nodes = list(lab.nodes.values())
            return LabObservation(
                nodes=tuple(node_seen(each, now) for each in nodes),
                interfaces=tuple(interfaces_seen(nodes, learned)),
                simulation_stats=parsing.simulation_stats(usage.simulation_stats(server, lab, now)),
                gaps=(),
            )

        return await self._ask("observe", verb)

    async def close(self) -> None:
        """Nothing is held."""


def _refusal(
    problem: CmlError, where: str, repeat: Repeat, *, licence: bool
) -> errors.LabfleetError:
    """Return what the adapter makes of the refusal, by its own rules."""
    body = msgspec.json.encode({"code": problem.status, "description": problem.description})
    reply = Reply(problem.status, {"content-type": "application/json"}, body)
    return translate.refusal(reply, where=where, repeat=repeat, licensing=licence)


def _of(server: Server, lab_id: str) -> CmlLab:
    lab = server.labs.get(lab_id)
    if lab is None:
        raise CmlError(404, f"Lab not found: {lab_id}")
    return lab


def _node_of(server: Server, lab_id: str, node_id: str) -> Node:
    node = _of(server, lab_id).nodes.get(node_id)
    if node is None:
        raise CmlError(404, f"Node not found: {node_id}")
    return node


def _import(server: Server, text: bytes, title: str, now: float) -> str:
    topology.check_title(title)
    parsed = topology.parse(topology.load_text(text), server.config.profile)
    lab, _ = builder.import_topology(server, parsed, title, ADMIN_ID, now)
    return lab.id
