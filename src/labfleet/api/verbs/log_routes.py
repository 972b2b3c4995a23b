"""The route of the console text that was kept of a worker."""

from __future__ import annotations

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import console_text


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the route."""

    async def logs(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await console_text.kept(services, caller(request), name, namespace))

    return [
        endpoint("GET", "/api/v1/workers/{name:str}/logs", logs, name="getWorkerLogs",
                 tag="workers", summary="The console text kept of a boot that failed",
                 shape=RouteDoc(reply=console_text.ConsoleText)),
    ]  # fmt: skip
