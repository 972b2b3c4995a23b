"""The bare ASGI function before Litestar: request ids, headers, and whose token this is.

Every request gets a request id, the security headers and the fleet time; a token becomes a
`Caller`, which the routes judge. Tokens come in the Authorization header or, as upstream 002's
programs send them, in X-API-Key; never in a URL. Bodies of pages are bounded here, those of routes
by their statement.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from labfleet.api.compatible.compat_stream import CompatStream
from labfleet.api.core import problems
from labfleet.api.core.direct import Direct
from labfleet.api.core.host_names import EVERY_NAME, HostNames
from labfleet.api.core.route import JSON, SMALL, EventStream, Route
from labfleet.api.core.served import CALLER, HELD, STREAM, TAKE, whole
from labfleet.api.core.writes import Writes
from labfleet.api.streams.open_stream import OpenStreams, Receive, Scope, Send
from labfleet.api.streams.stream import Stream
from labfleet.kernel import clock, errors
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.fleet_settings import Pause
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.core.tokens import HeldToken, Tokens

# Header that names what is paused, as quoted text, for callers who may read settings.
PAUSED_HEADER = b"labfleet-paused"
PAUSES_SHOWN = 3
DOCUMENT = "labfleet.document"
"""Where pages find a function that returns the OpenAPI document, in the scope."""
TAKER = "labfleet.taker"
"""Where pages find the function that counts one write of a caller, in the scope."""
API_KEY_HEADER = b"x-api-key"
_OURS = ("/api/", "/healthz", "/readyz", "/metrics", "/request_run",
         "/simulation_complete", "/simulation_heartbeat", "/status-stream")  # fmt: skip
SECURITY = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    b"form-action 'self'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_SECURITY = tuple(SECURITY.items())
_JSON = (b"content-type", JSON.encode())
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE = frozenset({"GET", "HEAD"})
App = Callable[[Any, Any, Any], Any]
Whole = tuple[int, list[tuple[bytes, bytes]], bytes]
"""A whole reply: status, headers, body."""
# The extension point for browsers: returns a token from a cookie, say. Safe methods only.
Credentials = Callable[[Mapping[str, Any]], str | None]


async def _nowhere(message: Any) -> None:
    """Send nothing: who asks takes what is returned."""
    del message


class Done(NamedTuple):
    """One answered request, for the composition root's log and metrics; without query and body."""

    method: str
    path: str
    status: int
    seconds: float
    request_id: str
    principal: str


