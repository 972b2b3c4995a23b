"""Worker routes under the seeds' names: internal ones for controllers, public ones for people.

Thin: each calls the verb that the product's own route calls. Bodies are in snake_case. What is
reported is kept as samples; phases stay what EC2 and CML say (upstream.md 2.2, 2.3, 2.14).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter

from labfleet.api.compatible.seed_routes import Id
from labfleet.api.compatible.worker_seed_bodies import (
    BulkImportBody,
    BulkImportReply,
    CapacityReply,
    CleanupBody,
    CleanupReply,
    CreateBody,
    FoundInstance,
    ImportBody,
    ScaleUpBody,
    StatusBody,
    StatusReply,
    TagsBody,
    WhyBody,
)
from labfleet.api.core.endpoints import Ask, Shape, body, caller, endpoint, record, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.interfaces.compute import Instance, InstanceState
from labfleet.resources.kinds import KINDS
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.parts import Parts
from labfleet.service.kinds import origin_rules
from labfleet.service.reads import regions
from labfleet.service.verbs import adoption, objects, worker_reports
from labfleet.service.verbs import lifecycle as verbs

RegionName = Annotated[str, PathParameter(description="An AWS region.")]
STATES = frozenset(get_args(InstanceState))


def routes(parts: Parts) -> list[HTTPRouteHandler]:
    """Return all of them."""
    return [*_fleet(parts), *_reports(parts), *_orders(parts), *_region(parts), *_one(parts)]


def _fleet(parts: Parts) -> list[HTTPRouteHandler]:
    async def bulk_import(request: Ask) -> Response[bytes]:
        sent = worker_reports.taken(BulkImportBody, await body(request))
        made = await adoption.bulk_import(
            parts,
            caller(request),
            [_instance(each) for each in sent.discovered_instances],
            region=sent.aws_region,
            source=sent.source or "internal route",
        )
        why = "it carries an installation's owner tag"
        gone = "its worker was deleted by a person: adopt it to have it back"
        return reply(
            BulkImportReply(
                total_found=made.total_found,
                total_imported=len(made.names),
                imported=made.names,
                skipped=dict.fromkeys(made.foreign, why) | dict.fromkeys(made.ignored, gone),
            )
        )

    async def scale_up(request: Ask) -> Response[bytes]:
        sent = worker_reports.taken(ScaleUpBody, await body(request))
        made = await worker_reports.scale_up(
            parts, caller(request), sent.template, reason=sent.reason
        )
        return reply(made, status=201)

    async def cleanup(request: Ask) -> Response[bytes]:
        sent = worker_reports.taken(CleanupBody, await _maybe(request))
        gone = await worker_reports.cleanup(
            parts, caller(request), retention_days=sent.retention_days, dry_run=sent.dry_run
        )
        return reply(CleanupReply(removed=gone, dry_run=sent.dry_run))

    async def discovery(request: Ask) -> Response[bytes]:
        await parts.fresh()
        return reply(regions.discovery(parts, caller(request)))

    path = "/api/internal/workers"
    return [
        _post(
            f"{path}/bulk-import",
            bulk_import,
            "bulkImport",
            "Import discovered instances",
            Shape(body=BulkImportBody, reply=BulkImportReply),
        ),
        _post(
            f"{path}/scale-up",
            scale_up,
            "internalScaleUp",
            "Make one worker of a template",
            Shape(body=ScaleUpBody, reply=Worker),
            status=201,
        ),
        _post(
            f"{path}/cleanup",
            cleanup,
            "internalCleanup",
            "Remove records of ended workers",
            Shape(body=CleanupBody, reply=CleanupReply),
        ),
        endpoint(
            "GET",
            "/api/internal/discovery",
            discovery,
            name="discoverySummary",
            tag="seeds",
            summary="What discovery does and did",
            shape=Shape(reply=regions.DiscoverySummary),
        ),
    ]


def _reports(parts: Parts) -> list[HTTPRouteHandler]:
    async def status(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(StatusBody, await body(request))
        who = caller(request)
        worker = await worker_reports.status(parts, who, id_, namespace, sent.status)
        return reply(_status(worker, reported=sent.status.lower()))

    async def metrics(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(worker_reports.MetricsReport, await body(request))
        who = caller(request)
        return reply(_status(await worker_reports.metrics(parts, who, id_, namespace, sent)))

    async def data(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(worker_reports.CmlDataReport, await body(request))
        who = caller(request)
        return reply(_status(await worker_reports.cml_data(parts, who, id_, namespace, sent)))

    async def details(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        # Addresses belong to a boot and are read at EC2 by ourselves; the report is only heard.
        worker_reports.taken(dict[str, Any], await body(request))
        who = caller(request)
        worker = await worker_reports.status(parts, who, id_, namespace, "unknown")
        return reply(_status(worker))

    one = "/api/internal/workers/{id_:str}"
    return [
        _post(
            f"{one}/status",
            status,
            "reportStatus",
            "Report a worker's state; answers with ours",
            Shape(body=StatusBody, reply=StatusReply),
        ),
        _post(
            f"{one}/metrics",
            metrics,
            "reportMetrics",
            "Report a worker's numbers",
            Shape(body=worker_reports.MetricsReport, reply=StatusReply),
        ),
        _post(
            f"{one}/cml-data",
            data,
            "reportCmlData",
            "Report what CML said",
            Shape(body=worker_reports.CmlDataReport, reply=StatusReply),
        ),
        _post(
            f"{one}/ec2-details",
            details,
            "reportEc2Details",
            "Report addresses; EC2 is asked",
            Shape(body=dict[str, Any], reply=StatusReply),
        ),
    ]


def _orders(parts: Parts) -> list[HTTPRouteHandler]:
    async def drain(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(WhyBody, await _maybe(request))
        who = caller(request)
        told = f"{sent.reason} ({sent.requested_by})" if sent.requested_by else sent.reason
        worker = await worker_reports.drain_and_stop(parts, who, id_, namespace, reason=told)
        return reply(_status(worker))

    async def end(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        worker_reports.taken(WhyBody, await _maybe(request))
        who = caller(request)
        return reply(_status(await verbs.desire(parts, who, id_, namespace, desired="Terminated")))

    async def mark(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        worker_reports.taken(WhyBody, await _maybe(request))
        who = caller(request)
        return reply(_status(await worker_reports.mark_terminated(parts, who, id_, namespace)))

    async def recalculate(
        request: Ask, id_: Id, namespace: Namespace = "default"
    ) -> Response[bytes]:
        await parts.fresh()
        worker = await verbs.found(parts, caller(request), Worker, id_, namespace)
        return reply(_capacity(parts, worker))

    one = "/api/internal/workers/{id_:str}"
    return [
        _post(
            f"{one}/drain",
            drain,
            "internalDrain",
            "Empty a running worker and stop it",
            Shape(body=WhyBody, reply=StatusReply),
        ),
        _post(
            f"{one}/terminate",
            end,
            "internalTerminate",
            "Ask for a worker's end",
            Shape(body=WhyBody, reply=StatusReply),
        ),
        _post(
            f"{one}/mark-terminated",
            mark,
            "internalMarkTerminated",
            "Answer whether EC2 has ended it",
            Shape(body=WhyBody, reply=StatusReply),
        ),
        _post(
            f"{one}/recalculate-capacity",
            recalculate,
            "internalCapacity",
            "What a worker has, and what is promised of it",
            Shape(body=None, reply=CapacityReply),
        ),
    ]


def _region(parts: Parts) -> list[HTTPRouteHandler]:
    async def list_(request: Ask, region: RegionName) -> Response[bytes]:
        await parts.fresh()
        return reply(worker_reports.of_region(parts, caller(request), region))

    async def create(request: Ask, region: RegionName) -> Response[bytes]:
        sent = await record(request, CreateBody)
        await worker_reports.in_region(parts, sent.template, region)
        made = {"metadata": {"name": sent.name}, "spec": {"template": sent.template}}
        worker = await objects.create(parts, caller(request), KINDS["Worker"], made)
        return reply(worker, status=201)

    async def import_(request: Ask, region: RegionName) -> Response[bytes]:
        sent = await record(request, ImportBody)
        worker = await adoption.adopt_instance(
            parts,
            caller(request),
            sent.instance_id,
            region=region,
            template=sent.template,
            name=sent.name,
        )
        return reply(worker, status=201)

    async def by_instance(request: Ask, region: RegionName, instance_id: Id) -> Response[bytes]:
        await parts.fresh()
        return reply(worker_reports.instance(parts, caller(request), region, instance_id))

    path = "/api/workers/region/{region:str}/workers"
    return [
        endpoint(
            "GET",
            path,
            list_,
            name="regionWorkers",
            tag="seeds",
            summary="Workers of a region",
            shape=Shape(reply=list[Worker]),
        ),
        _post(
            path,
            create,
            "regionCreateWorker",
            "Make a worker",
            Shape(body=CreateBody, reply=Worker),
            status=201,
        ),
        _post(
            f"{path}/import",
            import_,
            "regionImportWorker",
            "Adopt an instance by its id",
            Shape(body=ImportBody, reply=Worker),
            status=201,
        ),
        endpoint(
            "GET",
            "/api/workers/region/{region:str}/instance/{instance_id:str}",
            by_instance,
            name="regionInstance",
            tag="seeds",
            summary="The worker of an instance",
            shape=Shape(reply=Worker),
        ),
    ]


def _one(parts: Parts) -> list[HTTPRouteHandler]:
    async def get(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        return reply(await _there(parts, request, region, id_))

    async def delete(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        worker = await _there(parts, request, region, id_)
        return reply(await objects.delete(parts, caller(request), KINDS["Worker"], worker.name))

    async def status(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        return reply(_status(await _there(parts, request, region, id_)))

    async def resources(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        await parts.fresh()
        return reply(_capacity(parts, await _there(parts, request, region, id_)))

    async def tag(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        sent = await record(request, TagsBody)
        worker = await _there(parts, request, region, id_)
        change = {"spec": {"tags": sent.tags}}
        done = await objects.patch(parts, caller(request), KINDS["Worker"], worker.name, change)
        return reply(done)

    async def drain(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        sent = worker_reports.taken(WhyBody, await _maybe(request))
        worker = await _there(parts, request, region, id_)
        who = caller(request)
        return reply(_status(await verbs.drain(parts, who, worker.name, reason=sent.reason)))

    async def keep(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
        worker = await _there(parts, request, region, id_)
        return reply(_status(await verbs.cancel_drain(parts, caller(request), worker.name)))

    def becoming(desired: Literal["Ready", "Stopped"]) -> Any:
        async def become(request: Ask, region: RegionName, id_: Id) -> Response[bytes]:
            worker = await _there(parts, request, region, id_)
            who = caller(request)
            return reply(_status(await verbs.desire(parts, who, worker.name, desired=desired)))

        return become

    one = "/api/workers/region/{region:str}/workers/{id_:str}"
    return [
        endpoint(
            "GET",
            one,
            get,
            name="regionWorker",
            tag="seeds",
            summary="Read a worker",
            shape=Shape(reply=Worker),
        ),
        endpoint(
            "DELETE",
            one,
            delete,
            name="regionDeleteWorker",
            tag="seeds",
            summary="Delete a worker",
            shape=Shape(reply=Worker),
        ),
        endpoint(
            "GET",
            f"{one}/status",
            status,
            name="regionWorkerStatus",
            tag="seeds",
            summary="A worker's state",
            shape=Shape(reply=StatusReply),
        ),
        endpoint(
            "GET",
            f"{one}/resources",
            resources,
            name="regionWorkerResources",
            tag="seeds",
            summary="What a worker has",
            shape=Shape(reply=CapacityReply),
        ),
        endpoint(
            "POST",
            f"{one}/refresh",
            status,
            name="regionRefreshWorker",
            tag="seeds",
            summary="A worker's state as last seen",
            shape=Shape(reply=StatusReply),
        ),
        _post(
            f"{one}/tags",
            tag,
            "regionTagWorker",
            "Set tags on a worker's instance; null removes one",
            Shape(body=TagsBody, reply=Worker),
        ),
        _post(
            f"{one}/drain",
            drain,
            "regionDrainWorker",
            "Empty a worker",
            Shape(body=WhyBody, reply=StatusReply),
        ),
        _post(
            f"{one}/cancel-drain",
            keep,
            "regionCancelDrain",
            "Take a drain back",
            Shape(reply=StatusReply),
        ),
        _post(
            f"{one}/start",
            becoming("Ready"),
            "regionStartWorker",
            "Start a worker",
            Shape(body=None, reply=StatusReply),
        ),
        _post(
            f"{one}/stop",
            becoming("Stopped"),
            "regionStopWorker",
            "Drain and stop a worker",
            Shape(body=None, reply=StatusReply),
        ),
    ]


async def _there(parts: Parts, request: Ask, region: str, id_: str) -> Worker:
    return await worker_reports.there(parts, caller(request), region, id_)


async def _maybe(request: Ask) -> Any:
    """Return the body, an empty one when there is none."""
    return await body(request) if await request.body() else {}


def _post(
    path: str,
    run: Any,
    name: str,
    summary: str,
    shape: Shape,
    *,
    status: int = 200,
) -> HTTPRouteHandler:
    return endpoint(
        "POST", path, run, name=name, tag="seeds", summary=summary, shape=shape, status=status
    )


def _instance(found: FoundInstance) -> Instance:
    if not origin_rules.INSTANCE.fullmatch(found.instance_id):
        what = f"{found.instance_id[:40]!r} is not an instance id"
        raise intake.invalid(("discovered_instances.instance_id", what))
    if found.state not in STATES:
        raise intake.invalid(("discovered_instances.state", f"{found.state[:40]!r} is unknown"))
    tags = dict(found.tags)
    if found.name:
        tags.setdefault("Name", found.name)
    return Instance(
        id=found.instance_id,
        state=found.state,  # type: ignore[arg-type]  # checked just above
        instance_type=found.instance_type,
        image_id=found.image_id,
        public_ip=found.public_ip,
        private_ip=found.private_ip,
        launch_time=found.launch_time,
        tags=tags,
    )


def _status(worker: Worker, *, reported: str | None = None) -> StatusReply:
    desired = {"Ready": "running", "Stopped": "stopped", "Terminated": "terminated"}
    return StatusReply(
        worker_id=worker.name,
        status=worker_reports.word(worker),
        phase=worker.status.phase,
        health=worker.status.health,
        desired_status=desired[worker.spec.desired],
        message=worker.status.message,
        reported=reported,
    )


def _capacity(parts: Parts, worker: Worker) -> CapacityReply:
    has, held = worker_reports.capacity(parts, worker)
    return CapacityReply(
        worker_id=worker.name,
        declared_capacity=None if has is None else msgspec.to_builtins(has),
        allocated_capacity=msgspec.to_builtins(held),
    )
