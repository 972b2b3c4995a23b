"""Worker routes under the compatible names: internal ones for controllers, public ones for people.

Thin: each calls the verb that the product's own route calls. Bodies are in snake_case. What is
reported is kept as samples; phases stay what EC2 and CML say (facts/upstream.md#worker-status and
#worker-reports).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter

from labfleet.api.compatible.compat_routes import Id
from labfleet.api.compatible.compat_worker_bodies import (
    BulkImportBody,
    BulkImportReply,
    CapacityReply,
    CleanupBody,
    CleanupReply,
    FoundInstance,
    ScaleUpBody,
    StatusBody,
    StatusReply,
    WhyBody,
)
from labfleet.api.core.endpoints import Ask, RouteDoc, body, caller, endpoint, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.interfaces.compute import Instance
from labfleet.resources import providers, spellings
from labfleet.resources.machine import MachineState
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import regions
from labfleet.service.verbs import adoption, worker_reports
from labfleet.service.verbs import lifecycle as verbs

RegionName = Annotated[str, PathParameter(description="An AWS region.")]
STATES: Mapping[str, MachineState] = {
    **{each: each for each in get_args(MachineState) if each not in spellings.STATES.values()},
    **spellings.STATES,
}
"""Upstream's words for a machine's state, which are EC2's -> ours."""
INTERNAL = "/api/internal/workers"


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return all of them."""
    return [
        *_imports(services),
        *_fleet(services),
        *_reports(services),
        *_orders(services),
    ]


def _imports(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def bulk_import(request: Ask) -> Response[bytes]:
        sent = worker_reports.taken(BulkImportBody, await body(request))
        made = await adoption.bulk_import(
            services,
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

    return [
        post(
            f"{INTERNAL}/bulk-import",
            bulk_import,
            "bulkImport",
            "Import discovered instances",
            RouteDoc(body=BulkImportBody, reply=BulkImportReply),
        ),
    ]


def _fleet(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def scale_up(request: Ask) -> Response[bytes]:
        sent, who = worker_reports.taken(ScaleUpBody, await body(request)), caller(request)
        home, why = DEFAULT_NAMESPACE, sent.reason
        made = await worker_reports.scale_up(services, who, sent.template, home, reason=why)
        return reply(made, status=201)

    async def cleanup(request: Ask) -> Response[bytes]:
        sent = worker_reports.taken(CleanupBody, await optional_body(request))
        gone = await worker_reports.cleanup(
            services, caller(request), retention_days=sent.retention_days, dry_run=sent.dry_run
        )
        return reply(CleanupReply(removed=gone, dry_run=sent.dry_run))

    async def discovery(request: Ask) -> Response[bytes]:
        await services.fresh()
        return reply(regions.discovery(services, caller(request)))

    return [
        post(
            f"{INTERNAL}/scale-up",
            scale_up,
            "internalScaleUp",
            "Make one worker of a template",
            RouteDoc(body=ScaleUpBody, reply=Worker),
            status=201,
        ),
        post(
            f"{INTERNAL}/cleanup",
            cleanup,
            "internalCleanup",
            "Remove records of ended workers",
            RouteDoc(body=CleanupBody, reply=CleanupReply),
        ),
        endpoint(
            "GET",
            "/api/internal/discovery",
            discovery,
            name="discoverySummary",
            tag="seeds",
            summary="What discovery does and did",
            shape=RouteDoc(reply=regions.DiscoverySummary),
        ),
    ]


def _reports(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def status(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(StatusBody, await body(request))
        who = caller(request)
        worker = await worker_reports.status(services, who, id_, namespace, sent.status)
        return reply(status_reply(worker, reported=sent.status.lower()))

    async def metrics(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(worker_reports.MetricsReport, await body(request))
        who = caller(request)
        return reply(
            status_reply(await worker_reports.metrics(services, who, id_, namespace, sent))
        )

    async def data(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(worker_reports.CmlDataReport, await body(request))
        who = caller(request)
        return reply(
            status_reply(await worker_reports.cml_data(services, who, id_, namespace, sent))
        )

    async def details(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        # Addresses belong to a boot and are read from EC2; those in the report are not used.
        worker_reports.taken(dict[str, Any], await body(request))
        who = caller(request)
        worker = await worker_reports.status(services, who, id_, namespace, "unknown")
        return reply(status_reply(worker))

    one = "/api/internal/workers/{id_:str}"
    return [
        post(
            f"{one}/status",
            status,
            "reportStatus",
            "Report a worker's state; answers with ours",
            RouteDoc(body=StatusBody, reply=StatusReply),
        ),
        post(
            f"{one}/metrics",
            metrics,
            "reportMetrics",
            "Report a worker's numbers",
            RouteDoc(body=worker_reports.MetricsReport, reply=StatusReply),
        ),
        post(
            f"{one}/cml-data",
            data,
            "reportCmlData",
            "Report what CML said",
            RouteDoc(body=worker_reports.CmlDataReport, reply=StatusReply),
        ),
        post(
            f"{one}/ec2-details",
            details,
            "reportEc2Details",
            "Report addresses; EC2 is asked",
            RouteDoc(body=dict[str, Any], reply=StatusReply),
        ),
    ]


def _orders(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def drain(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = worker_reports.taken(WhyBody, await optional_body(request))
        who = caller(request)
        told = f"{sent.reason} ({sent.requested_by})" if sent.requested_by else sent.reason
        worker = await worker_reports.drain_and_stop(services, who, id_, namespace, reason=told)
        return reply(status_reply(worker))

    async def end(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        worker_reports.taken(WhyBody, await optional_body(request))
        who = caller(request)
        return reply(
            status_reply(await verbs.desire(services, who, id_, namespace, desired="Terminated"))
        )

    async def mark(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        worker_reports.taken(WhyBody, await optional_body(request))
        who = caller(request)
        return reply(
            status_reply(await worker_reports.mark_terminated(services, who, id_, namespace))
        )

    async def recalculate(
        request: Ask, id_: Id, namespace: Namespace = "default"
    ) -> Response[bytes]:
        await services.fresh()
        worker = await lookup.found(services, caller(request), Worker, id_, namespace)
        return reply(capacity_reply(services, worker))

    one = "/api/internal/workers/{id_:str}"
    return [
        post(
            f"{one}/drain",
            drain,
            "internalDrain",
            "Empty a running worker and stop it",
            RouteDoc(body=WhyBody, reply=StatusReply),
        ),
        post(
            f"{one}/terminate",
            end,
            "internalTerminate",
            "Ask for a worker's end",
            RouteDoc(body=WhyBody, reply=StatusReply),
        ),
        post(
            f"{one}/mark-terminated",
            mark,
            "internalMarkTerminated",
            "Answer whether EC2 has ended it",
            RouteDoc(body=WhyBody, reply=StatusReply),
        ),
        post(
            f"{one}/recalculate-capacity",
            recalculate,
            "internalCapacity",
            "What a worker has, and what is promised of it",
            RouteDoc(body=None, reply=CapacityReply),
        ),
    ]


async def optional_body(request: Ask) -> Any:
    """Return the body, an empty one when there is none."""
    return await body(request) if await request.body() else {}


def post(
    path: str,
    run: Any,
    name: str,
    summary: str,
    shape: RouteDoc,
    *,
    status: int = 200,
) -> HTTPRouteHandler:
    """Return a route that acts."""
    return endpoint(
        "POST", path, run, name=name, tag="seeds", summary=summary, shape=shape, status=status
    )


def _instance(found: FoundInstance) -> Instance:
    if not providers.PROVIDERS["aws"].machine.fullmatch(found.instance_id):
        what = f"{found.instance_id[:40]!r} is not an instance id"
        raise intake.invalid(("discovered_instances.instance_id", what))
    if found.state not in STATES:
        raise intake.invalid(("discovered_instances.state", f"{found.state[:40]!r} is unknown"))
    tags = dict(found.tags)
    if found.name:
        tags.setdefault("Name", found.name)
    return Instance(
        id=found.instance_id,
        state=STATES[found.state],
        instance_type=found.instance_type,
        image_id=found.image_id,
        public_ip=found.public_ip,
        private_ip=found.private_ip,
        launch_time=found.launch_time,
        tags=tags,
    )


def status_reply(worker: Worker, *, reported: str | None = None) -> StatusReply:
    """Return a worker's state as these routes reply it."""
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


def capacity_reply(services: ServiceContext, worker: Worker) -> CapacityReply:
    """Return a worker's capacity as these routes reply it."""
    has, held = worker_reports.capacity(services, worker)
    return CapacityReply(
        worker_id=worker.name,
        declared_capacity=None if has is None else msgspec.to_builtins(has),
        allocated_capacity=msgspec.to_builtins(held),
    )
