"""Routes of telemetry: newest numbers and series of one worker or all, and alerts."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources import alerts
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import series, telemetry

Metrics = Annotated[
    str, QueryParameter(name="metric", description="Names with commas; all without.")
]
Since = Annotated[str, QueryParameter(description="An instant, or how far back: 90m, 6h, 3d.")]
Step = Annotated[
    int | None, QueryParameter(ge=60, le=3_024_000, description="Seconds of a point; no finer.")
]


class VitalsList(Record, frozen=True, kw_only=True):
    """Living workers, the busiest first; and how many more there are."""

    items: tuple[telemetry.Vitals, ...]
    left_out: int = 0


class AlertList(Record, frozen=True, kw_only=True):
    """The raised alerts, the most severe first; and how many more there are."""

    items: tuple[alerts.Raised, ...]
    left_out: int = 0


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes."""

    async def read(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        return reply(await telemetry.newest(services, caller(request), name, namespace))

    async def over_time(
        request: Ask,
        name: FromPath[str],
        namespace: Namespace = "default",
        *,
        metric: Metrics = "",
        since: Since = "",
        step: Step = None,
    ) -> Response[bytes]:
        return reply(
            await series.read(
                services, caller(request), name, namespace, metrics=metric, since=since, step=step
            )
        )

    async def everyone(request: Ask) -> Response[bytes]:
        items, left_out = await telemetry.all_vitals(services, caller(request))
        return reply(VitalsList(items=items, left_out=left_out))

    async def raised(request: Ask) -> Response[bytes]:
        who = caller(request)
        await services.fresh()
        items, left_out = telemetry.raised(services, who)
        return reply(AlertList(items=items, left_out=left_out))

    return [
        endpoint("GET", "/api/v1/workers/{name:str}/series", over_time, name="getWorkerSeries",
                 tag="workers", summary="A worker's numbers over time, down-sampled",
                 shape=RouteDoc(reply=series.Series)),
        endpoint("GET", "/api/v1/fleet/vitals", everyone, name="listVitals", tag="workers",
                 summary="Every worker's newest numbers", shape=RouteDoc(reply=VitalsList)),
        endpoint("GET", "/api/v1/fleet/alerts", raised, name="listAlerts", tag="workers",
                 summary="What asks for somebody, with cause, command and fix",
                 shape=RouteDoc(reply=AlertList)),
        endpoint("GET", "/api/v1/workers/{name:str}/telemetry", read, name="getWorkerTelemetry",
                 tag="workers", summary="What was last measured of a worker's CML",
                 shape=RouteDoc(reply=telemetry.Reading)),
    ]  # fmt: skip
