"""Answers the few routes that are asked most without the framework, whose work they do not need.

Litestar reads parameters that these calls do not have and makes a request and a response of each
call, which costs as much as a whole decision. What is checked, and in which order, is `served`'s:
the same functions do it, whether the body still has to be received (`serve`) or is there (`answer`).
A call with a query goes to the framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
from litestar.params import HeaderParameter, QueryParameter

from labfleet.api.core.route import JSON, Route
from labfleet.api.core.served import CALLER, allow, sent, sent_whole

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
        allow(scope, self.route)
        body = await self._run(scope, await sent(scope, receive, self.route))
        length = (b"content-length", b"%d" % len(body))
        status = self.route.status
        await send({"type": "http.response.start", "status": status, "headers": [_TYPE, length]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def answer(self, scope: Any, raw: bytes) -> bytes:
        """Return the reply to a request whose body is there; raises what the application answers.

        `scope` has the request's headers and its caller. The body is small: it is read at once.
        """
        allow(scope, self.route)
        return await self._run(scope, sent_whole(scope, raw, self.route))

    async def _run(self, scope: Any, sent_body: Any) -> bytes:
        given: dict[str, Any] = {}
        if self.headers:
            for name, value in scope["headers"]:
                parameter = self.headers.get(name)
                if parameter is not None:
                    given[parameter] = value.decode("latin-1")
        if self.who:
            given["who"] = scope[CALLER]
        return msgspec.json.encode(await self.route.run(sent=sent_body, **given))


def table(routes: Iterable[Route]) -> dict[tuple[str, str], Direct]:
    """Return the direct routes by method and path."""
    return {(each.method, each.path): _direct(each) for each in routes if each.direct}


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
