"""The compatible routes of a region's workers: list, make, adopt, read, tag, drain, start, stop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter

from labfleet.api.compatible.compat_routes import Id
from labfleet.api.compatible.compat_worker_bodies import (
    CapacityReply,
    CreateBody,
    ImportBody,
    StatusReply,
    TagsBody,
    WhyBody,
)
from labfleet.api.compatible.compat_worker_routes import (
    capacity_reply,
    optional_body,
    post,
    status_reply,
)
from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, record, reply
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.verbs import adoption, objects, worker_reports
from labfleet.service.verbs import lifecycle as verbs

RegionName = Annotated[str, PathParameter(description="An AWS region.")]
IN_REGION = "/api/workers/region/{region:str}/workers/{id_:str}"


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return all of them."""
    return [
        *_region(services),
        *_region_instance(services),
        *_one(services),
        *_one_state(services),
        *_one_orders(services),
        *_one_desired(services),
    ]


def _region(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def list_(request: Ask, region: RegionName) -> Response[bytes]:
        await services.fresh()
        return reply(worker_reports.of_region(services, caller(request), region))

    async def create(request: Ask, region: RegionName) -> Response[bytes]:
        sent = await record(request, CreateBody)
        await worker_reports.in_region(services, sent.template, DEFAULT_NAMESPACE, region)
        made = {"metadata": {"name": sent.name}, "spec": {"template": sent.template}}
        worker = await objects.create(services, caller(request), KINDS["Worker"], made)
        return reply(worker, status=201)

    async def import_(request: Ask, region: RegionName) -> Response[bytes]:
        sent = await record(request, ImportBody)
        worker = await adoption.adopt_instance(
            services,
            caller(request),
            sent.instance_id,
            region=region,
            template=sent.template,
            name=sent.name,
            namespace=DEFAULT_NAMESPACE,
        )
        return reply(worker, status=201)

    path = "/api/workers/region/{region:str}/workers"
    return [
        endpoint(
            "GET",
            path,
            list_,
            name="regionWorkers",
            tag="seeds",
            summary="Workers of a region",
            shape=RouteDoc(reply=list[Worker]),
        ),
        post(
            path,
            create,
            "regionCreateWorker",
            "Make a worker",
            RouteDoc(body=CreateBody, reply=Worker),
            status=201,
        ),
        post(
            f"{path}/import",
            import_,
            "regionImportWorker",
            "Adopt an instance by its id",
            RouteDoc(body=ImportBody, reply=Worker),
            status=201,
        ),
    ]


def _region_instance(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def by_instance(request: Ask, region: RegionName, instance_id: Id) -> Response[bytes]:
        await services.fresh()
        return reply(worker_reports.instance(services, caller(request), region, instance_id))

    return [
        endpoint(
            "GET",
            "/api/workers/region/{region:str}/instance/{instance_id:str}",
            by_instance,
            name="regionInstance",
            tag="seeds",
            summary="The worker of an instance",
            shape=RouteDoc(reply=Worker),
        ),
    ]


def _one(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def get(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        return reply(await _there(services, request, region, id_))

    async def delete(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        name, space = _named(await _there(services, request, region, id_))
        return reply(await objects.delete(services, caller(request), KINDS["Worker"], name, space))

    return [
        endpoint(
            "GET",
            IN_REGION,
            get,
            name="regionWorker",
            tag="seeds",
            summary="Read a worker",
            shape=RouteDoc(reply=Worker),
        ),
        endpoint(
            "DELETE",
            IN_REGION,
            delete,
            name="regionDeleteWorker",
            tag="seeds",
            summary="Delete a worker",
            shape=RouteDoc(reply=Worker),
        ),
    ]


def _one_state(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def status(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        return reply(status_reply(await _there(services, request, region, id_)))

    async def resources(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        await services.fresh()
        return reply(capacity_reply(services, await _there(services, request, region, id_)))

    return [
        endpoint(
            "GET",
            f"{IN_REGION}/status",
            status,
            name="regionWorkerStatus",
            tag="seeds",
            summary="A worker's state",
            shape=RouteDoc(reply=StatusReply),
        ),
        endpoint(
            "GET",
            f"{IN_REGION}/resources",
            resources,
            name="regionWorkerResources",
            tag="seeds",
            summary="What a worker has",
            shape=RouteDoc(reply=CapacityReply),
        ),
        endpoint(
            "POST",
            f"{IN_REGION}/refresh",
            status,
            name="regionRefreshWorker",
            tag="seeds",
            summary="A worker's state as last seen",
            shape=RouteDoc(reply=StatusReply),
        ),
    ]


def _one_orders(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def tag(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        sent = await record(request, TagsBody)
        worker = await _there(services, request, region, id_)
        change = {"spec": {"tags": sent.tags}}
        who, row, (name, space) = caller(request), KINDS["Worker"], _named(worker)
        return reply(await objects.patch(services, who, row, name, change, namespace=space))

    async def drain(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        sent = worker_reports.taken(WhyBody, await optional_body(request))
        worker = await _there(services, request, region, id_)
        who = caller(request)
        return reply(
            status_reply(await verbs.drain(services, who, *_named(worker), reason=sent.reason))
        )

    async def keep(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        worker = await _there(services, request, region, id_)
        return reply(
            status_reply(await verbs.cancel_drain(services, caller(request), *_named(worker)))
        )

    return [
        post(
            f"{IN_REGION}/tags",
            tag,
            "regionTagWorker",
            "Set tags on a worker's instance; null removes one",
            RouteDoc(body=TagsBody, reply=Worker),
        ),
        post(
            f"{IN_REGION}/drain",
            drain,
            "regionDrainWorker",
            "Empty a worker",
            RouteDoc(body=WhyBody, reply=StatusReply),
        ),
        post(
            f"{IN_REGION}/cancel-drain",
            keep,
            "regionCancelDrain",
            "Take a drain back",
            RouteDoc(reply=StatusReply),
        ),
    ]


def _one_desired(services: ServiceContext) -> list[HTTPRouteHandler]:
    def becoming(desired: Literal["Ready", "Stopped"]) -> Any:
        async def become(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
            worker = await _there(services, request, region, id_)
            who = caller(request)
            return reply(
                status_reply(await verbs.desire(services, who, *_named(worker), desired=desired))
            )

        return become

    return [
        post(
            f"{IN_REGION}/start",
            becoming("Ready"),
            "regionStartWorker",
            "Start a worker",
            RouteDoc(body=None, reply=StatusReply),
        ),
        post(
            f"{IN_REGION}/stop",
            becoming("Stopped"),
            "regionStopWorker",
            "Drain and stop a worker",
            RouteDoc(body=None, reply=StatusReply),
        ),
    ]


async def _there(services: ServiceContext, request: Ask, region: str, id_: str) -> Worker:
    return await worker_reports.there(services, caller(request), region, id_, DEFAULT_NAMESPACE)


def _named(worker: Worker) -> tuple[str, str]:
    """Return name and namespace; a uid finds a worker in any namespace."""
    return worker.name, worker.namespace
