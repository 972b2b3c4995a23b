"""What stands beside the calendar of pools: when workers are made ready, and one's own slots.

For pages; the calendar itself is `calendar`. The first is for those who see all sessions alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.resources.definition import Definition
from labfleet.resources.group import Group
from labfleet.resources.meta import Ref, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.pool_leads import Leads
from labfleet.service.reads import classes

MARKS = 100
"""Marks of one pool that are told."""
OWN = 50
"""Slots of one's own that are told."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Ready:
    """From when on workers are made ready for so many sessions, the first of which begins then."""

    at: datetime
    begins: datetime
    sessions: int


@dataclass(frozen=True, slots=True)
class OwnSlot:
    """A session or a class of the caller: from when to when, and in which zone it was booked."""

    obj: Session | Group
    start: datetime
    end: datetime | None
    zone: str


def ready(
    services: ServiceContext, caller: Caller, pool: Ref[Pool], span: tuple[datetime, datetime]
) -> tuple[Ready, ...]:
    """Return when workers of a pool are made ready for slots ahead, the earliest first.

    Nothing to who sees only their own sessions. Of those that begin together there is one.
    """
    if access.only_owner(caller.principal, Session.__name__) is not None:
        return ()
    (first, last), leads = span, Leads(services.cache)
    found = dict[tuple[datetime, datetime], int]()
    for each in _claiming(services, pool, first, last):
        at, begins = leads.looked_for(each), each.spec.slot.start
        if at is not None and begins is not None and first <= at < last:
            found[at, begins] = found.get((at, begins), 0) + 1
    return tuple(Ready(*key, many) for key, many in sorted(found.items())[:MARKS])


def _claiming(
    services: ServiceContext, pool: Ref[Pool], first: datetime, last: datetime
) -> Iterator[Session]:
    """Yield each session once that waits for its slot and holds a claim on a day of the span."""
    seen = set[str]()
    days = range(first.toordinal(), (last + _DAY).toordinal() + 1)
    for day in days:
        for each in services.cache.by(indices.SESSIONS_CLAIMING, (pool.key.path, day)):
            if each.status.phase is SessionPhase.PENDING and each.metadata.uid not in seen:
                seen.add(each.metadata.uid)
                yield each


def own(
    services: ServiceContext, caller: Caller, first: datetime, last: datetime
) -> tuple[OwnSlot, ...]:
    """Return the caller's own sessions and classes in a span, the earliest first; at most `OWN`."""
    who = caller.principal
    name, found = who.name, list[OwnSlot]()
    for each in services.cache.by(indices.filter_of(Session.__name__, "owner"), name):
        if each.status.phase not in TERMINAL and access.sees(who, each):
            slot, status = each.spec.slot, each.status
            found += _slot(each, slot.start or status.start, slot.end or status.end, slot.zone)
    for group in services.cache.by(indices.filter_of(Group.__name__, "owner"), name):
        if access.sees(who, group):
            found += _slot(group, group.status.start, group.status.end, group.spec.slot.zone)
    kept = [each for each in found if each.start < last and (each.end is None or each.end > first)]
    return tuple(sorted(kept, key=lambda each: (each.start, each.obj.name))[:OWN])


def _slot(
    obj: Session | Group, start: datetime | None, end: datetime | None, zone: str
) -> Sequence[OwnSlot]:
    return () if start is None else (OwnSlot(obj, start, end, zone),)


def linked(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> tuple[Resource | None, Resource | None]:
    """Return what a part of the calendar is named after, and the course of a group.

    A group, else a definition; None for what the caller may not see.
    """
    group = services.cache.get(Group, name, namespace)
    if group is not None and access.sees(caller.principal, group):
        return group, classes.course_of(services, caller, group)
    definition = services.cache.get(Definition, name, namespace)
    if definition is not None and access.sees(caller.principal, definition):
        return definition, None
    return None, None
