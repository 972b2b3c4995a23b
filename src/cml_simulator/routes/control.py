"""`/_control`: side channel for machines, server conditions and faults. JSON, loopback, no login.

It is no part of CML: it creates, boots and destroys servers, sets faults, edits labs from outside,
and reports the real state by which a run is judged.
"""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import msgspec

from cml_simulator.core import diagnostics, faults, fleet, outside, use_curves, world
from cml_simulator.core.errors import CmlError, Problem, invalid, not_found, refused
from cml_simulator.core.faults import Fault
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.inputs import new_id
from cml_simulator.core.profile import Machine, Profile, Rules, release
from cml_simulator.core.server_conditions import ServerConditions
from cml_simulator.core.world import Server
from cml_simulator.routes.web import Reply, Request, Route, Table, error_reply, json_reply

BASE = "/_control"
T = TypeVar("T")


class NewServer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST servers: sizes in bytes, times in simulated seconds."""

    id: str | None = None
    product_uuid: str | None = None
    boot_seconds: float = 0.0
    silent_seconds: float = 0.0
    cpus: int = 48
    memory_bytes: int = 202_422_902_784
    disk_bytes: int = 266_206_101_504
    kvm: bool = True
    password: str | None = None
    version: str = Profile().version
    rules: dict[str, Any] = msgspec.field(default_factory=dict)


class NewFault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST faults: regular expressions on method and path, seconds of real time."""

    kind: faults.Kind
    method: str = ".*"
    path: str = ".*"
    times: int | None = 1
    skip: int = 0
    delay: float = 0.0
    description: str | None = None


class CloudSwitch(msgspec.Struct, forbid_unknown_fields=True):
    """Body of PUT licence_cloud; `bought` counts for the whole fleet."""

    reachable: bool = True
    bought: int | None = None


@dataclass(slots=True)
class ControlCall:
    """A matched control request."""

    fleet: Fleet
    now: float
    request: Request
    params: dict[str, str]

    @property
    def server(self) -> Server:
        return fleet.find(self.fleet, self.params["server_id"])

    def read(self, kind: type[T]) -> T:
        """Return the checked body."""
        try:
            return msgspec.json.decode(self.request.body or b"{}", type=kind)
        except msgspec.DecodeError as error:
            raise invalid([Problem(("body",), "value_error", str(error))]) from None


def _with(cls: type[T], values: dict[str, Any], base: T | None = None) -> T:
    """Return a checked record; what is not given keeps the base's value."""
    unknown = values.keys() - {each.name for each in fields(cls)}  # type: ignore[arg-type]
    if unknown:
        raise refused(f"Unknown {cls.__name__.lower()}: {', '.join(sorted(unknown))}")
    whole = {**asdict(base), **values} if base is not None else values  # type: ignore[call-overload]
    try:
        return msgspec.convert(whole, cls)
    except msgspec.ValidationError as error:
        raise refused(str(error)) from None


def _map(call: "ControlCall") -> dict[str, Any]:
    return call.read(dict[str, Any])


def create_server(call: ControlCall) -> Any:
    """Create a switched-off server (201)."""
    body = call.read(NewServer)
    if min(body.cpus, body.memory_bytes, body.disk_bytes) < 1:
        raise refused("Sizes must be positive.")
    if min(body.boot_seconds, body.silent_seconds) < 0:
        raise refused("Times must not be negative.")
    server = fleet.create(
        call.fleet,
        server_id=body.id,
        product_uuid=body.product_uuid,
        machine=Machine(
            cpus=body.cpus,
            memory_bytes=body.memory_bytes,
            disk_bytes=body.disk_bytes,
            boot_seconds=body.boot_seconds,
            silent_seconds=body.silent_seconds,
            kvm=body.kvm,
        ),
        rules=_with(Rules, body.rules),
        profile=release(body.version),
        password=body.password,
    )
    return json_reply(fleet.server_view(call.fleet, server, call.now), 201)


