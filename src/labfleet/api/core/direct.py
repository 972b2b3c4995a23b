"""Answers the few routes that are asked most without the framework, whose work they do not need.

Litestar reads parameters that these calls do not have and makes a request and a response of each
call, which costs as much as a whole decision. What is checked, and in
which order, is `served`'s: the same functions do it. A call with a query goes to the framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
from litestar.params import HeaderParameter, QueryParameter

from labfleet.api.core.route import JSON, Route
from labfleet.api.core.served import CALLER, allow, sent

_TYPE = (b"content-type", JSON.encode())


@dataclass(frozen=True, slots=True)
class Direct:
    """A stated route with what its function takes.

    route: The route.
    who: Whether the function takes the caller.
    headers: Its parameters that are headers, by the header's name in small letters.
    """

    route: Route
    who: bool
    headers: Mapping[bytes, str] = field(default_factory=dict)

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Judge the caller, read the body, run, reply; raises what the application answers."""
        route = self.route
        allow(scope, route)
        given: dict[str, Any] = {}
        if self.headers:
            for name, value in scope["headers"]:
                parameter = self.headers.get(name)
                if parameter is not None:
                    given[parameter] = value.decode("latin-1")
        if self.who:
            given["who"] = scope[CALLER]
        given["sent"] = await sent(scope, receive, route)
        body = msgspec.json.encode(await route.run(**given))
        length = (b"content-length", b"%d" % len(body))
        head = {"type": "http.response.start", "status": route.status, "headers": [_TYPE, length]}
        await send(head)
        await send({"type": "http.response.body", "body": body, "more_body": False})


def table(routes: Iterable[Route]) -> Callable[[Mapping[str, Any]], Direct | None]:
    """Return what finds the direct route of a request, if it has one."""
    made = {(each.method, each.path): _direct(each) for each in routes if each.direct}

    def find(scope: Mapping[str, Any]) -> Direct | None:
        return None if scope["query_string"] else made.get((scope["method"], scope["path"]))

    return find


def _direct(route: Route) -> Direct:
    """Return a route that may be served directly; ValueError for one that needs the framework."""
    headers: dict[bytes, str] = {}
    for each in route.parameters:
        said = get_args(each.annotation)
        if any(isinstance(one, QueryParameter) for one in said) and each.default is not each.empty:
            continue
        named = [one.name for one in said if isinstance(one, HeaderParameter)]
        if not named or named[0] is None:
            raise ValueError(f"{route.name}: the parameter {each.name} is no header")
        headers[named[0].lower().encode()] = each.name
    if route.body is None or route.reply_type != JSON:
        raise ValueError(f"{route.name}: only JSON in and out is served directly")
    return Direct(route, "who" in inspect.signature(route.run).parameters, headers)
