"""Licensing: section 2.3; everything is for admins only."""

import re
from typing import Any

from cml_simulator.core import licensing
from cml_simulator.core.errors import Problem, invalid
from cml_simulator.core.world import admit
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Reply, Route, decode_json

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
    return NO_CONTENT


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
    return NO_CONTENT


def renew_registration(call: Call) -> Reply:
    """Renew the registration."""
    licensing.renew(call.server.licence, call.now, authorization=False)
    return NO_CONTENT


def renew_authorization(call: Call) -> Reply:
    """Renew the authorization."""
    licensing.renew(call.server.licence, call.now, authorization=True)
    return NO_CONTENT


def deregister(call: Call) -> Reply:
    """Give the licence back: 204, or 202 if the cloud could not be told."""
    server = call.server
    busy = len(server.active) + len(server.queue)
    told = licensing.deregister(server.licence, server.cloud, active_nodes=busy)
    server.revision += 1
    return NO_CONTENT if told else Reply(202)


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
    return NO_CONTENT


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
    )
)
