"""Rules of workers that we did not launch: unique by instance or address, and allowed states.

An observed worker cannot be stopped or terminated, and deleting its record leaves the machine
alone; discovery ignores the machine from then on. An external server is never stopped.
"""

from __future__ import annotations

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel import ids
from labfleet.resources import providers, region
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.resources.region import IGNORED_KEPT, RegionStatus
from labfleet.resources.worker import Origin, Worker, WorkerPhase
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, region_rules
from labfleet.service.kinds.admitted import Admitted, with_spec, with_status


def row_of(origin: Origin) -> str:
    """Return the ledger row that makes workers of one origin unique."""
    if origin.kind == "imported":
        return ledger_rows.of(region.ref(origin.region or "").key)
    server = ids.digest(indices.server_of(origin.url))
    return ledger_rows.row("url", server, DEFAULT_NAMESPACE)  # servers are the whole fleet's


def twin(services: ServiceContext, origin: Origin) -> Worker | None:
    """Return the worker that has this instance or address already, as the cache shows it."""
    if origin.kind == "imported":
        found = services.cache.by(indices.WORKERS_OF_INSTANCE, origin.instance_id or "")
    else:
        found = services.cache.by(indices.WORKERS_OF_SERVER, indices.server_of(origin.url))
    return next((each for each in found if each.status.phase is not WorkerPhase.TERMINATED), None)


def filled(new: Worker, origin: Origin) -> Worker:
    """Return the worker with the region or address of its origin set in its machine."""
    machine = new.spec.machine
    if machine is None:
        return new
    if origin.kind == "imported" and origin.region:
        settings = providers.moved(machine.provider, origin.region)
        machine = msgspec.structs.replace(machine, provider=settings)
    if origin.kind == "external":
        # No machine of any provider's is launched, so a template's settings for one are none of its.
        machine = msgspec.structs.replace(machine, provider=providers.ELSEWHERE)
    if origin.url is not None:
        cml = msgspec.structs.replace(machine.cml, api_base_url=origin.url)
        machine = msgspec.structs.replace(machine, cml=cml)
    return with_spec(new, machine=machine)


async def create(services: ServiceContext, admitted: Admitted) -> Admitted:
    """Check an origin; the commit fails if another worker takes the same instance or address."""
    new = admitted.obj
    assert isinstance(new, Worker)  # noqa: S101 - the caller's rule is for workers
    origin = new.spec.origin
    if origin is None:
        return admitted
    _check(new, origin)
    revision = await services.fresh()
    known = twin(services, origin)
    if known is not None:
        what = origin.instance_id or origin.url
        raise Refused(f"worker {known.name!r} is {what} already", reason="AlreadyExists")
    row = row_of(origin)
    conditions = (*admitted.preconditions, ledger_rows.untouched(row, revision))
    writes = (*admitted.writes, ledger_rows.touch(row))
    if origin.kind == "imported":
        new = with_status(new, machine=MachineStatus(id=origin.instance_id))
        taken = await region_rules.changed(services, origin.region or "", _unignore(origin))
        conditions, writes = (*conditions, *taken[0]), (*writes, *taken[1])
    return Admitted(new, conditions, writes)


async def delete_worker(services: ServiceContext, caller: Caller, old: Worker) -> Admitted:
    """Leave the machine of an observed worker alone, record that, and never import it again."""
    del caller
    origin = old.spec.origin
    if origin is None or not phases.observed(old):
        return Admitted(old)
    what = origin.instance_id or origin.url or "its server"
    told = f"{what} was only observed and is left alone"
    if origin.kind == "external":
        return Admitted(with_status(old, message=told), reason=told)
    space = old.key.argument.removeprefix(old.name)
    back = f"labfleet adopt {what}{space} --region {origin.region} --template NAME"
    told += f"; discovery ignores it: {back} takes it back"
    ignored = await region_rules.changed(services, origin.region or "", _ignore(origin))
    return Admitted(with_status(old, message=told), *ignored, reason=told)


def may_become(worker: Worker, desired: str) -> None:
    """Raise Refused when a worker of this origin cannot be stopped or ended by us."""
    origin = worker.spec.origin
    if origin is None or desired == "Ready":
        return
    if phases.observed(worker):
        what = (
            f"worker {worker.name!r} is only observed; first: labfleet adopt {worker.key.argument}"
        )
        raise Refused(what, reason="NotAdopted")
    if origin.kind == "external" and desired == "Stopped":
        what = f"worker {worker.name!r} is an external server: nothing here can stop or start it"
        raise Refused(what, reason="ExternalServer")


def _ignore(origin: Origin) -> region_rules.Change:
    def change(status: RegionStatus) -> RegionStatus:
        kept = [each for each in status.ignored if each != origin.instance_id]
        ignored = tuple([*kept, origin.instance_id or ""][-IGNORED_KEPT:])
        return msgspec.structs.replace(status, ignored=ignored)

    return change


def _unignore(origin: Origin) -> region_rules.Change:
    def change(status: RegionStatus) -> RegionStatus:
        kept = tuple(each for each in status.ignored if each != origin.instance_id)
        return msgspec.structs.replace(status, ignored=kept)

    return change


def _check(new: Worker, origin: Origin) -> None:
    if new.spec.pool is not None:
        raise intake.invalid(("spec.pool", "a pool only has workers that it launched"))
    if new.spec.desired != "Ready":
        raise intake.invalid(("spec.desired", "must be Ready for a server that is there already"))
    if origin.kind == "external":
        if not origin.url:
            raise intake.invalid(("spec.origin.url", "give the server's address"))
        if origin.instance_id is not None:
            what = "an external server has no instance; kind imported has"
            raise intake.invalid(("spec.origin.instanceId", what))
        return
    if not providers.knows(origin.instance_id or ""):
        what = f"give an instance id, for example {providers.examples('machine')}"
        raise intake.invalid(("spec.origin.instanceId", what))
    if not providers.serves(origin.region or ""):
        what = f"give the instance's region, for example {providers.examples('region')}"
        raise intake.invalid(("spec.origin.region", what))
