"""The compatible routes of a region's workers: list, make, adopt, read, tag, drain, start, stop."""

from __future__ import annotations

from typing import Annotated

from litestar.params import PathParameter

from labfleet.api.compatible.compat_routes import Id
from labfleet.api.compatible.compat_worker_bodies import (
    CapacityReply,
    CreateBody,
    ImportBody,
    LicenseBody,
    StatusReply,
    TagsBody,
    WhyBody,
)
from labfleet.api.compatible.compat_worker_routes import capacity_reply, status_reply
from labfleet.api.core.route import Routes
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import adoption, licences, objects, worker_reports
from labfleet.service.verbs import lifecycle as verbs

RegionName = Annotated[str, PathParameter(description="An AWS region.")]
REGION = "/api/workers/region/{region:str}/workers"
ONE = f"{REGION}/{{id_:str}}"


def routes(services: ServiceContext) -> Routes:
    """Return all of them."""
    made = Routes("seeds")
    _region(made, services)
    _reading(made, services)
    _changing(made, services)
    _orders(made, services)
    _licences(made, services)
    return made


def _region(made: Routes, services: ServiceContext) -> None:
    @made.get(REGION, "Workers of a region", needs=("read", "Worker"))
    async def region_workers(who: Caller, region: RegionName) -> list[Worker]:
        """Return all workers whose machine is in the region."""
        await services.fresh()
        return worker_reports.of_region(services, who, region)

    @made.post(REGION, "Make a worker", needs=("create", "Worker"), status=201)
    async def region_create_worker(who: Caller, region: RegionName, sent: CreateBody) -> Worker:
        """Make a worker of a template of this region."""
        await worker_reports.in_region(services, sent.template, DEFAULT_NAMESPACE, region)
        new = {"metadata": {"name": sent.name}, "spec": {"template": sent.template}}
        worker = await objects.create(services, who, KINDS["Worker"], new)
        assert isinstance(worker, Worker)  # noqa: S101 - the row's type
        return worker

    @made.post(
        f"{REGION}/import", "Adopt an instance by its id", needs=("update", "Worker"), status=201
    )
    async def region_import_worker(who: Caller, region: RegionName, sent: ImportBody) -> Worker:
        """Make a managed worker of an instance that runs already."""
        return await adoption.adopt_instance(
            services,
            who,
            _instance_of(sent),
            region=region,
            template=sent.template,
            name=sent.name,
            namespace=DEFAULT_NAMESPACE,
        )

    @made.get(
        "/api/workers/region/{region:str}/instance/{instance_id:str}",
        "The worker of an instance", needs=("read", "Worker"),
    )  # fmt: skip
    async def region_instance(who: Caller, region: RegionName, instance_id: Id) -> Worker:
        """Return the worker whose machine is this instance."""
        await services.fresh()
        return worker_reports.instance(services, who, region, instance_id)


