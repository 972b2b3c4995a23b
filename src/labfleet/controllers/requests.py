"""What waiting sessions ask for, and the empty workers that could be made for them.

The scheduler and the pool controller both use this module: if they read requests differently,
workers would be made on which no session is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from labfleet.controllers.context import Context
from labfleet.decisions import learned_demand, placement
from labfleet.decisions.claims.asked import asked
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.engine.cache import Cache
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.kinds import catalogues, indices
from labfleet.service.kinds.pool_leads import Leads

ALWAYS = datetime.min.replace(tzinfo=UTC)
KEPT_LIMIT = 5000
"""How many groups of sessions that wait alike are remembered."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Reads waiting sessions from the cache.

    `_ahead` has for sessions that wait alike, with pools and definition as they were read, when the
    first of them is due: until then none is looked at again, so that a pool's step does not grow with
    what it has promised.
    """

    context: Context
    _ahead: dict[object, tuple[tuple[object, ...], datetime]] = field(default_factory=dict)

    def due(self, now: datetime) -> list[Session]:
        """Return the sessions that are to be placed now, most urgent first."""
        cache = self.context.cache
        return _due(cache.by(indices.SESSIONS_PENDING, True), Leads(cache), now)

    def next_due(self, now: datetime) -> datetime | None:
        """Return when the next slot that is ahead comes in reach; None: no slot is ahead."""
        leads = Leads(self.context.cache)
        ahead = (
            leads.looked_for(session)
            for session in self.context.cache.by(indices.SESSIONS_PENDING, True)
            if not session_phases.end_asked(session)
        )
        return min((each for each in ahead if each is not None and each > now), default=None)

    def due_in(self, pool: Pool, now: datetime) -> list[Session]:
        """Return the sessions to be placed now for which this pool is the one that grows.

        Of each (track, definition) that waits one session is looked at, since all ask for the same;
        the rest only where it is this pool's. So ten pools do not each look at all that wait.
        """
        cache, found = self.context.cache, list[Session]()
        for value in cache.values(indices.SESSIONS_WAITING):
            namespace, track, _ = value
            if namespace != pool.namespace or track not in {None, pool.spec.track}:
                continue
            first = next(cache.each(indices.SESSIONS_WAITING, value))
            request = self.of(first, now)
            if request is not None and self.pool_of(request, namespace) == pool.name:
                found += self._reached(value, now)
        return _due(found, Leads(cache), now)

    def due_without_pool(self, namespace: str, now: datetime) -> list[Session]:
        """Return the sessions of a namespace to be placed now for which no pool grows."""
        cache, found = self.context.cache, list[Session]()
        for value in cache.values(indices.SESSIONS_WAITING):
            if value[0] != namespace:
                continue
            first = next(cache.each(indices.SESSIONS_WAITING, value))
            request = self.of(first, now)
            if request is not None and self.pool_of(request, namespace) is None:
                found += self._reached(value, now)
        return _due(found, Leads(cache), now)

    def _reached(self, value: tuple[str, str | None, str], now: datetime) -> tuple[Session, ...]:
        """Return the sessions that wait alike; none while the first of them is not due."""
        cache = self.context.cache
        sessions = cache.by(indices.SESSIONS_WAITING, value)
        definition = cache.find(refs.definition_of(sessions[0])) if sessions else None
        read = (sessions, cache.by(indices.POOLS_IN, value[0]), definition)
        known = self._ahead.get(value)
        if known is None or any(old is not new for old, new in zip(known[0], read, strict=True)):
            if len(self._ahead) >= KEPT_LIMIT:
                self._ahead.clear()
            leads = Leads(cache)
            first = min((leads.looked_for(each) or ALWAYS for each in sessions), default=now)
            known = self._ahead[value] = (read, first)
        return sessions if known[1] <= now else ()

    def ahead(self, now: datetime) -> list[Session]:
        """Return the sessions of later slots that were not checked yet, in name order."""
        leads = Leads(self.context.cache)
        return [
            session
            for session in self.context.cache.by(indices.SESSIONS_PENDING, True)
            if session.status.decision is None
            and not session_phases.end_asked(session)
            and (looked_for := leads.looked_for(session)) is not None
            and looked_for > now
        ]

    def pool_of(self, request: placement.PlacementRequest, namespace: str) -> str | None:
        """Return the name of the one pool that grows for a request; None when none would.

        A session that takes any track must not make every pool of its namespace grow. So one is
        chosen: the first by name that may grow and whose empty worker is large enough; pools
        at their maximum come last.
        """
        cache = self.context.cache
        for full in (False, True):
            for pool in cache.each(indices.POOLS_GROWING, (namespace, request.track, full)):
                shape = catalogues.shape_of(pool, cache.find(refs.template_of(pool)), cache)
                if shape is not None and placement.fits_empty(request, shape):
                    return pool.name
        return None

    def of(self, session: Session, now: datetime) -> placement.PlacementRequest | None:
        """Return the session's request if placed now; None when its definition is gone."""
        definition = self.context.cache.find(refs.definition_of(session))
        if definition is None:
            return None
        licensed = self.context.settings.now().scheduling.require_licence
        return asked(session, definition, now, licensed=licensed)


def _due(sessions: Iterable[Session], leads: Leads, now: datetime) -> list[Session]:
    """Return those to be placed now, most urgent first."""
    waiting = []
    for session in sessions:
        start, looked_for = session.spec.slot.start, leads.looked_for(session)
        ahead = looked_for is not None and looked_for > now
        if ahead or session_phases.end_asked(session):
            continue
        created = session.metadata.creation_timestamp or now
        waiting.append((-session.spec.priority, start or created, session.key, session))
    return [each[3] for each in sorted(waiting, key=lambda each: each[:3])]


def held(cache: Cache, worker: Worker) -> tuple[Reservation, ...]:
    """Return the sessions' reservations on a worker, ordered by session name."""
    return reserved(cache.by(indices.SESSIONS_HERE, worker.key.path))


def reserved(sessions: Sequence[Session]) -> tuple[Reservation, ...]:
    """Return the reservations of these sessions, learned ones as large as was measured."""
    return tuple(
        [
            held if session.status.demand is None else learned_demand.held(session) or held
            for session in sessions
            if (held := session.status.reservation) is not None
        ]
    )
