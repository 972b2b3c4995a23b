"""The data of the calendar's page: what pools have promised, and when places are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from labfleet.kernel.clock import format_instant, utc_text
from labfleet.resources.declaration import PageColumn
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import calendar
from labfleet.service.reads.calendar import CalendarSpan, PoolCalendar
from labfleet.web import values, words
from labfleet.web.overview import Row
from labfleet.web.values import Cell
from labfleet.web.view import Asked
from labfleet.web.words import Section

ROOT = "/calendar"
_OWN = (
    PageColumn("Pool", "link", wide=2),
    PageColumn("From", "text", wide=2),
    PageColumn("To", "text", wide=2),
    PageColumn("Free workers", "text"),
    PageColumn("Yours", "text"),
)
_WHOLE = (
    *_OWN[:-1],
    PageColumn("Sessions", "text"),
    PageColumn("Workers needed", "text", wide=2),
    PageColumn("In danger", "text"),
    PageColumn("What", "text", wide=3),
)
_UNKNOWN = Cell("absent", "not known")
PARTS = 3
"""How many groups and labs a row names."""


@dataclass(frozen=True, slots=True)
class Following:
    """The rest of a pool's calendar."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class CalendarPage:
    """The page: its rows, the pages that go on, and the pools of which nobody knows the size."""

    rows: tuple[Row, ...]
    more: tuple[Following, ...]
    unknown: tuple[str, ...]
    namespace: str
    section: Section


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> CalendarPage:
    """Return the page that the query asks for; Invalid when it means nothing."""
    query = asked.query
    given = {name: query[name][-1] for name in ("namespace", "pool", "from", "to") if name in query}
    namespace = given.get("namespace", "default")
    found = await calendar.read(
        services, caller, namespace=namespace, pool=given.get("pool"), start=given.get("from", ""),
        end=given.get("to", ""), limit=words.ROWS,
    )  # fmt: skip
    whole = any(span.sessions is not None for pool in found.pools for span in pool.items)
    linked = access.may(caller.principal, "read", "Pool")
    return CalendarPage(
        rows=tuple(
            _row(pool, number, span, services.clock.now(), linked=linked)
            for pool in found.pools
            for number, span in enumerate(pool.items)
        ),
        more=tuple(_following(each, given) for each in found.pools if each.next is not None),
        unknown=tuple(each.pool for each in found.pools if each.maximum is None),
        namespace=namespace,
        section=Section("Span", "calendar", "Calendar", _WHOLE if whole else _OWN, ""),
    )


def _following(pool: PoolCalendar, given: Mapping[str, str]) -> Following:
    begin = "" if pool.next is None else format_instant(pool.next)
    wanted = {**given, "namespace": pool.namespace, "pool": pool.pool, "from": begin}
    return Following(f"More of {pool.pool}", f"{ROOT}?{urlencode(wanted)}")


def _row(
    pool: PoolCalendar, number: int, span: CalendarSpan, now: datetime, *, linked: bool
) -> Row:
    where = f"/pools/{pool.pool}?{urlencode({'namespace': pool.namespace})}"
    cells = [
        Cell("link", pool.pool, href=where) if linked else Cell("text", pool.pool),
        _when(span.start, now),
        _when(span.end, now),
        _UNKNOWN if span.free is None else Cell("text", str(span.free)),
    ]
    if span.sessions is None:
        cells.append(Cell("text", str(span.mine)))
    else:
        cells += [
            Cell("text", str(span.sessions)),
            Cell("text", f"{span.places} of {pool.maximum}"),
            Cell("text", str(span.in_danger)),
            Cell("text", _parts(span)),
        ]
    return Row(key=f"{pool.pool}/{number}", cells=tuple(cells))


def _when(at: datetime, now: datetime) -> Cell:
    """Return an instant for planning: the day and the hour first, then how far away it is."""
    return Cell(
        "text", f"{at:%a} {utc_text(at)[:-1]} UTC, {values.relative((at - now).total_seconds())}"
    )


def _parts(span: CalendarSpan) -> str:
    said = ", ".join(f"{each.name} {each.sessions}" for each in span.parts[:PARTS])
    more = len(span.parts) - PARTS
    return f"{said}, and {more} more" if more > 0 else said or "nothing"