def list_servers(call: ControlCall) -> Any:
    """Return every server, destroyed ones too."""
    return [fleet.server_view(call.fleet, s, call.now) for s in call.fleet.servers.values()]


def get_server(call: ControlCall) -> Any:
    """Return a server's whole state."""
    return fleet.server_state(call.fleet, call.server, call.now)


def boot(call: ControlCall) -> Any:
    """Switch on; return the address where it will answer."""
    address = fleet.boot(call.fleet, call.server, call.now)
    return {"address": address, "port": call.fleet.port}


def stop(call: ControlCall) -> Any:
    """Switch off."""
    fleet.stop(call.fleet, call.server, call.now)
    return fleet.server_view(call.fleet, call.server, call.now)


def destroy(call: ControlCall) -> Any:
    """Switch off and lose the disk."""
    fleet.destroy(call.fleet, call.server, call.now)
    return fleet.server_view(call.fleet, call.server, call.now)


def journal(call: ControlCall) -> Any:
    """Return the last requests of a server, oldest first."""
    text = call.request.query.get("limit", "1000")
    limit = int(text) if text.isascii() and text.isdigit() else 1000
    return list(call.server.journal)[-limit:] if limit else []


def _fault_view(fault: Fault) -> dict[str, Any]:
    return {
        "id": fault.id,
        "kind": fault.kind,
        "method": fault.method.pattern,
        "path": fault.path.pattern,
        "times": fault.times,
        "skip": fault.skip,
        "delay": fault.delay,
        "hits": fault.hits,
        "description": fault.description,
    }


def _rules_of(call: ControlCall) -> list[Fault]:
    return call.server.faults if "server_id" in call.params else call.fleet.faults


def add_fault(call: ControlCall) -> Any:
    """Add a rule at the end (201)."""
    body = call.read(NewFault)
    try:
        method, path = re.compile(body.method, re.IGNORECASE), re.compile(body.path)
    except re.error as error:
        raise refused(f"Not a regular expression: {error}") from None
    if len(_rules_of(call)) >= 200:
        raise refused("More than 200 rules.")
    fault = Fault(
        new_id(call.fleet.rng),
        body.kind,
        method,
        path,
        body.times,
        body.skip,
        body.delay,
        description=body.description,
    )
    _rules_of(call).append(fault)
    return json_reply(_fault_view(fault), 201)


def list_faults(call: ControlCall) -> Any:
    """Return the rules with their hits."""
    return [_fault_view(fault) for fault in _rules_of(call)]


def clear_faults(call: ControlCall) -> Any:
    """Remove every rule."""
    _rules_of(call).clear()
    return []


def licence_cloud(call: ControlCall) -> Any:
    """Cut a server off from the licence cloud or connect it; say how many licences were bought."""
    body = call.read(CloudSwitch)
    call.server.licence.reachable = body.reachable
    call.server.cloud.bought = body.bought
    call.server.licence.covered = call.server.cloud.covers(call.server.licence.product_uuid)
    return {"reachable": body.reachable, "bought": body.bought}


def edit_outside(call: ControlCall) -> Any:
    """Edit a lab as someone in CML's own web interface would."""
    body = call.read(outside.Edit)
    return {"done": body.action, **outside.act(call.server, body, call.now)}


def get_conditions(call: ControlCall) -> Any:
    """Return the server's conditions (lasting faults)."""
    return asdict(call.server.server_conditions)


def patch_conditions(call: ControlCall) -> Any:
    """Change the server's conditions (lasting faults)."""
    world.set_conditions(
        call.server, _with(ServerConditions, _map(call), call.server.server_conditions), call.now
    )
    return get_conditions(call)


def clear_conditions(call: ControlCall) -> Any:
    """End all conditions."""
    world.set_conditions(call.server, ServerConditions(), call.now)
    return get_conditions(call)


def get_rules(call: ControlCall) -> Any:
    """Return the answers to open questions (facts/cml.md#open-questions)."""
    return asdict(call.server.config.rules)