def _reading(made: Routes, services: ServiceContext) -> None:
    needs = ("read", "Worker")

    @made.get(ONE, "Read a worker", needs=needs)
    async def region_worker(who: Caller, region: RegionName, id_: Id) -> Worker:
        """Return one worker of the region by its name or uid."""
        return await _there(services, who, region, id_)

    @made.get(f"{ONE}/status", "A worker's state", needs=needs)
    async def region_worker_status(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Return the state of a worker of the region in upstream 002's words."""
        return status_reply(await _there(services, who, region, id_))

    @made.get(f"{ONE}/resources", "What a worker has", needs=needs)
    async def region_worker_resources(who: Caller, region: RegionName, id_: Id) -> CapacityReply:
        """Return what a worker of the region has and what of it is reserved."""
        await services.fresh()
        return capacity_reply(services, await _there(services, who, region, id_))

    @made.post(f"{ONE}/refresh", "A worker's state as last seen", needs=needs)
    async def region_refresh_worker(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Return the state of a worker as last seen; workers are looked at all the time."""
        return status_reply(await _there(services, who, region, id_))


def _changing(made: Routes, services: ServiceContext) -> None:
    row = KINDS["Worker"]

    @made.delete(ONE, "Delete a worker", needs=("delete", "Worker"))
    async def region_delete_worker(who: Caller, region: RegionName, id_: Id) -> Worker:
        """Ask for the worker's end: it is emptied, its machine ends, then the record goes."""
        name, space = _named(await _there(services, who, region, id_))
        worker = await objects.delete(services, who, row, name, space)
        assert isinstance(worker, Worker)  # noqa: S101 - the row's type
        return worker

    @made.post(
        f"{ONE}/tags", "Set tags on a worker's instance; null removes one",
        needs=("update", "Worker"),
    )  # fmt: skip
    async def region_tag_worker(who: Caller, region: RegionName, id_: Id, sent: TagsBody) -> Worker:
        """Set and remove tags that are kept on the worker's live instance."""
        name, space = _named(await _there(services, who, region, id_))
        change = {"spec": {"tags": sent.tags}}
        worker = await objects.patch(services, who, row, name, change, namespace=space)
        assert isinstance(worker, Worker)  # noqa: S101 - the row's type
        return worker


def _orders(made: Routes, services: ServiceContext) -> None:
    needs = ("drain", "Worker")

    @made.post(f"{ONE}/drain", "Empty a worker", needs=needs, exact=False)
    async def region_drain_worker(
        who: Caller, region: RegionName, id_: Id, sent: WhyBody
    ) -> StatusReply:
        """Place nothing more on the worker and let its sessions end."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(await verbs.drain(services, who, name, space, reason=sent.reason))

    @made.post(f"{ONE}/cancel-drain", "Take a drain back", needs=needs)
    async def region_cancel_drain(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Open a worker that is being emptied for sessions again."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(await verbs.cancel_drain(services, who, name, space))

    @made.post(f"{ONE}/start", "Start a worker", needs=needs)
    async def region_start_worker(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Return start a stopped worker."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(await verbs.desire(services, who, name, space, desired="Ready"))

    @made.post(f"{ONE}/stop", "Drain and stop a worker", needs=needs)
    async def region_stop_worker(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Let the worker's sessions end, then stop it; its disk stays."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(await verbs.desire(services, who, name, space, desired="Stopped"))


def _licences(made: Routes, services: ServiceContext) -> None:
    needs = ("license", "Worker")

    @made.post(f"{ONE}/license", "Register a worker", needs=needs, exact=False)
    async def region_register_worker(
        who: Caller, region: RegionName, id_: Id, sent: LicenseBody
    ) -> StatusReply:
        """Order a registration, with another token or product if one is given."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(
            await licences.register(
                services, who, name, space,
                token=sent.reference(), product=sent.product, again=sent.reregister,
            )
        )  # fmt: skip

    @made.delete(f"{ONE}/license", "Give a worker's licence back", needs=needs)
    async def region_deregister_worker(who: Caller, region: RegionName, id_: Id) -> StatusReply:
        """Order the licence back; refused while sessions are there."""
        name, space = _named(await _there(services, who, region, id_))
        return status_reply(await licences.deregister(services, who, name, space))


def _instance_of(sent: ImportBody) -> str:
    given = {each for each in (sent.aws_instance_id, sent.instance_id) if each is not None}
    if len(given) != 1:
        wrong = "names another instance than instance_id" if given else "name the instance"
        raise intake.invalid(("aws_instance_id", wrong))
    return given.pop()


async def _there(services: ServiceContext, who: Caller, region: str, id_: str) -> Worker:
    return await worker_reports.there(services, who, region, id_, DEFAULT_NAMESPACE)


def _named(worker: Worker) -> tuple[str, str]:
    """Return name and namespace; a uid finds a worker in any namespace."""
    return worker.name, worker.namespace
