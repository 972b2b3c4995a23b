"""Login, logout, session time, telemetry switches."""

import hmac
from typing import Any

from cml_simulator.core.errors import CmlError, Problem, invalid
from cml_simulator.core.model import User
from cml_simulator.core.views import opt_in_word
from cml_simulator.core.world import record
from cml_simulator.routes.web import Access, Call, Document, Route

LOGIN = ("username", "password")


def _login(call: Call) -> tuple[User, str]:
    body = call.document(LOGIN, LOGIN)
    name = body.read.text(body.row, "username", 32) or ""
    password = body.read.text(body.row, "password", 128) or ""
    body.done()
    user = next((u for u in call.server.users.values() if u.username == name), None)
    good = user is not None and hmac.compare_digest(user.password.encode(), password.encode())
    if user is None or not good:
        raise CmlError(403, "Authentication failed!")
    now = call.now + call.server.server_conditions.clock_skew
    token = call.server.sessions.issue(user.id, call.server.new_id(), now)
    record(call.server, "user_activity", {"user_id": user.id, "action": "login"}, call.now)
    return user, token


def authenticate(call: Call) -> Any:
    """Return a token as a JSON string."""
    return _login(call)[1]


def auth_extended(call: Call) -> Any:
    """Return a token with the user it belongs to."""
    user, token = _login(call)
    return {
        "username": user.username,
        "id": user.id,
        "token": token,
        "admin": user.admin,
        "error": None,
    }


def authok(call: Call) -> Any:
    """Confirm a token."""
    _ = call
    return "OK"


def authentication(call: Call) -> Any:
    """Return who is logged in (2.10)."""
    user = call.account
    return {
        "id": user.id,
        "username": user.username,
        "admin": user.admin,
        "token": call.request.headers.get("authorization", "").partition(" ")[2].strip(),
        "error": None,
    }


def logout(call: Call) -> Any:
    """Revoke this token, or every token of the user."""
    if call.flag("clear_all_sessions"):
        call.server.sessions.revoke_user(call.account.id)
    else:
        call.server.sessions.revoke(call.session_id)
    return True


def get_timeout(call: Call) -> Any:
    """Return the life of a token in seconds."""
    return call.server.sessions.lifetime


def set_timeout(call: Call) -> Any:
    """Set the life of tokens issued from now on."""
    text = call.params["seconds"]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 31_536_000:
        problem = Problem(("path", "seconds"), "int_parsing", "Input should be a valid integer")
        raise invalid([problem])
    call.server.sessions.lifetime = int(text)
    return "OK"


def get_telemetry(call: Call) -> Any:
    """Return whether telemetry is on."""
    choice = call.server.opt_in
    return {"opt_in": opt_in_word(call.server, choice), "show_modal": choice is None}


def set_telemetry(call: Call) -> Any:
    """Switch telemetry: true or false, 2.9 also null, 2.10 in words."""
    body = call.document(("opt_in",))
    if "opt_in" not in body:
        body.read.fail("opt_in", "missing", "Field required")
    value = read_opt_in(call, body)
    body.done()
    call.server.opt_in = value
    return get_telemetry(call)


def read_opt_in(call: Call, body: Document) -> bool | None:
    """Return a telemetry choice of a body, in the kind of the server's release."""
    kind = call.server.config.profile.opt_in
    value = body.row.get("opt_in")
    if kind == "word":
        words = {"accepted": True, "declined": False, "unset": None}
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        if value is not None or "opt_in" in body:
            body.read.fail("opt_in", "enum", "Input should be accepted, declined or unset")
        return None
    if kind == "bool" and value is None and "opt_in" in body:
        body.read.fail("opt_in", "bool_type", "Input should be a valid boolean")
    return body.flag("opt_in")


def telemetry_events(call: Call) -> Any:
    """Return every event kept; there is no filter."""
    return list(call.server.telemetry)


ROUTES = (
    Route("POST", "/authenticate", authenticate, Access.PUBLIC),
    Route("POST", "/auth_extended", auth_extended, Access.PUBLIC),
    Route("GET", "/authok", authok),
    Route("GET", "/authentication", authentication, first=10),
    Route("DELETE", "/logout", logout),
    Route("GET", "/web_session_timeout", get_timeout),
    Route("PATCH", "/web_session_timeout/{seconds}", set_timeout, Access.ADMIN),
    Route("GET", "/telemetry", get_telemetry, first=8),
    Route("PUT", "/telemetry", set_telemetry, Access.ADMIN, first=8),
    Route("GET", "/telemetry/events", telemetry_events, first=8),
)
