"""The console text that was kept of a worker, as a route."""

from __future__ import annotations

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from labfleet.api.core.endpoints import Ask, Shape, caller, endpoint, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.parts import Parts
from labfleet.service.reads import console_text


def routes(parts: Parts) -> list[HTTPRouteHandler]:
    """Return the route."""

    async def logs(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await console_text.kept(parts, caller(request), name, namespace))

    return [
        endpoint("GET", "/api/v1/workers/{name:str}/logs", logs, name="getWorkerLogs",
                 tag="workers", summary="The console text kept of a boot that failed",
                 shape=Shape(reply=console_text.ConsoleText)),
    ]  # fmt: skip
