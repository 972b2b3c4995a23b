"""What waits and why: sessions that ask for the same as one row, and simulations by queue."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import WaitReason
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, session_outlook

NOT_YET = "not decided yet"


class Waiting(Record, frozen=True, kw_only=True):
    """Sessions of one definition that wait for a worker for one reason.

    namespace: Their namespace.
    definition: Name of their definition.
    count: How many wait.
    first: Name of the one that waits longest.
    since: Since when that one waits.
    reason: Word for why.
    why: Why the longest waiting one has no worker, in a sentence.
    starts: Its place and the range of its start, in a few words; empty when nobody can tell.
    """

    namespace: str
    definition: str
    count: int
    first: str
    since: datetime | None = None
    reason: str = ""
    why: str = ""
    starts: str = ""


class AllWaiting(Record, frozen=True, kw_only=True):
    """Everything that waits and that the caller may see.

    rows: Sessions by definition and reason, the largest number first.
    sessions: How many sessions wait.
    ahead: How many more are booked for later, and not looked after yet.
    runs: How many simulations are queued.
    """

    rows: tuple[Waiting, ...] = ()
    sessions: int = 0
    ahead: int = 0
    runs: int = 0


async def read(services: ServiceContext, caller: Caller) -> AllWaiting:
    """Return what waits now, of what the caller may see."""
    await services.fresh()
    found: dict[tuple[str, str, str], list[Session]] = {}
    sessions = ahead = 0
    for each in services.cache.by(indices.SESSIONS_PENDING, True):
        if not access.sees(caller.principal, each):
            continue
        reason = "" if each.status.decision is None else each.status.decision.reason
        if reason == WaitReason.SLOT_AHEAD:
            ahead += 1
            continue
        sessions += 1
        found.setdefault((each.namespace, each.spec.definition, reason), []).append(each)
    rows = [_row(services, key, waiting) for key, waiting in found.items()]
    rows.sort(key=lambda row: (-row.count, row.namespace, row.definition, row.reason))
    return AllWaiting(
        rows=tuple(rows),
        sessions=sessions,
        ahead=ahead,
        runs=sum(
            access.sees(caller.principal, each)
            for cluster in services.cache.values(indices.SIMULATIONS_QUEUED)
            for each in services.cache.by(indices.SIMULATIONS_QUEUED, cluster)
        ),
    )


def _row(services: ServiceContext, key: tuple[str, str, str], waiting: list[Session]) -> Waiting:
    namespace, definition, reason = key
    first = session_outlook.shown(services, min(waiting, key=_age))
    status = first.status
    why = status.message or ("" if status.decision is None else status.decision.message)
    return Waiting(
        namespace=namespace,
        definition=definition,
        count=len(waiting),
        first=first.name,
        since=first.metadata.creation_timestamp,
        reason=reason,
        why=why or NOT_YET,
        starts="" if status.outlook is None else status.outlook.words,
    )


def _age(session: Session) -> tuple[bool, float, str]:
    made = session.metadata.creation_timestamp
    return made is None, 0.0 if made is None else made.timestamp(), session.name
