"""The console text that was kept of a worker, as a route."""

from __future__ import annotations

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from labfleet.api.endpoints import Ask, Shape, caller, endpoint, reply
from labfleet.api.kind_routes import Namespace
from labfleet.service import console_text
from labfleet.service.parts import Parts


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
