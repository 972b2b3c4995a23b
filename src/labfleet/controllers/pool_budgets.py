"""What pools with a budget cost, for the decision on their size.

The ledger of the month is read once in some minutes for all pools together, and only while some pool
has a monthly budget; between two readings what an hour costs is added.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.controllers.context import Context
from labfleet.decisions.costs import budgets, shares
from labfleet.decisions.costs.budgets import Spending, Verdict
from labfleet.decisions.costs.shares import Window
from labfleet.decisions.lifecycle.worker import phases
from labfleet.interfaces import store as stores
from labfleet.kernel.quantity import count
from labfleet.resources import providers, refs
from labfleet.resources.pool import Pool
from labfleet.service.kinds import cost_now, indices, paid_fleet, paid_rows

READ_EVERY = timedelta(minutes=5)
"""How old what the ledger says of the month may be."""


class PoolBudgets:
    """Judges budgets of pools; keeps what the month has cost between two looks."""

    def __init__(self, context: Context, history: stores.HistoryStore) -> None:
        self._context = context
        self._history = history
        self._read_at: datetime | None = None
        self._spent: dict[tuple[str, str], Decimal] = {}
        self._unpriced: set[tuple[str, str]] = set()

    async def of(self, pool: Pool, now: datetime) -> Verdict | None:
        """Return what a pool's budget says now; None when it has none."""
        budget = pool.spec.budget
        if budget is None:
            return None
        context, path = self._context, pool.key.path
        rate = cost_now.of_pool(context.cache, context.prices, path, now)
        template = context.cache.find(refs.template_of(pool))
        machine = None if template is None else template.spec.machine
        kind = None if machine is None else providers.first_type(machine.provider)
        hour = paid_rows.hour_of(machine, kind, context.prices)
        disk = paid_rows.disk_month(machine, context.prices)
        one = None
        if hour is not None and disk is not None:
            one = hour + disk / cost_now.month_hours(now)
        workers = context.cache.by(indices.WORKERS_OF_POOL, path)
        coming = sum(
            each.status.phase in phases.BOOTING
            and not phases.leaving(each)
            and (each.status.paid is None or each.status.paid.running_since is None)
            for each in workers
        )
        month = None
        if budget.usd_per_month is not None:
            month = await self._month(pool, rate.total, now)
        unpriced = "" if not rate.unpriced else count(rate.unpriced, "worker")
        if one is None and machine is not None:
            unpriced = f"{kind or 'servers'} in {machine.provider.region}"
        if template is None:
            return None  # nothing can be made without it, and that is said already
        spending = Spending(rate.total + (one or Decimal(0)) * coming, month, one, unpriced)
        return budgets.budget_bound(budget, spending)

    async def _month(self, pool: Pool, hour: Decimal, now: datetime) -> Decimal | None:
        """Return what the month has cost; None when some of it has no price."""
        at = self._read_at
        start = shares.month_start(now)
        if at is None or now - at >= READ_EVERY or at < start or at > now:
            await self._read(start, now)
            at = now
        key = (pool.namespace, pool.name)
        if key in self._unpriced:
            return None
        since = Decimal((now - at) // timedelta(seconds=1)) / 3600
        return self._spent.get(key, Decimal(0)) + hour * since

    async def _read(self, start: datetime, now: datetime) -> None:
        context = self._context
        fleet = await paid_fleet.read(self._history, context.cache, context.prices, start, now)
        self._spent, self._unpriced = {}, set()
        for part in shares.parts(fleet.machines, {}, Window.of(start)):
            key = (part.paid.namespace, part.paid.pool)
            if part.usd is None:
                self._unpriced.add(key)
            else:
                self._spent[key] = self._spent.get(key, Decimal(0)) + part.usd
        self._read_at = now
