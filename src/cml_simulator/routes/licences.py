"""Licensing; everything is for admins only.

What changes something answers 204, or from 2.10 with the status (facts/cml-issues.md#f7).
"""

import re
from typing import Any

from cml_simulator.core import licensing, reservation
from cml_simulator.core.errors import Problem, invalid, refused
from cml_simulator.core.world import admit
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Reply, Route, decode_json, json_reply

_PRODUCT = re.compile(r"\w{1,20}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9+/%=-]{1,256}")


def status(call: Call) -> Any:
    """Return the licensing status."""
    return licensing.status(call.server.licence, call.now)


def features(call: Call) -> Any:
    """Return the features alone (deprecated)."""
    return licensing.features(call.server.licence)


def put_product(call: Call) -> Reply:
    """Choose the product; the body is a bare JSON string."""
    value = decode_json(call.request.body)
    if not isinstance(value, str) or not _PRODUCT.fullmatch(value):
        raise invalid([Problem(("body",), "string_pattern_mismatch", "Not a product license")])
    licensing.set_product(call.server.licence, value)
    return _done(call)


def _done(call: Call, status: int = 204) -> Reply:
    if call.server.config.profile.licensing_bodies:
        body = licensing.status(call.server.licence, call.now)
        return json_reply(body, 200 if status == 204 else status)
    return Reply(status)


def post_registration(call: Call) -> Reply:
    """Begin a registration; progress shows in the status."""
    body = call.document(("token", "reregister"), ("token",))
    token = body.read.text(body.row, "token", 256) or ""
    again = body.flag("reregister") or False
    if not _TOKEN.fullmatch(token):
        body.read.fail("token", "string_pattern_mismatch", "Not a registration token")
    body.done()
    seconds = call.server.config.rules.registration_seconds
    licensing.register(call.server.licence, token, call.now, seconds, again=again)
    call.server.revision += 1
    return _done(call)


def renew_registration(call: Call) -> Reply:
    """Renew the registration."""
    licensing.renew(call.server.licence, call.now, authorization=False)
    return _done(call)


def renew_authorization(call: Call) -> Reply:
    """Renew the authorization."""
    licensing.renew(call.server.licence, call.now, authorization=True)
    return _done(call)


def deregister(call: Call) -> Reply:
    """Give the licence back: 204, or 202 if the cloud could not be told."""
    server = call.server
    busy = len(server.active) + len(server.queue)
    told = licensing.deregister(server.licence, server.cloud, active_nodes=busy)
    server.revision += 1
    return _done(call, 204 if told else 202)


def patch_features(call: Call) -> Reply:
    """Ask for expansion nodes."""
    value = decode_json(call.request.body)
    if not isinstance(value, list) or not 1 <= len(value) <= 2:
        raise invalid([Problem(("body",), "list_type", "Input should be a list of 1 or 2 items")])
    wanted = []
    problems = []
    for index, item in enumerate(value):
        good = isinstance(item, dict) and item.keys() == {"id", "count"}
        if not good or not isinstance(item["id"], str) or type(item["count"]) is not int:
            problems.append(Problem(("body", index), "dict_type", "Input should be {id, count}"))
        else:
            wanted.append((item["id"], item["count"]))
    if problems:
        raise invalid(problems)
    licensing.set_counts(call.server.licence, wanted)
    admit(call.server, call.now)
    call.server.revision += 1
    return _done(call)


def put_transport(call: Call) -> Reply:
    """Set how the licence cloud is reached."""
    body = call.document(("ssms", "proxy"))
    ssms = body.read.text(body.row, "ssms", 256)
    proxy = body.row.get("proxy")
    if proxy is not None and not (isinstance(proxy, dict) and proxy.keys() <= {"server", "port"}):
        body.read.fail("proxy", "dict_type", "Input should be {server, port}")
    body.done()
    call.server.licence.ssms = ssms
    if isinstance(proxy, dict):
        call.server.licence.proxy = {"server": proxy.get("server"), "port": proxy.get("port")}
    return _done(call)


