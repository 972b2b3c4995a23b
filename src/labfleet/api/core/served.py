"""The handler of a stated route: judge the caller, read the body, run, encode the reply.

The order is the same for every route: the token, the role, the query's names, then the body's
media type, size, depth and number of values, JSON and shape; a large one in one of a few places,
and aside from the loop. So a body is neither read nor decoded for somebody who may not
send it, and nobody learns from an error what only others may see.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NoReturn

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from labfleet.api.core import json_bounds
from labfleet.api.core.large_bodies import LargeBodies
from labfleet.api.core.route import JSON, OWN_API, Ask, EventStream, Reply, Route, Text
from labfleet.engine.aside import LARGE, Aside
from labfleet.kernel import errors
from labfleet.kernel.json_bounds import DEPTH_LIMIT
from labfleet.resources.meta import Resource
from labfleet.service.core import access, intake, views
from labfleet.service.core.service_context import Caller
from labfleet.service.core.tokens import HeldToken

CALLER = "labfleet.caller"
HELD = "labfleet.token"
"""Where `front` puts the caller and the token that they showed, into the scope."""
ROUTES = "labfleet.routes"
"""Where an application puts its routes by name, into the scope."""
LARGE_BODIES = "labfleet.large-bodies"
"""Where an application puts the places of large bodies, into the scope."""
ASIDE = "labfleet.aside"
"""Where an application puts by what large bodies are read, into the scope."""
SOURCES = "labfleet.sources"
"""Where an application puts what objects are shown with, into the scope."""
STREAM = "labfleet.stream"
"""Where a route leaves the stream that `front` serves, in the scope."""
TAKE = "labfleet.take-write"
"""Where `front` puts what counts one more write of the caller, into the scope."""
BODY_SECONDS = 30.0
_DIGITS = re.compile("-?[0-9]{1,19}")
_JSON = JSON.encode()


def litestar_route(route: Route) -> HTTPRouteHandler:
    """Return Litestar's handler of a route: it matches the path and reads the parameters.

    It keeps nothing of the route but its shape: who serves puts the routes into the scope,
    and by what large bodies are read (`ASIDE`).
    """
    name, own = route.name, route.path.startswith(OWN_API)
    wants = frozenset(inspect.signature(route.run).parameters)
    known, once = frozenset(route.query), frozenset(route.query) - {*route.repeats}
    numbers = frozenset(route.numbers)

    async def guard(connection: Any, _handler: Any) -> None:
        # Litestar asks before it reads parameters; a plain function would go to a thread each time.
        asked: Route = connection.scope[ROUTES][name]
        if not asked.public:
            allow(connection.scope, asked)

    async def serve(request: Ask, **given: Any) -> Response[Any]:
        scope = _scope(request)
        asked: Route = scope[ROUTES][name]
        if own:
            _only_known(request, known)
            _only_once(request, once)
        _only_digits(request, numbers)
        if "who" in wants:
            given["who"] = scope[CALLER]
        if "request" in wants:
            given["request"] = request
        if asked.body is not None:
            given["sent"] = await sent(scope, request.receive, asked)
        return _response(scope, asked, await asked.run(**given))

    first = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Ask)
    stated = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in route.parameters]
    # Litestar reads a function's signature; this one is the stated function's, without the body.
    serve.__signature__ = inspect.Signature([first, *stated], return_annotation=Response[Any])  # type: ignore[attr-defined]
    serve.__annotations__ = {each.name: each.annotation for each in (first, *stated)}
    serve.__annotations__["return"] = Response[Any]
    return HTTPRouteHandler(
        route.path,
        http_method=route.method,  # type: ignore[arg-type]  # Litestar takes the plain word too
        operation_id=route.name,
        summary=route.summary,
        tags=[route.tag],
        status_code=route.status,
        guards=[guard],
    )(serve)


def shaped(route: Route, raw: object) -> Any:
    """Return a decoded body as the route's type; Invalid names what is wrong with it.

    Objects of the table of kinds are typed by the verb, which knows what was there before.
    """
    if route.prepare is not None:
        raw = route.prepare(raw)
    if not _is_record(route.body) or issubclass(route.body, Resource):
        if intake.too_deep(raw):
            raise intake.invalid(("body", f"nested deeper than {DEPTH_LIMIT} levels"))
        if route.body is not Any and not isinstance(raw, dict):
            raise intake.invalid(("body", "a JSON object is expected"))
        return raw
    if route.path.startswith(OWN_API) and not intake.too_deep(raw):
        intake.plain(raw)  # texts of objects are judged by their verb, with their names
    return intake.record(route.body, raw) if route.exact else intake.lenient(route.body, raw)


def held_token(request: Ask) -> HeldToken:
    """Return the token of a request, which a stream judges as long as it lives."""
    found: HeldToken = _scope(request)[HELD]
    return found


def take_write(request: Ask) -> Callable[[], None]:
    """Return what counts one more write of a request's caller; it raises Throttled at the limit."""
    found: Callable[[], None] = _scope(request)[TAKE]
    return found