class Front:
    """The application that the server runs."""

    def __init__(
        self,
        inner: App,
        *,
        routes: Mapping[str, Route],
        services: ServiceContext,
        tokens: Tokens,
        streams: OpenStreams,
        events: Stream,
        compatible_events: CompatStream,
        web: App | None = None,
        credentials: Credentials | None = None,
        done: Callable[[Done], None] | None = None,
        defended: Callable[[Awaitable[None], Call], Awaitable[None]] = lambda stream, _: stream,
        document: Callable[[], Mapping[str, Any]] = dict,
        names: HostNames = EVERY_NAME,
        direct: Mapping[tuple[str, str], Direct] = MappingProxyType({}),
        guarded: Callable[[Awaitable[Whole], Scope], Awaitable[Whole]] = lambda work, _: work,
    ) -> None:
        self._inner = inner
        self._names = names
        self.direct = {
            path.encode("ascii"): each
            for (method, path), each in direct.items()
            if method == "POST"
        }
        """Routes that `answer` answers, all of them POST, by the path as it is in a request."""
        self._guarded = guarded
        self._document = document
        self.routes = routes
        self._public = frozenset(each.path for each in routes.values() if each.public)
        self._services = services
        self._tokens = tokens
        self.streams = streams
        self.events = events
        self.compatible_events = compatible_events
        self._writes = Writes()
        self._web = web
        self._credentials = credentials
        self._done = done
        self._defended = defended

    def shutdown(self) -> None:
        """Tell every client of every stream that the server ends, and let them go."""
        self.streams.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        call = Call(self._services, scope, send)
        started = asyncio.get_running_loop().time()
        try:
            # What the routes find and leave in their scope goes with it when a stream begins.
            own = {**scope, "state": dict(scope.get("state", ()))}
            stream = await self._serve(call, own, receive)
            del own
            if stream is not None:
                await stream
        except errors.LabfleetError as error:
            await call.refuse(error)
        finally:
            if self._done is not None:
                seconds = asyncio.get_running_loop().time() - started
                self._done(call.done(seconds))

    async def answer(
        self, direct: Direct, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> Whole:
        """Return status, headers and body of the reply to a POST that is there whole.

        `direct` is one of this object's; names of headers are in small letters, and none is given
        twice. It does what a call of this application does, and raises nothing.
        """
        scope: Scope = {"method": "POST", "path": direct.route.path, "headers": headers}
        call = Call(self._services, scope, _nowhere)
        started = asyncio.get_running_loop().time()
        work = self._answered(call, scope, direct, body)
        call.status, told, made = await self._guarded(work, scope)
        if self._done is not None:
            self._done(call.done(asyncio.get_running_loop().time() - started))
        return call.status, [*told, *_SECURITY, *call.own()], made

    async def _answered(self, call: Call, scope: Scope, direct: Direct, body: bytes) -> Whole:
        self._demand_name(scope)
        self._take(_shown(await self._caller(call, scope, "POST")))
        made = await direct.answer(scope, body)
        return direct.route.status, [_JSON, (b"content-length", b"%d" % len(made))], made

    def _demand_name(self, scope: Scope) -> None:
        asked = _header(scope, b"host")
        if not self._names.known(asked):
            raise errors.Invalid(
                f"this server is not called {ascii(asked)[:80]}; if it is, its operator adds the "
                "name to the server's setting host_names",
                reason="UnknownHost",
            )

    async def _caller(self, call: Call, scope: Scope, method: str) -> Principal | None:
        """Put the caller into the scope and return whose token was shown; None for no token."""
        principal = await self._principal(scope, method)
        if principal is not None:
            call.principal = principal.id
            call.told = access.may(principal, "read", "Settings")
            scope[CALLER] = Caller(principal, call.request_id)
        return principal

    def _take(self, taker: Principal) -> None:
        """Count one write of a caller; raise Throttled beyond its limit."""
        most = self._services.settings.now().limits.writes_per_minute
        self._writes.take(taker, most, asyncio.get_running_loop().time())

    async def _serve(self, call: Call, scope: Scope, receive: Receive) -> Awaitable[None] | None:
        """Answer a request; return what is left to do when the answer is a stream."""
        path, method = scope["path"], scope["method"]
        self._demand_name(scope)
        ours = path.startswith(_OURS)
        if path in self._public:
            # Without a look at any token: a probe that carries a stale one, or one that comes
            # while the store is down, must not make anybody restart a healthy process.
            await self._inner(scope, receive, call.send)
            return None
        principal = await self._caller(call, scope, method)
        if ours:
            taker = _shown(principal)
            if method not in _SAFE:
                self._take(taker)
                scope[TAKE] = functools.partial(self._take, taker)
        if not ours and self._web is not None:
            scope[DOCUMENT], scope[TAKER] = self._document, self._take
            await self._web(scope, await _bounded_body(scope, receive), call.send)
            return None
        await self._inner(scope, receive, call.send)
        stream: EventStream | None = scope.get(STREAM)
        if stream is None:
            return None
        return self._defended(stream.serve(receive, call.send), call)

    async def _principal(self, scope: Scope, method: str) -> Principal | None:
        text = _credential(scope)
        if text is None and self._credentials is not None and method in _SAFE:
            text = self._credentials(scope)
        if text is None:
            return None
        principal = await self._tokens.authenticate(text)
        scope[HELD] = HeldToken(self._tokens, text, principal)
        return principal


class Call:
    """One request: its id, and a `send` that adds the headers."""

    __slots__ = ("_scope", "_send", "_services", "principal", "request_id", "status", "told")

    def __init__(self, services: ServiceContext, scope: Scope, send: Send) -> None:
        self._services = services
        self._scope = scope
        self._send = send
        given = _header(scope, b"x-request-id") or ""
        self.request_id = given if _REQUEST_ID.fullmatch(given) else services.ids.uid()
        self.principal = ""
        self.told = False
        self.status = 0
        scope["labfleet.request_id"] = self.request_id

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            present = {name for name, _ in headers}
            if present.isdisjoint(SECURITY):
                headers += _SECURITY
            else:
                headers += [pair for pair in _SECURITY if pair[0] not in present]
            headers += self.own()
            message = {**message, "headers": headers}
        await self._send(message)

    def own(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a reply that say of which request, when, and what is paused."""
        now = clock.format_instant(self._services.clock.now())
        found = [(b"x-request-id", self.request_id.encode()), (b"labfleet-time", now.encode())]
        pauses = self._services.settings.pauses() if self.told else ()
        if pauses:
            # On every reply, so that every client for people can show it at once.
            text = "; ".join(_paused(each) for each in pauses[:PAUSES_SHOWN])
            found.append((PAUSED_HEADER, quote(text).encode()))
        return found

    async def refuse(self, error: errors.LabfleetError) -> None:
        if self.status:
            return
        found = problems.of(error, instance=self._scope["path"], request_id=self.request_id)
        body = problems.encode(found)
        await problems.send(self.send, found.status, problems.headers(error), body)

    async def refuse_unexpected(self) -> None:
        """Send the problem of a defect, which says nothing of it but the request id."""
        found = problems.unexpected(instance=self._scope["path"], request_id=self.request_id)
        await problems.send(self.send, found.status, {}, problems.encode(found))

    def done(self, seconds: float) -> Done:
        scope = self._scope
        return Done(
            scope["method"], scope["path"], self.status, seconds, self.request_id, self.principal
        )


async def _bounded_body(scope: Scope, receive: Receive) -> Receive:
    """Read a page's whole body within its limits and return a `receive` that replays it.

    What is beyond them is raised where the page reads it: then a page tells people of it.
    """
    body: bytes | None = None
    beyond: errors.Invalid | None = None
    try:
        body = await whole(scope, receive, SMALL)
    except errors.Invalid as error:
        beyond = error

    async def replay() -> Any:
        nonlocal body
        if beyond is not None:
            raise beyond
        if body is not None:
            given, body = body, None
            return {"type": "http.request", "body": given, "more_body": False}
        return await receive()

    return replay


def _paused(pause: Pause) -> str:
    """Return a pause in words, with the command that ends it; each pool needs its own."""
    which = f" --pool {pause.pool}" if pause.pool else ""
    return f"{pause.text[:160]}. It ends with: labfleet resume{which}"


def _shown(principal: Principal | None) -> Principal:
    """Return who calls; Denied when no token was shown."""
    if principal is None:
        raise errors.Denied("a bearer token is needed", reason="Unauthenticated")
    return principal


def _credential(scope: Mapping[str, Any]) -> str | None:
    """Return the one token of a request; None without any, Invalid when two of them differ.

    Which of two callers is meant would depend on the order of our looks, and so would their rights.
    """
    given = []
    for key, value in scope["headers"]:
        name = key.lower()
        if name == b"authorization":
            given.append(_bearer(bytes(value).decode("latin-1")))
        elif name == API_KEY_HEADER:
            given.append(bytes(value).decode("latin-1").strip())
    if len(set(given)) > 1:
        message = "the request has two different credentials: send one of Authorization, X-API-Key"
        raise errors.Invalid(message, reason="TwoCredentials")
    if given and not given[0]:
        raise errors.Denied("send Authorization: Bearer <token>", reason="Unauthenticated")
    return given[0] if given else None


def _bearer(given: str) -> str:
    scheme, _, text = given.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _header(scope: Mapping[str, Any], name: bytes) -> str | None:
    """Return the first header of a name."""
    for key, value in scope["headers"]:
        if key.lower() == name:
            return bytes(value).decode("latin-1")
    return None