def tech_support(call: Call) -> Reply:
    """Return the licence agent's report as text."""
    state = licensing.status(call.server.licence, call.now)
    lines = [
        "Smart Licensing Tech Support info",
        f"Registration: {state['registration']['status']}",
        f"Authorization: {state['authorization']['status']}",
        f"Product: {state['product_license']['active']}",
        f"UDI: {state['udi']['product_uuid']}",
    ]
    return Reply(200, "\n".join([*lines, ""]).encode(), "text/plain")


def _text(call: Call) -> str:
    value = decode_json(call.request.body)
    if not isinstance(value, str) or len(value) > 4096:
        raise invalid([Problem(("body",), "string_type", "Input should be a valid string")])
    return value


def reservation_mode(call: Call) -> Reply:
    """Switch reservation mode; the body is a bare JSON boolean."""
    value = decode_json(call.request.body)
    if not isinstance(value, bool):
        raise invalid([Problem(("body",), "bool_type", "Input should be a valid boolean")])
    reservation.set_mode(call.server.licence, on=value)
    return _done(call)


def _code(call: Call, kind: str) -> str:
    return f"{kind}-{call.server.new_id()}"


def reservation_request(call: Call) -> Any:
    """Begin a reservation; return the request code."""
    return reservation.request(call.server.licence, _code(call, "RQ"))


def reservation_complete(call: Call) -> Any:
    """Install an authorization code; return the confirmation code."""
    text = _text(call)
    done = reservation.complete(call.server.licence, text, _code(call, "CF"), call.now)
    admit(call.server, call.now)
    call.server.revision += 1
    return done


def reservation_cancel(call: Call) -> Reply:
    """Give up a request."""
    reservation.cancel(call.server.licence)
    return NO_CONTENT


def reservation_release(call: Call) -> Any:
    """Give a reservation back; return the return code."""
    if call.server.active:
        raise refused("Licensing issue: Cannot release when nodes are running.")
    call.server.revision += 1
    return reservation.release(call.server.licence, _code(call, "RT"))


def reservation_discard(call: Call) -> Any:
    """Discard an authorization code; return the return code."""
    return reservation.discard(call.server.licence, _text(call), _code(call, "RT"))


def _held(call: Call) -> tuple[str, str | None]:
    name = call.request.path.rsplit("/", 1)[-1]
    return name, getattr(call.server.licence.reservation, name)


def reservation_code(call: Call) -> Any:
    """Return the confirmation or return code that is kept."""
    name, code = _held(call)
    if code is None:
        raise refused(f"Licensing issue: There is no {name.replace('_', ' ')}.")
    return code


def forget_reservation_code(call: Call) -> Reply:
    """Forget the confirmation or return code."""
    setattr(call.server.licence.reservation, _held(call)[0], None)
    return NO_CONTENT


ROUTES = tuple(
    Route(method, f"/licensing{path}", handler, Access.ADMIN)
    for method, path, handler in (
        ("GET", "", status),
        ("GET", "/features", features),
        ("PATCH", "/features", patch_features),
        ("PUT", "/product_license", put_product),
        ("POST", "/registration", post_registration),
        ("PUT", "/registration/renew", renew_registration),
        ("PUT", "/authorization/renew", renew_authorization),
        ("DELETE", "/deregistration", deregister),
        ("PUT", "/transport", put_transport),
        ("GET", "/tech_support", tech_support),
        ("PUT", "/reservation/mode", reservation_mode),
        ("POST", "/reservation/request", reservation_request),
        ("POST", "/reservation/complete", reservation_complete),
        ("DELETE", "/reservation/cancel", reservation_cancel),
        ("DELETE", "/reservation/release", reservation_release),
        ("POST", "/reservation/discard", reservation_discard),
        ("GET", "/reservation/confirmation_code", reservation_code),
        ("DELETE", "/reservation/confirmation_code", forget_reservation_code),
        ("GET", "/reservation/return_code", reservation_code),
        ("DELETE", "/reservation/return_code", forget_reservation_code),
    )
)