def _scope(request: Ask) -> Any:
    """Return the scope with the keys that Litestar's type does not name."""
    return request.scope


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def allow(scope: MutableMapping[str, Any], route: Route) -> None:
    """Raise Denied unless the caller may use a route that is not public."""
    found = scope.get(CALLER)
    if not isinstance(found, Caller):
        raise errors.Denied("a bearer token is needed", reason="Unauthenticated")
    if route.needs is not None:
        access.demand(found.principal, *route.needs)


def _only_known(request: Ask, known: frozenset[str]) -> None:
    """Refuse names of the query that the route does not have: a typo would select everything."""
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        problems = [
            (name[:64], f"unknown parameter{intake.hint(name[:64], sorted(known))}")
            for name in unknown[: intake.PROBLEM_LIMIT]
        ]
        raise intake.invalid(*problems, reason="UnknownParameter")


def _only_once(request: Ask, once: frozenset[str]) -> None:
    """Refuse a parameter that is given twice: which of them counts nobody could tell."""
    names = Counter(name for name, _ in request.query_params.multi_items())
    twice = sorted(name for name, count in names.items() if count > 1 and name in once)
    if twice:
        problems = [(name, "is given more than once") for name in twice]
        raise intake.invalid(*problems, reason="RepeatedParameter")


def _only_digits(request: Ask, numbers: frozenset[str]) -> None:
    """Refuse numbers such as 1e3, which Litestar reads and which a body may not have either."""
    wrong = [
        (name, "must be a whole number in digits")
        for name in sorted(numbers)
        if not _DIGITS.fullmatch(request.query_params.get(name, "0"))
    ]
    if wrong:
        raise intake.invalid(*wrong)


async def sent(scope: MutableMapping[str, Any], receive: Any, route: Route) -> Any:
    """Return the body as the route's type, made of an empty one where none is needed."""
    aside: Aside = scope[ASIDE]
    given = _media_type(scope, route)
    with ExitStack() as held:
        raw = await whole(scope, receive, route.limit, held)
        if not raw:
            if route.required:
                raise intake.invalid(("body", "is missing"))
            return shaped(route, {})
        if not given:
            _other_type(route, "nothing")
        return await aside.run(len(raw), lambda: _decoded(route, raw))


def sent_whole(scope: MutableMapping[str, Any], raw: bytes, route: Route) -> Any:
    """Return a body that is there already, not empty and not LARGE, as `sent` would."""
    given = _media_type(scope, route)
    if len(raw) > route.limit:
        _too_large(route.limit)
    if not given:
        _other_type(route, "nothing")
    return _decoded(route, raw)


