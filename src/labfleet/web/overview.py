"""The data of the live page: its tables, its counts and the newest events, as a caller sees them.

Read from the cache; the page's script then follows the event stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds, refs
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.web import values, words
from labfleet.web.values import Cell, Use
from labfleet.web.words import Section


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its key for the script, its version, its cells."""

    key: str
    cells: tuple[Cell, ...]
    over: bool = False
    version: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the first rows, how many there are, and how many in each group of states."""

    section: Section
    rows: tuple[Row, ...]
    total: int
    counts: tuple[tuple[str, int], ...] = ()

    @property
    def more(self) -> int:
        """Return how many rows are not shown."""
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """One line of the list of events."""

    key: str
    at: Cell
    what: str
    kind: str
    name: str
    href: str
    state: Cell | None
    reason: str
    actor: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page."""

    tables: tuple[Table, ...]
    events: tuple[RecentEvent, ...]
    at: stores.Cursor


async def overview(services: ServiceContext, caller: Caller) -> Overview:
    """Return the page's data at a revision that has all earlier writes."""
    await services.fresh()
    at = services.cache.cursor
    assert at is not None  # noqa: S101 - fresh() returns after the first list
    now = services.clock.now()
    tables = tuple(
        table(section, seen(services, caller, section.kind), now, uses(services, section.kind))
        for section in words.sections()
        if access.may(caller.principal, "read", section.kind)
    )
    return Overview(tables, await events(services, caller, now), at)


def seen(services: ServiceContext, caller: Caller, kind: str) -> list[Resource]:
    """Return the objects of a kind that the caller may see."""
    rows: tuple[Resource, ...] = services.cache.all(kinds.KINDS[kind].type)
    return [obj for obj in rows if access.sees(caller.principal, obj)]


def uses(services: ServiceContext, kind: str) -> dict[str, Use]:
    """Return what is reserved on each worker or cluster, the most at any instant from now on."""
    if kind == Worker.__name__:
        return values.uses_of(
            (
                (f"{each.namespace}/{each.status.worker or ''}", each.status.reservation)
                for each in services.cache.by(indices.SESSIONS_OPEN, True)
                if each.status.phase not in TERMINAL
            ),
            services.clock.now(),
        )
    if kind == Cluster.__name__:
        return values.uses_of(
            (
                (refs.cluster_of(each).key.path, each.status.reservation)
                for cluster in services.cache.values(indices.SIMULATIONS_HOLDING)
                for each in services.cache.by(indices.SIMULATIONS_HOLDING, cluster)
            ),
            services.clock.now(),
        )
    return {}


def table(
    section: Section, objects: Sequence[Resource], now: datetime, held: dict[str, Use]
) -> Table:
    """Return a table of the objects: live ones first, then what is over, newest first."""
    ordered = sorted(objects, key=lambda obj: order(section, obj))
    counts: dict[str, int] = dict.fromkeys(words.groups(section.kind), 0)
    for obj in objects:
        group = words.state(section.kind, phase_of(obj)).group
        if group in counts:
            counts[group] += 1
    return Table(
        section=section,
        rows=tuple(row(section, obj, now, held) for obj in ordered[: words.ROWS]),
        total=len(objects),
        counts=tuple(counts.items()),
    )


def row(section: Section, obj: Resource, now: datetime, held: dict[str, Use]) -> Row:
    """Return the row of an object."""
    return Row(
        key=f"{obj.kind}/{obj.metadata.namespace}/{obj.name}",
        cells=tuple(values.cell(column, obj, now, held) for column in section.columns),
        over=_over(obj),
        version=obj.revision,
    )


def order(section: Section, obj: Resource) -> tuple[int, int, str, str]:
    """Return a row's sort key; the script sorts by the same four values."""
    place = (
        words.state(section.kind, phase_of(obj)).order if kinds.KINDS[section.kind].states else 0
    )
    at = values.read(obj, section.since if _over(obj) else "metadata.creationTimestamp")
    millis = 0 if at is None else int(at.timestamp() * 1000)
    if place >= words.OVER:
        millis = -millis
    return place, millis, obj.metadata.namespace, obj.name


def phase_of(obj: Resource) -> str | None:
    """Return an object's phase; None for kinds without one."""
    phase = getattr(obj.status, "phase", None)
    return None if phase is None else str(phase)


async def events(
    services: ServiceContext, caller: Caller, now: datetime
) -> tuple[RecentEvent, ...]:
    """Return the newest events that the caller may see, of the log's last page."""
    head = await services.log.head()
    behind = stores.Cursor(head.epoch, max(0, head.revision - stores.PAGE_LIMIT))
    try:
        page = await services.log.events(behind)
    except errors.TooOld:
        return ()
    kinds_told = words.followed()
    told = (event for event in reversed(page.events) if event.key.kind in kinds_told)
    return tuple(recent_events(told, caller, now))


def recent_events(
    found: Iterable[stores.Event], caller: Caller, now: datetime
) -> list[RecentEvent]:
    """Return at most `words.EVENTS` lines, in the order given."""
    lines: list[RecentEvent] = []
    for event in found:
        if len(lines) >= words.EVENTS:
            break
        if not access.may(caller.principal, "read", event.key.kind):
            continue
        try:
            obj: Resource = kinds.decode(event.key.kind, event.doc, event.revision)
        except (ValueError, KeyError):
            # Written by another version in a form unknown here; this event is left out.
            continue
        if access.sees(caller.principal, obj):
            lines.append(recent_event(event, obj, now))
    return lines


def recent_event(event: stores.Event, obj: Resource, now: datetime) -> RecentEvent:
    """Return the line of one event."""
    phase = phase_of(obj)
    plural = kinds.KINDS[obj.kind].plural
    return RecentEvent(
        key=str(event.revision),
        at=values.instant(event.at, now),
        what=words.CHANGES[event.type],
        kind=obj.kind,
        name=obj.name,
        href=values.address(plural, obj.name, obj.metadata.namespace, event.uid),
        state=None if phase is None else values.state(obj.kind, phase),
        reason=event.reason,
        actor=event.actor,
    )


def _over(obj: Resource) -> bool:
    return words.state(obj.kind, phase_of(obj)).order >= words.OVER
