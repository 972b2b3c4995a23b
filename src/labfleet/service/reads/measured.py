"""The newest measured values of workers, labs, clusters and runs, as they are told while they change.

Ages are not told: who reads has the instant of each value, and the instant from which on it is
unknown, so that a value that stays the same is told once.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.decisions import vitals
from labfleet.resources import series
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key, Record, Resource
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import telemetry, usage

MINUTE = timedelta(seconds=series.TIERS[0].step)
EVERYTHING = Caller(access.SYSTEM)


class Value(Record, frozen=True, kw_only=True):
    """One measured number, and until when it holds.

    value: The number; null when it is not known.
    unit: Its unit.
    source: Who measured it.
    at: When it was measured; of a mean, when its minute began.
    until: From when on it counts as unknown unless it is measured again; null when it is unknown.
    reason: Why it is null; empty when it is not.
    """

    value: float | None = None
    unit: str = ""
    source: str | None = None
    at: datetime | None = None
    until: datetime | None = None
    reason: str = ""


class Measured(Record, frozen=True, kw_only=True):
    """What was last measured of one object.

    kind: Kind of the object.
    namespace: Namespace of the object.
    name: Name of the object.
    uid: Identity of the object.
    values: Each number by its metric; what nobody measures is absent.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    values: dict[str, Value] = {}


def of_worker(services: ServiceContext, worker: Worker) -> Measured:
    """Return a worker's newest numbers, whichever process measured them."""
    life, points = services.sample_life(), services.samples.points(worker.key)
    later = vitals.CLOUDWATCH_LATE
    if points:
        later = vitals.point_life(points[-1]) - timedelta(seconds=points[-1].seconds)
    return _measured(
        worker,
        {
            name: Value(
                value=each.value,
                unit=each.unit,
                source=each.source,
                at=each.at,
                until=_until(each, later if each.source == "cloudwatch" else life),
                reason=each.reason,
            )
            for name, each in telemetry.numbers_of(services, worker).items()
        },
    )


def _until(number: vitals.Number, life: timedelta) -> datetime | None:
    return None if number.value is None or number.at is None else number.at + life


async def used(services: ServiceContext) -> tuple[list[tuple[Resource, Measured]], int]:
    """Return what each cluster, live run and lab that is up uses, whoever may see it.

    Read from the store's newest minutes, as `usage` does: at most `usage.LISTED` of a kind, the
    busiest, and how many were left out. Temporary when the store cannot tell now.
    """
    told: list[tuple[Key, str, usage.Usage]] = []
    left_out = 0
    for kind, source, read in (
        (Cluster.__name__, "cluster", usage.clusters),
        (Simulation.__name__, "cluster", usage.simulations),
        (Session.__name__, "cml", usage.sessions),
    ):
        rows, more = await read(services, EVERYTHING)
        left_out += more
        told += [(Key(kind, row.namespace, row.name), source, row) for row in rows]
    # The objects as they are after all that waiting: whose they are decides who is told.
    found = ((services.cache.at(key), source, row) for key, source, row in told)
    return [
        (obj, _measured(obj, _values(row, source))) for obj, source, row in found if obj is not None
    ], left_out


def are_used(services: ServiceContext) -> bool:
    """Tell whether there is anything that `used` would read."""
    cache = services.cache
    return bool(
        cache.keys(Cluster)
        or cache.values(indices.SIMULATIONS_HOLDING)
        or cache.values(indices.SESSIONS_OPEN)
    )


def _values(row: usage.Usage, source: str) -> dict[str, Value]:
    if row.minute is None:
        return {}
    until = row.minute + (usage.MINUTES + 1) * MINUTE
    return {
        name: Value(
            value=value, unit=row.units.get(name, ""), source=source, at=row.minute, until=until
        )
        for name, value in row.numbers.items()
    }


def _measured(obj: Resource, values: dict[str, Value]) -> Measured:
    return Measured(
        kind=obj.kind,
        namespace=obj.namespace,
        name=obj.name,
        uid=obj.metadata.uid,
        values=values,
    )
