"""Builds the HTTP API's ASGI application from the service's parts; the composition root runs it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec
from litestar import Litestar, Response, Router
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig

from labfleet.api.compatible import (
    cml_data,
    compat_history,
    compat_routes,
    compat_worker_routes,
    definition_routes,
    run_routes,
    worker_region_routes,
)
from labfleet.api.compatible import idle as compatible_idle
from labfleet.api.compatible import settings as compatible_settings
from labfleet.api.compatible import stream_routes as compatible_streams
from labfleet.api.compatible.compat_stream import CompatStream
from labfleet.api.compatible.status_stream import StatusStream
from labfleet.api.core import direct, openapi, problems
from labfleet.api.core.host_names import EVERY_NAME, HostNames
from labfleet.api.core.large_bodies import LargeBodies
from labfleet.api.core.route import JSON, Route, Routes, Text
from labfleet.api.core.served import ASIDE, LARGE_BODIES, ROUTES, SOURCES, litestar_route
from labfleet.api.front import App, Call, Credentials, Done, Front, Whole
from labfleet.api.kinds import kind_routes
from labfleet.api.streams import stream_routes
from labfleet.api.streams.open_stream import LIMIT, OpenStreams
from labfleet.api.streams.ring import Ring
from labfleet.api.streams.stream import Stream
from labfleet.api.verbs import (
    adoption_routes,
    apply_routes,
    calendar_file_routes,
    calendar_routes,
    cost_routes,
    group_routes,
    hand_over_routes,
    history_routes,
    idle_routes,
    kept_lab_routes,
    lab_routes,
    learning_routes,
    licence_routes,
    log_routes,
    port_routes,
    recommendation_routes,
    settings_routes,
    system_routes,
    telemetry_routes,
    verb_routes,
)
from labfleet.api.verbs.system_routes import Metrics, Readiness, System
from labfleet.kernel import errors
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import Tokens

DEFECT = "labfleet.defect"
"""Where an application puts whom to tell of a defect, into the scope."""
FRAMEWORKS = 8
"""Number of applications of different routes that are kept; a process has one."""
_frameworks: dict[tuple[Hashable, ...], Litestar] = {}


def build(
    services: ServiceContext,
    tokens: Tokens,
    ring: Ring,
    *,
    readiness: Readiness,
    metrics: Metrics,
    look: Callable[[], Awaitable[None]] | None = None,
    web: App | None = None,
    credentials: Credentials | None = None,
    done: Callable[[Done], None] | None = None,
    on_defect: Callable[[str, BaseException], None] | None = None,
    stream_clients: int = LIMIT,
    names: HostNames = EVERY_NAME,
) -> Front:
    """Return the ASGI application.

    The composition root runs one `Feed` for the parts' cache and one for `ring`. `web` gets
    every path that is not the API's. `credentials` finds a token in a request without an
    Authorization header (a cookie), for safe methods only. `done` is called for each answered
    request, `look` asks the store for its health, `on_defect` is called for each exception
    without a row in the table of errors, with the request id. Host headers other than `names` are
    refused. Call `shutdown()` of the result before the server ends.
    """
    streams = OpenStreams(limit=stream_clients)
    # It takes as long as all the rest of the application, a third of a second; once per process.
    document = functools.cache(lambda: openapi.document(framework, routes))
    events = Stream(services, ring, streams)
    compatible_events = CompatStream(services, streams)
    stated = [
        *_objects_and_verbs(services),
        *system_routes.routes(services, tokens, System(readiness, metrics, look)),
        *calendar_file_routes.routes(services, tokens),
        *kept_lab_routes.routes(services),
        *_compatible(services),
        *stream_routes.routes(events),
        *compatible_streams.routes(compatible_events, StatusStream(services, ring, streams)),
        *_document(document),
    ]
    routes = {route.name: route for route in stated}
    framework, shortcuts = _framework(stated), direct.table(stated)

    return Front(
        _with_scope(framework, services, routes, shortcuts, on_defect),
        routes=routes,
        services=services,
        tokens=tokens,
        streams=streams,
        events=events,
        compatible_events=compatible_events,
        web=web,
        credentials=credentials,
        done=done,
        defended=functools.partial(_defended, on_defect),
        document=document,
        names=names,
        direct=shortcuts,
        guarded=functools.partial(_guarded, on_defect),
    )


def _with_scope(
    framework: App,
    services: ServiceContext,
    routes: Mapping[str, Route],
    shortcuts: Mapping[tuple[str, str], direct.Direct],
    on_defect: Callable[[str, BaseException], None] | None,
) -> App:
    """Return the framework's application with what its routes find in the scope."""
    places = LargeBodies()

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        scope[LARGE_BODIES] = places
        scope[ROUTES], scope[DEFECT], scope[ASIDE] = routes, on_defect, services.aside
        scope[SOURCES] = services
        asked = (scope["method"], scope["path"])
        found = None if scope["query_string"] else shortcuts.get(asked)
        if found is None:
            await framework(scope, receive, send)
            return
        try:
            await found.serve(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a problem
            await problems.send(send, *_problem(on_defect, scope, error))

    return inner


async def _defended(
    on_defect: Callable[[str, BaseException], None] | None, stream: Awaitable[None], call: Call
) -> None:
    """Serve a stream: a defect before its head becomes a problem, one after it cuts it."""
    try:
        await stream
    except errors.LabfleetError:
        raise
    except Exception as error:
        if call.status:
            raise
        if on_defect is not None:
            on_defect(call.request_id, error)
        await call.refuse_unexpected()


async def _guarded(
    on_defect: Callable[[str, BaseException], None] | None, work: Awaitable[Whole], scope: Any
) -> Whole:
    """Return a whole reply, or the problem that whatever went wrong becomes."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a problem
        status, headers, body = _problem(on_defect, scope, error)
        return status, problems.head(headers, body), body


class _Collected(Router):
    """All routes at once: an application prepares a path again for each route added to it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Collected:
        """Return itself: Litestar copies what may be registered twice, and this is not."""
        return self


def _framework(stated: Sequence[Route]) -> Litestar:
    """Return Litestar's application of these routes; routes of the same shapes share one.

    To make it takes half a second, and a rehearsal makes one for each life of a process.
    """
    shapes = tuple(route.shape for route in stated)
    found = _frameworks.get(shapes)
    if found is None:
        if len(_frameworks) == FRAMEWORKS:
            _frameworks.clear()
        found = _frameworks[shapes] = Litestar(
            [_Collected("/", route_handlers=[litestar_route(route) for route in stated])],
            openapi_config=OpenAPIConfig(
                title="Labfleet", version="1", path="/api/v1/openapi", render_plugins=()
            ),
            exception_handlers={Exception: _answer},
            logging_config=None,
            request_max_body_size=None,
        )
    return found


def _document(describe: Callable[[], dict[str, Any]]) -> Routes:
    """Return the route of the document, which the first request for it makes."""
    made = Routes("system")
    whole = functools.cache(lambda: msgspec.json.encode(describe()))

    @made.get("/api/v1/openapi.json", "This document", name="openapi", public=True, reply=None)
    async def document() -> Text:
        """Return this document, which describes every route of the server."""
        return Text(whole(), JSON)

    return made


def _objects_and_verbs(services: ServiceContext) -> list[Route]:
    return [
        *kind_routes.routes(services),
        *verb_routes.routes(services),
        *hand_over_routes.routes(services),
        *group_routes.routes(services),
        *apply_routes.routes(services),
        *telemetry_routes.routes(services),
        *history_routes.routes(services),
        *idle_routes.routes(services),
        *log_routes.routes(services),
        *port_routes.routes(services),
        *lab_routes.routes(services),
        *learning_routes.routes(services),
        *recommendation_routes.routes(services),
        *calendar_routes.routes(services),
        *cost_routes.routes(services),
        *licence_routes.routes(services),
        *settings_routes.routes(services),
        *adoption_routes.routes(services),
    ]


def _compatible(services: ServiceContext) -> list[Route]:
    """Return the routes under other systems' names."""
    return [
        *compat_routes.routes(services),
        *definition_routes.routes(services),
        *run_routes.routes(services),
        *compat_history.routes(services),
        *cml_data.routes(services),
        *compatible_idle.routes(services),
        *compatible_settings.routes(services),
        *compat_worker_routes.routes(services),
        *worker_region_routes.routes(services),
    ]


def _answer(request: Any, error: Exception) -> Response[bytes]:
    """Return the framework's answer to an exception."""
    scope = request.scope
    status, headers, content = _problem(scope[DEFECT], scope, error)
    return Response(
        content=content, status_code=status, media_type=problems.MEDIA_TYPE, headers=headers
    )


def _problem(
    on_defect: Callable[[str, BaseException], None] | None, scope: Any, error: Exception
) -> tuple[int, dict[str, str], bytes]:
    """Return the problem that an exception becomes; one without a row in the table is a defect."""
    request_id, path = str(scope.get("labfleet.request_id", "")), scope["path"]
    known = error if isinstance(error, errors.LabfleetError) else _translated(error)
    if known is None:
        if on_defect is not None:
            on_defect(request_id, error)
        found = problems.unexpected(instance=path, request_id=request_id)
        return found.status, {}, problems.encode(found)
    found = problems.of(known, instance=path, request_id=request_id)
    return found.status, problems.headers(known), problems.encode(found)


def _translated(error: Exception) -> errors.LabfleetError | None:
    """Return Litestar's own errors as the product's."""
    if not isinstance(error, HTTPException):
        return None
    if error.status_code == 404:
        return errors.Gone("there is nothing at this address", reason="RouteNotFound")
    if error.status_code == 405:
        return errors.Invalid("this address has no such method", reason="MethodNotAllowed")
    if error.status_code >= 500:
        return None
    extra = error.extra if isinstance(error.extra, list) else []
    places = tuple(
        (str(each.get("key", "request")), str(each.get("message", "is wrong"))[:200])
        for each in extra
        if isinstance(each, dict)
    )
    said = "; ".join(f"{where}: {what}" for where, what in places) or "the request is malformed"
    return errors.Invalid(said, problems=places)
