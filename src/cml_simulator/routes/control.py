"""`/_control`: the hand that owns the machines and the weather. JSON, no login, loopback only.

It is no part of CML: it creates, boots and destroys servers, sets faults, edits labs from outside,
and reports the truth that a run is judged by.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from cml_simulator.core import faults, fleet
from cml_simulator.core.errors import CmlError, Problem, invalid, not_found, refused
from cml_simulator.core.faults import Fault
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.inputs import new_id
from cml_simulator.core.profile import Machine, Profile, Rules
from cml_simulator.core.world import Server
from cml_simulator.routes.web import Reply, Request, Route, Table, error_reply, json_reply

BASE = "/_control"
T = TypeVar("T")


class NewServer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST servers: sizes in bytes, times in simulated seconds."""

    id: str | None = None
    product_uuid: str | None = None
    boot_seconds: float = 0.0
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


class CloudSwitch(msgspec.Struct, forbid_unknown_fields=True):
    """Body of PUT licence_cloud."""

    reachable: bool


class OutsideEdit(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of POST outside: delete_lab with lab_id, or add_tag with node_id and tag."""

    action: str
    lab_id: str = ""
    node_id: str = ""
    tag: str = ""


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


def _with(cls: type[Any], values: dict[str, Any]) -> Any:
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        raise refused(str(error)) from None


def create_server(call: ControlCall) -> Any:
    """Create a switched-off server (201)."""
    body = call.read(NewServer)
    if body.cpus < 1 or body.memory_bytes < 1 or body.disk_bytes < 1 or body.boot_seconds < 0:
        raise refused("Sizes must be positive.")
    unknown = body.rules.keys() - set(Rules.__slots__)
    if unknown:
        raise refused(f"Unknown rules: {', '.join(sorted(unknown))}")
    server = fleet.create(
        call.fleet,
        server_id=body.id,
        product_uuid=body.product_uuid,
        machine=Machine(
            cpus=body.cpus,
            memory_bytes=body.memory_bytes,
            disk_bytes=body.disk_bytes,
            boot_seconds=body.boot_seconds,
            kvm=body.kvm,
        ),
        rules=_with(Rules, body.rules),
        profile=Profile(version=body.version),
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
        new_id(call.fleet.dice), body.kind, method, path, body.times, body.skip, body.delay
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
    """Cut a server off from the licence cloud, or connect it again."""
    call.server.licence.reachable = call.read(CloudSwitch).reachable
    return {"reachable": call.server.licence.reachable}


def outside(call: ControlCall) -> Any:
    """Edit a lab as someone in CML's own web interface would."""
    body = call.read(OutsideEdit)
    if body.action == "delete_lab":
        fleet.delete_lab(call.server, body.lab_id, call.now)
    elif body.action == "add_tag":
        fleet.add_tag(call.server, body.node_id, body.tag, call.now)
    else:
        raise refused(f"Unknown action: {body.action}")
    return {"done": body.action}


def summary(call: ControlCall) -> Any:
    """Return the final truth."""
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
        Route("POST", "/servers/{server_id}/outside", outside),
    ]
)


def answer(world: Fleet, request: Request, now: float) -> Reply:
    """Return the reply of the control face."""
    try:
        if not request.path.startswith(f"{BASE}/"):
            raise not_found("Path", request.path)
        route, params = TABLE.find(request.method, request.path[len(BASE) :])
        value = route.handler(ControlCall(world, now, request, params))
        return value if isinstance(value, Reply) else json_reply(value)
    except CmlError as error:
        return error_reply(error)
