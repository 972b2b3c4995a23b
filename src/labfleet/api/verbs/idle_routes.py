"""Routes of idle detection: the explained verdict, and the switch of one worker."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, PathParameter

from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, record, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import idle
from labfleet.service.verbs import idle_checks

Id = Annotated[str, PathParameter(description="Name or uid.")]


class SwitchRequest(Record, frozen=True, kw_only=True):
    """Whether the worker may be stopped for idleness."""

    enabled: bool


class IdleList(Record, frozen=True, kw_only=True):
    """The verdicts of living workers, without signals, by name; and how many more there are."""

    items: tuple[idle.IdleReading, ...]
    left_out: int = 0


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes."""

    async def read(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await idle.read(services, caller(request), name, namespace))

    async def everyone(request: Ask) -> Response[bytes]:
        items, left_out = await idle.overview(services, caller(request))
        return reply(IdleList(items=items, left_out=left_out))

    async def switch(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        asked = await record(request, SwitchRequest)
        who = caller(request)
        return reply(
            await idle_checks.switch(services, who, name, namespace, enabled=asked.enabled)
        )

    return [
        endpoint("GET", "/api/v1/workers/{name:str}/idle", read, name="getWorkerIdle",
                 tag="workers", summary="Is it idle, and what keeps it",
                 shape=RouteDoc(reply=idle.IdleReading)),
        endpoint("GET", "/api/v1/fleet/idle", everyone, name="listIdle", tag="workers",
                 summary="Every worker's verdict, and what keeps it",
                 shape=RouteDoc(reply=IdleList)),
        endpoint("POST", "/api/v1/workers/{name:str}/idle-detection", switch,
                 name="idleDetectionWorker", tag="workers",
                 summary="Switch its idle detection",
                 shape=RouteDoc(body=SwitchRequest, reply=Worker)),
    ]  # fmt: skip
