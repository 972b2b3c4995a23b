"""Import what discovery found, and adopt a server so that it is managed from then on.

The controller and the internal route use the same functions. Importing makes observed workers;
adopting permits us to stop and terminate a machine, and the worker controller then puts our
owner tags on it (facts/upstream.md#discovery-settings and #orphans, facts/aws.md#ownership).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from labfleet.decisions import discovery
from labfleet.decisions.lifecycle.worker import phases
from labfleet.interfaces import store as stores
from labfleet.interfaces.compute import Instance
from labfleet.kernel import ids
from labfleet.kernel.clock import format_instant
from labfleet.resources import providers
from labfleet.resources import region as regions
from labfleet.resources.machine import CmlSettings, Machine, MachineStatus, TlsSettings
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.template import Template
from labfleet.resources.worker import Origin, Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.core import access, intake, ledger_rows, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, retried
from labfleet.service.kinds import indices, machine_rules, origin_rules
from labfleet.service.kinds.admitted import referred
from labfleet.service.verbs import objects

BATCH = 100
FOUND_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of a scan: new workers' names, and the instances that were left alone."""

    total_found: int
    names: tuple[str, ...] = ()
    known: int = 0
    ours: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


async def bulk_import(
    services: ServiceContext,
    caller: Caller,
    found: Sequence[Instance],
    *,
    region: str,
    source: str,
    installation: str | None = None,
    fence: stores.Fence | None = None,
) -> Imported:
    """Make observed workers of instances without a worker; known ones stay as they are.

    Repeated or concurrent calls make each worker once. Invalid without a template.
    """
    access.demand(caller.principal, "create", "Worker")
    if len(found) > FOUND_LIMIT:
        raise intake.invalid(("discovered_instances", f"at most {FOUND_LIMIT}"))
    if not providers.serves(region):
        raise intake.invalid(("aws_region", "is not a region's name"))
    names: list[str] = []

    async def attempt() -> tuple[discovery.Sorted[Instance], bool]:
        revision = await services.fresh()
        kept = await services.objects.find(regions.ref(region))
        groups = discovery.sort(
            found,
            known=_known(services, found),
            ignored=() if kept is None else kept.status.ignored,
            installation=installation,
        )
        if not groups.fresh:
            return groups, False
        template = await _template(services)
        batch = groups.fresh[:BATCH]
        made = _workers(services, template, batch, region, source)
        row = ledger_rows.of(regions.ref(region).key)
        await services.objects.save(
            *made,
            cause=services.cause(caller, "Imported"),
            preconditions=(ledger_rows.untouched(row, revision),),
            writes=(ledger_rows.touch(row),),
            fence=fence,
        )
        names.extend(each.name for each in made)
        return groups, len(groups.fresh) > BATCH

    groups, more = await retried(attempt)
    first = groups
    while more:
        groups, more = await retried(attempt)
    return Imported(
        total_found=len(found),
        names=tuple(names),
        known=len(first.known),
        ours=tuple(each.id for each in first.ours),
        foreign=tuple(each.id for each in first.foreign),
        ignored=tuple(each.id for each in first.ignored),
    )


async def adopt(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    template: str | None = None,
    login: CmlSettings | None = None,
) -> Worker:
    """Make an observed worker a managed one; one that is managed stays as it is.

    A given template or login replaces the worker's. Refused when we launched the machine
    ourselves. After the provider refused our owner tags, calling it again makes another try.
    """
    _person(caller)

    async def attempt() -> Worker:
        old = await lookup.found(services, caller, Worker, name, namespace)
        origin = old.spec.origin
        if origin is None:
            raise Refused(f"worker {name!r} was launched by us; it is ours", reason="NotImported")
        if old.status.phase is WorkerPhase.TERMINATED:
            raise Refused(f"worker {name!r} has ended", reason="WorkerEnding")
        if old.deleting:
            raise Refused(f"worker {name!r} is being deleted", reason="WorkerEnding")
        if not phases.observed(old) and template is None and login is None:
            return old
        at = format_instant(services.clock.now(), "seconds")
        told = f"adopted by {caller.principal.name} at {at}"
        spec = msgspec.structs.replace(
            old.spec, origin=msgspec.structs.replace(origin, managed=True, source=told)
        )
        if template is not None:
            made = await _named(services, template, namespace)
            spec = msgspec.structs.replace(spec, template=made.name, machine=made.spec.machine)
        if login is not None and spec.machine is not None:
            spec = msgspec.structs.replace(spec, machine=_logged_in(spec.machine, login))
        metadata = msgspec.structs.replace(old.metadata, generation=old.metadata.generation + 1)
        new = origin_rules.filled(
            msgspec.structs.replace(old, metadata=metadata, spec=spec), origin
        )
        _, stored = await services.objects.save(new, cause=services.cause(caller, "Adopted"))
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


