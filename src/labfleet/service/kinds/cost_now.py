"""What the fleet costs in an hour, as it stands: from the cache alone, so cheap enough to scrape."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.decisions.costs.shares import KINDS, Kind, month_end, month_start
from labfleet.engine.cache import Cache
from labfleet.resources.machine import Machine
from labfleet.resources.prices import PriceList
from labfleet.resources.worker import Worker
from labfleet.service.kinds import indices, paid_rows

Pool = tuple[str, str]
"""Namespace and name of a pool; the name "" has the workers of none."""


@dataclass(slots=True)
class Rate:
    """US dollars an hour by kind of time, how many machines run, which workers lack a price.

    `without_price` are the workers of whose machine or disk no price is known; what is known counts.
    """

    usd: dict[Kind, Decimal] = field(default_factory=lambda: dict.fromkeys(KINDS, Decimal(0)))
    running: int = 0
    without_price: list[str] = field(default_factory=list)

    @property
    def unpriced(self) -> int:
        """Return of how many machines a price is unknown."""
        return len(self.without_price)

    @property
    def total(self) -> Decimal:
        """Return what has a price."""
        return sum(self.usd.values(), Decimal(0))


def rates(cache: Cache, listed: PriceList, now: datetime) -> dict[Pool, Rate]:
    """Return what an hour costs by pool, of the machines that are paid now."""
    found: dict[Pool, Rate] = {}
    for worker in cache.all(Worker):
        if worker.status.paid is not None:
            rate = found.setdefault((worker.namespace, worker.spec.pool or ""), Rate())
            _add(rate, worker, cache, listed, now)
    return found


def of_fleet(cache: Cache, listed: PriceList, now: datetime) -> Rate:
    """Return what an hour of all workers costs."""
    rate = Rate()
    for worker in cache.all(Worker):
        if worker.status.paid is not None:
            _add(rate, worker, cache, listed, now)
    return rate


def of_pool(cache: Cache, listed: PriceList, pool: str, now: datetime) -> Rate:
    """Return what an hour of one pool's workers costs; `pool` is the path of its key."""
    rate = Rate()
    for worker in cache.by(indices.WORKERS_OF_POOL, pool):
        if worker.status.paid is not None:
            _add(rate, worker, cache, listed, now)
    return rate


def hourly(
    machine: Machine | None, seen: str | None, listed: PriceList, at: datetime
) -> Decimal | None:
    """Return what an hour of a machine costs while it runs, its disk included; None: unknown.

    `seen` is its type, None for one that is not made yet; `at` says in which month that is.
    """
    hour, disk = paid_rows.hour_of(machine, seen, listed), paid_rows.disk_month(machine, listed)
    return None if hour is None or disk is None else hour + disk / month_hours(at)


def month_hours(at: datetime) -> Decimal:
    """Return how many hours the month of UTC has that an instant lies in."""
    return Decimal((month_end(at) - month_start(at)) // timedelta(hours=1))


def _add(rate: Rate, worker: Worker, cache: Cache, listed: PriceList, now: datetime) -> None:
    paid, machine = worker.status.paid, worker.spec.machine
    disk = paid_rows.disk_month(machine, listed)
    month, hour = month_hours(now), Decimal(0)
    kind: Kind = "stopped"
    unknown = disk is None
    if paid is not None and paid.running_since is not None:
        price = paid_rows.hour_of(machine, worker.status.machine.type, listed)
        rate.running += 1
        unknown |= price is None
        hour = price or Decimal(0)
        kind = _kind(worker, cache, ready=paid.ready_at is not None)
    if unknown:
        rate.without_price.append(worker.key.label)
    rate.usd[kind] += hour + (disk or Decimal(0)) / month
    if machine is not None and machine.licence.token is not None:
        monthly = listed.licences.get(machine.licence.product, 0.0)
        rate.usd["licence"] += Decimal(repr(monthly)) / month


def _kind(worker: Worker, cache: Cache, *, ready: bool) -> Kind:
    here = cache.by(indices.SESSIONS_HERE, worker.key.path)
    if any(each.status.hosted_since and each.status.reservation for each in here):
        return "used"
    return "idle" if ready else "warming"
