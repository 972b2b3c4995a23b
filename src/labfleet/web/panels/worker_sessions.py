"""The tab of a worker's sessions: those on it now, and those that ended there."""

from __future__ import annotations

from dataclasses import replace

from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.web import overview, words
from labfleet.web.sheet import Head, Part, Sheet
from labfleet.web.view import Asked

PAST = 50
"""How many sessions that ended are listed."""
LOOKED = 5000
"""Once so many ended sessions are looked at for them, days before are left alone."""


async def make(services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked) -> Sheet:
    """Return the tab of a worker."""
    here = services.cache.by(indices.SESSIONS_HERE, obj.key.path)
    live = [
        each
        for each in here
        if each.status.phase not in TERMINAL and access.sees(caller.principal, each)
    ]
    ended, note = _ended(services, caller, obj)
    parts = (
        sessions(services, caller, live, Part("On it now", empty="None is on it.")),
        sessions(
            services, caller, ended, Part("Ended here", note=note, empty="None that is still kept.")
        ),
    )
    return Sheet("Sessions", "", parts)


def _ended(services: ServiceContext, caller: Caller, worker: Resource) -> tuple[list[Session], str]:
    """Return the newest sessions that ended on a worker, and why these may not be all of them."""
    found, looked = list[Session](), 0
    for day in sorted(services.cache.values(indices.SESSIONS_ENDED), reverse=True):
        ended = services.cache.by(indices.SESSIONS_ENDED, day)
        looked += len(ended)
        here = [
            each
            for each in ended
            if each.status.worker == worker.name
            and each.namespace == worker.namespace
            and access.sees(caller.principal, each)
        ]
        found += sorted(here, key=_ended_at, reverse=True)
        if len(found) > PAST:
            return found[:PAST], f"The newest {PAST}."
        if looked >= LOOKED:
            return found, f"Looked for among the newest {looked} that ended in the fleet."
    return found, ""


def _ended_at(session: Session) -> tuple[float, str]:
    at = session.status.ended_at
    return (0.0 if at is None else at.timestamp()), session.name


def sessions(services: ServiceContext, caller: Caller, found: list[Session], part: Part) -> Part:
    """Return a part with a table of sessions, with the columns that the kind declares."""
    section = words.section("Session")
    assert section is not None  # noqa: S101 - sessions have a table, for the type checker
    readable = overview.readable(caller.principal)
    made = overview.table(section, found, services.clock.now(), {}, readable)
    return replace(
        part,
        heads=tuple(Head(column.title, column.wide) for column in section.columns),
        rows=tuple(row.cells for row in made.rows),
        more=made.more,
        caption=part.title,
    )
