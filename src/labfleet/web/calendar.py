"""The data of the calendar's page: what pools have promised, and when places are free.

A timeline of each pool, and below it the same as a table; which time it shows: `calendar_times`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from labfleet.kernel.clock import format_instant, parse_instant, utc_text
from labfleet.resources import zones
from labfleet.resources.declaration import PageColumn
from labfleet.resources.group import Group
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import calendar, calendar_marks
from labfleet.service.reads.calendar import Calendar, CalendarSpan, PoolCalendar
from labfleet.service.reads.calendar_marks import OwnSlot
from labfleet.web import calendar_times, seat_words, timeline, values, words
from labfleet.web.calendar_times import Span
from labfleet.web.timeline import Lane, Mark
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/calendar"
_OWN = (
    PageColumn("Pool", "link", wide=2),
    PageColumn("From", "text", wide=4),
    PageColumn("To", "text", wide=4),
    PageColumn("Free workers", "text"),
    PageColumn("Yours", "text"),
)
_WHOLE = (
    *_OWN[:-1],
    PageColumn("Sessions", "text"),
    PageColumn("Workers needed", "text"),
    PageColumn("In danger", "text"),
    PageColumn("What", "text", wide=4),
)
_UNKNOWN = Cell("absent", "not known")
_GIVEN = ("namespace", "pool", "from", "to", "zone", "view", "date")
PARTS = 3
"""How many groups and labs a row names."""
DANGERS = 20
"""Times in danger that stand in words above the table."""


@dataclass(frozen=True, slots=True)
class Following:
    """The rest of a pool's calendar."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Part:
    """A group or lab of a row: how many of its sessions, and its pages ("" without one)."""

    name: str
    sessions: int
    href: str
    course: str = ""
    course_href: str = ""


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A time in which a pool's promises stay the same; what others have is None for who sees own."""

    key: str
    pool: Cell
    start: Cell
    end: Cell
    free: Cell
    mine: int
    sessions: int | None
    needed: str
    in_danger: int
    parts: tuple[Part, ...]
    more: int

    @property
    def what(self) -> str:
        """Return in words what its sessions are of."""
        said = ", ".join(f"{each.name} {each.sessions}" for each in self.parts)
        return f"{said}, and {self.more} more" if self.more > 0 else said or "nothing"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the row as cells of the columns that the page has for its reader."""
        known = (self.pool, self.start, self.end, self.free)
        if self.sessions is None:
            return (*known, Cell("text", str(self.mine)))
        rest = (str(self.sessions), self.needed, str(self.in_danger), self.what)
        return (*known, *(Cell("text", each) for each in rest))


@dataclass(frozen=True, slots=True)
class Own:
    """A slot of the reader's own: what it is, its page, when, and how it stands ("" for a class)."""

    name: str
    href: str
    when: str
    state: Cell | None


@dataclass(frozen=True, slots=True)
class CalendarPage:
    """The page: timelines, what is in danger, own slots, rows, and the pages that go on."""

    span: Span
    lanes: tuple[Lane, ...]
    axis: tuple[Mark, ...]
    dangers: tuple[str, ...]
    own: tuple[Own, ...]
    rows: tuple[TimeRow, ...]
    more: tuple[Following, ...]
    unknown: tuple[str, ...]
    left_out: int
    namespace: str
    pool: str
    whole: bool
    shown: str

    @property
    def columns(self) -> tuple[PageColumn, ...]:
        """Return the columns of its rows: those who see only their own see nothing of others."""
        return _WHOLE if self.whole else _OWN


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> CalendarPage:
    """Return the page that the query asks for; Invalid when it means nothing."""
    given = {name: asked.last(name) for name in _GIVEN if asked.last(name)}
    namespace, now = given.get("namespace", "default"), services.clock.now()
    span = calendar_times.of(given, now, ROOT)
    if span.over:
        found = Calendar(start=parse_instant(span.start), end=parse_instant(span.end), pools=())
        access.demand(caller.principal, "read", "Session")
    else:
        found = await calendar.read(
            services, caller, namespace=namespace, pool=given.get("pool"), start=span.start,
            end=span.end, limit=words.ROWS,
        )  # fmt: skip
    times = (found.start, found.end)
    linked = access.may(caller.principal, "read", "Pool")
    drawn = [each for each in found.pools if each.maximum is not None]
    return CalendarPage(
        span=span,
        lanes=tuple(_lane(services, caller, each, times, span.zone) for each in drawn),
        axis=timeline.axis(*times, span.zone) if drawn else (),
        dangers=tuple(_dangers(found, span.zone))[:DANGERS],
        own=tuple(_own(each, now) for each in calendar_marks.own(services, caller, *times)),
        rows=tuple(
            _row(services, caller, pool, number, each, zone=span.zone, linked=linked)
            for pool in found.pools
            for number, each in enumerate(pool.items)
        ),
        more=tuple(_following(each, given) for each in found.pools if each.next is not None),
        unknown=tuple(each.pool for each in found.pools if each.maximum is None),
        left_out=found.left_out,
        namespace=namespace,
        pool=given.get("pool", ""),
        whole=any(each.sessions is not None for pool in found.pools for each in pool.items),
        shown=zones.span(*times, span.zone),
    )