def _media_type(scope: MutableMapping[str, Any], route: Route) -> str:
    """Return the media type that a request names, "" for none; Invalid for one not taken here."""
    said = _header(scope, b"content-type") or b""
    given = JSON if said == _JSON else said.decode("latin-1").partition(";")[0].strip().lower()
    if given and given not in route.media:
        _other_type(route, given)
    return given


def _decoded(route: Route, raw: bytes) -> Any:
    """Return a body's text as the route's type; it is bounded before anything is made of it."""
    json_bounds.check(raw, route.values)
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        said = str(problem) if isinstance(problem, msgspec.DecodeError) else "not UTF-8 JSON"
        raise intake.invalid(("body", said[:200]), reason="NotJson") from None
    return shaped(route, found)


def _other_type(route: Route, given: str) -> NoReturn:
    message = f"send {' or '.join(route.media)}, not {given[:80]}"
    raise errors.Invalid(message, reason="UnsupportedMediaType")


async def whole(
    scope: MutableMapping[str, Any], receive: Any, limit: int, held: ExitStack | None = None
) -> bytes:
    """Return a request's whole body; Invalid (TooLarge, BodyTimeout) beyond its limits.

    `held` gets the place of a large one, which is asked for before more of it is read.
    """
    declared = _header(scope, b"content-length")
    if declared is not None and (not declared.isdigit() or int(declared[:20]) > limit):
        _too_large(limit)
    chunks: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise errors.Invalid("the client went away", reason="BodyTimeout")
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > limit:
                    _too_large(limit)
                if held is not None and size > LARGE:
                    held.enter_context(_place(scope))
                    held = None
                chunks.append(chunk)
                more = message.get("more_body", False)
    except TimeoutError:
        message_ = f"the body took longer than {BODY_SECONDS:g} s"
        raise errors.Invalid(message_, reason="BodyTimeout") from None
    return b"".join(chunks)


def _header(scope: MutableMapping[str, Any], name: bytes) -> bytes | None:
    """Return the first header of a name."""
    for key, value in scope["headers"]:
        if key.lower() == name:
            found: bytes = value
            return found
    return None


def _place(scope: MutableMapping[str, Any]) -> AbstractContextManager[None]:
    who, places = scope.get(CALLER), scope[LARGE_BODIES]
    assert isinstance(places, LargeBodies)  # noqa: S101 - for the type checker
    assert isinstance(who, Caller)  # noqa: S101 - judged before the body
    return places.place(who.principal)


def _too_large(limit: int) -> NoReturn:
    raise errors.Invalid(f"a body is at most {limit} bytes here", reason="TooLarge")


def _response(scope: Any, route: Route, made: Any) -> Response[Any]:
    if isinstance(made, EventStream):
        return _Streamed(made)
    said = made if isinstance(made, Reply) else Reply(made)
    if isinstance(said.value, Text):
        media_type = said.value.media_type
        # Litestar adds a charset to every text, also to one that names its own.
        named = {"content-type": media_type} if "charset=" in media_type else {}
        return Response(content=said.value.content, media_type=media_type, headers=named)
    who, value = scope.get(CALLER), said.value
    if isinstance(who, Caller):
        value = views.within(scope[SOURCES], who.principal, value)
    return Response(
        content=msgspec.json.encode(value),
        status_code=said.status or route.status,
        media_type=JSON,
        headers=dict(said.headers),
    )


class _Streamed(Response[None]):
    """A reply that `front` writes: Litestar calls what `to_asgi_response` returns.

    A stream lives for hours. Served in here, it would keep all that Litestar made of its request,
    and each of its frames would pass through Litestar.
    """

    def __init__(self, stream: EventStream) -> None:
        super().__init__(content=None)
        self._stream = stream

    def to_asgi_response(self, *given: Any, **named: Any) -> Any:
        """Return an ASGI application that sends nothing and leaves the stream in the scope."""
        del given, named

        async def leave(scope: Any, receive: Any, send: Any) -> None:
            del receive, send
            scope[STREAM] = self._stream

        return leave
