"""Rules of templates, pools and workers, and of clusters and simulations."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors, quantity
from labfleet.kernel.clock import utc_text
from labfleet.resources import meta, providers
from labfleet.resources.cluster import Cluster
from labfleet.resources.machine import Machine, plain_fingerprint
from labfleet.resources.pool import FINALIZER_WORKERS, PAUSED_MARK, Pool, PoolPhase
from labfleet.resources.prices import MOST_USD
from labfleet.resources.simulation import OPEN, Simulation, SimulationPhase
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, origin_rules, pool_claims, pool_zones
from labfleet.service.kinds.admitted import Admitted, referred, with_spec, with_status

_NUMERIC = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$", re.IGNORECASE)
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata", "instance-data"})
_METADATA_ADDRESSES = frozenset({ipaddress.ip_address("fd00:ec2::254")})
_POOL_ENDING = frozenset({PoolPhase.DRAINING, PoolPhase.TERMINATING, PoolPhase.TERMINATED})


async def create_worker(services: ServiceContext, caller: Caller, new: Worker) -> Admitted:
    """Fill the machine from the template and join the pool, unless that is being deleted."""
    await services.fresh()
    spec, space = new.spec, new.metadata.namespace
    conditions: list[stores.Precondition] = []
    if spec.drain is not None:
        raise intake.invalid(("spec.drain", "a worker is drained by the verb drain"))
    _by_verbs(None, new)
    if caller.principal.role in TABLE[new.kind].counted and spec.origin is None:
        _few_enough(services, space)
    if spec.pool is not None:
        pool = await _open_pool(services, spec.pool, space)
        if spec.track not in {"default", pool.spec.track}:
            what = f"pool {pool.name!r} serves track {pool.spec.track!r}"
            raise intake.invalid(("spec.track", what))
        conditions.append(stores.AtRevision(pool.key, pool.revision))
        new = with_spec(new, track=pool.spec.track, template=spec.template or pool.spec.template)
    if new.spec.machine is None:
        if new.spec.template is None:
            what = "name a template, or give a machine"
            raise intake.invalid(("spec.template", what))
        template = await _open_template(services, new.spec.template, space)
        new = with_spec(new, machine=template.spec.machine)
    _tags(new)
    origin = new.spec.origin
    new = new if origin is None else origin_rules.filled(new, origin)
    assert new.spec.machine is not None  # noqa: S101 - filled just above, for the type checker
    _machine(new.spec.machine, "spec.machine", launched=origin is None)
    admitted = Admitted(with_status(new, phase_since=services.clock.now()), tuple(conditions))
    return admitted if origin is None else await origin_rules.create(services, admitted)


def _few_enough(services: ServiceContext, namespace: str) -> None:
    """Raise QuotaExceeded when a namespace has as many machines as controllers may bring it to.

    A controller is a program: one that scales up in a loop must not cost more than somebody chose.
    """
    most = services.settings.now().limits.controller_workers
    alone = services.cache.by(indices.WORKERS_SINGLE, namespace)
    count = sum(each.spec.origin is None for each in alone)
    if count >= most:
        message = (
            f"{namespace} has {quantity.count(count, 'launched worker')} outside pools, as many as "
            "controllers may bring it to (limits.controllerWorkers); end one, or ask an operator"
        )
        raise errors.QuotaExceeded(message, reason="TooManyWorkers", retry_after=60)


async def update_worker(
    services: ServiceContext, caller: Caller, old: Worker, new: Worker
) -> Admitted:
    """Require tags that the provider accepts and that are not ours, and a state its origin allows."""
    del services, caller
    if new.spec.drain is not None and new.spec.drain != old.spec.drain:
        raise intake.invalid(("spec.drain", "a worker is drained by the verb drain"))
    _by_verbs(old, new)
    if old.spec.desired == "Terminated" != new.spec.desired:
        raise Refused(f"worker {old.name!r} is being terminated", reason="WorkerEnding")
    if new.spec.desired != old.spec.desired:
        origin_rules.may_become(old, new.spec.desired)
    if new.spec.tags != old.spec.tags:
        _tags(new)
    return Admitted(new)


def _by_verbs(old: Worker | None, new: Worker) -> None:
    """Refuse by hand what only a verb sets: it carries who asked and when, and checks more."""
    before = (None, None) if old is None else (old.spec.licence, old.spec.console_asked)
    if new.spec.licence is not None and new.spec.licence != before[0]:
        raise intake.invalid(("spec.licence", "is set by the verbs of labfleet license"))
    if new.spec.console_asked is not None and new.spec.console_asked != before[1]:
        raise intake.invalid(("spec.consoleAsked", "is set by the verb console"))
    ordered = None if old is None else old.spec.lab_order
    if new.spec.lab_order != ordered:
        raise intake.invalid(("spec.labOrder", "is set by the verbs of labfleet lab"))
    ignored = () if old is None else old.spec.ignored_labs
    if new.spec.ignored_labs != ignored:
        raise intake.invalid(("spec.ignoredLabs", "is set by the verb ignore-lab"))


def _tags(worker: Worker) -> None:
    machine = worker.spec.machine
    rules = providers.PROVIDERS["aws"] if machine is None else providers.of(machine.provider)
    wrong = rules.tags(worker.spec.tags, "spec.tags")
    if wrong:
        raise intake.invalid(*wrong)


async def create_pool(services: ServiceContext, caller: Caller, new: Pool) -> Admitted:
    """Require an existing template and an implemented policy."""
    del caller
    await services.fresh()  # as in create_worker
    return await _pool(services, new)


async def update_pool(services: ServiceContext, caller: Caller, old: Pool, new: Pool) -> Admitted:
    """Require the same of a changed pool."""
    del caller
    if old.spec == new.spec:
        return Admitted(new)
    if old.spec.paused != new.spec.paused:
        # The mark says who paused it through the verb; a manifest may also set the switch.
        marks = {k: v for k, v in new.metadata.annotations.items() if k != PAUSED_MARK}
        new = _with_metadata(new, msgspec.structs.replace(new.metadata, annotations=marks))
    return await _pool(services, new)


async def delete_pool(services: ServiceContext, caller: Caller, old: Pool) -> Admitted:
    """Keep the pool until its controller has seen all its workers gone.

    Refused (PromisesOpen) while it holds places for slots that have not begun, unless it is being
    emptied already: then it was said whose promises that endangers.
    """
    del caller
    revision = await services.fresh()
    guard: tuple[stores.Precondition, ...] = ()
    if old.spec.desired == "Ready" and not old.deleting:
        _none_promised(services, old)
        guard = (ledger_rows.untouched(ledger_rows.claims(old.key), revision),)
    if any(_in(old, worker) for worker in services.cache.by(indices.WORKERS_OF_POOL, old.key.path)):
        metadata = meta.with_finalizer(old.metadata, FINALIZER_WORKERS)
        return Admitted(_with_metadata(old, metadata), guard)
    return Admitted(old, guard)


def _none_promised(services: ServiceContext, pool: Pool) -> None:
    """Raise Refused (PromisesOpen) when a pool holds places for slots that no worker hosts yet."""
    waiting = pool_claims.waiting(services.cache, pool)
    if waiting:
        last = max(each.end for each in waiting)
        raise Refused(
            f"pool {pool.name!r} has promised a place to {quantity.count(len(waiting), 'session')}, "
            f"the last until {utc_text(last)}: cancel or move them, or set spec.desired to "
            "Terminated, which says whose promises that endangers, and delete it then",
            reason="PromisesOpen",
        )


async def create_template(services: ServiceContext, caller: Caller, new: Template) -> Admitted:
    """Require a machine that can be reached safely."""
    del services, caller
    _machine(new.spec.machine, "spec.machine")
    return Admitted(new)


async def update_template(
    services: ServiceContext, caller: Caller, old: Template, new: Template
) -> Admitted:
    """Require the same of a changed template."""
    del old
    return await create_template(services, caller, new)


async def delete_template(services: ServiceContext, caller: Caller, old: Template) -> Admitted:
    """Refuse to delete a template that pools use."""
    del caller
    revision = await services.fresh()
    users = [pool.name for pool in services.cache.by(indices.POOLS_OF_TEMPLATE, old.key.path)]
    in_use(old.name, "template", "pools", users)
    return Admitted(old, (ledger_rows.untouched(ledger_rows.of(old.key), revision),))


async def delete_cluster(services: ServiceContext, caller: Caller, old: Cluster) -> Admitted:
    """Refuse to delete a cluster that approved simulations run on."""
    del caller
    revision = await services.fresh()
    users = [each.name for each in services.cache.by(indices.SIMULATIONS_HOLDING, old.key.path)]
    users += [each.name for each in services.cache.by(indices.SIMULATIONS_QUEUED, old.key.path)]
    in_use(old.name, "cluster", "simulations", users)
    return Admitted(old, (ledger_rows.untouched(ledger_rows.of(old.key), revision),))


async def delete_simulation(services: ServiceContext, caller: Caller, old: Simulation) -> Admitted:
    """Refuse to delete a simulation that holds capacity."""
    del services, caller
    if old.status.phase in OPEN:
        what = "waits" if old.status.phase is SimulationPhase.QUEUED else "holds capacity"
        message = f"simulation {old.name!r} {what}; end it first (labfleet cancel)"
        raise Refused(message, reason="InUse")
    return Admitted(old)


def in_use(name: str, what: str, by: str, users: list[str]) -> None:
    """Raise Refused (reason InUse) when there are users, naming the first few."""
    if users:
        shown = ", ".join(users[:5]) + (", …" if len(users) > 5 else "")
        count = by.removesuffix("s") if len(users) == 1 else by
        message = f"{what} {name!r} is used by {len(users)} {count}: {shown}"
        raise Refused(message, reason="InUse")


async def _pool(services: ServiceContext, new: Pool) -> Admitted:
    template = await _open_template(services, new.spec.template, new.metadata.namespace)
    wrong = tuple(pool_zones.unknown(new.spec.scaling))
    if wrong:
        raise intake.invalid(*wrong, reason="UnknownTimeZone")
    crossed = tuple(new.spec.scaling.thresholds.crossed())
    if crossed:
        raise intake.invalid(
            *((f"spec.scaling.thresholds.{field}", what) for field, what in crossed)
        )
    row = ledger_rows.of(template.key)
    return Admitted(
        new, (stores.AtRevision(template.key, template.revision),), (ledger_rows.touch(row),)
    )


async def _open_pool(services: ServiceContext, name: str, namespace: str) -> Pool:
    pool = await referred(services, Pool, name, namespace, "spec.pool")
    if pool.spec.desired != "Ready" or pool.status.phase in _POOL_ENDING:
        what = f"pool {name!r} is being emptied and takes no new workers"
        raise intake.invalid(("spec.pool", what), reason="PoolTerminating")
    return pool


async def _open_template(services: ServiceContext, name: str, namespace: str) -> Template:
    template = await referred(services, Template, name, namespace, "spec.template")
    if not template.spec.enabled:
        what = f"template {name!r} is disabled"
        raise intake.invalid(("spec.template", what), reason="TemplateDisabled")
    return template


def _machine(machine: Machine, where: str, *, launched: bool = True) -> None:
    settings, url = machine.provider, machine.cml.api_base_url
    wrong = providers.of(settings).problems(settings) if launched else ()
    if wrong:
        inside = f"{where}.provider"
        raise intake.invalid(
            *((f"{inside}.{field}" if field else inside, what) for field, what in wrong)
        )
    if machine.hourly_price_usd > MOST_USD:
        told = f"must be at most {MOST_USD:,.0f}"
        raise intake.invalid((f"{where}.hourlyPriceUsd", told))
    pinned = machine.cml.tls.fingerprint
    if pinned is not None and plain_fingerprint(pinned) is None:
        told = "not a SHA-256: 64 hex digits are wanted, with or without colons"
        raise intake.invalid((f"{where}.cml.tls.fingerprint", told))
    if url is not None:
        problem = url_problem(url)
        if problem is not None:
            raise intake.invalid((f"{where}.cml.apiBaseUrl", problem), reason="UnsafeUrl")


def url_problem(url: str) -> str | None:
    """Return why a server's address is refused (facts/fleet-bugs.md#t45: metadata services)."""
    if not url.isprintable() or " " in url:
        return "must not hold spaces or control characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError:
        return "not a URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "must be http:// or https:// with a host"
    problem = intake.host_problem(host)
    if problem is not None:
        return problem
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; use adminPassword"
    if parts.query or parts.fragment or port == 0:
        return "must be a plain address, for example https://cml-1.example.com:8443"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host.rstrip(".").lower() in _METADATA_NAMES:
            return f"{host} is not the address of a CML server"
        # Resolvers treat a host that ends in a number as an IPv4 address, in any notation.
        if _NUMERIC.search(host):
            return "write an IPv4 address as four decimal numbers"
        return None
    if address in _METADATA_ADDRESSES:
        return f"{host} is not the address of a CML server"
    mapped = getattr(address, "ipv4_mapped", None)
    judged = address if mapped is None else mapped
    if judged.is_link_local or judged.is_multicast or judged.is_unspecified:
        return f"{host} is not the address of a CML server"
    return None


def _in(pool: Pool, worker: Worker) -> bool:
    return (
        worker.namespace == pool.namespace
        and worker.spec.pool == pool.name
        and worker.status.phase is not WorkerPhase.TERMINATED
    )


def _with_metadata(pool: Pool, metadata: meta.Metadata) -> Pool:
    return Pool(metadata=metadata, spec=pool.spec, status=pool.status)
