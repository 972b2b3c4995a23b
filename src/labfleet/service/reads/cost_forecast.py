"""What the rest of the month will cost if what is booked takes place, and nothing else."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.decisions.claims import calendar
from labfleet.decisions.claims.calendar import Entry
from labfleet.decisions.costs import shares
from labfleet.resources import refs
from labfleet.resources.pool import Pool, ScalingPolicy
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cost_now, indices, paid_rows
from labfleet.service.kinds.pool_claims import Claims


async def until_month_end(
    services: ServiceContext, now: datetime, only: str | None = None
) -> Decimal | None:
    """Return what is still to come of this month, in US dollars; None when a price is unknown.

    A pool has as many workers as its promises need with its spares, and no fewer than its minimum; workers of no
    pool go on as they are; disks of stopped workers stay.
    """
    end = shares.month_end(now)
    total = Decimal(0)
    for pool in services.cache.all(Pool):
        if only is not None and pool.key.label != only:
            continue
        coming = _of_pool(services, pool, now, end)
        if coming is None:
            return None
        total += coming
        await asyncio.sleep(0)  # a look at thousands of claims must not block others
    left = _hours(end - now)
    for worker in services.cache.all(Worker):
        paid = worker.status.paid
        if paid is None or only is not None or worker.spec.pool is not None:
            continue
        disk = paid_rows.disk_month(worker.spec.machine, services.prices)
        price = None if disk is None else disk / cost_now.month_hours(now)
        if paid.running_since is not None:
            price = cost_now.hourly(
                worker.spec.machine, worker.status.machine.type, services.prices, now
            )
        if price is None:
            return None
        total += price * left
    return total


def _of_pool(services: ServiceContext, pool: Pool, now: datetime, end: datetime) -> Decimal | None:
    template = services.cache.find(refs.template_of(pool))
    claims = Claims(services.cache, now).of(pool, now, end)
    if template is None or claims is None:
        return Decimal(0)  # it can have no workers
    entries = [Entry(each.claim, "") for each in claims.claims()]
    here = services.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    paid = [each.status.paid for each in here if each.status.paid is not None]
    run = sum(each.running_since is not None for each in paid)
    scaling, worked, rested = pool.spec.scaling, Decimal(0), Decimal(0)
    spare = scaling.spare_workers if scaling.policy is ScalingPolicy.NEED_BASED else 0
    for each in calendar.intervals(claims, entries, now, end):
        wanted = max(each.places + spare, scaling.min_workers)
        worked += wanted * _hours(each.end - each.start)
        started = max(0, wanted - run)  # stopped ones are started first
        rested += max(0, len(paid) - run - started) * _hours(each.end - each.start)
    price = cost_now.hourly(template.spec.machine, None, services.prices, now)
    disk = paid_rows.disk_month(template.spec.machine, services.prices)
    if (worked and price is None) or (rested and disk is None):
        return None
    resting = (disk or Decimal(0)) / cost_now.month_hours(now)
    return (price or Decimal(0)) * worked + resting * rested


def _hours(length: timedelta) -> Decimal:
    return Decimal(length // timedelta(seconds=1)) / 3600
