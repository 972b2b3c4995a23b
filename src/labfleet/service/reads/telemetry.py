"""Reading telemetry: the newest sample of a worker, how old it is, and why values are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import vitals
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.resources import alerts, fleet_alerts
from labfleet.resources.machine import ScheduledEvent
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.resources.worker import Allocation, Health, Worker, WorkerPhase
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, worker_allocation
from labfleet.service.reads.raised import standing

LISTED = 1000

NOT_TOLD = "the server does not tell"
"""Default reason of a null, such as for a flag that only later releases have."""

UNITS = {
    "cpuCount": "CPUs",
    "cpuPercent": "percent of the whole host, 0-100",
    "memory, disk, controllerDisk": "bytes",
    "allocatedCpus": "vCPUs of running nodes",
    "allocatedMemoryMib": "MiB",
    "uptimeSeconds": "seconds since the instance's launch",
    "load": "load averages over 1, 5 and 15 minutes",
}


class ProviderReading(Record, frozen=True, kw_only=True):
    """What EC2 and CloudWatch say of the machine; null is unknown.

    Checks: ok, impaired, insufficient-data, initializing, not-applicable.

    state: State of the machine.
    system_check: The provider's check of the host.
    instance_check: The provider's check of the machine.
    events: What the provider will do to it.
    points: CloudWatch's newest numbers, oldest first; none when it is switched off.
    """

    state: str | None = None
    system_check: str | None = None
    instance_check: str | None = None
    events: tuple[ScheduledEvent, ...] = ()
    points: tuple[ProviderPoint, ...] = ()


class Reading(Record, frozen=True, kw_only=True):
    """The newest numbers, each with source, age and freshness, and the newest sample whole.

    CML's numbers are preferred to CloudWatch's.

    worker: Name of the worker.
    fresh: Whether it was measured lately.
    at: When it was last measured.
    age_seconds: How long ago that is.
    reason: Why there is no sample; empty when there is one.
    health: How the server does as a whole.
    numbers: The chosen numbers by name.
    provider: What the provider says of the machine.
    unknown: Path of each null in the sample to why it is null.
    units: Path of each number in the sample to its unit.
    allocation: What is promised of its capacity.
    sample: The newest sample; null when there is none, or none that was renewed in time.
    """

    worker: str
    fresh: bool
    at: datetime | None = None
    age_seconds: float | None = None
    reason: str = ""
    health: Health = Health.UNKNOWN
    numbers: dict[str, vitals.Number] = {}
    provider: ProviderReading = ProviderReading()
    unknown: dict[str, str] = {}
    units: dict[str, str] = msgspec.field(default_factory=UNITS.copy)
    allocation: Allocation = Allocation()
    sample: Sample | None = None


class Vitals(Record, frozen=True, kw_only=True):
    """One worker in the list of all: its numbers and how many alerts of it are raised.

    worker: Name of the worker.
    namespace: Namespace of the worker.
    phase: Where it stands.
    health: How the server does as a whole.
    sessions: Sessions on it that have not ended.
    alerts: Raised alerts of it.
    numbers: Its numbers by name.
    allocation: What is promised of its capacity.
    """

    worker: str
    namespace: str = DEFAULT_NAMESPACE
    phase: WorkerPhase
    health: Health
    sessions: int
    alerts: tuple[str, ...] = ()
    numbers: dict[str, vitals.Number] = {}
    allocation: Allocation = Allocation()


async def newest(services: ServiceContext, caller: Caller, name: str, namespace: str) -> Reading:
    """Return a worker's newest numbers; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    return of(services, await lookup.found(services, caller, Worker, name, namespace))


