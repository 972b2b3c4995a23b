"""By what each worker is preferred: its pool's strategy, when the pool's turn comes, its last turn.

Read from the cache alone, so that a process begun anew prefers as the one before did. The turns of
ROUND_ROBIN are the instants at which the sessions that are kept were placed; they are read once,
when the first worker of such a pool is seen, and followed from then on.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from labfleet.decisions import strategies
from labfleet.engine.cache import Cache
from labfleet.resources import prices, refs
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Key, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.prices import PriceList
from labfleet.resources.scheduling import Scheduling
from labfleet.resources.session import Session
from labfleet.resources.strategy import Strategy
from labfleet.resources.worker import Worker
from labfleet.service.kinds import paid_rows
from labfleet.service.kinds.indices import WORKERS_OF_POOL

Standing = tuple[Strategy, strategies.Rank]
Placed = dict[Key, tuple[datetime, frozenset[str]]]
YIELD_EVERY = 500


class Preferences:
    """Strategy, rank and last turn of workers, as the cache has them."""

    def __init__(self, cache: Cache, listed: PriceList = prices.SHIPPED) -> None:
        self._cache = cache
        self._listed = listed
        self._of_pools: dict[Key, Standing] = {}
        self._placed: Placed | None = None

    async def begin(self, fleet: Scheduling) -> None:
        """Read pools anew from now on, and, with pauses, what was placed once a pool asks for it."""
        self._of_pools.clear()
        if self._placed is not None:
            return
        named = {each.spec.strategy or fleet.strategy for each in self._cache.all(Pool)}
        if Strategy.ROUND_ROBIN in named | {fleet.strategy}:
            placed = self._placed = {}
            for count, session in enumerate(self._cache.all(Session)):
                self._note(placed, session)
                if count % YIELD_EVERY == YIELD_EVERY - 1:
                    await asyncio.sleep(0)

    def standing(self, worker: Worker, fleet: Scheduling) -> Standing:
        """Return the strategy by which a worker is chosen, and when its pool's turn comes."""
        pool = self._cache.find(refs.pool_of(worker))
        if pool is None:
            kind = worker.status.machine.type
            return fleet.strategy, _rank(None, worker.spec.machine, kind, fleet, self._listed)
        found = self._of_pools.get(pool.key)
        if found is None:
            template = self._cache.find(refs.template_of(pool))
            machine = worker.spec.machine if template is None else template.spec.machine
            rank = _rank(pool.name, machine, None, fleet, self._listed)
            found = self._of_pools[pool.key] = (pool.spec.strategy or fleet.strategy, rank)
        return found

    def placed(self, worker: Worker) -> int:
        """Return the last placement on a worker, as `strategies.placed_at` counts."""
        found = None if self._placed is None else self._placed.get(worker.key)
        return 0 if found is None else strategies.placed_at((found[0],) * len(found[1]))

    def session_changed(self, new: Resource | None) -> None:
        """Take in a placement; what was noted of a session outlives its record here."""
        if self._placed is not None and isinstance(new, Session):
            self._note(self._placed, new)

    def forget(self, worker: Key) -> None:
        """Drop what was noted of a worker that is gone."""
        if self._placed is not None:
            self._placed.pop(worker, None)

    @staticmethod
    def _note(into: Placed, session: Session) -> None:
        worker, at = refs.worker_of(session), session.status.scheduled_at
        if worker is None or at is None:
            return
        last, who = into.get(worker.key, (at, frozenset()))
        if at > last:
            last, who = at, frozenset()
        if at == last:
            into[worker.key] = (last, who | {session.metadata.uid})


def changed_workers(cache: Cache, old: Resource | None, new: Resource | None) -> list[Key]:
    """Return the workers of a pool of which what they are preferred by has changed."""
    if not all(each is None or isinstance(each, Pool) for each in (old, new)):
        return []
    before, after = (
        (each.spec.strategy, each.spec.template) if isinstance(each, Pool) else None
        for each in (old, new)
    )
    pool = new or old
    if before == after or pool is None:
        return []
    return [each.key for each in cache.by(WORKERS_OF_POOL, pool.key.path)]


def _rank(
    pool: str | None,
    machine: Machine | None,
    kind: str | None,
    fleet: Scheduling,
    listed: PriceList,
) -> strategies.Rank:
    """Return when a machine's turn comes: by its region, and by what an hour of it costs."""
    region = "" if machine is None else machine.provider.region
    price = paid_rows.hourly_usd(machine, kind, listed)
    return strategies.rank_of(pool, region, price, fleet.regions)
