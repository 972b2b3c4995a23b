"""What the fleet costs: now, today, this month, and to the month's end as it is booked.

Operators and admins see all of it. A user sees what the own sessions cost and nothing of others,
because prices of an hour or a pool would tell of theirs, for this month and the one before: each
earlier one is a long reading, and there are many users. Programs see nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal

import msgspec

from labfleet.decisions.costs import shares, statements
from labfleet.decisions.costs.shares import Part, Window
from labfleet.decisions.costs.statements import By, Sum, label
from labfleet.kernel import errors
from labfleet.resources.meta import Record
from labfleet.service.core import access, intake
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import cost_now, paid_fleet
from labfleet.service.kinds.cost_now import Rate
from labfleet.service.kinds.paid_fleet import PaidFleet
from labfleet.service.reads import cost_forecast

MOST_LINES = 1000
DAY = timedelta(days=1)
PARTS_AT_ONCE = 500


class CostSum(Record, frozen=True, kw_only=True):
    """What some paid time comes to, in US dollars; what has no price is not in it.

    usd: All of it.
    used: Time with sessions.
    idle: Time in which a worker could host sessions and hosted none.
    warming: From a machine's start until its worker could host its first session.
    stopped: Disks of stopped machines.
    licence: Licences that the price list names.
    hours: Hours in which machines ran.
    unpriced_hours: Hours of what has no price.
    """

    usd: float = 0.0
    used: float = 0.0
    idle: float = 0.0
    warming: float = 0.0
    stopped: float = 0.0
    licence: float = 0.0
    hours: float = 0.0
    unpriced_hours: float = 0.0


class CostLine(Record, frozen=True, kw_only=True):
    """What one pool, session, person or course costs.

    name: Its name; empty for what belongs to none.
    cost: What it comes to.
    """

    name: str
    cost: CostSum


class CostReport(Record, frozen=True, kw_only=True):
    """What the fleet costs; null is what the caller may not see, or what nobody can know.

    start: Beginning of the month that the lines are about.
    end: Until when they count: its end, or now.
    currency: Currency of all amounts.
    prices_of: Day of which the price list is.
    per_hour: What an hour costs as the fleet stands; `hours` are machines that run, `unpricedHours`
    machines without a price.
    pools_now: The same of each pool.
    today: Since midnight of UTC; null for a past month.
    month: The whole month so far.
    forecast: What the whole month comes to if what is booked takes place and nothing else; null
    for a past month.
    saved: What machines would have cost in the time for which the idle rule had them stopped.
    uncertain: By how much the month may be wrong, because starts were not seen to the second.
    by: What the lines are about.
    lines: The lines, the dearest first.
    left_out: How many lines are left out.
    unpriced: Of what no price is known.
    incomplete: Whether the ledger has more rows than one answer reads.
    """

    start: datetime
    end: datetime
    currency: str
    prices_of: date
    per_hour: CostSum | None = None
    pools_now: tuple[CostLine, ...] = ()
    today: CostSum | None = None
    month: CostSum
    forecast: float | None = None
    saved: float | None = None
    uncertain: float = 0.0
    by: str = "pool"
    lines: tuple[CostLine, ...] = ()
    left_out: int = 0
    unpriced: tuple[str, ...] = ()
    incomplete: bool = False


def sees_all(principal: Principal) -> bool:
    """Tell whether a caller may read what everybody costs: who may change pools."""
    return access.may(principal, "update", "Pool")


def month_of(text: str, now: datetime) -> datetime:
    """Return when a month such as 2026-11 begins; this one's for an empty text."""
    if not text:
        return shares.month_start(now)
    try:
        found = datetime.strptime(text, "%Y-%m").replace(tzinfo=now.tzinfo)
    except ValueError:
        raise intake.invalid(("month", "write it as 2026-11")) from None
    if found > now:
        raise intake.invalid(("month", "lies ahead: nothing was paid in it yet"))
    if found < intake.EARLIEST:
        raise intake.invalid(("month", f"lies before {intake.EARLIEST.year}"))
    return found


async def read(
    services: ServiceContext,
    caller: Caller,
    *,
    month: str = "",
    by: By | None = None,
    pool: str | None = None,
) -> CostReport:
    """Return what a month costs so far, by pool, session, person or course."""
    principal = caller.principal
    everything = sees_all(principal)
    if not everything:
        if access.only_owner(principal, "Session") is None:
            raise errors.Denied(f"role {principal.role} may not read costs", reason="Forbidden")
        if by not in {None, "session"} or pool is not None:
            said = f"role {principal.role} may read the cost of the own sessions only: by=session"
            raise errors.Denied(said, reason="Forbidden")
    by = by or ("pool" if everything else "session")
    await services.fresh()
    now = services.clock.now()
    start = month_of(month, now)
    if not everything and start < shares.month_start(shares.month_start(now) - DAY):
        raise intake.invalid(("month", "you see this month and the one before"))
    window = Window.of(start)
    fleet = await paid_fleet.read(services.ledger, services.cache, services.prices, start, now)
    if not everything:
        fleet = _around(fleet, principal.name)
    found = await parts_of(fleet, window)
    if pool is not None:
        found = [each for each in found if label(each.paid.namespace, each.paid.pool) == pool]
    if not everything:
        found = [each for each in found if each.session and each.owner == principal.name]
    total = statements.whole(found)
    lines = _lines(found, by)
    report = CostReport(
        start=start, end=min(now, window.end), currency=services.prices.currency,
        prices_of=services.prices.as_of, month=as_sum(total), by=by, lines=tuple(lines[:MOST_LINES]),
        left_out=max(0, len(lines) - MOST_LINES), unpriced=tuple(sorted(total.unpriced)),
        incomplete=fleet.left_out,
    )  # fmt: skip
    return await _whole(services, report, fleet, window, pool) if everything else report


