"""Reports of other programs on workers, and verbs on worker records, of the compatible API.

A report is evidence, not the truth: its numbers are kept as samples, while phase, addresses and
licences are only what we read from EC2 and CML. Unknown keys are ignored, because reports
come from programs of several versions (facts/upstream.md#worker-reports).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from labfleet.decisions import vitals
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel import errors
from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Metadata, Resource
from labfleet.resources.telemetry import ProviderPoint, Room, Sample, SystemStats
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec
from labfleet.service.core import access, intake, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, worker_allocation
from labfleet.service.kinds.admitted import referred
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import objects

PERIOD_SECONDS = 300
CLEANUP_LIMIT = 500
WORDS = frozenset({"shutting-down", "unknown"}) | {phases.coarse(each) for each in WorkerPhase}
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)] | None
# From 2**53 on JavaScript rounds; what no machine has is a fault of the program that reports it.
MOST = 2**53
Count = Annotated[float, msgspec.Meta(ge=0, lt=MOST)] | None


class Ec2Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """CloudWatch's numbers: percent, and bytes over the period.

    cpu_utilization: Use of the machine's CPUs in percent.
    network_in_bytes: Bytes that came in over the period.
    network_out_bytes: Bytes that went out over the period.
    """

    cpu_utilization: Percent = None
    network_in_bytes: Count = None
    network_out_bytes: Count = None


class CmlNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """CML's numbers, in the newer form (bytes) and the older form (percent).

    cpu_percent: Use of all CPUs in percent.
    cpu_count: CPUs of the server.
    memory_total: All memory in bytes.
    memory_used: Used memory in bytes.
    memory_free: Free memory in bytes.
    disk_total: All disk in bytes.
    disk_used: Used disk in bytes.
    disk_free: Free disk in bytes.
    memory_percent: Used memory in percent.
    disk_percent: Used disk in percent.
    uptime_seconds: Seconds since the server's start.
    """

    cpu_percent: Percent = None
    cpu_count: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    memory_total: Count = None
    memory_used: Count = None
    memory_free: Count = None
    disk_total: Count = None
    disk_used: Count = None
    disk_free: Count = None
    memory_percent: Percent = None
    disk_percent: Percent = None
    uptime_seconds: Count = None


class MetricsReport(msgspec.Struct, frozen=True, kw_only=True):
    """POST …/metrics.

    collected_at: When it was measured; null means now.
    ec2: CloudWatch's numbers.
    cml: CML's numbers.
    """

    collected_at: datetime | None = None
    ec2: Ec2Numbers | None = None
    cml: CmlNumbers | None = None


class CmlDataReport(msgspec.Struct, frozen=True, kw_only=True):
    """POST …/cml-data; `system_info` with upstream 003's keys; we read the rest ourselves.

    cml_version: CML's version.
    ready: Whether CML says that it is ready.
    system_info: Numbers under upstream 003's keys.
    uptime_seconds: Seconds since the server's start.
    labs_count: Labs that have a node.
    collected_at: When it was measured; null means now.
    """

    cml_version: str | None = None
    ready: bool | None = None
    system_info: dict[str, Any] | None = None
    uptime_seconds: Count = None
    labs_count: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    collected_at: datetime | None = None


async def metrics(
    services: ServiceContext, caller: Caller, name: str, namespace: str, report: MetricsReport
) -> Worker:
    """Keep a report's numbers as a sample; Gone when there is no such worker.

    Not where we have our own: recent CML samples, or CloudWatch's numbers if we query it.
    """
    worker = await _worker(services, caller, name, namespace)
    at = _instant(services, report.collected_at)
    numbers, ec2 = report.cml, report.ec2
    if numbers is not None:
        gaps = {}
        for part in ("memory", "disk"):
            percent = getattr(numbers, f"{part}_percent")
            if percent is not None and getattr(numbers, f"{part}_total") is None:
                gaps[f"stats.{part}"] = f"reported as {percent:g} percent only"
        stats = SystemStats(
            cpu_count=numbers.cpu_count,
            cpu_percent=numbers.cpu_percent,
            memory=_room(numbers.memory_total, numbers.memory_used, numbers.memory_free),
            disk=_room(numbers.disk_total, numbers.disk_used, numbers.disk_free),
        )
        uptime = None if numbers.uptime_seconds is None else int(numbers.uptime_seconds)
        _keep(
            services,
            Sample(
                worker=worker.name,
                namespace=worker.namespace,
                at=at,
                boot=vitals.REPORTED,
                uptime_seconds=uptime,
                stats=stats,
                gaps=gaps,
            ),
        )
    if ec2 is not None and not services.settings.now().monitoring.cloudwatch:
        services.samples.put_points(worker.key, (_point(at, ec2),))
    return worker


async def cml_data(
    services: ServiceContext, caller: Caller, name: str, namespace: str, report: CmlDataReport
) -> Worker:
    """Keep what a report says of a CML server as a sample."""
    worker = await _worker(services, caller, name, namespace)
    info = report.system_info or {}

    def number(key: str) -> int | None:
        value = info.get(key)
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        return int(value) if good and value < MOST else None  # type: ignore[operator, arg-type]

    stats = SystemStats(
        cpu_count=number("all_cpu_count"),
        cpu_percent=number("all_cpu_percent"),
        memory=_room(*(number(f"all_memory_{each}") for each in ("total", "used", "free"))),
        disk=_room(*(number(f"all_disk_{each}") for each in ("total", "used", "free"))),
        allocated_cpus=number("allocated_cpus"),
        total_nodes=number("total_nodes"),
        running_nodes=number("running_nodes"),
    )
    version = None if report.cml_version is None else report.cml_version[:100]
    _keep(
        services,
        Sample(
            worker=worker.name,
            namespace=worker.namespace,
            at=_instant(services, report.collected_at),
            boot=vitals.REPORTED,
            version=version,
            ready=report.ready,
            labs_count=report.labs_count,
            stats=stats if info else None,
        ),
    )
    return worker


def _keep(services: ServiceContext, sample: Sample) -> None:
    """Keep a report unless we have newer numbers of our own."""
    late = services.sample_life()
    known = services.samples.newest(sample.key)
    if vitals.replaces(sample, known, services.clock.now(), late):
        services.samples.put(sample)


async def status(
    services: ServiceContext, caller: Caller, name: str, namespace: str, word: str
) -> Worker:
    """Accept a reported worker state; the recorded one stays what EC2 and CML say."""
    if word.lower() not in WORDS:
        known = ", ".join(sorted(WORDS))
        raise intake.invalid(("status", f"is one of {known}"))
    return await _worker(services, caller, name, namespace)


async def drain_and_stop(
    services: ServiceContext, caller: Caller, name: str, namespace: str, *, reason: str
) -> Worker:
    """Empty a running worker and stop it (upstream's internal drain); Refused unless it runs."""
    worker = await lookup.found(services, caller, Worker, name, namespace)
    if worker.status.summary != "running":
        what = f"worker {worker.name!r} is {worker.status.summary}, not running"
        raise Refused(what, reason="NotRunning")
    drained = await verbs.drain(services, caller, worker.name, namespace, reason=reason)
    origin = worker.spec.origin
    if origin is not None and origin.kind == "external":
        return drained  # nothing here can stop it
    return await verbs.desire(services, caller, worker.name, namespace, desired="Stopped")


async def mark_terminated(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> Worker:
    """Return a terminated worker; Refused while EC2 does not report it as terminated."""
    worker = await lookup.found(services, caller, Worker, name, namespace)
    access.demand(caller.principal, "drain", "Worker")
    if worker.status.phase is WorkerPhase.TERMINATED:
        return worker
    what = (
        f"worker {worker.name!r} is {worker.status.phase}: it becomes TERMINATED when EC2 says "
        "that its instance ended; ask for that with terminate"
    )
    raise Refused(what, reason="NotTerminated")


async def scale_up(
    services: ServiceContext, caller: Caller, template: str, namespace: str, *, reason: str
) -> Worker:
    """Make one worker of a template, outside every pool."""
    access.demand(caller.principal, "create", "Worker")
    problem = intake.name_problem(template)
    if problem:
        raise intake.invalid(("template", problem))
    name = f"{template[:40].rstrip('-')}-{services.ids.uid()[:8]}"
    made = Worker(
        metadata=Metadata(name=name, namespace=namespace), spec=WorkerSpec(template=template)
    )
    told = f"ScaleUp: {reason[:200]}" if reason else "ScaleUp"
    return await objects.add(services, caller, made, reason=told)


def capacity(services: ServiceContext, worker: Worker) -> tuple[Amounts | None, Amounts]:
    """Return a worker's observed capacity, and the most that is reserved on it from now on."""
    return worker.status.capacity, _promised(services, worker)


def _promised(services: ServiceContext, worker: Worker) -> Amounts:
    return worker_allocation.of(services.cache, worker, services.clock.now()).reserved


async def cleanup(
    services: ServiceContext, caller: Caller, *, retention_days: int, dry_run: bool
) -> tuple[str, ...]:
    """Remove records of workers that ended longer ago; return their names (at most 500)."""
    access.demand(caller.principal, "cleanup", "Worker")
    await services.fresh()
    before = services.clock.now() - timedelta(days=retention_days)
    days = [day for day in services.cache.values(indices.WORKERS_ENDED) if day <= before.date()]
    ended = [each for day in days for each in services.cache.by(indices.WORKERS_ENDED, day)]
    old = [
        each
        for each in sorted(ended, key=lambda each: each.key)
        if each.status.phase_since is not None and each.status.phase_since < before
    ][:CLEANUP_LIMIT]
    if not dry_run:
        for each in old:
            await _remove(services, caller, each)
    return tuple(each.key.label for each in old)


def instance(services: ServiceContext, caller: Caller, region: str, instance_id: str) -> Worker:
    """Return the worker that has this instance; Gone when none has."""
    access.demand(caller.principal, "read", "Worker")
    for each in services.cache.by(indices.WORKERS_OF_INSTANCE, instance_id):
        machine = each.spec.machine
        there = machine is not None and machine.provider.region == region
        if there and each.status.machine.id == instance_id:
            return each
    raise errors.Gone(f"no worker has instance {instance_id[:80]!r} in {region[:80]!r}")


def of_region(services: ServiceContext, caller: Caller, region: str) -> list[Worker]:
    """Return the workers of one region that have not ended, by name."""
    access.demand(caller.principal, "read", "Worker")
    return [
        each
        for each in sorted(services.cache.by(indices.WORKERS_LIVING, True), key=_name)
        if each.spec.machine is not None and each.spec.machine.provider.region == region
    ]


async def there(
    services: ServiceContext, caller: Caller, region: str, name: str, namespace: str
) -> Worker:
    """Return a worker of a region; Gone when it is in another one."""
    access.demand(caller.principal, "read", "Worker")
    found = await lookup.found(services, caller, Worker, name, namespace)
    if found.spec.machine is None or found.spec.machine.provider.region != region:
        raise errors.Gone(f"worker {name[:80]!r} does not exist in {region[:80]!r}")
    return found


async def in_region(services: ServiceContext, template: str, namespace: str, region: str) -> None:
    """Raise Invalid when a template makes its workers in another region."""
    made = await referred(services, Template, template, namespace, "template")
    if made.spec.machine.provider.region != region:
        what = f"template {template[:64]!r} makes workers in {made.spec.machine.provider.region}"
        raise intake.invalid(("template", what))


async def _remove(services: ServiceContext, caller: Caller, old: Resource) -> None:
    metadata = msgspec.structs.replace(
        old.metadata, deletion_timestamp=services.clock.now(), finalizers=()
    )
    gone = msgspec.structs.replace(old, metadata=metadata)
    try:
        await services.objects.save(gone, cause=services.cause(caller, "CleanedUp"))
    except errors.Conflict:
        return  # another writer was first


async def _worker(services: ServiceContext, caller: Caller, name: str, namespace: str) -> Worker:
    access.demand(caller.principal, "record", "Worker")
    return await lookup.found(services, caller, Worker, name, namespace)


def _instant(services: ServiceContext, told: datetime | None) -> datetime:
    """Return when it was measured: within the last day; time without a zone is UTC.

    Invalid when it lies in the future by more than clocks differ.
    """
    now = services.clock.now()
    if told is None:
        return now
    at = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    intake.not_ahead("collected_at", at, now)
    return max(min(at, now), now - timedelta(days=1))


def _room(total: float | None, used: float | None, free: float | None) -> Room:
    whole = [None if each is None else int(each) for each in (total, used, free)]
    return Room(total=whole[0], used=whole[1], free=whole[2])


def _point(at: datetime, ec2: Ec2Numbers) -> ProviderPoint:
    def rate(told: float | None) -> float | None:
        return None if told is None else told / PERIOD_SECONDS

    return ProviderPoint(
        at=at - timedelta(seconds=PERIOD_SECONDS),
        seconds=PERIOD_SECONDS,
        cpu_percent=ec2.cpu_utilization,
        network_in_bytes_per_second=rate(ec2.network_in_bytes),
        network_out_bytes_per_second=rate(ec2.network_out_bytes),
    )


def _name(worker: Worker) -> str:
    return worker.name


def word(worker: Worker) -> str:
    """Return upstream 002's word for a worker's state."""
    return worker.status.summary or phases.coarse(worker.status.phase)
