"""From when on a worker is looked for, for a slot that is ahead: by the lead of the pool that holds it.

One reading for the scheduler, the pool controller and explanations. A slot to which nothing is
promised goes by the longest lead of the pools that serve its track.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.decisions.claims import lead
from labfleet.decisions.lifecycle.session import budget
from labfleet.engine.cache import Cache
from labfleet.resources import refs
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.service.kinds import indices


class Leads:
    """The leads of pools, each read once; a reading holds for one revision of the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._of_pool: dict[tuple[str, str], timedelta | None] = {}
        self._of_track: dict[tuple[str, str | None], timedelta] = {}

    def looked_for(self, session: Session) -> datetime | None:
        """Return from when on a worker is looked for; None: at once, since it has no slot ahead."""
        start = session.spec.slot.start
        if start is None:
            return None
        definition = self._cache.find(refs.definition_of(session))
        head = timedelta(seconds=budget.of(session, definition).lead)
        track = session.spec.track or (None if definition is None else definition.spec.track)
        return start - head - self._lead(session, track)

    def _lead(self, session: Session, track: str | None) -> timedelta:
        claim = session.status.claim
        found = None if claim is None else self._pool(session.namespace, claim.pool)
        return self._track(session.namespace, track) if found is None else found

    def _pool(self, namespace: str, name: str) -> timedelta | None:
        if (namespace, name) not in self._of_pool:
            pool = self._cache.find(Ref(Pool, namespace, name))
            self._of_pool[namespace, name] = None if pool is None else lead.of(pool)
        return self._of_pool[namespace, name]

    def _track(self, namespace: str, track: str | None) -> timedelta:
        if (namespace, track) not in self._of_track:
            serving = (
                lead.of(pool)
                for pool in self._cache.by(indices.POOLS_IN, namespace)
                if track in {None, pool.spec.track}
            )
            self._of_track[namespace, track] = max(serving, default=lead.DEFAULT)
        return self._of_track[namespace, track]
