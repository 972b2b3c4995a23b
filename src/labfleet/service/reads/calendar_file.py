"""Sessions as a calendar file: of a person, of a label, or of any set of sessions.

A file says when and what, never where a lab is reached: calendars are shared, and kept by others.
Called-off sessions stay in it as cancelled for `KEPT`, so that a calendar that only adds and changes
entries shows that they are off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Literal

from labfleet.resources import calendar_file, page_links, selectors, zones
from labfleet.resources.calendar_file import CalendarEntry
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices

S = SessionPhase
KEPT = timedelta(days=7)
"""How long what is over stays in a calendar."""
MOST = 1000
"""Entries of one file."""
_OFF = {S.CANCELLED: "Cancelled", S.FAILED: "Failed", S.EXPIRED: "Did not start"}


async def read(
    services: ServiceContext,
    caller: Caller,
    *,
    namespace: str,
    selector: str = "",
    owner: str | None = None,
) -> bytes:
    """Return the calendar of the sessions that a caller may see; Invalid names a wrong selector.

    A person sees their own; others all of the namespace, or those of one owner.
    """
    who = caller.principal
    access.demand(who, "read", Session.__name__)
    wanted = selectors.parse(selector)
    mine = access.only_owner(who, Session.__name__)
    whose = owner if mine is None else mine
    await services.fresh()
    found: Iterable[Session] = ()
    if whose is None:
        found = _of_all(services, namespace)
    elif owner in {None, whose}:
        found = _of(services, namespace, whose)
    seen = (each for each in found if selectors.matches(wanted, each.metadata.labels))
    name = "Labs" if whose is None else f"Labs of {whose}"
    return of(services, seen, name=f"{name}, {selector}" if selector else name)


async def of_person(services: ServiceContext, who: Principal, namespace: str) -> bytes:
    """Return the calendar of a person's own sessions, whatever else that person may see."""
    await services.fresh()
    return of(services, _of(services, namespace, who.name), name=f"Labs of {who.name}")


def of(services: ServiceContext, sessions: Iterable[Session], *, name: str) -> bytes:
    """Return any set of sessions as a calendar file, in the order of their starts.

    Of more than `MOST` the first ones are in it, and it says so.
    """
    now = services.clock.now()
    pages = services.settings.now().notices.pages_url
    entries = sorted(
        (entry for each in sessions for entry in _entry(each, pages, now)),
        key=lambda each: (each.start, each.uid),
    )
    about = ""
    if len(entries) > MOST:
        about = f"The first {MOST} of {len(entries)} sessions: ask for fewer by a label."
    return calendar_file.text(entries[:MOST], name=name, about=about)


def _of(services: ServiceContext, namespace: str, owner: str) -> Iterator[Session]:
    yield from services.cache.by(indices.SESSIONS_OF_OWNER, f"{namespace}/{owner}")
    for day in _days(services.clock.now()):
        yield from services.cache.by(indices.SESSIONS_ENDED_OF, (f"{namespace}/{owner}", day))


def _of_all(services: ServiceContext, namespace: str) -> Iterator[Session]:
    for each in services.cache.by(indices.SESSIONS_OPEN, True):
        if each.namespace == namespace and each.status.phase not in TERMINAL:
            yield each
    for day in _days(services.clock.now()):
        for each in services.cache.by(indices.SESSIONS_ENDED, day):
            if each.namespace == namespace:
                yield each


def _days(now: datetime) -> list[date]:
    return [now.date() - timedelta(days=number) for number in range(KEPT.days + 1)]


def _entry(session: Session, pages_url: str, now: datetime) -> Iterator[CalendarEntry]:
    """Yield the entry of a session; none while nobody knows when it is."""
    status, slot = session.status, session.spec.slot
    start = slot.start or status.started_at or status.start
    end = status.end or slot.end
    over = status.phase in TERMINAL
    if start is None or (over and (status.ended_at is None or status.ended_at < now - KEPT)):
        return
    if over and status.phase not in _OFF and status.ended_at is not None:
        end = status.ended_at if end is None else min(end, status.ended_at)
    if end is None:
        return
    off = _OFF.get(status.phase, "")
    lab = f"Lab {session.spec.definition}"
    yield CalendarEntry(
        uid=f"{session.metadata.uid}@labfleet",
        sequence=session.revision,
        changed=status.phase_since or session.metadata.creation_timestamp or start,
        start=start,
        end=end,
        status="CANCELLED" if off else _sure(session),
        summary=f"{off}: {lab}" if off else lab,
        description=(
            f"{zones.span(start, end, slot.zone)}\nSession {session.name}: {status.phase}\n"
            "Where the lab is reached is shown after signing in."
        ),
        url=page_links.link(pages_url, session) if pages_url else "",
    )


def _sure(session: Session) -> Literal["CONFIRMED", "TENTATIVE"]:
    """Return whether a slot is certain: somebody promised it, or it is under way."""
    waits = session.status.phase is S.PENDING and session.status.claim is None
    return "TENTATIVE" if waits else "CONFIRMED"
