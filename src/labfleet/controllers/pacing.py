"""Reconcile steady workers, sessions and pools less often, for what-if runs.

Workers that host, sessions that run and pools are reconciled every 20 to 30 seconds. That is most of a
fleet's work and decides little: bookings, requests and ends of slots come as events or at known
instants. `slower` wraps a reconcile function so that these steady reconciles are further apart.
An object that is starting, ending, in doubt or in trouble keeps the interval of its decision.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta

from labfleet.controllers.context import Context
from labfleet.decisions.claims import lead
from labfleet.engine.cache import Cache
from labfleet.engine.controller import Again, Done, Reconcile
from labfleet.kernel.clock import in_utc
from labfleet.resources.meta import Key, Resource
from labfleet.resources.pool import Pool, PoolPhase
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import indices

IDLE_SECONDS = 15.0
"""A decision that asks to be repeated sooner than this is waiting for something."""

Rest = Callable[[Resource, datetime], float | None]


def slower(reconcile: Reconcile, context: Context, seconds: float | None, rest: Rest) -> Reconcile:
    """Return the reconcile with steady runs `seconds` of fleet time apart; None: unchanged.

    `rest` returns the longest time that the object may be left alone from now; None when it is
    not steady. A run that changed the object is followed by one at the usual interval.
    """
    if seconds is None:
        return reconcile
    pace = seconds

    async def paced(key: Key) -> Done | Again:
        before = context.cache.at(key)
        result = await reconcile(key)
        after = context.cache.at(key)
        if not isinstance(result, Again) or after is None or before is None:
            return result
        changed = before.status.phase != after.status.phase
        quiet = None if changed else rest(after, context.clock.now())
        if quiet is None or result.after < min(IDLE_SECONDS, quiet):
            return result
        return Again(max(result.after, min(pace, quiet)))

    return paced


def worker_rest(worker: Resource, now: datetime) -> float | None:
    """Return how long a worker that hosts in good health may be left alone."""
    del now
    if not isinstance(worker, Worker) or worker.status.failed_checks:
        return None
    steady = worker.status.phase in {WorkerPhase.READY, WorkerPhase.ACTIVE}
    return float("inf") if steady and worker.status.effect is None else None


def session_rest(session: Resource, now: datetime) -> float | None:
    """Return how long a session may be left alone: to its slot's start or end."""
    if not isinstance(session, Session):
        return None
    until = None
    if session.status.phase is SessionPhase.READY:
        until = session.spec.slot.start
    elif session.status.phase is SessionPhase.RUNNING:
        until = session.spec.slot.end or session.status.end
    if until is None or session.status.effect is not None:
        return None
    left = (until - now).total_seconds()
    return left if left > 0 else None


def pool_rest(cache: Cache) -> Rest:
    """Return how long a pool may be left alone that has just its minimum, all of it up.

    Nothing waits for it and nothing is surplus. So it may rest to the head start of the first day
    on which it has promised something; whatever changes before that is an event.
    """

    def rest(pool: Resource, now: datetime) -> float | None:
        if not isinstance(pool, Pool) or pool.status.phase is not PoolPhase.READY:
            return None
        status, least = pool.status, pool.spec.scaling.min_workers
        if status.waiting_sessions or not status.workers == status.ready == least:
            return None
        today = in_utc(now).toordinal()
        days = [
            day
            for path, day in cache.values(indices.SESSIONS_CLAIMING)
            if path == pool.key.path and day >= today
        ]
        if not days:
            return float("inf")
        first = datetime.combine(datetime.fromordinal(min(days)), time(), tzinfo=in_utc(now).tzinfo)
        left = first - lead.of(pool) - now
        return left.total_seconds() if left > timedelta() else None

    return rest
