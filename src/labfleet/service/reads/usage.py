"""Reading what clusters, live runs and labs use now: the newest minute of each one's series."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from labfleet.decisions.admission.targets import targets
from labfleet.interfaces import store as stores
from labfleet.resources import series
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, as_seen
from labfleet.resources.meta import Record, Resource
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices

LISTED = 1000
MINUTES = 4
"""How many minutes back it is looked for: they are written once a minute, some time after."""


class Usage(Record, frozen=True, kw_only=True):
    """What a cluster, a live run or a session's lab uses now, as far as it is measured.

    name: Name of the object.
    namespace: Namespace of the object.
    cluster: Cluster that a run is on; of a cluster its own name; null of a session.
    worker: Worker that a session's lab is on; null of the others.
    phase: Where a run or session stands; null of a cluster.
    runs: Live runs on a cluster; null of the others.
    minute: Beginning of the newest minute in which it was measured; null when none of late was.
    numbers: What it uses, by metric: the mean of that minute; what nobody measured is absent.
    units: Unit of each metric.
    share_of: Targets of a cluster, or what a run or lab was given; null when it holds nothing.
    """

    name: str
    namespace: str
    cluster: str | None = None
    worker: str | None = None
    phase: str | None = None
    runs: int | None = None
    minute: datetime | None = None
    numbers: dict[str, float] = {}
    units: dict[str, str] = {}
    share_of: Amounts | None = None


async def clusters(services: ServiceContext, caller: Caller) -> tuple[tuple[Usage, ...], int]:
    """Return what each cluster uses now, the busiest first, and how many were left out."""
    access.demand(caller.principal, "read", "Cluster")
    return await _newest(services, _seen(caller, services.cache.all(Cluster)))


async def simulations(services: ServiceContext, caller: Caller) -> tuple[tuple[Usage, ...], int]:
    """Return what each live run uses now, the busiest first, and how many were left out."""
    access.demand(caller.principal, "read", "Simulation")
    held = indices.SIMULATIONS_HOLDING
    live = [run for path in services.cache.values(held) for run in services.cache.by(held, path)]
    return await _newest(services, _seen(caller, live))


async def sessions(services: ServiceContext, caller: Caller) -> tuple[tuple[Usage, ...], int]:
    """Return what each lab that is up uses now, the busiest first, and how many were left out."""
    access.demand(caller.principal, "read", "Session")
    opened = services.cache.by(indices.SESSIONS_OPEN, True)
    return await _newest(services, _seen(caller, [each for each in opened if _up(each)]))


def _up(session: Session) -> bool:
    return session.status.phase in {
        SessionPhase.READY, SessionPhase.RUNNING, SessionPhase.COLLECTING,
    }  # fmt: skip


def _seen(caller: Caller, objects: Iterable[Resource]) -> list[Resource]:
    return [each for each in objects if access.sees(caller.principal, each)]


async def _newest(
    services: ServiceContext, objects: list[Resource]
) -> tuple[tuple[Usage, ...], int]:
    minute = series.TIERS[0].step
    newest = series.bucket_start(services.clock.now(), minute)
    instants = [newest - timedelta(seconds=minute * back) for back in range(MINUTES)]
    owners = [series.Owner(each.kind, each.metadata.uid) for each in objects]
    found: dict[series.Owner, stores.SeriesRow] = {}
    many = stores.SERIES_LIMIT // MINUTES
    for first in range(0, len(owners), many):
        for row in await services.series.series_at(owners[first : first + many], minute, instants):
            if row.owner not in found or found[row.owner].at < row.at:
                found[row.owner] = row
    rows = [
        _usage(services, each, found.get(owner))
        for each, owner in zip(objects, owners, strict=True)
    ]
    rows.sort(key=lambda each: (-each.numbers.get("cpu", -1.0), each.namespace, each.name))
    return tuple(rows[:LISTED]), max(0, len(rows) - LISTED)


def _usage(services: ServiceContext, obj: Resource, row: stores.SeriesRow | None) -> Usage:
    bucket = {} if row is None else series.unpack(obj.kind, row.data)
    cluster = worker = phase = runs = None
    if isinstance(obj, Simulation | Session):
        held, phase = obj.status.reservation, str(obj.status.phase)
        share = None if held is None else held.amounts
        if isinstance(obj, Simulation):
            cluster = obj.spec.cluster
        else:
            worker = obj.status.worker
    else:
        assert isinstance(obj, Cluster)  # noqa: S101 - there are these three, for the type checker
        cluster, share = obj.name, targets(as_seen(obj))
        runs = len(services.cache.by(indices.SIMULATIONS_HOLDING, obj.key.path))
    return Usage(
        name=obj.name,
        namespace=obj.namespace,
        cluster=cluster,
        worker=worker,
        phase=phase,
        runs=runs,
        minute=None if row is None or not bucket else row.at,
        numbers={name: float(f"{spread.mean:.6g}") for name, spread in bucket.items()},
        units=dict(series.METRICS[obj.kind]),
        share_of=share,
    )