def patch_rules(call: ControlCall) -> Any:
    """Change answers to open questions while the server runs."""
    world.set_rules(call.server, _with(Rules, _map(call), call.server.config.rules))
    return get_rules(call)


def set_use(call: ControlCall) -> Any:
    """Say what nodes use over time, in place of what was said before; [] is the default again."""
    curves = call.read(list[use_curves.UseCurve])
    call.server.use_curves = use_curves.checked(curves)
    return {"curves": len(curves)}


def why_queued(call: ControlCall) -> Any:
    """Return for each queued node why it waits."""
    world.settle(call.server, call.now)
    return diagnostics.queue_reasons(call.server)


def clear_journal(call: ControlCall) -> Any:
    """Forget the requests so far."""
    call.server.journal.clear()
    return []


def take_snapshot(call: ControlCall) -> Any:
    """Keep a server's state (201)."""
    kept = fleet.take_snapshot(call.fleet, call.server, call.now)
    return json_reply({"id": kept.id, "at": kept.at}, 201)


def list_snapshots(call: ControlCall) -> Any:
    """Return the snapshots of a server."""
    return [
        {"id": kept.id, "at": kept.at}
        for kept in call.fleet.snapshots.values()
        if kept.server_id == call.server.id
    ]


def restore_snapshot(call: ControlCall) -> Any:
    """Put a server back to a snapshot."""
    fleet.restore_snapshot(call.fleet, call.server, call.params["snapshot_id"], call.now)
    return fleet.server_view(call.fleet, call.server, call.now)


def summary(call: ControlCall) -> Any:
    """Return the summary of the real state."""
    return fleet.summary(call.fleet, call.now)


def clock(call: ControlCall) -> Any:
    """Return the simulated time."""
    return {"now": call.now}


TABLE = Table(
    [
        Route("GET", "/summary", summary),
        Route("GET", "/clock", clock),
        Route("GET", "/faults", list_faults),
        Route("POST", "/faults", add_fault),
        Route("DELETE", "/faults", clear_faults),
        Route("GET", "/servers", list_servers),
        Route("POST", "/servers", create_server),
        Route("GET", "/servers/{server_id}", get_server),
        Route("POST", "/servers/{server_id}/boot", boot),
        Route("POST", "/servers/{server_id}/stop", stop),
        Route("POST", "/servers/{server_id}/destroy", destroy),
        Route("GET", "/servers/{server_id}/journal", journal),
        Route("GET", "/servers/{server_id}/faults", list_faults),
        Route("POST", "/servers/{server_id}/faults", add_fault),
        Route("DELETE", "/servers/{server_id}/faults", clear_faults),
        Route("PUT", "/servers/{server_id}/licence_cloud", licence_cloud),
        Route("POST", "/servers/{server_id}/outside", edit_outside),
        Route("DELETE", "/servers/{server_id}/journal", clear_journal),
        Route("GET", "/servers/{server_id}/weather", get_conditions),
        Route("PATCH", "/servers/{server_id}/weather", patch_conditions),
        Route("DELETE", "/servers/{server_id}/weather", clear_conditions),
        Route("GET", "/servers/{server_id}/rules", get_rules),
        Route("PATCH", "/servers/{server_id}/rules", patch_rules),
        Route("PUT", "/servers/{server_id}/use", set_use),
        Route("GET", "/servers/{server_id}/queue", why_queued),
        Route("GET", "/servers/{server_id}/snapshots", list_snapshots),
        Route("POST", "/servers/{server_id}/snapshots", take_snapshot),
        Route("POST", "/servers/{server_id}/snapshots/{snapshot_id}/restore", restore_snapshot),
    ]
)


def answer(world: Fleet, request: Request, now: float) -> Reply:
    """Return the reply of `/_control`."""
    try:
        if not request.path.startswith(f"{BASE}/"):
            raise not_found("Path", request.path)
        route, params = TABLE.find(request.method, request.path[len(BASE) :])
        value = route.handler(ControlCall(world, now, request, params))
        return value if isinstance(value, Reply) else json_reply(value)
    except CmlError as error:
        return error_reply(error)