def _lane(
    services: ServiceContext,
    caller: Caller,
    pool: PoolCalendar,
    times: tuple[datetime, datetime],
    zone: str,
) -> Lane:
    ref = Ref(Pool, pool.namespace, pool.pool)
    ready = calendar_marks.ready(services, caller, ref, times)
    return timeline.lane(pool, ready, *times, zone)


def _dangers(found: Calendar, zone: str) -> Iterator[str]:
    for pool in found.pools:
        for each in pool.items:
            if each.in_danger:
                when = zones.span(each.start, each.end, zone)
                what = "on places that are gone, or too small for them"
                yield f"Pool {pool.pool}, {when}: {each.in_danger} of {each.sessions} {what}"


def _own(slot: OwnSlot, now: datetime) -> Own:
    obj, when = slot.obj, zones.span(slot.start, slot.end, slot.zone)
    if isinstance(obj, Group):
        href = values.address("class", obj.name, obj.namespace)
        return Own(f"class {obj.name}", href, when, None)
    href = values.address("sessions", obj.name, obj.namespace, obj.metadata.uid)
    name = f"{obj.spec.definition} ({obj.name})"
    return Own(name, href, when, seat_words.standing(obj, now))


def _following(pool: PoolCalendar, given: Mapping[str, str]) -> Following:
    begin = "" if pool.next is None else format_instant(pool.next)
    kept = {name: value for name, value in given.items() if name not in {"view", "date"}}
    wanted = {**kept, "namespace": pool.namespace, "pool": pool.pool, "from": begin}
    return Following(f"More of {pool.pool}", f"{ROOT}?{urlencode(wanted)}")


def _row(
    services: ServiceContext, caller: Caller, pool: PoolCalendar, number: int, span: CalendarSpan,
    *, zone: str, linked: bool,
) -> TimeRow:  # fmt: skip
    now = services.clock.now()
    where = f"/pools/{pool.pool}?{urlencode({'namespace': pool.namespace})}"
    named = span.parts[:PARTS]
    return TimeRow(
        key=f"{pool.pool}/{number}",
        pool=Cell("link", pool.pool, href=where) if linked else Cell("text", pool.pool),
        start=_when(span.start, now, zone),
        end=_when(span.end, now, zone),
        free=_UNKNOWN if span.free is None else Cell("text", str(span.free)),
        mine=span.mine,
        sessions=span.sessions,
        needed=f"{span.places} of {pool.maximum}",
        in_danger=span.in_danger or 0,
        parts=tuple(
            _part(services, caller, each.name, each.sessions, pool.namespace) for each in named
        ),
        more=len(span.parts) - len(named),
    )


def _when(at: datetime, now: datetime, zone: str) -> Cell:
    """Return an instant for planning: the day and the hour first, then how far away it is."""
    there = at.astimezone(zones.zone_of(zone))
    said = f"{utc_text(at)[:-1]} UTC" if zone == "UTC" else zones.both(at, zone)
    return Cell("text", f"{there:%a} {said}, {values.relative((at - now).total_seconds())}")


def _part(
    services: ServiceContext, caller: Caller, name: str, sessions: int, namespace: str
) -> Part:
    obj, course = calendar_marks.linked(services, caller, name, namespace)
    if obj is None:
        return Part(name, sessions, "")
    plural = "class" if isinstance(obj, Group) else KINDS[obj.kind].plural
    href = values.address(plural, obj.name, namespace)
    if course is None:
        return Part(name, sessions, href)
    return Part(
        name, sessions, href, course.name, values.address("courses", course.name, namespace)
    )
