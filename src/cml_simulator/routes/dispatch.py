"""One request to one server: route, login check, handler, error body. Pure and synchronous.

There is one route table for each release; what a release does not have is unknown to it.
"""

from dataclasses import replace
from typing import Any

from cml_simulator.core.errors import CmlError
from cml_simulator.core.profile import RELEASES
from cml_simulator.core.world import Server, record, settle
from cml_simulator.routes import (
    annotations,
    definitions,
    extras,
    labs,
    licences,
    links,
    login,
    nodes,
    people,
    pools,
    system,
)
from cml_simulator.routes.web import (
    Access,
    Call,
    Reply,
    Request,
    Route,
    Table,
    error_reply,
    html_reply,
    json_reply,
)

BASE = "/api/v0"
ROUTES: tuple[Route, ...] = (
    *login.ROUTES,
    *system.ROUTES,
    *licences.ROUTES,
    *labs.ROUTES,
    *nodes.ROUTES,
    *links.ROUTES,
    *annotations.ROUTES,
    *definitions.ROUTES,
    *pools.ROUTES,
    *people.ROUTES,
    *extras.ROUTES,
)
TABLES = {
    minor: Table(route for route in ROUTES if route.first <= minor <= route.last)
    for minor in RELEASES
}


def answer(server: Server, request: Request, now: float) -> Reply:
    """Return the reply of a server that is up."""
    return replace(_answer(server, request, now), date=now + server.server_conditions.clock_skew)


def _answer(server: Server, request: Request, now: float) -> Reply:
    if not request.path.startswith(f"{BASE}/"):
        return html_reply(404, "Not Found")
    settle(server, now)
    profile = server.config.profile
    path = request.path[len(BASE) :]
    if profile.trailing_slashes and len(path) > 1:
        path = path.removesuffix("/")
    try:
        route, params = TABLES[profile.minor].find(request.method, path)
        call = Call(server, now, request, params)
        if route.access is not Access.PUBLIC:
            _log_in(call, route.access)
        reply = _reply(route.handler(call))
    except CmlError as error:
        return error_reply(error)
    _note_deed(call, route)
    return reply


DEEDS = {
    ("POST", "/labs"): "create_lab",
    ("POST", "/import"): "import_lab",
    ("DELETE", "/labs/{lab_id}"): "delete_lab",
    ("PUT", "/labs/{lab_id}/start"): "start_lab",
    ("PUT", "/labs/{lab_id}/stop"): "stop_lab",
    ("PUT", "/labs/{lab_id}/wipe"): "wipe_lab",
    ("GET", "/labs/{lab_id}/download"): "export_lab",
    ("PUT", "/labs/{lab_id}/nodes/{node_id}/state/start"): "start_node",
    ("PUT", "/labs/{lab_id}/nodes/{node_id}/state/stop"): "stop_node",
    ("GET", "/labs/{lab_id}/nodes/{node_id}/keys/console"): "user_activity",
}
"""Telemetry's words for a user's actions (facts/upstream.md#idle); reads are no actions."""


def _note_deed(call: Call, route: Route) -> None:
    """Record the action and its user in the telemetry."""
    category = DEEDS.get((route.method, route.template))
    if category is not None and call.user is not None:
        record(call.server, category, {**call.params, "user_id": call.user.id}, call.now)


def _reply(value: Any) -> Reply:
    return value if isinstance(value, Reply) else json_reply(value)


def _log_in(call: Call, access: Access) -> None:
    scheme, _, token = call.request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise CmlError(401, "Not authenticated")
    skewed = call.now + call.server.server_conditions.clock_skew
    found = call.server.sessions.check(token.strip(), skewed)
    user = call.server.users.get(found[0]) if found else None
    if found is None or user is None:
        raise CmlError(401, "Invalid or expired authentication token")
    call.user, call.session_id = user, found[1]
    if user.admin:
        return
    if access is Access.ADMIN:
        raise CmlError(403, "User does not have permission for this operation.")
    if call.server.maintenance:
        raise CmlError(403, "The system is in maintenance mode.")