async def adopt_instance(
    services: ServiceContext,
    caller: Caller,
    instance_id: str,
    *,
    region: str,
    template: str | None,
    name: str | None = None,
    namespace: str,
) -> Worker:
    """Adopt an instance by its id, whether a worker has it already or not.

    Without a template a worker that is there keeps its own, and a new one gets that of the
    settings, in its namespace.
    """
    _person(caller)
    origin = Origin(
        kind="imported",
        instance_id=instance_id,
        region=region,
        managed=True,
        source=f"adopted by {caller.principal.name}",
    )
    await services.fresh()
    known = origin_rules.twin(services, origin)
    if known is not None:
        there = None if known.spec.machine is None else known.spec.machine.provider.region
        if there not in {None, region}:
            raise Refused(f"worker {known.name!r} has it, in {there}", reason="AlreadyExists")
        return await adopt(
            services, caller, known.name, known.metadata.namespace, template=template
        )
    if template is None:
        chosen_template = await _template(services)
        template, namespace = chosen_template.name, chosen_template.namespace
    taken = services.cache.names(Worker, namespace)
    chosen = name or discovery.worker_name(instance_id, None, taken)
    spec = WorkerSpec(template=template, origin=origin)
    return await _add(services, caller, chosen, namespace, spec)


async def adopt_server(
    services: ServiceContext,
    caller: Caller,
    url: str,
    *,
    template: str | None = None,
    username: str = "admin",
    password: SecretRef | None = None,
    fingerprint: str | None = None,
    name: str | None = None,
    namespace: str,
) -> Worker:
    """Adopt a CML server at an address; it needs a template, or a login of its own."""
    _person(caller)
    plain = url.rstrip("/")
    problem = machine_rules.url_problem(plain)
    if problem is not None:
        raise intake.invalid(("url", problem), reason="UnsafeUrl")
    origin = Origin(
        kind="external",
        url=plain,
        managed=True,
        source=f"adopted by {caller.principal.name}",
    )
    await services.fresh()
    known = origin_rules.twin(services, origin)
    if template is not None and password is not None:
        raise intake.invalid(("template", "give a template, or username and password, not both"))
    login = None
    if password is not None:
        tls = TlsSettings(fingerprint=fingerprint)
        login = CmlSettings(admin_username=username, admin_password=password, tls=tls)
    if known is not None:
        space = known.metadata.namespace
        return await adopt(services, caller, known.name, space, template=template, login=login)
    if template is None and login is None:
        raise intake.invalid(("template", "give a template, or username and password"))
    machine = None if login is None else Machine(cml=login)
    spec = WorkerSpec(template=template, machine=machine, origin=origin)
    return await _add(
        services, caller, name or _name_of(services, plain, namespace), namespace, spec
    )


def _person(caller: Caller) -> None:
    """Allow adoption only to operators and admins: it sends a password of ours to an address.

    A service may only report and import what discovery found, with the template of the settings.
    """
    access.demand(caller.principal, "update", "Worker")


def _logged_in(machine: Machine, login: CmlSettings) -> Machine:
    """Return the machine with another login and certificate, otherwise unchanged."""
    cml = msgspec.structs.replace(
        machine.cml,
        admin_username=login.admin_username,
        admin_password=login.admin_password,
        tls=msgspec.structs.replace(machine.cml.tls, fingerprint=login.tls.fingerprint),
    )
    return msgspec.structs.replace(machine, cml=cml)


def _name_of(services: ServiceContext, url: str, namespace: str) -> str:
    """Return a name from an address's host, with the port if the name is taken."""
    where = url.partition("://")[2].partition("/")[0]
    chosen = ids.slug(where.partition(":")[0] or url)
    return ids.slug(where) if chosen in services.cache.names(Worker, namespace) else chosen


async def _add(
    services: ServiceContext, caller: Caller, name: str, namespace: str, spec: WorkerSpec
) -> Worker:
    access.demand(caller.principal, "create", "Worker")
    problem = intake.name_problem(name)
    if problem:
        raise intake.invalid(("name", problem))
    made = Worker(metadata=Metadata(name=name, namespace=namespace), spec=spec)
    return await objects.add(services, caller, made, reason="Adopted")


def _known(services: ServiceContext, found: Sequence[Instance]) -> set[str]:
    """Return the ids of those instances that some worker has, also one that ended."""
    count = services.cache.count
    return {each.id for each in found if count(indices.WORKERS_OF_INSTANCE, each.id)}


def _workers(
    services: ServiceContext,
    template: Template,
    batch: Sequence[Instance],
    region: str,
    source: str,
) -> list[Worker]:
    taken = services.cache.names(Worker, template.namespace)
    names = discovery.names_for(((each.id, each.tags.get("Name")) for each in batch), taken)
    now = services.clock.now()
    made = []
    for each in batch:
        origin = Origin(kind="imported", instance_id=each.id, region=region, source=source[:200])
        worker = Worker(
            metadata=Metadata(
                name=names[each.id],
                namespace=template.namespace,
                uid=services.ids.uid(),
                generation=1,
                creation_timestamp=now,
            ),
            spec=WorkerSpec(template=template.name, machine=template.spec.machine, origin=origin),
            status=WorkerStatus(phase_since=now, machine=MachineStatus(id=each.id)),
        )
        made.append(origin_rules.filled(worker, origin))
    return made


async def _template(services: ServiceContext) -> Template:
    wanted = services.settings.now().discovery
    if wanted.template is None:
        what = "name the template whose CML access imported workers get"
        raise intake.invalid(("settings.discovery.template", what), reason="NoTemplate")
    return await _named(services, wanted.template, wanted.namespace)


async def _named(services: ServiceContext, name: str, namespace: str) -> Template:
    return await referred(services, Template, name, namespace, "template")
