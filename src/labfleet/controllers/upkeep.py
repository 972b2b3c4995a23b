"""Upkeep of the store: expired approvals, the watch horizon, finished sessions, old past runs.

Events are kept until the audit age; records of finished sessions, of groups and courses of
them and of terminated workers are removed after their retention time.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Protocol, TypeVar

import msgspec

from labfleet.controllers import webhooks
from labfleet.controllers.context import Context
from labfleet.engine.controller import Again, Done
from labfleet.engine.index import Index
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.course import Course
from labfleet.resources.group import Group
from labfleet.resources.meta import Key
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.simulation import Simulation
from labfleet.resources.webhook import Webhook
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs import admission

KEY = Key("Session", "", "upkeep")
EVERY = 60.0
AUDIT_AGE = timedelta(days=90)
EVENTS_KEPT = 200_000
EVENTS_HELD = 2_000_000
"""The most events that are kept for a webhook whose receiver does not accept them."""
HISTORY_AGE = timedelta(days=400)
"""How long past runs are kept, a year and its exam weeks: they outlive the objects that ran."""
HISTORY_BITE = 1000
KEPT_BEYOND = timedelta(days=1)
"""How long a kept lab stays beyond its time, for a session that waits to begin with it."""
ROUND_LIMIT = 200
RETIRE_EVERY = 900.0
ACTOR = "upkeep"
R = TypeVar("R", Session, Simulation, Worker, Group, Course)


class _Store(stores.UpkeepStore, stores.HistoryStore, stores.KeptStore, Protocol):
    """What upkeep drops from."""


class Upkeep:
    """Runs all upkeep under one key."""

    def __init__(self, context: Context, services: ServiceContext, store: _Store) -> None:
        self.context = context
        self._store = store
        self._services = services
        self._retire_at = 0.0
        self._looked_at = ""

    async def reconcile(self, key: Key) -> Done | Again:
        """Do one bounded round."""
        del key
        await admission.expire(self._services, Caller(access.SYSTEM), fence=self.context.fence())
        now = self.context.clock.monotonic()
        if now >= self._retire_at:
            more = await self._retire()
            oldest = self.context.clock.now() - HISTORY_AGE
            more |= await self._store.drop_history(oldest, limit=HISTORY_BITE) == HISTORY_BITE
            await self._drop_kept()
            if not more:
                self._retire_at = now + RETIRE_EVERY
        before = self.context.clock.now() - AUDIT_AGE
        await self._store.compact(before, keep=await self._kept())
        return Again(EVERY)

    async def _drop_kept(self) -> None:
        """Drop kept labs whose time is over, and a bite of those whose session's record is gone.

        One that an open session begins with stays for it.
        """
        before = self.context.clock.now() - KEPT_BEYOND
        await self._store.drop_old_kept_labs(before, limit=stores.PAGE_LIMIT)
        page = await self._store.kept_labs(after=self._looked_at)
        cache = self.context.cache
        gone = [each.uid for each in page if not _asks_for(cache.of_uid(Session, each.uid))]
        awaited = {
            each.status.continues.uid
            for each in (cache.by(indices.SESSIONS_OPEN, True) if gone else ())
            if each.status.continues is not None
        }
        for uid in gone:
            if uid not in awaited:
                await self._store.drop_kept_lab(uid)
        self._looked_at = page[-1].uid if len(page) == stores.PAGE_LIMIT else ""

    async def _kept(self) -> int:
        """Return how many events to keep: those a webhook still needs stay, within a bound."""
        oldest = webhooks.oldest_cursor(
            [each for each in self.context.cache.all(Webhook) if each.spec.enabled]
        )
        if oldest is None:
            return EVENTS_KEPT
        head = await self._services.log.head()
        return max(EVENTS_KEPT, min(head.revision - oldest.revision, EVENTS_HELD))

    async def _retire(self) -> bool:
        """Remove records whose retention is over; return whether the next round has more to do."""
        days = self.context.settings.now().garbage.retention_days
        limit = self.context.clock.now() - timedelta(days=days)
        old: list[Session | Simulation | Worker | Group | Course] = [
            each
            for each in self._until(indices.SESSIONS_ENDED, limit)
            if each.status.ended_at is not None
            and each.status.ended_at < limit
            and not self._holds(each)
        ]
        old += [
            each
            for each in self._until(indices.SIMULATIONS_ENDED, limit)
            if (each.status.completed_at or each.status.decided_at or limit) < limit
        ]
        old += [
            each
            for each in self._until(indices.WORKERS_ENDED, limit)
            if each.status.phase_since is not None and each.status.phase_since < limit
        ]
        # A group goes after the last of its seats, whose records say what became of it.
        old += [
            each
            for each in self._until(indices.GROUPS_ENDED, limit)
            if not self.context.cache.count(indices.SESSIONS_OF_GROUP, each.metadata.uid)
        ]
        # And a course after the last of its groups.
        old += [each for each in self._until(indices.COURSES_ENDED, limit) if self._bare(each)]
        for each in old[:ROUND_LIMIT]:
            try:
                await self._remove(each)
            except errors.Conflict as problem:
                if isinstance(problem, errors.Fenced):
                    raise
        return len(old) > ROUND_LIMIT

    def _bare(self, course: Course) -> bool:
        """Tell whether no group of a course is there any more."""
        cache, space = self.context.cache, course.namespace
        names = (each.group for each in course.status.dates if each.group is not None)
        return all(cache.get(Group, name, space) is None for name in names)

    def _holds(self, session: Session) -> bool:
        """Tell whether what was kept of a session's lab can still be asked for, by its record."""
        kept, now = session.status.kept, self.context.clock.now()
        return kept is not None and kept.until is not None and kept.until > now

    def _until(self, ended: Index[R, date], limit: datetime) -> list[R]:
        """Return, in key order, what ended up to the limit's day: not what is kept longer."""
        cache, last = self.context.cache, limit.astimezone(UTC).date()
        days = [day for day in cache.values(ended) if day <= last]
        return sorted((each for day in days for each in cache.by(ended, day)), key=_key)

    async def _remove(self, each: Session | Simulation | Worker | Group | Course) -> None:
        metadata = msgspec.structs.replace(
            each.metadata, deletion_timestamp=self.context.clock.now(), finalizers=()
        )
        gone = msgspec.structs.replace(each, metadata=metadata)
        await self.context.objects.save(
            gone,
            cause=self.context.cause(ACTOR, "retention is over"),
            fence=self.context.fence(),
        )


def _asks_for(session: Session | None) -> bool:
    """Tell whether a session's record says that its lab is kept, or may still come to say so."""
    if session is None:
        return False
    kept = session.status.kept
    return session.status.phase not in TERMINAL or (kept is not None and kept.at is not None)


def _key(obj: Session | Simulation | Worker | Group | Course) -> Key:
    return obj.key
