"""What pools with a budget cost, for the decision on their size.

The ledger of the month is read once in some minutes for all pools together, and only while some pool
has a monthly budget; between two readings what an hour costs is added.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.controllers.context import Context
from labfleet.decisions.costs import budgets, shares
from labfleet.decisions.costs.budgets import Spending, Verdict
from labfleet.decisions.costs.shares import Window
from labfleet.decisions.lifecycle.worker import phases
from labfleet.interfaces import store as stores
from labfleet.resources import providers, refs
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker
from labfleet.service.core.paid_ledger import PaidLedger
from labfleet.service.kinds import cost_now, indices, paid_fleet

PARTS_AT_ONCE = 500
READ_EVERY = timedelta(minutes=5)
"""How old what the ledger says of the month may be."""

UNREAD = "this month: more rows than are read at once"
"""What has no price when not all of the month could be read: a part of it is no bound."""


@dataclass(slots=True)
class _Spent:
    """What a pool has cost in a month, and for how many hours of running that had no price."""

    usd: Decimal = Decimal(0)
    unpriced_hours: Decimal = Decimal(0)


class PoolBudgets:
    """Judges budgets of pools; keeps what the month has cost between two looks.

    Time without a price counts as much as a worker that would be made now: it is not free.
    """

    def __init__(self, context: Context, history: stores.HistoryStore) -> None:
        self._context = context
        self._ledger = PaidLedger(history)
        self._read_at: datetime | None = None
        self._spent: dict[tuple[str, str], _Spent] = {}
        self._left_out = False

    async def of(self, pool: Pool, now: datetime) -> Verdict | None:
        """Return what a pool's budget says now; None when it has none, or can make no worker."""
        budget, context = pool.spec.budget, self._context
        template = context.cache.find(refs.template_of(pool))
        if budget is None or template is None:
            return None
        machine = template.spec.machine
        one = cost_now.hourly(machine, None, context.prices, now)
        if one is None:
            kind = providers.first_type(machine.provider)
            what = f"{kind or 'servers'} in {machine.provider.region}"
            return budgets.budget_bound(budget, Spending(Decimal(0), None, None, what))
        rate = cost_now.of_pool(context.cache, context.prices, pool.key.path, now)
        present = rate.total + one * rate.unpriced
        month, unread = Decimal(0), ""
        if budget.usd_per_month is not None:
            month = await self._month(pool, present, one, now)
            unread = UNREAD if self._left_out and month < budget.usd_per_month else ""
        coming = sum(map(_coming, context.cache.by(indices.WORKERS_OF_POOL, pool.key.path)))
        return budgets.budget_bound(budget, Spending(present + one * coming, month, one, unread))

    async def _month(self, pool: Pool, hour: Decimal, one: Decimal, now: datetime) -> Decimal:
        """Return what the month has cost so far."""
        at = self._read_at
        start = shares.month_start(now)
        if at is None or now - at >= READ_EVERY or at < start or at > now:
            await self._read(start, now)
            at = now
        spent = self._spent.get((pool.namespace, pool.name), _Spent())
        since = Decimal((now - at) // timedelta(seconds=1)) / 3600
        return spent.usd + spent.unpriced_hours * one + hour * since

    async def _read(self, start: datetime, now: datetime) -> None:
        context = self._context
        fleet = await paid_fleet.machines(self._ledger, context.cache, context.prices, start, now)
        found: dict[tuple[str, str], _Spent] = {}
        for number, part in enumerate(shares.parts(fleet.machines, {}, Window.of(start)), 1):
            if number % PARTS_AT_ONCE == 0:
                await asyncio.sleep(0)  # thousands of parts must not block others
            key = (part.paid.namespace, part.paid.pool)
            spent = found.setdefault(key, _Spent())
            if part.usd is not None:
                spent.usd += part.usd
            elif part.kind != "stopped":
                spent.unpriced_hours += part.seconds / 3600
        self._spent, self._read_at, self._left_out = found, now, fleet.left_out


def _coming(worker: Worker) -> bool:
    """Tell whether a worker comes up and its machine is not paid yet."""
    paid = worker.status.paid
    booting = worker.status.phase in phases.BOOTING and not phases.leaving(worker)
    return booting and (paid is None or paid.running_since is None)
