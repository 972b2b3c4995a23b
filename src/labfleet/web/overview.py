"""The data of the page of live tables: its tables, its counts and the newest events, as a caller sees them.

Read from the cache; the page's script then follows the event stream.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from labfleet.interfaces import store as stores
from labfleet.kernel import clock, errors
from labfleet.resources import happenings, kinds, refs
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, session_outlook
from labfleet.service.reads import history, measured
from labfleet.web import values, words
from labfleet.web.values import Cell, Use
from labfleet.web.view import Asked
from labfleet.web.words import Section, State

ROOT = "/live"


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
    """One line of the list of events; `run` is what the script goes on from (`fleet.js`)."""

    key: str
    at: Cell
    what: str
    kind: str
    name: str
    href: str
    state: Cell | None
    reason: str
    message: str
    actor: str
    run: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page."""

    tables: tuple[Table, ...]
    events: tuple[RecentEvent, ...]
    at: stores.Cursor
    summary: None = None
    """What the first page has instead of tables, for who may read workers."""


async def page(services: ServiceContext, caller: Caller, _asked: Asked) -> Overview:
    """Return the page's data at a revision that has all earlier writes."""
    await services.fresh()
    at = services.cache.cursor
    assert at is not None  # noqa: S101 - fresh() returns after the first list
    now = services.clock.now()
    tables = tuple(
        table(
            section, seen(services, caller, section.kind), now, uses(services, section.kind),
            readable(caller.principal),
        )
        for section in words.sections()
        if access.may(caller.principal, "read", section.kind)
    )  # fmt: skip
    return Overview(tables, await events(services, caller, now), at)


def readable(principal: Principal) -> frozenset[str]:
    """Return the plurals of the kinds that somebody may read: only to them a link leads."""
    return frozenset(
        row.plural for row in kinds.KINDS.values() if access.may(principal, "read", row.name)
    )


def seen(services: ServiceContext, caller: Caller, kind: str) -> list[Resource]:
    """Return the objects of a kind that the caller may see."""
    rows: tuple[Resource, ...] = services.cache.all(kinds.KINDS[kind].type)
    return [
        session_outlook.shown(services, obj) if isinstance(obj, Session) else obj
        for obj in rows
        if access.sees(caller.principal, obj)
    ]


def uses(services: ServiceContext, kind: str) -> dict[str, Use]:
    """Return what is reserved on each worker or cluster, the most at any instant from now on.

    Of workers also what was measured.
    """
    if kind == Worker.__name__:
        held = values.uses_of(
            (
                (f"{each.namespace}/{each.status.worker or ''}", each.status.reservation)
                for each in services.cache.by(indices.SESSIONS_OPEN, True)
                if each.status.phase not in TERMINAL
            ),
            services.clock.now(),
        )
        for each in services.cache.by(indices.WORKERS_LIVING, True):
            told = functools.cache(functools.partial(_measured, services, each))
            held[each.key.path] = replace(held.get(each.key.path, Use()), measured=told)
        return held
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


def _measured(services: ServiceContext, worker: Worker) -> Mapping[str, measured.Value]:
    return measured.of_worker(services, worker).values


def table(
    section: Section,
    objects: Sequence[Resource],
    now: datetime,
    held: dict[str, Use],
    readable: Collection[str],
) -> Table:
    """Return a table of the objects: live ones first, then what is over, newest first."""
    # What is over are many, of few states: each state is looked up once, and what is not shown is
    # not put in order.
    state = functools.cache(functools.partial(words.state, section.kind))
    first = heapq.nsmallest(words.ROWS, objects, key=functools.partial(_order, section, state))
    counts: dict[str, int] = dict.fromkeys(words.groups(section.kind), 0)
    for obj in objects:
        group = state(phase_of(obj)).group
        if group in counts:
            counts[group] += 1
    return Table(
        section=section,
        rows=tuple(row(section, obj, now, held, readable) for obj in first),
        total=len(objects),
        counts=tuple(counts.items()),
    )


