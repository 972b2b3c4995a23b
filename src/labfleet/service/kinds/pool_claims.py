"""What pools have promised, read from the cache day by day: by who accepts slots and who binds them.

One reading for the rules of sessions, the scheduler and the pool controller; the arithmetic is
`decisions.claims`. A reading holds for one revision of the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from labfleet.decisions import learned_demand, placement, stray_labs
from labfleet.decisions.claims import lead
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims
from labfleet.decisions.claims.steps import Row
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.pools import policy_kinds
from labfleet.decisions.pools.startable import Startable
from labfleet.engine.cache import Cache
from labfleet.kernel.clock import in_utc
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts, Claim, of_vector, vector
from labfleet.resources.meta import Key, Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import catalogues, indices, pool_zones

_KNOWN = frozenset({WorkerPhase.READY, WorkerPhase.ACTIVE})
"""Phases in which a worker's capacity is what it will serve with."""
_OVER = frozenset({WorkerPhase.FAILED, WorkerPhase.TERMINATED})


class Claims:
    """The claims of pools, each read once for each day that somebody asks about.

    `drafts` are sessions that were written in this request and that the cache may lack. `stopped`:
    pools whose template is disabled count too, for what runs on them and makes no new worker.
    `without` are the uids of sessions whose own claims do not count.
    """

    def __init__(
        self,
        cache: Cache,
        now: datetime,
        drafts: Iterable[Session] = (),
        *,
        stopped: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._stopped = stopped
        self._cache = cache
        self._now = now
        self._without = without
        self._drafts = [each for each in drafts if each.status.claim is not None]
        self._pools: dict[Key, PoolClaims | None] = {}
        self._days: set[tuple[Key, int]] = set()

    def of(self, pool: Pool, start: datetime, end: datetime) -> PoolClaims | None:
        """Return what a pool has promised between two instants; None when it has no known bound."""
        if pool.key not in self._pools:
            self._pools[pool.key] = self._begun(pool)
        found = self._pools[pool.key]
        if found is not None:
            for day in range(in_utc(start).toordinal(), in_utc(end).toordinal() + 1):
                self._read(pool, found, day)
        return found

    def pools(self, namespace: str, request: placement.PlacementRequest) -> list[Pool]:
        """Return the pools that live and serve the request's track, by name."""
        return [
            pool
            for pool in self._cache.by(indices.POOLS_IN, namespace)
            if request.track in {None, pool.spec.track}
            and pool.spec.desired == "Ready"
            and not pool.deleting
        ]

    def _begun(self, pool: Pool) -> PoolClaims | None:
        """Return the claims that hold now, with the workers that serve their places."""
        known = extent(self._cache, pool, stopped=self._stopped)
        if known is None:
            return None
        made = PoolClaims(known, self._now)
        for draft in self._drafts:
            claim = draft.status.claim
            if draft.metadata.uid in self._without:
                continue
            if draft.namespace == pool.namespace and claim is not None and claim.pool == pool.name:
                made.add(Claimed(uid=draft.metadata.uid, claim=claim))
        self._read(pool, made, in_utc(self._now).toordinal())
        for worker in self._cache.by(indices.WORKERS_OF_POOL, pool.key.path):
            self._on(worker, made)
        return made

    def _read(self, pool: Pool, into: PoolClaims, day: int) -> None:
        if (pool.key, day) in self._days:
            return
        self._days.add((pool.key, day))
        sessions = self._cache.by(indices.SESSIONS_CLAIMING, (pool.key.path, day))
        for each in read(self._cache, sessions):
            if each.uid not in into and each.uid not in self._without:
                into.add(each)

    def _on(self, worker: Worker, into: PoolClaims) -> None:
        """Count what else is bound to a worker: without a claim, or with one of an earlier day.

        A lab that overstays into another day holds its place until it was seen gone.
        """
        for session in self._cache.by(indices.SESSIONS_HERE, worker.key.path):
            held, claim = learned_demand.held(session), session.status.claim
            if session.metadata.uid in into or session.metadata.uid in self._without:
                continue
            if held is None:
                continue
            if claim is not None and claim.pool == into.extent.pool:
                for each in read(self._cache, [session]):
                    into.add(each)
                continue
            if held.end is None:
                continue
            place = into.place_of(worker.name)
            if place is None:
                place = next(free_places(into), into.extent.places)
            claim = Claim(
                pool=into.extent.pool,
                place=place,
                amounts=held.amounts,
                start=held.start,
                end=held.end,
            )
            into.add(Claimed(uid=session.metadata.uid, claim=claim, worker=worker.name))


def read(cache: Cache, sessions: Iterable[Session]) -> list[Claimed]:
    """Return the claims of sessions as they stand, in the order of the sessions.

    A lab that uses more than was learned leaves the less of its place to promise.
    """
    return [
        Claimed(uid=each.metadata.uid, claim=claim, worker=_serving(cache, each))
        for each in sessions
        if (claim := learned_demand.claimed(each)) is not None
    ]


def waiting(cache: Cache, pool: Pool) -> list[Claim]:
    """Return the claims on a pool of sessions that no worker hosts yet, each once."""
    found = dict[str, Claim]()
    for path, day in cache.values(indices.SESSIONS_CLAIMING):
        if path == pool.key.path:
            for each in cache.by(indices.SESSIONS_CLAIMING, (path, day)):
                if each.status.claim is not None and each.status.phase is SessionPhase.PENDING:
                    found[each.metadata.uid] = each.status.claim
    return list(found.values())


def _serving(cache: Cache, session: Session) -> str | None:
    """Return the worker that serves a session's place; one that failed serves none."""
    ref = None if session.status.reservation is None else refs.worker_of(session)
    worker = None if ref is None else cache.find(ref)
    return None if worker is None or worker.status.phase in _OVER else worker.name


def free_places(claims: PoolClaims) -> Iterator[int]:
    """Yield the places that no worker serves now, the first of them first."""
    return (each for each in range(claims.extent.places) if claims.worker_of(each) is None)


def pool_of(cache: Cache, session: Session) -> Pool | None:
    """Return the pool that has promised something to a session."""
    claim = session.status.claim
    return None if claim is None else cache.find(Ref(Pool, session.namespace, claim.pool))


def extent(cache: Cache, pool: Pool, *, stopped: bool = False) -> Extent | None:
    """Return how many workers a pool may have and how large they are; None when unknown.

    A disabled template makes none, so of its pools it is unknown, unless `stopped` are asked for.
    A worker that is still to be made is taken to be no larger than the largest of its template that
    is there: what servers were seen to have beats what the template says.
    """
    template = cache.find(refs.template_of(pool))
    shape = catalogues.shape_of(pool, template, cache, stopped=stopped)
    if shape is None or template is None:
        return None
    workers = cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    sizes, known = dict[str, Amounts](), list[tuple[int, ...]]()
    earlier = list[Row]()
    for each in workers:
        # Stray labs are removed sooner or later, so they take nothing of what is promised.
        size = stray_labs.real(each.status.capacity, each.status.stray_labs)
        if size is not None and each.status.phase in _KNOWN:
            sizes[each.name] = size
            if each.spec.machine == template.spec.machine:
                known.append(vector(size))
            elif not _going(each):
                earlier.append(vector(size))
    if known:
        most = map(max, zip(*known, strict=True))
        seen = of_vector(map(min, vector(shape.capacity), most))
        shape = placement.WorkerShape(
            name=shape.name,
            track=shape.track,
            capacity=seen,
            product=shape.product,
            has=shape.has,
            version=shape.version,
        )
    paid = pool.status.budget_workers
    counted = paid is not None or policy_kinds.resting(pool.spec.scaling)
    startable = Startable(
        scaling=pool.spec.scaling,
        here=sum(not _going(each) for each in workers) if counted else 0,
        paid=paid,
        early=lead.of(pool),
        zones=pool_zones.zones(pool.spec.scaling),
    )
    return Extent(
        pool=pool.name,
        places=startable.most,
        shape=shape,
        sizes=sizes,
        offered=_offered(shape, earlier),
        startable=startable,
    )


def _offered(shape: placement.WorkerShape, earlier: list[Row]) -> Amounts | None:
    """Return what may be promised of a place while these workers of another machine are there."""
    full = vector(shape.capacity)
    least = tuple(map(min, zip(full, *earlier, strict=True)))
    return None if least == full else of_vector(least)


def _going(worker: Worker) -> bool:
    return worker.status.phase is WorkerPhase.TERMINATED or phases.leaving(worker)
