"""The tab of a session that holds what it is counted with against what its lab uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from labfleet.kernel.clock import format_instant, utc_text
from labfleet.resources import refs
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import session_counted
from labfleet.service.reads import series
from labfleet.service.reads.series import Series
from labfleet.web import charts
from labfleet.web.view import Asked

SIZE = (640, 120)
_AMOUNTS = {"cpu": "cpu_milli", "memory": "memory_mib", "storage": "storage_mib"}
UNKNOWN = charts.UNKNOWN


@dataclass(frozen=True, slots=True)
class UseRow:
    """One dimension: what is declared, counted and was seen, and the curve under its line.

    `line` is where the amount that it is counted with stands in the picture, None when none is
    drawn; `share` is the peak in percent of that amount.
    """

    title: str
    declared: str
    counted: str
    newest: str
    mean: str
    peak: str
    p95: str
    share: str
    curve: tuple[str, ...] = ()
    line: float | None = None
    top: str = ""


@dataclass(frozen=True, slots=True)
class UsePanel:
    """The tab: its rows, from when to when the curves are, and what the amounts rest on."""

    rows: tuple[UseRow, ...]
    since: str
    until: str
    said: tuple[str, ...]
    note: str
    size: tuple[int, int] = SIZE


async def panel(
    services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked
) -> UsePanel:
    """Return the tab of a session, whatever it has used so far."""
    assert isinstance(obj, Session)  # noqa: S101 - the table of tabs says so
    found = await _series(services, obj)
    rows = tuple(_rows(services, obj, found))
    measured = any(each.newest != UNKNOWN or each.peak != UNKNOWN for each in rows)
    if obj.status.started_at is None:
        note = "Its lab has not run yet: nothing could be measured."
    else:
        note = "" if measured else "Nobody has measured its lab: its use is unknown."
    over = obj.status.phase in TERMINAL
    said = list(session_counted.lines(obj))
    said.append("What is unknown was not measured; it is not 0." if measured and not over else "")
    return UsePanel(
        rows=rows,
        since=utc_text(found.since),
        until=utc_text(found.until),
        said=tuple(each for each in said if each),
        note=note,
    )


async def _series(services: ServiceContext, session: Session) -> Series:
    """Return what was measured from when its lab was up to its end, or to now."""
    status = session.status
    up = status.ready_at or status.started_at
    since = "" if up is None else format_instant(up)
    found = await series.of(services, session, since=since)
    end = status.ended_at
    if end is None or end <= found.since:
        return found
    return msgspec.structs.replace(found, until=min(end, found.until))


def _rows(services: ServiceContext, session: Session, found: Series) -> Iterator[UseRow]:
    definition = services.cache.find(refs.definition_of(session))
    declared = None if definition is None else definition.status.demand
    held, bound = session.status.reservation, session.status.demand
    counted = held.amounts if held is not None else bound.amounts if bound is not None else declared
    figures = charts.figures_of(session.status.used)
    for metric, name in _AMOUNTS.items():
        kept = found.metrics.get(metric)
        if kept is None:
            continue
        drawn = charts.chart(metric, found, kept, figures.get(metric))
        amount = None if counted is None else float(getattr(counted, name))
        peak = max((each.mean for each in kept.points), default=0.0)
        top = max(peak, amount or 0.0)
        yield UseRow(
            title=drawn.title,
            declared=_said(kept.unit, None if declared is None else getattr(declared, name)),
            counted=_said(kept.unit, amount),
            newest=drawn.newest,
            mean=drawn.mean,
            peak=drawn.peak,
            p95=drawn.p95,
            share=_share(session, name, amount),
            curve=tuple(charts.lines(found, kept.points, top=top, size=SIZE)),
            line=None if not amount else charts.height(amount, top, SIZE[1]),
            top=charts.amount(kept.unit, top),
        )


def _said(unit: str, value: float | None) -> str:
    return UNKNOWN if value is None else charts.amount(unit, value)


def _share(session: Session, name: str, amount: float | None) -> str:
    """Return the peak in percent of what it is counted with; unknown without either."""
    use = session.status.used.get(name)
    if use is None or use.peak is None or not amount:
        return UNKNOWN
    return f"{use.peak * 100 / amount:.0f} %"
