"""What a pool's budget lets it start, and what is said of it.

Pure. A budget bounds only what is started by itself: nothing that runs is ended for it. At 80 % of
a bound people are told, at all of it nothing further is made or started. What an hour of one more
worker costs has to be known for that: with a budget and no price nothing is started either, since
unknown is not free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal

import msgspec

from labfleet.decisions.pool_view import PoolDecision
from labfleet.resources import conditions
from labfleet.resources.pool import PoolBudget, PoolPhase, PoolStatus
from labfleet.resources.pool_conditions import PoolCondition, PoolReason

NEAR = Decimal("0.8")
"""Share of a bound from which on people are told."""
STEPS = 20
"""What is told of a share is told in steps of 100 / 20 per cent: each costs a write."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What a pool costs, in US dollars.

    hour: What an hour costs with all workers that run or come up.
    month: What this month of UTC has cost so far; None while that is unknown.
    worker: What an hour of one more worker costs; None when its price is unknown.
    unpriced: What has no price, in words; empty when all has one.
    """

    hour: Decimal
    month: Decimal | None
    worker: Decimal | None
    unpriced: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a budget says: how many workers may still be started (None: any number), and why."""

    room: int | None
    reason: PoolReason
    told: str
    workers: int | None = None
    """How many workers that run at a time the hourly bound allows; None: it bounds none."""

    @property
    def reached(self) -> bool:
        """Tell whether nothing further may be started."""
        return self.room == 0


def budget_bound(budget: PoolBudget, spending: Spending) -> Verdict:
    """Return what a budget lets be started beside what a pool costs already."""
    hourly, monthly = _exact(budget.usd_per_hour), _exact(budget.usd_per_month)
    what = spending.unpriced or "its workers"
    told = f"price unknown for {what}: nothing is started within a budget without it"
    if spending.worker is None:
        return Verdict(0, PoolReason.PRICE_UNKNOWN, told, 0)
    workers = None if hourly is None else _whole(hourly, spending.worker)
    if spending.unpriced or (monthly and spending.month is None):
        return Verdict(0, PoolReason.PRICE_UNKNOWN, told, workers)  # months to come are not bound
    room, shares = None, []
    if hourly is not None:
        room = _whole(hourly - spending.hour, spending.worker)
        shares.append((spending.hour / hourly, "hour", hourly))
    if monthly is not None and spending.month is not None:
        if spending.month >= monthly:
            room = 0
        shares.append((spending.month / monthly, "month", monthly))
    if not shares:
        return Verdict(None, PoolReason.WITHIN_BUDGET, "")
    share, of_what, most = max(shares)
    shown = int(share * STEPS) * 100 // STEPS
    told = f"{shown} % or more of {most:.2f} US dollars a {of_what} are taken"
    if room == 0:
        return Verdict(0, PoolReason.BUDGET_REACHED, f"{told}: nothing further is started", workers)
    reason = PoolReason.BUDGET_NEAR if share >= NEAR else PoolReason.WITHIN_BUDGET
    return Verdict(room, reason, told, workers)


def bounded(
    decision: PoolDecision, verdict: Verdict | None, *, before: PoolPhase, made: int
) -> PoolDecision:
    """Return the decision with no more workers started or made than a budget lets.

    Parked ones are started first. `before` and `made` are the pool's phase and counter of names,
    which stay where nothing is left of a growth.
    """
    if verdict is None or verdict.room is None or not (decision.create or decision.start):
        return decision
    start = decision.start[: verdict.room]
    create = decision.create[: verdict.room - len(start)]
    if (start, create) == (decision.start, decision.create):
        return decision
    dropped = {*decision.start, *decision.create} - {*start, *create}
    none = not (start or create)
    return replace(
        decision,
        phase=before if none else decision.phase,
        message=f"{decision.message}; held by its budget: {verdict.told}",
        start=start,
        create=create,
        created_workers=decision.created_workers if create else made,
        events=tuple(each for each in decision.events if each.worker not in dropped),
        unmet=PoolReason.BUDGET_REACHED,
    )


def noted(status: PoolStatus, verdict: Verdict | None, now: datetime) -> PoolStatus:
    """Return the status with what the budget says; a pool that never had one has no such facts."""
    workers = None if verdict is None else verdict.workers
    status = msgspec.structs.replace(status, budget_workers=workers)
    known = conditions.find(status.conditions, PoolCondition.BUDGET_NEAR)
    if verdict is None and known is None:
        return status
    reason = PoolReason.WITHIN_BUDGET if verdict is None else verdict.reason
    told = "" if verdict is None else verdict.told
    near = verdict is not None and reason is not PoolReason.WITHIN_BUDGET
    over = verdict is not None and reason in _REACHED
    facts = conditions.put(
        status.conditions, PoolCondition.BUDGET_NEAR, "True" if near else "False", reason, told,
        now=now,
    )  # fmt: skip
    facts = conditions.put(
        facts, PoolCondition.BUDGET_REACHED, "True" if over else "False", reason, told, now=now
    )
    return msgspec.structs.replace(status, conditions=facts)


_REACHED = frozenset({PoolReason.BUDGET_REACHED, PoolReason.PRICE_UNKNOWN})


def _whole(amount: Decimal, each: Decimal) -> int:
    """Return how many times one amount goes into another, at least 0; what is free goes 1,000 times."""
    if each <= 0:
        return 1000
    return max(0, int((amount / each).to_integral_value(ROUND_FLOOR)))


def _exact(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(repr(value))
