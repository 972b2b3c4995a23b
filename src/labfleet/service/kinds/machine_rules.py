"""Rules of what makes machines: templates, pools, workers, and of clusters."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import aws_limits, meta
from labfleet.resources.cluster import Cluster, Simulation, SimulationPhase
from labfleet.resources.machine import Machine
from labfleet.resources.pool import FINALIZER_WORKERS, Pool, PoolPhase, ScalingPolicy
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core import intake, ledger_rows
from labfleet.service.core.fleet_settings import PAUSED_MARK
from labfleet.service.core.parts import Caller, Parts, Refused
from labfleet.service.kinds import origin_rules
from labfleet.service.kinds.ruled import Ruled, referred, with_spec, with_status

BUILT_POLICIES = (ScalingPolicy.NONE, ScalingPolicy.NEED_BASED)
_NUMERIC = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$", re.IGNORECASE)
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata", "instance-data"})
_METADATA_ADDRESSES = frozenset({ipaddress.ip_address("fd00:ec2::254")})
_POOL_ENDING = frozenset({PoolPhase.DRAINING, PoolPhase.TERMINATING, PoolPhase.TERMINATED})


async def create_worker(parts: Parts, caller: Caller, new: Worker) -> Ruled:
    """Fill the machine from the template and join the pool, unless that is on its way out."""
    del caller
    await _only_one(parts, new)
    spec, space = new.spec, new.metadata.namespace
    conditions: list[stores.Precondition] = []
    if spec.drain is not None:
        raise intake.invalid(("spec.drain", "a worker is drained by the verb drain"))
    if spec.pool is not None:
        pool = await _open_pool(parts, spec.pool, space)
        if spec.track not in {"default", pool.spec.track}:
            what = f"pool {pool.name!r} serves track {pool.spec.track!r}"
            raise intake.invalid(("spec.track", what))
        conditions.append(stores.AtRevision(pool.key, pool.revision))
        new = with_spec(new, track=pool.spec.track, template=spec.template or pool.spec.template)
    if new.spec.machine is None:
        if new.spec.template is None:
            what = "name a template, or give a machine"
            raise intake.invalid(("spec.template", what))
        template = await _open_template(parts, new.spec.template, space)
        new = with_spec(new, machine=template.spec.machine)
    _tags(new)
    origin = new.spec.origin
    new = new if origin is None else origin_rules.filled(new, origin)
    assert new.spec.machine is not None  # noqa: S101 - filled just above, for the type checker
    _machine(new.spec.machine, "spec.machine", launched=origin is None)
    ruled = Ruled(with_status(new, phase_since=parts.clock.now()), tuple(conditions))
    return ruled if origin is None else await origin_rules.create(parts, ruled)


async def update_worker(parts: Parts, caller: Caller, old: Worker, new: Worker) -> Ruled:
    """Ask for tags that EC2 takes and that are not ours, and for what its origin can become."""
    del parts, caller
    if new.spec.drain is not None and new.spec.drain != old.spec.drain:
        raise intake.invalid(("spec.drain", "a worker is drained by the verb drain"))
    if old.spec.desired == "Terminated" != new.spec.desired:
        raise Refused(f"worker {old.name!r} is being terminated", reason="WorkerEnding")
    if new.spec.desired != old.spec.desired:
        origin_rules.may_become(old, new.spec.desired)
    if new.spec.tags != old.spec.tags:
        _tags(new)
    return Ruled(new)


async def _only_one(parts: Parts, new: Worker | Pool) -> None:
    """Refuse a name that another namespace has: measurements, ports and pools go by name."""
    await parts.fresh()
    for each in parts.cache.all(type(new)):
        there = each.metadata.namespace
        if each.name == new.name and there != new.metadata.namespace:
            what = f"a {new.kind.lower()} in namespace {there!r} has this name; it is the fleet's"
            raise intake.invalid(("metadata.name", what), reason="NameTaken")


def _tags(worker: Worker) -> None:
    wrong = aws_limits.tags(worker.spec.tags, "spec.tags")
    if wrong:
        raise intake.invalid(*wrong)


async def create_pool(parts: Parts, caller: Caller, new: Pool) -> Ruled:
    """Ask for a template that is there and a policy that is built."""
    del caller
    await _only_one(parts, new)
    return await _pool(parts, new)


async def update_pool(parts: Parts, caller: Caller, old: Pool, new: Pool) -> Ruled:
    """Ask the same of a changed pool."""
    del caller
    if old.spec == new.spec:
        return Ruled(new)
    if old.spec.paused != new.spec.paused:
        # The mark says who paused it; a manifest that turns the switch is another story.
        marks = {k: v for k, v in new.metadata.annotations.items() if k != PAUSED_MARK}
        new = _with_metadata(new, msgspec.structs.replace(new.metadata, annotations=marks))
    return await _pool(parts, new)


async def delete_pool(parts: Parts, caller: Caller, old: Pool) -> Ruled:
    """Hold the pool until its controller has seen its workers go."""
    del caller
    await parts.fresh()
    if any(_in(old, worker) for worker in parts.cache.all(Worker)):
        metadata = meta.with_finalizer(old.metadata, FINALIZER_WORKERS)
        return Ruled(_with_metadata(old, metadata))
    return Ruled(old)


async def create_template(parts: Parts, caller: Caller, new: Template) -> Ruled:
    """Ask for a machine that can be reached safely."""
    del parts, caller
    _machine(new.spec.machine, "spec.machine")
    return Ruled(new)


async def update_template(parts: Parts, caller: Caller, old: Template, new: Template) -> Ruled:
    """Ask the same of a changed template."""
    del old
    return await create_template(parts, caller, new)


async def delete_template(parts: Parts, caller: Caller, old: Template) -> Ruled:
    """Keep a template that pools make workers from."""
    del caller
    revision = await parts.fresh()
    users = [
        pool.name
        for pool in parts.cache.all(Pool)
        if pool.metadata.namespace == old.metadata.namespace and pool.spec.template == old.name
    ]
    in_use(old.name, "template", "pools", users)
    return Ruled(old, (ledger_rows.untouched(ledger_rows.of(old.key), revision),))


async def delete_cluster(parts: Parts, caller: Caller, old: Cluster) -> Ruled:
    """Keep a cluster that approved simulations run on."""
    del caller
    revision = await parts.fresh()
    users = [
        each.name
        for each in parts.cache.all(Simulation)
        if each.spec.cluster == old.name and each.status.phase is SimulationPhase.APPROVED
    ]
    in_use(old.name, "cluster", "approved simulations", users)
    return Ruled(old, (ledger_rows.untouched(ledger_rows.of(old.key), revision),))


async def delete_simulation(parts: Parts, caller: Caller, old: Simulation) -> Ruled:
    """Keep the record of a simulation that holds capacity."""
    del parts, caller
    if old.status.phase is SimulationPhase.APPROVED:
        message = f"simulation {old.name!r} holds capacity; report its end first"
        raise Refused(message, reason="InUse")
    return Ruled(old)


def in_use(name: str, what: str, by: str, users: list[str]) -> None:
    """Raise Refused (reason InUse) when there are users, naming the first few."""
    if users:
        shown = ", ".join(users[:5]) + (", …" if len(users) > 5 else "")
        count = by.removesuffix("s") if len(users) == 1 else by
        message = f"{what} {name!r} is used by {len(users)} {count}: {shown}"
        raise Refused(message, reason="InUse")


async def _pool(parts: Parts, new: Pool) -> Ruled:
    template = await _open_template(parts, new.spec.template, new.metadata.namespace)
    policy = new.spec.scaling.policy
    if policy not in BUILT_POLICIES:
        what = f"{policy} is not built yet; choose one of {', '.join(BUILT_POLICIES)}"
        raise intake.invalid(("spec.scaling.policy", what), reason="PolicyNotBuilt")
    row = ledger_rows.of(template.key)
    return Ruled(
        new, (stores.AtRevision(template.key, template.revision),), (ledger_rows.touch(row),)
    )


async def _open_pool(parts: Parts, name: str, namespace: str) -> Pool:
    pool = await referred(parts, Pool, name, namespace, "spec.pool")
    if pool.spec.desired != "Ready" or pool.status.phase in _POOL_ENDING:
        what = f"pool {name!r} is being emptied and takes no new workers"
        raise intake.invalid(("spec.pool", what), reason="PoolTerminating")
    return pool


async def _open_template(parts: Parts, name: str, namespace: str) -> Template:
    template = await referred(parts, Template, name, namespace, "spec.template")
    if not template.spec.enabled:
        what = f"template {name!r} is disabled"
        raise intake.invalid(("spec.template", what), reason="TemplateDisabled")
    return template


def _machine(machine: Machine, where: str, *, launched: bool = True) -> None:
    aws, url = machine.aws, machine.cml.api_base_url
    if launched and aws.ami_id is None and aws.ami_name_pattern is None:
        raise intake.invalid((f"{where}.aws", "give amiId or amiNamePattern"))
    wrong = aws_limits.problems(aws) if launched else ()
    if wrong:
        raise intake.invalid(*((f"{where}.aws.{field}", what) for field, what in wrong))
    if url is not None:
        problem = url_problem(url)
        if problem is not None:
            raise intake.invalid((f"{where}.cml.apiBaseUrl", problem), reason="UnsafeUrl")


def url_problem(url: str) -> str | None:
    """Return why a server's address is refused (ux.md T45: metadata services)."""
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
        # What ends in a number is an IPv4 address to resolvers, however it is written.
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
        worker.metadata.namespace == pool.metadata.namespace
        and worker.spec.pool == pool.name
        and worker.status.phase is not WorkerPhase.TERMINATED
    )


def _with_metadata(pool: Pool, metadata: meta.Metadata) -> Pool:
    return Pool(metadata=metadata, spec=pool.spec, status=pool.status)
