"""The statement of a month: one row for each machine and kind of time, which add up to the bill."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from labfleet.decisions.costs import shares, statements
from labfleet.decisions.costs.shares import KINDS, Kind, Paid, Window
from labfleet.decisions.costs.statements import Sum
from labfleet.kernel import errors
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import paid_fleet
from labfleet.service.kinds.paid_fleet import PaidFleet
from labfleet.service.reads import costs

MOST_ROWS = 20_000


class StatementRow(Record, frozen=True, kw_only=True):
    """What one machine cost in one kind of time.

    pool: Its pool, with the namespace unless that is `default`; empty for a worker of none.
    worker: Name of its worker.
    machine: The provider's name for it.
    type: Its type.
    region: Its region.
    kind: Which kind of time it was: used, idle, warming, stopped or licence.
    hours: For how long.
    usd: What that cost, to a millionth of a dollar, disk included; null where no price of it is known.
    """

    pool: str
    worker: str
    machine: str
    type: str
    region: str
    kind: str
    hours: float
    usd: float | None = None


class CostStatement(Record, frozen=True, kw_only=True):
    """The bill of a month, row by row; the rows with a price come to `usd` exactly.

    month: The month.
    start: When it began.
    end: Until when the rows count: its end, or now.
    currency: Currency of all amounts.
    prices_of: Day of which the price list is; time that is over keeps the prices it was recorded with.
    usd: All rows together.
    uncertain: By how much that may be wrong, because starts were not seen to the second.
    rows: The rows, by pool, worker and machine.
    unpriced: Of what no price is known.
    incomplete: Whether the ledger has more rows than one answer reads.
    left_out: How many rows are left out of this answer.
    """

    month: str
    start: datetime
    end: datetime
    currency: str
    prices_of: date
    usd: float
    uncertain: float
    rows: tuple[StatementRow, ...] = ()
    unpriced: tuple[str, ...] = ()
    incomplete: bool = False
    left_out: int = 0


async def read(services: ServiceContext, caller: Caller, *, month: str = "") -> CostStatement:
    """Return the statement of a month; Denied for who may not see what everybody costs."""
    if not costs.sees_all(caller.principal):
        said = f"role {caller.principal.role} may not read statements"
        raise errors.Denied(said, reason="Forbidden")
    await services.fresh()
    now = services.clock.now()
    start = costs.month_of(month, now)
    window = Window.of(start)
    fleet = await paid_fleet.read(services.ledger, services.cache, services.prices, start, now)
    sums = await _sums(fleet, window)
    keys = sorted(sums, key=_order)
    exact = statements.rounded([sums[key].total for key in keys])
    rows = [_row(key, sums[key], usd) for key, usd in zip(keys, exact, strict=True)]
    doubt = sum((shares.doubt(each, window) for each in fleet.machines), Decimal(0))
    unpriced = {name for each in sums.values() for name in each.unpriced}
    return CostStatement(
        month=f"{start:%Y-%m}", start=start, end=min(now, window.end), currency=services.prices.currency,
        prices_of=services.prices.as_of, usd=float(sum(exact, Decimal(0))),
        uncertain=costs.money(doubt), rows=tuple(rows[:MOST_ROWS]),
        unpriced=tuple(sorted(unpriced)), incomplete=fleet.left_out,
        left_out=max(0, len(rows) - MOST_ROWS),
    )  # fmt: skip


Line = tuple[Paid, Kind]


async def _sums(fleet: PaidFleet, window: Window) -> dict[Line, Sum]:
    found: dict[Line, Sum] = {}
    names: dict[tuple[str, Kind], Line] = {}
    for each in await costs.parts_of(fleet, window):
        line = names.setdefault((each.paid.machine, each.kind), (each.paid, each.kind))
        found.setdefault(line, Sum()).add(each)
    return found


def _order(line: Line) -> tuple[str, str, str, str, int]:
    paid, kind = line
    return (paid.namespace, paid.pool, paid.name, paid.machine, KINDS.index(kind))


def _row(line: Line, found: Sum, usd: Decimal) -> StatementRow:
    paid, kind = line
    known = not found.unpriced_seconds or bool(found.total)
    return StatementRow(
        pool=statements.label(paid.namespace, paid.pool),
        worker=paid.name,
        machine=paid.machine,
        type=paid.kind,
        region=paid.region,
        kind=kind,
        hours=round(float(found.seconds[kind]) / 3600, 4),
        usd=float(usd) if known else None,
    )
