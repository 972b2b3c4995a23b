"""Requests, replies and the route table: no sockets, no ASGI, only values.

A handler takes a `Call` and returns a JSON value, a `Reply`, or raises `CmlError`.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from cml_simulator.core.errors import CmlError, Problem, invalid
from cml_simulator.core.fields import Reader
from cml_simulator.core.model import User
from cml_simulator.core.world import Server

_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as values; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply as values."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    date: float | None = None
    """What the server's clock says, for the Date header."""


NO_CONTENT = Reply(204)


def json_reply(value: Any, status: int = 200) -> Reply:
    """Return a JSON reply."""
    return Reply(status, msgspec.json.encode(value))


def error_reply(error: CmlError) -> Reply:
    """Return CML's error body."""
    return json_reply({"code": error.status, "description": error.description}, error.status)


def html_reply(status: int, title: str) -> Reply:
    """Return the page that nginx would send."""
    page = (
        f"<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>\r\n"
        f"<center><h1>{status} {title}</h1></center>\r\n<hr><center>nginx</center>\r\n"
        "</body>\r\n</html>\r\n"
    )
    return Reply(status, page.encode(), "text/html")


def decode_json(body: bytes) -> Any:
    """Parse a JSON body; broken JSON is a 400 in CML's form."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise invalid([Problem(("body",), "json_invalid", f"JSON decode error: {error}")]) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@dataclass(slots=True)
class Call:
    """A matched request on its server: who asks, when, and for what."""

    server: Server
    now: float
    request: Request
    params: Mapping[str, str]
    user: User | None = None
    session_id: str = ""

    @property
    def account(self) -> User:
        """The logged-in user; routes that need none must not ask."""
        if self.user is None:
            raise CmlError(401, "Not authenticated")
        return self.user

    def flag(self, name: str, *, default: bool | None = False) -> bool | None:
        """Return a boolean query parameter."""
        text = self.request.query.get(name)
        if text is None or text == "":
            return default
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        problem = Problem(("query", name), "bool_parsing", "Input should be a valid boolean")
        raise invalid([problem])

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number of the query."""
        text = self.request.query.get(name)
        if text is None or text == "":
            return default
        good = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 12
        if not good or not least <= int(text) <= most:
            problem = Problem(("query", name), "int_parsing", "Input should be a valid integer")
            raise invalid([problem])
        return int(text)

    def document(self, keys: Iterable[str], needed: Iterable[str] = ()) -> "Document":
        """Return the JSON object of the body; keys outside the list are refused."""
        return document(decode_json(self.request.body), keys, needed)


@dataclass(slots=True)
class Document:
    """A closed JSON object being checked; call `done` before the values are used."""

    row: dict[str, Any]
    read: Reader

    def __contains__(self, key: str) -> bool:
        return key in self.row

    def done(self) -> None:
        """Raise one 400 with every problem found."""
        if self.read.problems:
            raise invalid(self.read.problems)

    def flag(self, key: str) -> bool | None:
        """Return a boolean, or None if it is absent."""
        value = self.row.get(key)
        if value is not None and not isinstance(value, bool):
            self.read.fail(key, "bool_type", "Input should be a valid boolean")
            return None
        return value


def document(value: Any, keys: Iterable[str], needed: Iterable[str] = ()) -> Document:
    """Check that a value is an object with known keys only."""
    if not isinstance(value, dict):
        raise invalid([Problem(("body",), "dict_type", "Input should be a valid dictionary")])
    allowed = set(keys)
    extra = "Extra inputs are not permitted"
    problems = [
        Problem(("body", key), "extra_forbidden", extra) for key in value if key not in allowed
    ]
    problems += [
        Problem(("body", key), "missing", "Field required")
        for key in needed
        if value.get(key) is None
    ]
    return Document(value, Reader(problems, ("body",)))


class Access(Enum):
    """Who may call a route."""

    PUBLIC = "public"
    USER = "user"
    ADMIN = "admin"


Handler = Callable[[Any], Any]
"""Takes a `Call` (or the control face's own call) and returns a JSON value or a `Reply`."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row of a route table; `{name}` segments are parameters."""

    method: str
    template: str
    handler: Handler
    access: Access = Access.USER
    first: int = 7
    last: int = 10
    """The minor releases that have it."""


@dataclass(slots=True)
class _Branch:
    words: dict[str, "_Branch"] = field(default_factory=dict)
    any: "_Branch | None" = None
    name: str = ""
    methods: dict[str, Route] = field(default_factory=dict)


class Table:
    """Finds routes by path segments; literal segments win over parameters."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Branch()
        self.routes = tuple(routes)
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        branch = self._root
        for part in route.template.strip("/").split("/"):
            if part.startswith("{"):
                branch.any = branch.any or _Branch(name=part[1:-1])
                branch = branch.any
            else:
                branch = branch.words.setdefault(part, _Branch())
        branch.methods[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and its parameters; 404 for an unknown path, 405 for the method."""
        params: dict[str, str] = {}
        parts = path.split("/")[1:]
        found = _walk(self._root, parts, 0, params)
        if found is None:
            raise CmlError(404, "Not Found")
        route = found.methods.get(method)
        if route is None:
            raise CmlError(405, "Method Not Allowed")
        return route, params


def _walk(branch: _Branch, parts: list[str], at: int, params: dict[str, str]) -> _Branch | None:
    if at == len(parts):
        return branch if branch.methods else None
    word = branch.words.get(parts[at])
    if word is not None:
        found = _walk(word, parts, at + 1, params)
        if found is not None:
            return found
    if branch.any is None or not parts[at]:
        return None
    params[branch.any.name] = parts[at]
    found = _walk(branch.any, parts, at + 1, params)
    if found is None:
        params.pop(branch.any.name, None)
    return found
