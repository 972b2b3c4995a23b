"""The tabs of clusters and queues: what runs and waits there, and how far quotas are used."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.decisions import wording
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Resource
from labfleet.resources.queue import Queue
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, queue_users
from labfleet.web import bars, simulation_rows, values
from labfleet.web.bars import Bar
from labfleet.web.cluster_bars import ClusterBars
from labfleet.web.overview import Row
from labfleet.web.simulation_rows import Chosen, SimulationRows
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.views import simulations


@dataclass(frozen=True, slots=True)
class ClusterRuns:
    """What runs and waits on a cluster, under its bars."""

    bars: tuple[ClusterBars, ...]
    runs: SimulationRows


@dataclass(frozen=True, slots=True)
class QueueUse:
    """How far a queue's quota is used, what its cohort lends it, and its runs.

    `queues` are those of its cohort, itself too; none without one.
    """

    cohort: str
    bars: tuple[tuple[str, Bar], ...]
    said: tuple[str, ...]
    queues: tuple[Row, ...]
    runs: SimulationRows


async def of_cluster(
    services: ServiceContext, caller: Caller, obj: Resource, asked: Asked
) -> ClusterRuns:
    """Return what runs and waits on a cluster; Denied for who may read no simulation."""
    assert isinstance(obj, Cluster)  # noqa: S101 - the table of tabs says so
    found = await simulation_rows.of(services, caller, asked, Chosen(cluster=obj.key.label))
    shown = await simulations.clusters_of(services, caller, [obj])
    return ClusterRuns(shown or (), found)


async def of_queue(
    services: ServiceContext, caller: Caller, obj: Resource, asked: Asked
) -> QueueUse:
    """Return how a queue is used; Denied for who may read no simulation."""
    assert isinstance(obj, Queue)  # noqa: S101 - the table of tabs says so
    found = await simulation_rows.of(services, caller, asked, Chosen(queue=obj.key.label))
    held = queue_users.of(services, obj).held
    cohort = _cohort(services, obj)
    shown = [(bars.TITLES[name], _bar(obj, name, held, cohort)) for name in DIMENSIONS
             if _counts(obj, name, held, cohort)]  # fmt: skip
    return QueueUse(
        cohort=obj.spec.cohort or "",
        bars=tuple(shown),
        said=_said(obj),
        queues=tuple(_queue(services, each) for each in cohort) if obj.spec.cohort else (),
        runs=found,
    )


def _cohort(services: ServiceContext, queue: Queue) -> list[Queue]:
    """Return the queues of one cluster that lend each other, the queue itself among them."""
    cluster = indices.QUEUES_OF_CLUSTER.values(queue)
    found = [
        each for path in cluster for each in services.cache.by(indices.QUEUES_OF_CLUSTER, path)
    ]
    return [
        each for each in found
        if each.key == queue.key or (queue.spec.cohort and each.spec.cohort == queue.spec.cohort)
    ]  # fmt: skip


def _counts(queue: Queue, name: str, held: Amounts, cohort: list[Queue]) -> bool:
    divided = any(getattr(each.spec.quota, name) for each in cohort)
    return bool(divided or getattr(held, name) or getattr(queue.spec.quota, name))


def _bar(queue: Queue, name: str, held: Amounts, cohort: list[Queue]) -> Bar:
    """Return one dimension: what is held of the quota, what is borrowed beyond it."""
    quota, has = getattr(queue.spec.quota, name), getattr(held, name)
    whole = sum(getattr(each.spec.quota, name) for each in cohort)
    limit = queue.spec.borrowing_limit
    if not whole:
        return bars.bar(name, has, [("held", "held; it is not divided", has)])
    most = whole if limit is None else min(whole, quota + getattr(limit, name))
    most = most if queue.spec.cohort else quota
    parts = [("held", "held of its quota", float(min(has, quota)))]
    if has > quota or queue.spec.cohort:
        parts.append(("lent", "borrowed", float(max(0, has - quota))))
    return bars.bar(
        name, most, parts, marks=[("quota", quota)],
        more=[f"at most {bars.short(name, most)}"] if most != quota else [], limit=most,
    )  # fmt: skip


def _said(queue: Queue) -> tuple[str, ...]:
    spec = queue.spec
    told = []
    if spec.cohort is None:
        told.append("It is in no cohort, so it can borrow nothing.")
    elif spec.borrowing_limit is not None:
        told.append(f"It borrows at most {wording.amounts(spec.borrowing_limit)}.")
    told.append(f"At most {spec.max_waiting} requests may wait in it; order {spec.order}.")
    if spec.roles or spec.owners:
        told.append(f"Only for {', '.join((*spec.roles, *spec.owners)[:20])}.")
    return tuple(told)


def _queue(services: ServiceContext, queue: Queue) -> Row:
    users, quota = queue_users.of(services, queue), queue.spec.quota
    lent = {
        name: max(0, getattr(users.held, name) - getattr(quota, name)) for name in DIMENSIONS
        if getattr(quota, name)
    }  # fmt: skip
    cells = (
        Cell("link", queue.key.label, href=values.address("queues", queue.name, queue.namespace)),
        Cell("text", str(queue.spec.weight)),
        Cell("text", str(users.waiting)),
        Cell("text", str(users.running)),
        Cell("text", wording.amounts(quota)),
        Cell("text", wording.amounts(users.held)),
        Cell("text", wording.amounts(Amounts(**lent))),
    )
    return Row(f"Queue/{queue.namespace}/{queue.name}", cells)
