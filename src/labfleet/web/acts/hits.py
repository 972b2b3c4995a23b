"""Whom an act hits and what it costs, in sentences: read from what is recorded, never guessed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from labfleet.decisions.lifecycle.session.phases import BOUND
from labfleet.kernel.quantity import count
from labfleet.resources import zones
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, paid_rows
from labfleet.service.kinds.session_times import NOT_BEGUN

NAMED = 8
"""How many objects a sentence names; the rest is counted."""
_UP = frozenset({SessionPhase.READY, SessionPhase.RUNNING})


def on_worker(services: ServiceContext, worker: Worker) -> list[Session]:
    """Return the sessions that hold something on a worker, the one that ends first first."""
    here = services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    bound = (each for each in here if each.status.phase in BOUND)
    return sorted(bound, key=lambda each: (each.status.end is None, each.status.end, each.name))


def sessions(found: Iterable[Session], what: str, one: str = "") -> str:
    """Return how many sessions something happens to, which, and whose; the first ones are named.

    `one` is said instead of `what` of a single one, where that reads differently.
    """
    rows = [*found]
    told = one or what if len(rows) == 1 else what
    named = ", ".join(_one(each) for each in rows[:NAMED])
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    return f"{count(len(rows), 'session')} {told}: {named}{more}." if rows else ""


def _one(session: Session) -> str:
    whose = f" of {session.spec.owner}" if session.spec.owner else ""
    end = session.status.end
    until = "" if end is None else f" until {zones.both(end, session.spec.slot.zone)}"
    return f"{session.name}{whose} ({session.status.phase}{until})"


def drained(services: ServiceContext, worker: Worker, deadline: datetime | None) -> list[str]:
    """Return what emptying a worker by a deadline comes to, for the sessions that are there."""
    here = on_worker(services, worker)
    if not here:
        return ["No session is on it: it is empty at once."]
    begun = [each for each in here if each.status.phase in _UP]
    others = [each for each in here if each.status.phase not in _UP]
    told = [sessions(begun, "go on to their end", "goes on to its end")]
    told.append(sessions(others, "not in use yet may be placed on another worker"))
    if deadline is not None:
        late = [each for each in here if each.status.end is None or each.status.end > deadline]
        after = f"after the deadline, {zones.both(deadline, 'UTC')}"
        told.append(sessions(late, f"end {after}", f"ends {after}"))
    return [each for each in told if each]


def price(services: ServiceContext, worker: Worker) -> str:
    """Return what an hour of a worker's machine costs; that it is not known, when it is not."""
    found = paid_rows.hourly_usd(worker.spec.machine, worker.status.machine.type, services.prices)
    if found is None:
        return "What an hour of its machine costs is unknown: neither template nor price list says."
    return f"Its machine costs ${found:.2f} an hour while it runs."


def lab_of(session: Session) -> str:
    """Return what becomes of a session's lab when it is ended."""
    if session.status.phase in TERMINAL:
        return "It is over already: no lab of it runs."
    if session.status.phase in NOT_BEGUN and session.status.lab is None:
        return "It has no lab yet: nothing that runs is lost."
    return "Its lab is stopped, wiped and deleted; what is not kept of it is gone."
