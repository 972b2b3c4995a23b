"""The calendar of pools: what they have promised, hour by hour, and what is free.

Who may see only their own sessions sees what is free and what is theirs, and nothing of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from labfleet.decisions.claims import calendar
from labfleet.decisions.claims.calendar import Entry, Interval
from labfleet.decisions.claims.places import PoolClaims
from labfleet.decisions.lifecycle.worker import phases
from labfleet.kernel import errors
from labfleet.kernel.clock import parse_instant
from labfleet.resources.meta import Record
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.service.core import access, intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.pool_claims import Claims
from labfleet.service.kinds.session_claims import AHEAD_DAYS

DAYS = 7
"""How many days are shown when nobody says until when."""
MOST_DAYS = 31
MOST_POOLS = 50
MOST_INTERVALS = 1000
NAMED = 20
"""How many groups and labs an interval names."""


class CalendarPart(Record, frozen=True, kw_only=True):
    """How many of an interval's sessions are of one group, or of one lab.

    name: Name of the group; of sessions of no group that of their definition.
    sessions: How many sessions.
    """

    name: str
    sessions: int


class CalendarSpan(Record, frozen=True, kw_only=True):
    """A time in which what a pool has promised stays the same; from head starts to cleaned ends.

    start: From when.
    end: Until when.
    free: Places on which nothing is promised; null while nobody knows how many the pool can have.
    mine: Sessions of the caller among them: their own, and the seats that they booked for others.
    places: Places with promises; null for callers who see only their own sessions.
    sessions: Sessions that hold a place; null likewise.
    in_danger: Sessions on places that are gone, or too small for them; null likewise.
    parts: The groups and labs with most sessions; empty likewise.
    """

    start: datetime
    end: datetime
    free: int | None = None
    mine: int = 0
    places: int | None = None
    sessions: int | None = None
    in_danger: int | None = None
    parts: tuple[CalendarPart, ...] = ()


class PoolCalendar(Record, frozen=True, kw_only=True):
    """What one pool has promised.

    pool: Name of the pool.
    namespace: Its namespace.
    track: Lab track that its workers host.
    maximum: Workers that it may have; null while its template is missing or disabled.
    workers: Workers that are up or coming up now.
    items: The times, without gaps.
    next: From when more is to be read; null when this is all.
    """

    pool: str
    namespace: str
    track: str
    maximum: int | None
    workers: int
    items: tuple[CalendarSpan, ...] = ()
    next: datetime | None = None


class Calendar(Record, frozen=True, kw_only=True):
    """What pools have promised between two instants.

    start: From when.
    end: Until when.
    pools: One entry for each pool, by name.
    left_out: How many pools are left out.
    """

    start: datetime
    end: datetime
    pools: tuple[PoolCalendar, ...]
    left_out: int = 0


async def read(
    services: ServiceContext,
    caller: Caller,
    *,
    namespace: str,
    pool: str | None = None,
    start: str = "",
    end: str = "",
    limit: int = 200,
) -> Calendar:
    """Return the calendar of a namespace's pools from now, or later, on; at most a month of it.

    What has ended is promised no more, so an earlier start is taken for now.
    """
    access.demand(caller.principal, "read", "Session")
    await services.fresh()
    now = services.clock.now()
    begin, until = _instant(start, "from"), _instant(end, "to")
    first = max(now, begin or now)
    if first - now > timedelta(days=AHEAD_DAYS + MOST_DAYS):
        what = f"must be at most {AHEAD_DAYS + MOST_DAYS} days ahead; nothing is promised later"
        raise intake.invalid(("from", what))
    last = first + timedelta(days=DAYS) if until is None else until
    if not 1 <= limit <= MOST_INTERVALS:
        raise intake.invalid(("limit", f"must be 1 to {MOST_INTERVALS}"))
    if last <= first:
        raise intake.invalid(("to", "must be later than from, and than now"))
    if last - first > timedelta(days=MOST_DAYS):
        raise intake.invalid(("to", f"must be at most {MOST_DAYS} days after from"))
    found = services.cache.by(indices.POOLS_IN, namespace)
    pools = sorted((each for each in found if pool in {None, each.name}), key=_name)
    if pool is not None and not pools:
        raise errors.Gone(f"pool {pool[:80]!r} does not exist in {namespace[:80]!r}")
    shown = []
    for each in pools[:MOST_POOLS]:
        shown.append(_of(services, caller, each, (first, last), limit))
        await asyncio.sleep(0)  # a look at thousands of claims must not block others
    left = max(0, len(pools) - MOST_POOLS)
    return Calendar(start=first, end=last, pools=tuple(shown), left_out=left)


def _instant(text: str, field: str) -> datetime | None:
    if not text:
        return None
    try:
        return parse_instant(text)
    except ValueError:
        told = "is no instant with a zone; write for example 2026-11-27T09:00:00Z"
        raise intake.invalid((field, told)) from None


def _name(pool: Pool) -> str:
    return pool.name


def _of(
    services: ServiceContext,
    caller: Caller,
    pool: Pool,
    span: tuple[datetime, datetime],
    limit: int,
) -> PoolCalendar:
    first, last = span
    own = access.only_owner(caller.principal, "Session")
    claims = Claims(services.cache, services.clock.now()).of(pool, first, last)
    workers = services.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    here = phases.HOSTING | phases.BOOTING
    up = sum(each.status.phase in here and not phases.leaving(each) for each in workers)
    spans, more = tuple[CalendarSpan, ...](), None
    if claims is not None:
        entries = list(_entries(services, claims, caller.principal.name))
        found = list(islice(calendar.intervals(claims, entries, first, last), limit + 1))
        spans = tuple(
            _span(each, claims.extent.places, whole=own is None) for each in found[:limit]
        )
        more = found[limit].start if len(found) > limit else None
    return PoolCalendar(
        pool=pool.name,
        namespace=pool.namespace,
        track=pool.spec.track,
        maximum=None if claims is None else claims.extent.places,
        workers=up,
        items=spans,
        next=more,
    )


def _entries(services: ServiceContext, claims: PoolClaims, reader: str) -> Iterator[Entry]:
    for each in claims.claims():
        session = services.cache.of_uid(Session, each.uid)
        if session is None:
            yield Entry(each.claim, "")
            continue
        seat = session.status.seat
        about = session.spec.definition if seat is None else seat.group
        yield Entry(each.claim, about, access.of_owner(reader, session))


def _span(found: Interval, places: int, *, whole: bool) -> CalendarSpan:
    free = max(0, places - found.places)
    if not whole:
        return CalendarSpan(start=found.start, end=found.end, free=free, mine=found.mine)
    parts = tuple(CalendarPart(name=name, sessions=many) for name, many in found.about[:NAMED])
    return CalendarSpan(
        start=found.start,
        end=found.end,
        free=free,
        mine=found.mine,
        places=found.places,
        sessions=found.sessions,
        in_danger=found.danger,
        parts=parts,
    )