def row(
    section: Section, obj: Resource, now: datetime, held: dict[str, Use], readable: Collection[str]
) -> Row:
    """Return the row of an object."""
    return Row(
        key=f"{obj.kind}/{obj.metadata.namespace}/{obj.name}",
        cells=tuple(values.cell(column, obj, now, held, readable) for column in section.columns),
        over=_over(obj),
        version=obj.revision,
    )


def _order(
    section: Section, state: Callable[[str | None], State], obj: Resource
) -> tuple[int, int, str, str]:
    """Return a row's sort key; the script sorts by the same four values."""
    place = state(phase_of(obj)).order if kinds.KINDS[section.kind].states else 0
    over = place >= words.OVER
    at = values.read(obj, section.since) if over else obj.metadata.creation_timestamp
    millis = 0 if at is None else int(at.timestamp() * 1000)
    return place, -millis if over else millis, obj.metadata.namespace, obj.name


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
    return recent_events((each for each in page.events if each.key.kind in kinds_told), caller, now)


def recent_events(
    found: Iterable[stores.Event], caller: Caller, now: datetime, *, only: str = ""
) -> tuple[RecentEvent, ...]:
    """Return at most `words.EVENTS` lines, newest first, of events that are oldest first.

    What repeats is one line. Of many events only the newest `words.LOOKED` that the caller may see
    are read, so that a busy fleet's page costs no more than that. `only` is the uid of the one
    object that is meant, of those that have had its name.
    """
    seen: list[stores.Event] = []
    for event in reversed([*found]):
        if len(seen) >= words.LOOKED:
            break
        if not access.may(caller.principal, "read", event.key.kind):
            continue
        try:
            obj: Resource = kinds.decode(event.key.kind, event.doc, event.revision)
        except (ValueError, KeyError):
            # Written by another version in a form unknown here; this event is left out.
            continue
        if access.sees(caller.principal, obj):
            seen.append(event)
    told = [*history.told(seen)][::-1]
    again = _named_again([each.event for each in told])
    meant = (each for each in told if not only or each.event.uid == only)
    runs = happenings.folded(meant, _said)[::-1][: words.EVENTS]
    return tuple(_line(run, again, now) for run in runs)


def _said(told: history.Told) -> happenings.Said:
    event = told.event
    return happenings.Said(
        event.uid, event.type, told.phase, event.actor, told.reason, told.message
    )


def _named_again(events: Iterable[stores.Event]) -> set[str]:
    """Return the uids of the objects whose name another object had before, oldest event first."""
    names: dict[Key, str] = {}
    found: set[str] = set()
    for event in events:
        if names.setdefault(event.key, event.uid) != event.uid:
            found.add(event.uid)
            names[event.key] = event.uid
    return found


def _line(run: Sequence[history.Told], again: set[str], now: datetime) -> RecentEvent:
    """Return the line of a run of events that tell the same, oldest first."""
    first, last = run[0], run[-1]
    event, said = last.event, _said(first)
    kind, namespace, name = event.key
    plural = kinds.KINDS[kind].plural
    reason, message = happenings.worded(said.reason, said.message)
    if event.type == "ADDED" and event.uid in again:
        message = "; ".join(each for each in (message, happenings.NAMED_BEFORE) if each)
    href = values.address(plural, name, namespace, event.uid)
    return RecentEvent(
        key=str(event.revision),
        at=values.instant(event.at, now),
        what=words.CHANGES[event.type],
        kind=kind,
        name=name,
        href=href,
        state=None if said.phase is None else values.state(kind, said.phase),
        reason=reason,
        message=happenings.with_count(message, len(run), first.event.at),
        actor=event.actor,
        run={
            "key": str(event.revision),
            "at": clock.format_instant(event.at),
            "type": event.type,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "uid": event.uid,
            "phase": said.phase,
            "reason": said.reason,
            "message": said.message,
            "actor": event.actor,
            "count": len(run),
            "since": clock.format_instant(first.event.at),
            "again": event.type == "ADDED" and event.uid in again,
        },
    )


def _over(obj: Resource) -> bool:
    return words.state(obj.kind, phase_of(obj)).order >= words.OVER