async def _whole(
    services: ServiceContext, report: CostReport, fleet: PaidFleet, window: Window, pool: str | None
) -> CostReport:
    """Return a report with what only they may see who see everything."""
    now = services.clock.now()
    mine = [each for each in fleet.machines if pool in {None, label(each.namespace, each.pool)}]
    saved = [shares.idle_saved(each, window) for each in mine]
    doubt = sum((shares.doubt(each, window) for each in mine), Decimal(0))
    known = [each for each in saved if each is not None]
    report = msgspec.structs.replace(
        report,
        saved=None if len(known) < len(saved) else money(sum(known, Decimal(0))),
        uncertain=money(doubt),
    )
    if now < window.end:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        day = Window.of(midnight)
        today = await parts_of(PaidFleet(tuple(mine), fleet.stays), day)
        coming = await cost_forecast.until_month_end(services, now, pool)
        report = msgspec.structs.replace(
            report,
            today=as_sum(statements.whole(today)),
            per_hour=hour_now(services, pool),
            pools_now=pools_now(services, pool),
            forecast=None if coming is None else money(Decimal(repr(report.month.usd)) + coming),
        )
    return report


def hour_now(services: ServiceContext, pool: str | None = None) -> CostSum:
    """Return what an hour costs as the fleet stands, of all pools or one.

    `hours` counts machines that run, `unpriced_hours` machines without a price.
    """
    rates = cost_now.rates(services.cache, services.prices, services.clock.now())
    return _rate(rate for key, rate in rates.items() if pool in {None, label(*key)})


def pools_now(services: ServiceContext, pool: str | None = None) -> tuple[CostLine, ...]:
    """Return what an hour of each pool costs as the fleet stands, the dearest first."""
    rates = cost_now.rates(services.cache, services.prices, services.clock.now())
    lines = [
        CostLine(name=label(*key), cost=_rate([rate]))
        for key, rate in rates.items()
        if pool in {None, label(*key)}
    ]
    return tuple(sorted(lines, key=_dearest)[:MOST_LINES])


def _rate(rates: Iterable[Rate]) -> CostSum:
    shown = list(rates)
    by_kind = {kind: sum((each.usd[kind] for each in shown), Decimal(0)) for kind in shares.KINDS}
    return CostSum(
        usd=money(sum(by_kind.values(), Decimal(0))),
        hours=float(sum(each.running for each in shown)),
        unpriced_hours=float(sum(each.unpriced for each in shown)),
        **{kind: money(each) for kind, each in by_kind.items()},
    )


def _around(fleet: PaidFleet, owner: str) -> PaidFleet:
    """Return the machines on which somebody's sessions were, with all that shared them."""
    workers = {uid for uid, here in fleet.stays.items() if any(e.owner == owner for e in here)}
    machines = tuple(each for each in fleet.machines if each.worker in workers)
    return PaidFleet(machines, fleet.stays, fleet.left_out)


async def parts_of(fleet: PaidFleet, window: Window) -> list[Part]:
    """Return the window's parts; other tasks run between some hundreds of them."""
    found: list[Part] = []
    for count, each in enumerate(shares.parts(fleet.machines, fleet.stays, window), 1):
        found.append(each)
        if count % PARTS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def _lines(found: Iterable[Part], by: By) -> list[CostLine]:
    sums = statements.summed(found, by)
    lines = [CostLine(name=name, cost=as_sum(each)) for name, each in sums.items()]
    return sorted(lines, key=_dearest)


def _dearest(line: CostLine) -> tuple[float, str]:
    return -line.cost.usd, line.name


def as_sum(found: Sum) -> CostSum:
    """Return a sum as it is shown."""
    ran = found.seconds["used"] + found.seconds["idle"] + found.seconds["warming"]
    return CostSum(
        usd=money(found.total),
        hours=round(float(ran) / 3600, 4),
        unpriced_hours=round(float(found.unpriced_seconds) / 3600, 4),
        **{kind: money(each) for kind, each in found.usd.items()},
    )


def money(amount: Decimal) -> float:
    """Return an amount to a millionth of a dollar."""
    return float(amount.quantize(statements.MICRO))
