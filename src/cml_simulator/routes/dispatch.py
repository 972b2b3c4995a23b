"""One request to one server: route, login check, handler, error body. Pure and synchronous."""

from typing import Any

from cml_simulator.core.errors import CmlError
from cml_simulator.core.world import Server, settle
from cml_simulator.routes import definitions, labs, licences, login, nodes, people, system
from cml_simulator.routes.web import (
    Access,
    Call,
    Reply,
    Request,
    Table,
    error_reply,
    html_reply,
    json_reply,
)

BASE = "/api/v0"
TABLE = Table(
    [
        *login.ROUTES,
        *system.ROUTES,
        *licences.ROUTES,
        *labs.ROUTES,
        *nodes.ROUTES,
        *definitions.ROUTES,
        *people.ROUTES,
    ]
)


def answer(server: Server, request: Request, now: float) -> Reply:
    """Return the reply of a server that is up."""
    if not request.path.startswith(f"{BASE}/"):
        return html_reply(404, "Not Found")
    settle(server, now)
    try:
        route, params = TABLE.find(request.method, request.path[len(BASE) :])
        call = Call(server, now, request, params)
        if route.access is not Access.PUBLIC:
            _log_in(call, route.access)
        return _reply(route.handler(call))
    except CmlError as error:
        return error_reply(error)


def _reply(value: Any) -> Reply:
    return value if isinstance(value, Reply) else json_reply(value)


def _log_in(call: Call, access: Access) -> None:
    scheme, _, token = call.request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise CmlError(401, "Not authenticated")
    found = call.server.sessions.check(token.strip(), call.now)
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
