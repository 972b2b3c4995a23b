"""Worker routes under the compatible names: internal ones for controllers, public ones for people.

Thin: each calls the verb that the product's own route calls. Bodies are in snake_case. What is
reported is kept as samples; phases stay what EC2 and CML say (facts/upstream.md#worker-status and
#worker-reports).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

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
from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.interfaces.compute import Instance
from labfleet.resources import providers, spellings
from labfleet.resources.machine import MachineState
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.worker import Worker
from labfleet.service.core import intake, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import regions
from labfleet.service.verbs import adoption, worker_reports
from labfleet.service.verbs import lifecycle as verbs

STATES: Mapping[str, MachineState] = {
    **{each: each for each in get_args(MachineState) if each not in spellings.STATES.values()},
    **spellings.STATES,
}
"""Upstream's words for a machine's state, which are EC2's -> ours."""
INTERNAL = "/api/internal/workers"
ONE = f"{INTERNAL}/{{id_:str}}"
IMPORT_BYTES = 16 * 2**20
IMPORT_VALUES = 250_000
"""As many instances as a scan may find, with names and tags."""


def routes(services: ServiceContext) -> Routes:
    """Return all of them; bodies are those of programs that are not ours, so not `exact`."""
    made = Routes("seeds")
    _fleet(made, services)
    _reports(made, services)
    _orders(made, services)
    return made


def _fleet(made: Routes, services: ServiceContext) -> None:
    @made.post(
        f"{INTERNAL}/bulk-import", "Import discovered instances",
        needs=("create", "Worker"), exact=False, limit=IMPORT_BYTES, values=IMPORT_VALUES,
    )  # fmt: skip
    async def bulk_import(who: Caller, sent: BulkImportBody) -> BulkImportReply:
        """Make a worker, only observed, of each instance that has no owner."""
        done = await adoption.bulk_import(
            services,
            who,
            [_instance(each) for each in sent.discovered_instances],
            region=sent.aws_region,
            source=sent.source or "internal route",
        )
        why = "it carries an installation's owner tag"
        gone = "its worker was deleted by a person: adopt it to have it back"
        return BulkImportReply(
            total_found=done.total_found,
            total_imported=len(done.names),
            imported=done.names,
            skipped=dict.fromkeys(done.foreign, why) | dict.fromkeys(done.ignored, gone),
        )

    @made.post(
        f"{INTERNAL}/scale-up", "Make one worker of a template",
        needs=("create", "Worker"), exact=False, status=201,
    )  # fmt: skip
    async def internal_scale_up(who: Caller, sent: ScaleUpBody) -> Worker:
        """Make one worker of a template, outside every pool."""
        home, why = DEFAULT_NAMESPACE, sent.reason
        return await worker_reports.scale_up(services, who, sent.template, home, reason=why)

    @made.post(
        f"{INTERNAL}/cleanup", "Remove records of ended workers",
        needs=("cleanup", "Worker"), exact=False,
    )  # fmt: skip
    async def internal_cleanup(who: Caller, sent: CleanupBody) -> CleanupReply:
        """Remove the records of workers that ended long ago; nothing that runs is touched."""
        gone = await worker_reports.cleanup(
            services, who, retention_days=sent.retention_days, dry_run=sent.dry_run
        )
        return CleanupReply(removed=gone, dry_run=sent.dry_run)

    @made.get("/api/internal/discovery", "What discovery does and did", needs=("read", "Region"))
    async def discovery_summary(who: Caller) -> regions.DiscoverySummary:
        """Return settings, results and errors of discovery, region by region."""
        await services.fresh()
        return regions.discovery(services, who)


def _reports(made: Routes, services: ServiceContext) -> None:
    needs = ("record", "Worker")

    @made.post(
        f"{ONE}/status", "Report a worker's state; answers with ours", needs=needs, exact=False
    )
    async def report_status(
        who: Caller, id_: Id, sent: StatusBody, namespace: Namespace = "default"
    ) -> StatusReply:
        """Answer with the state as Labfleet has seen it; the report changes nothing."""
        worker = await worker_reports.status(services, who, id_, namespace, sent.status)
        return status_reply(worker, reported=sent.status.lower())

    @made.post(f"{ONE}/metrics", "Report a worker's numbers", needs=needs, exact=False)
    async def report_metrics(
        who: Caller,
        id_: Id,
        sent: worker_reports.MetricsReport,
        namespace: Namespace = "default",
    ) -> StatusReply:
        """Keep numbers of EC2 and CML that another program measured as a sample of the worker."""
        return status_reply(await worker_reports.metrics(services, who, id_, namespace, sent))

    @made.post(f"{ONE}/cml-data", "Report what CML said", needs=needs, exact=False)
    async def report_cml_data(
        who: Caller,
        id_: Id,
        sent: worker_reports.CmlDataReport,
        namespace: Namespace = "default",
    ) -> StatusReply:
        """Keep what another program read of CML as a sample of the worker."""
        return status_reply(await worker_reports.cml_data(services, who, id_, namespace, sent))

    @made.post(f"{ONE}/ec2-details", "Report addresses; EC2 is asked", needs=needs)
    async def report_ec2_details(
        who: Caller, id_: Id, sent: dict[str, Any], namespace: Namespace = "default"
    ) -> StatusReply:
        """Answer with the state; addresses are read from EC2, never taken from a report."""
        # Addresses belong to a boot and are read from EC2; those in the report are not used.
        del sent
        worker = await worker_reports.status(services, who, id_, namespace, "unknown")
        return status_reply(worker)


def _orders(made: Routes, services: ServiceContext) -> None:
    @made.post(
        f"{ONE}/drain", "Empty a running worker and stop it",
        needs=("drain", "Worker"), exact=False,
    )  # fmt: skip
    async def internal_drain(
        who: Caller, id_: Id, sent: WhyBody, namespace: Namespace = "default"
    ) -> StatusReply:
        """Let a running worker's sessions end, then stop it; 409 unless it runs."""
        told = f"{sent.reason} ({sent.requested_by})" if sent.requested_by else sent.reason
        worker = await worker_reports.drain_and_stop(services, who, id_, namespace, reason=told)
        return status_reply(worker)

    @made.post(f"{ONE}/terminate", "Ask for a worker's end", needs=("drain", "Worker"), exact=False)
    async def internal_terminate(
        who: Caller, id_: Id, sent: WhyBody, namespace: Namespace = "default"
    ) -> StatusReply:
        """Empty the worker and end its machine."""
        del sent
        return status_reply(await verbs.desire(services, who, id_, namespace, desired="Terminated"))

    @made.post(
        f"{ONE}/mark-terminated", "Answer whether EC2 has ended it",
        needs=("drain", "Worker"), exact=False,
    )  # fmt: skip
    async def internal_mark_terminated(
        who: Caller, id_: Id, sent: WhyBody, namespace: Namespace = "default"
    ) -> StatusReply:
        """Say whether EC2 has ended the machine; 409 until it has."""
        del sent
        return status_reply(await worker_reports.mark_terminated(services, who, id_, namespace))

    @made.post(
        f"{ONE}/recalculate-capacity", "What a worker has, and what is promised of it",
        needs=("read", "Worker"),
    )  # fmt: skip
    async def internal_capacity(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> CapacityReply:
        """Return what the worker has and what of it is reserved, computed now."""
        await services.fresh()
        worker = await lookup.found(services, who, Worker, id_, namespace)
        return capacity_reply(services, worker)


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
