"""The head of the first page: what asks for somebody, what waits and why, what it costs now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.costs.shares import Kind
from labfleet.kernel.quantity import count
from labfleet.resources.pool import Pool
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import cost_now
from labfleet.service.kinds.cost_now import Rate
from labfleet.service.reads import attention, costs, waiting
from labfleet.service.reads.attention import Concern
from labfleet.service.reads.waiting import AllWaiting, Waiting
from labfleet.web import sheet, values
from labfleet.web.values import Cell

ASKING = 6
"""How much of what asks for somebody stands on the first page; the rest on the page of alerts."""
WAITS = 5
"""How many reasons to wait stand there."""
POOLS = 5
"""How many pools stand there."""
NAMED = 5
"""How many workers without a price are named."""
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("With sessions", "used"), ("Without sessions", "idle"), ("Coming up", "warming"),
    ("Disks of stopped machines", "stopped"), ("Licences", "licence"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that asks for somebody: how grave, what, since when, until when, and the remedy."""

    severity: Cell
    thing: Cell
    condition: str
    since: Cell
    due: Cell | None
    said: str
    fix: str
    command: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Sessions that wait for one reason."""

    count: int
    definition: Cell
    first: Cell
    since: Cell | None
    why: str
    exact: str
    starts: str


@dataclass(frozen=True, slots=True)
class PoolLine:
    """One pool in a line: its state, and how many workers and sessions of which sort it has."""

    name: Cell
    state: Cell
    told: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The head of the first page; `counts` are of all that asks, by severity."""

    lines: tuple[Line, ...]
    more: int
    counts: tuple[tuple[Cell, int], ...]
    waits: tuple[Wait, ...]
    waiting: AllWaiting
    pools: tuple[PoolLine, ...]
    costs: tuple[tuple[str, Cell], ...]


async def read(services: ServiceContext, caller: Caller) -> Summary | None:
    """Return the head of the page for who may read workers; None for the others."""
    if not access.may(caller.principal, "read", "Worker"):
        return None
    asking, left_out = await attention.read(services, caller)
    waits = await waiting.read(services, caller)
    now = services.clock.now()
    found = attention.tally(asking)
    return Summary(
        lines=tuple(line(each, now) for each in asking[:ASKING]),
        more=len(asking) + left_out - min(ASKING, len(asking)),
        counts=tuple((sheet.severity(word), many) for word, many in found.items() if many),
        waits=tuple(_wait(each, now) for each in waits.rows[:WAITS]),
        waiting=waits,
        pools=_pools(services, caller),
        costs=_costs(services, caller, now),
    )


def line(each: Concern, now: datetime) -> Line:
    """Return one thing that asks for somebody, in cells."""
    alert = each.alert
    measured = "" if alert.measured is None else f"; measured: {alert.measured}"
    return Line(
        severity=sheet.severity(alert.severity),
        thing=sheet.thing(alert),
        condition=alert.condition,
        since=values.instant(alert.since, now),
        due=None if each.due is None else values.instant(each.due, now),
        said=(alert.message or alert.cause) + measured,
        fix=alert.fix,
        command=alert.command,
    )


def _wait(each: Waiting, now: datetime) -> Wait:
    href = values.address("definitions", each.definition, each.namespace)
    return Wait(
        count=each.count,
        definition=Cell("link", each.definition, href=href),
        first=Cell("link", each.first, href=values.address("sessions", each.first, each.namespace)),
        since=None if each.since is None else values.instant(each.since, now),
        why=values.gist(each.why),
        exact=each.why,
        starts=each.starts,
    )


def _pools(services: ServiceContext, caller: Caller) -> tuple[PoolLine, ...]:
    """Return the pools with most workers, as far as the caller may see them."""
    found = [each for each in services.cache.all(Pool) if access.sees(caller.principal, each)]
    found.sort(key=lambda pool: (-pool.status.workers, pool.key))
    return tuple(_pool(each) for each in found[:POOLS])


def _pool(pool: Pool) -> PoolLine:
    status = pool.status
    known = (
        (status.ready, "ready"), (status.booting, "coming up"), (status.draining, "draining"),
        (status.failed, "failed"), (status.stopped, "stopped"),
    )  # fmt: skip
    parts = [f"{many} {word}" for many, word in known if many or word == "ready"]
    told = f"{', '.join(parts)} of at most {count(pool.spec.scaling.max_workers, 'worker')}"
    if status.waiting_sessions:
        told += f"; {count(status.waiting_sessions, 'session')} of its track waiting"
    if status.promised:
        told += f"; {status.promised} promised"
    href = values.address("pools", pool.name, pool.namespace)
    state = values.state(Pool.__name__, str(status.phase))
    return PoolLine(Cell("link", pool.key.label, href=href), state, told)


def _costs(services: ServiceContext, caller: Caller, now: datetime) -> tuple[tuple[str, Cell], ...]:
    """Return what an hour costs, for who may see what everybody costs; nothing for the others."""
    if not costs.sees_all(caller.principal):
        return ()
    return costs_told(cost_now.of_fleet(services.cache, services.prices, now))


def costs_told(rate: Rate) -> tuple[tuple[str, Cell], ...]:
    """Return what an hour of the fleet costs as it stands, in words with their values."""
    unpriced = rate.unpriced
    if unpriced and not rate.total:
        why = f"no price is known of {count(unpriced, 'machine')}"
        return (("An hour now", Cell("unknown", "unknown", why=why)),)
    told = [("An hour now", usd(float(rate.total)))]
    told += [(title, usd(float(rate.usd[kind]))) for title, kind in _KINDS]
    told.append(("Machines on", Cell("text", str(rate.running))))
    if unpriced:
        names = ", ".join(sorted(rate.without_price)[:NAMED])
        names += ", …" if unpriced > NAMED else ""
        told.append(("Not counted", Cell("unknown", "unknown", why=f"no price known: {names}")))
    return tuple(told)


def usd(value: float | None, *, unit: str = "USD/h") -> Cell:
    """Return an amount of money, exact on hover; None is unknown."""
    if value is None:
        return Cell("unknown", "unknown", why="no price is known of its type")
    return Cell("text", f"{value:,.2f} {unit}", exact=f"{value:,.4f} {unit}")
