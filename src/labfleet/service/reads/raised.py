"""Which alerts are raised in the fleet now: the one source of API, CLI, page, metrics and log.

Rows come from `resources`: of workers, of other kinds, of the server itself. Here they are put
together, with the newest number that this process knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from labfleet.decisions import clock_trust, vitals
from labfleet.kernel.quantity import count
from labfleet.resources import alerts, fleet_alerts, kinds, server_alerts
from labfleet.resources.alerts import Raised
from labfleet.resources.conditions import Measured
from labfleet.resources.leak import Leak
from labfleet.resources.meta import DEFAULT_NAMESPACE, Resource
from labfleet.resources.providers.trouble import CAUSES
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices

MEASURED_BY: dict[str, str] = {
    WorkerCondition.CPU_HIGH: "cpu",
    WorkerCondition.MEMORY_HIGH: "memory",
    WorkerCondition.DISK_ALMOST_FULL: "disk",
}
"""Condition -> the number of `decisions.vitals` that raises it and goes on moving."""


def standing(services: ServiceContext) -> tuple[Raised, ...]:
    """Return every raised alert, the gravest first.

    A leaked licence is listed once: by its Leak, which stays when the worker is gone. A provider
    that does not answer is one alert of its region, however many workers wait for it.
    """
    found = [
        row
        for kind in fleet_alerts.kinds()
        for each in services.cache.all(kinds.KINDS[kind].type)
        for row in fleet_alerts.raised(each)
    ]
    found += of_server(services)
    leaked = {
        each.spec.worker_uid or f"{each.namespace}/{each.spec.worker}"
        for each in services.cache.all(Leak)
    }
    for each in services.cache.by(indices.WORKERS_RAISED, True):
        found += (
            row
            for row in of_worker(services, each)
            if row.condition != fleet_alerts.LEAKED
            or not leaked.intersection({each.metadata.uid, each.key.path})
        )
    return tuple(sorted(_by_region(services, found), key=alerts.gravity))


def _by_region(services: ServiceContext, found: Iterable[Raised]) -> Iterable[Raised]:
    """Yield the rows, those of one region's provider as one."""
    regions: dict[str, list[Raised]] = {}
    for row in found:
        if row.condition != WorkerCondition.PROVIDER_ANSWERS:
            yield row
            continue
        place = row.object
        if row.worker is not None:
            worker = services.cache.get(Worker, row.worker, row.namespace)
            machine = None if worker is None else worker.spec.machine
            place = place if machine is None else f"region/{machine.provider.region}"
        regions.setdefault(place, []).append(row)
    for place, rows in regions.items():
        first = min(rows, key=_since)
        waits = sum(each.worker is not None for each in rows)
        told = (
            f"{first.message}; {count(waits, 'worker')} {'waits' if waits == 1 else 'wait'} for it"
            if waits
            else first.message
        )
        cause, fix = CAUSES.get(first.reason, (first.cause, first.fix))
        yield msgspec.structs.replace(
            first, object=place, namespace=DEFAULT_NAMESPACE, worker=None, message=told,
            cause=cause, fix=fix, command=f"labfleet explain {place}; labfleet get workers",
        )  # fmt: skip


def _since(row: Raised) -> datetime:
    return row.since


def of(services: ServiceContext, obj: Resource) -> tuple[Raised, ...]:
    """Return an object's raised alerts, the gravest first."""
    if isinstance(obj, Worker):
        return of_worker(services, obj)
    return fleet_alerts.raised(obj) if obj.kind in fleet_alerts.kinds() else ()


def of_worker(services: ServiceContext, worker: Worker) -> tuple[Raised, ...]:
    """Return a worker's raised alerts, with the newest number where this process has a fresh one."""
    found = alerts.raised(worker.key, worker.status.conditions)
    if not any(each.condition in MEASURED_BY for each in found):
        return found
    numbers = vitals.numbers(
        services.samples.newest(worker.key),
        services.samples.points(worker.key),
        services.clock.now(),
        late=services.sample_life(),
        missing="",
    )
    return tuple(_renewed(each, numbers) for each in found)


def _renewed(row: Raised, numbers: dict[str, vitals.Number]) -> Raised:
    number = numbers.get(MEASURED_BY.get(row.condition, ""))
    if row.measured is None or number is None or number.value is None or not number.fresh:
        return row
    measured = msgspec.structs.replace(row.measured, value=round(number.value, 1), at=number.at)
    return msgspec.structs.replace(row, measured=measured)


def of_server(services: ServiceContext) -> tuple[Raised, ...]:
    """Return the alerts of this server itself: of its store, its clock and the secretRefs."""
    return tuple(_of_server(services))


def _of_server(services: ServiceContext) -> Iterable[Raised]:
    health, trouble = services.health, None
    if health is not None:
        trouble = health.trouble
    if health is not None and trouble is not None:
        count = sum(health.refused_writes.values())
        writes = Measured(value=count, unit="refused writes") if count else None
        yield server_alerts.of_server(
            "store",
            server_alerts.STORE_CONDITIONS[trouble.state.value],
            since=trouble.since,
            reason=trouble.reason,
            message=trouble.words,
            measured=writes,
        )
    odd = None if services.clock_check is None else services.clock_check.trouble
    if odd is not None:
        apart = Measured(value=round(odd.apart), unit="seconds", limit=clock_trust.LIMIT_SECONDS)
        yield server_alerts.of_server(
            "clock", odd.reason, since=odd.since, reason="ClocksDiffer", message=odd.words,
            measured=apart,
        )  # fmt: skip
    check = services.secrets_check
    if check is not None and check.since is not None:
        first = check.refused[0].key
        yield server_alerts.of_server(
            "secrets",
            "SecretsNotAllowed",
            since=check.since,
            reason="SecretNotAllowed",
            message=check.words,
            measured=Measured(value=len(check.refused), unit="references"),
            about=f"{first.kind.lower()}/{first.argument}",
        )
