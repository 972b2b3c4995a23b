"""The labs of one person: theirs now, next and past, and those that others offer them.

Whoever sits at a lab reads this, so what is told of a lab is what they may act on: `explain` with
their rights.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from labfleet.decisions.lifecycle.session import closing, extension
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.definition import Definition
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import RETRIABLE, TERMINAL, Session, SessionPhase
from labfleet.service.core import access, views
from labfleet.service.core.explanation import Explanation
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, session_outlook
from labfleet.service.reads import explain

MOST = 30
"""Labs that are read whole; a person has a few."""
PAST = 20
"""Labs that are over, the newest first."""
_UP = frozenset(
    {
        SessionPhase.SCHEDULED,
        SessionPhase.INSTANTIATING,
        SessionPhase.READY,
        SessionPhase.RUNNING,
        SessionPhase.COLLECTING,
        SessionPhase.STOPPING,
    }
)
_NEVER = datetime.max.replace(tzinfo=UTC)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OwnLab:
    """One lab as its person may see it.

    session: The session, with its outlook while it waits and with where it is reached.
    definition: What it runs; None when that is gone.
    told: Why it is as it is and what would help; None once it is over.
    released: When it is given back because nobody came; None: never.
    left: How far it may still be extended, in words; "" when only its length is bound.
    """

    session: Session
    definition: Definition | None
    told: Explanation | None = None
    released: datetime | None = None
    left: str = ""


@dataclass(frozen=True, slots=True)
class OwnLabs:
    """The labs of one person.

    now: Those that are up, coming up, or wait for room now; the next to end first.
    next: Those whose slot is ahead, the next first.
    past: Those that are over, the newest first.
    offered: Those that others offer.
    left_out: How many of `now` and `next` are not here.
    older: How many of the past ones are not here.
    """

    now: tuple[OwnLab, ...] = ()
    next: tuple[OwnLab, ...] = ()
    past: tuple[OwnLab, ...] = ()
    offered: tuple[Session, ...] = ()
    left_out: int = 0
    older: int = 0


async def read(services: ServiceContext, caller: Caller) -> OwnLabs:
    """Return the labs of which the caller is the owner, in all namespaces; Denied for machines."""
    access.demand(caller.principal, "read", Session.__name__)
    await services.fresh()
    who, now = caller.principal, services.clock.now()
    mine = [
        each
        for each in services.cache.by(indices.filter_of(Session.__name__, "owner"), who.name)
        if access.sees(who, each)
    ]
    living = sorted((each for each in mine if each.status.phase not in TERMINAL), key=_first)
    over = sorted((each for each in mine if each.status.phase in TERMINAL), key=_last, reverse=True)
    read = [await _whole(services, caller, each) for each in living[:MOST]]
    shown = [each for each in read if each is not None]
    offered = sorted(services.cache.by(indices.SESSIONS_OFFERED, who.name), key=_first)
    return OwnLabs(
        now=tuple(each for each in shown if not _ahead(each.session, now)),
        next=tuple(each for each in shown if _ahead(each.session, now)),
        past=tuple(_light(services, caller, each) for each in over[:PAST]),
        offered=tuple(offered[:PAST]),
        left_out=max(0, len(living) - MOST),
        older=max(0, len(over) - PAST),
    )


def again(session: Session) -> bool:
    """Tell whether a session that is over may be tried again."""
    return session.status.phase in RETRIABLE and session.status.retried_as is None


def _ahead(session: Session, now: datetime) -> bool:
    start = session.spec.slot.start or session.status.start
    return session.status.phase not in _UP and start is not None and start > now


def _first(session: Session) -> tuple[bool, datetime, str]:
    status = session.status
    at = status.end if status.phase in _UP else session.spec.slot.start or status.start
    return status.phase not in _UP, at or _NEVER, session.name


def _last(session: Session) -> tuple[datetime, str]:
    return session.status.ended_at or _LONG_AGO, session.name


async def _whole(services: ServiceContext, caller: Caller, session: Session) -> OwnLab | None:
    """Return a lab with its explanation; None for one that was deleted meanwhile."""
    row = KINDS[Session.__name__]
    try:
        told = await explain.explain(services, caller, row, session.name, session.namespace)
    except errors.Gone:
        return None
    light = _light(services, caller, session)
    definition = light.definition
    left = ""
    if definition is not None:
        left = extension.left(definition.spec.extension, session.status.extensions)
    return OwnLab(light.session, definition, told, closing.released_at(session, definition), left)


def _light(services: ServiceContext, caller: Caller, session: Session) -> OwnLab:
    shown = session_outlook.shown(services, session)
    seen = views.of(services, caller.principal, shown)
    return OwnLab(seen, services.cache.find(refs.definition_of(session)))