def of(services: ServiceContext, worker: Worker) -> Reading:
    """Return the newest numbers of a worker, whichever process measured them."""
    sample, shown = services.samples.newest(worker.key), worker.status.machine
    numbers = numbers_of(services, worker)
    promised = worker_allocation.of(services.cache, worker, services.clock.now())
    provider = ProviderReading(
        state=shown.state,
        system_check=shown.host_check,
        instance_check=shown.machine_check,
        events=shown.events,
        points=tuple(services.samples.points(worker.key)),
    )
    if sample is None:
        return Reading(
            worker=worker.name,
            fresh=False,
            reason=_missing(worker),
            health=worker.status.health,
            numbers=numbers,
            provider=provider,
            allocation=promised,
        )
    age = max(services.clock.now() - sample.at, timedelta(0))
    fresh = age <= services.sample_life()
    return Reading(
        worker=worker.name,
        fresh=fresh,
        at=sample.at,
        age_seconds=round(age.total_seconds(), 1),
        reason="" if fresh else f"last measured {age.total_seconds():.0f} s ago",
        health=worker.status.health,
        numbers=numbers,
        provider=provider,
        allocation=promised,
        unknown=unknown(sample) if fresh else {},
        sample=sample if fresh else None,
    )


async def all_vitals(services: ServiceContext, caller: Caller) -> tuple[tuple[Vitals, ...], int]:
    """Return living workers' numbers, the busiest first.

    At most `LISTED`, and how many were left out.
    """
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    found = [
        Vitals(
            worker=each.name,
            namespace=each.namespace,
            phase=each.status.phase,
            health=each.status.health,
            sessions=_bound(services, each),
            alerts=tuple(row.condition for row in alerts.raised(each.key, each.status.conditions)),
            numbers=numbers_of(services, each),
            allocation=worker_allocation.of(services.cache, each, services.clock.now()),
        )
        for each in services.cache.by(indices.WORKERS_LIVING, True)
    ]
    return tuple(sorted(found, key=_busiest)[:LISTED]), max(0, len(found) - LISTED)


def _bound(services: ServiceContext, worker: Worker) -> int:
    here = services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    return sum(each.status.phase in session_phases.BOUND for each in here)


def _busiest(each: Vitals) -> tuple[float, str, str]:
    cpu = each.numbers["cpu"].value
    return (1.0 if cpu is None else -cpu), each.worker, each.namespace


def raised(services: ServiceContext, caller: Caller) -> tuple[tuple[alerts.Raised, ...], int]:
    """Return the raised alerts on all objects that the caller may read, the gravest first.

    Those of this server's store and clock come with them. At most `LISTED`, and how many were
    left out.
    """
    access.demand(caller.principal, "read", "Worker")
    readable = {each for each in fleet_alerts.kinds() if access.may(caller.principal, "read", each)}
    hidden = tuple(f"{each.lower()}/" for each in set(fleet_alerts.kinds()) - readable)
    found = [each for each in standing(services) if not each.object.startswith(hidden)]
    return tuple(found[:LISTED]), max(0, len(found) - LISTED)


def numbers_of(services: ServiceContext, worker: Worker) -> dict[str, vitals.Number]:
    """Return the worker's numbers, whichever process measured them."""
    return vitals.numbers(
        services.samples.newest(worker.key),
        services.samples.points(worker.key),
        services.clock.now(),
        late=services.sample_life(),
        missing=_missing(worker),
    )


def _missing(worker: Worker) -> str:
    return f"no sample: {worker.name} is {worker.status.phase}, and was not measured so far"


def unknown(sample: Sample) -> dict[str, str]:
    """Return the path of every null value with its reason, of the sample and its parts."""
    made = dict.fromkeys(_nulls(sample), NOT_TOLD) | sample.gaps
    for name in ("stats", "health", "licence"):
        part = getattr(sample, name)
        if part is not None:
            made |= {f"{name}.{path}": why for path, why in part.gaps.items()}
    return dict(sorted(made.items()))


def _nulls(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of each null in records and maps; some releases do not report a value."""
    if value is None:
        yield path
        return
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name != "gaps")
        parts = [(name, getattr(value, name)) for name in names]
    else:
        parts = list(value.items()) if isinstance(value, dict) else []
    for name, part in parts:
        yield from _nulls(part, f"{path}.{name}" if path else name)
