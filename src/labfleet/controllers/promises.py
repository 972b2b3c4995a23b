"""Which workers a session may take in a cycle of the scheduler: none whose room is promised to others.

A session goes to the worker of its own place, or to one that serves no place yet. Any other worker,
and any for what has no claim, takes it only where its place has room beside all claims; then the
claim moves there, in the binding's commit. The choice itself stays that of `decisions.placement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from labfleet.decisions import wording
from labfleet.decisions.claims import lead
from labfleet.decisions.claims.places import Claimed, Lack, PoolClaims, claim_of, covers
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.placement import Candidate, PlacementRequest
from labfleet.engine.cache import Cache
from labfleet.interfaces import store as stores
from labfleet.kernel.clock import utc_text
from labfleet.resources import refs
from labfleet.resources.amounts import Claim
from labfleet.resources.decision import Decision
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import WaitReason
from labfleet.service.core import ledger_rows
from labfleet.service.kinds import indices
from labfleet.service.kinds.pool_claims import Claims, free_places, pool_of

WAITING_LIMIT = 50
"""How many sessions without a claim one cycle looks at."""


class Workers(Protocol):
    """The workers of a namespace, by name."""

    def get(self, name: str) -> Candidate | None: ...

    def names(self) -> list[str]: ...


Place = Callable[[Sequence[Candidate]], Decision]


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision, and the session's claim with it; None: nothing is promised to it."""

    decision: Decision
    claim: Claim | None


class Promises:
    """What is promised, as read at one revision and changed by the cycle's own commits."""

    def __init__(self, cache: Cache, revision: int, now: datetime) -> None:
        self._cache = cache
        self._now = now
        self._revision = revision
        self._claims = Claims(cache, now)
        self.readings = 1
        self._since: dict[str, int] = {}
        # What got no worker: claims only grow in a cycle, so an equal request gets none either.
        self._refused: dict[tuple[str, PlacementRequest] | None, Decision] = {}
        self._leaving: list[tuple[PoolClaims, str]] = []

    def own(self, session: Session, request: PlacementRequest, fleet: Workers) -> list[Candidate]:
        """Return the worker of the session's place, or those that may serve it; they need no more."""
        claim = session.status.claim
        held = None if claim is None else self._held(session.namespace, claim.pool, request)
        if claim is None or held is None or not covers(claim, request):
            return []
        home = held.worker_of(claim.place)
        if home is not None:
            worker = fleet.get(home)
            return [] if worker is None else [worker]
        pool = Ref(Pool, session.namespace, claim.pool)
        found = (
            fleet.get(each.name)
            for each in self._cache.by(indices.WORKERS_OF_POOL, pool.key.path)
            if held.place_of(each.name) is None
        )
        return [each for each in found if each is not None]

    def judge(
        self,
        session: Session,
        request: PlacementRequest,
        best: Decision,
        fleet: Workers,
        place: Place,
    ) -> Choice:
        """Return the choice `best` when its worker has room for all claims, else the next one's.

        `place` chooses among the workers that it is given.
        """
        if best.chosen is None:
            return Choice(best, self.wanted(session, request))
        first = fleet.get(best.chosen)
        found = None if first is None else self._free(session, request, first, {})
        if not isinstance(found, Lack):
            return Choice(best, found)
        same = None if session.status.claim else (session.namespace, request)
        if same in self._refused:
            return Choice(self._refused[same], self.wanted(session, request, blocked=True))
        candidates = {n: each for n in fleet.names() if (each := fleet.get(n)) is not None}
        decision, claim, promised = self._offer(session, request, candidates, place)
        if decision.chosen is not None:
            return Choice(decision, claim)
        if promised:
            decision = _to_others(decision, promised, request)
            if same is not None:
                self._refused[same] = decision
        return Choice(decision, self.wanted(session, request, blocked=bool(promised)))

    def _offer(
        self,
        session: Session,
        request: PlacementRequest,
        candidates: Mapping[str, Candidate],
        place: Place,
    ) -> tuple[Decision, Claim | None, dict[str, Lack]]:
        """Return the choice among workers with room for all claims, and what the others lack."""
        promised, free = dict[str, Lack](), dict[str, Claim | None]()
        known = dict[tuple[str, object], int | Lack | None]()
        suits = [each for each in candidates.values() if place([each]).chosen is not None]
        for each in suits:
            found = self._free(session, request, each, known)
            if isinstance(found, Lack):
                promised[each.name] = found
            else:
                free[each.name] = found
        decision = place([candidates[name] for name in free] or list(candidates.values()))
        if not free:
            decision = msgspec.structs.replace(decision, chosen=None, outcome="waiting")
        return decision, free.get(decision.chosen or ""), promised

    def _held(self, namespace: str, pool: str, request: PlacementRequest) -> PoolClaims | None:
        found = self._cache.find(Ref(Pool, namespace, pool))
        if found is None:
            return None
        return self._claims.of(found, request.start, request.end or request.start)

    def _free(
        self,
        session: Session,
        request: PlacementRequest,
        worker: Candidate,
        known: dict[tuple[str, object], int | Lack | None],
    ) -> Claim | Lack | None:
        """Return the claim on a worker, or what is promised there; None where nothing is counted.

        `known` are answers for workers that serve no place yet: all of a size have the same one.
        """
        held = None
        if worker.pool is not None:
            held = self._held(session.namespace, worker.pool, request)
        if worker.pool is None or held is None or request.end is None:
            return None
        uid, size = session.metadata.uid, worker.real
        place = held.place_of(worker.name)
        if place is not None:
            lack = held.lack(place, request, without=uid, size=size)
            return lack or claim_of(worker.pool, place, request)
        asked = (worker.pool, size)
        if asked not in known:
            among = free_places(held)
            known[asked] = held.find(request, without=uid, among=among, size=worker.real)
        found = known[asked]
        if isinstance(found, int):
            return claim_of(worker.pool, found, request)
        return found or Lack(place=-1, at=request.start, shortages=())

    def wanted(
        self, session: Session, request: PlacementRequest, *, blocked: bool = False
    ) -> Claim | None:
        """Return the claim of a session that gets no worker now: its own, or one that is free.

        A claim on a pool that is gone is none. What begins when it can gets one only where workers
        stand free for others: then its pool has to grow for it, and its claim says so.
        """
        claim, uid = session.status.claim, session.metadata.uid
        if void(self._cache, session):
            claim = None
        booked = session.spec.slot.start is not None
        kept = claim if claim is not None and (booked or covers(claim, request)) else None
        if kept is not None or request.end is None or not (booked or blocked):
            return kept
        for pool in self._claims.pools(session.namespace, request):
            late = timedelta() if booked else lead.of(pool)
            whole = replace(request, end=request.end + late)
            held = self._held(session.namespace, pool.name, whole)
            if held is None or not held.serves(whole):
                continue
            place = held.find(whole, without=uid, size=held.extent.offered)
            if isinstance(place, int):
                return claim_of(pool.name, place, whole)
        return kept

    def commit(
        self, session: Session, claim: Claim | None, *, binds: bool = False
    ) -> tuple[tuple[stores.Precondition, ...], tuple[stores.Write, ...]]:
        """Return what the commit of a session's claim carries; nothing when it takes no more.

        Bindings touch a row of their own: what one scheduler binds at a time does not conflict.
        """
        if claim is None or claim == session.status.claim:
            return (), ()
        row = self._row(session, claim)
        since = self._since.get(row, self._revision)
        pool = Ref(Pool, session.namespace, claim.pool).key
        touched = ledger_rows.bound_claims(pool) if binds else row
        return (ledger_rows.untouched(row, since),), (ledger_rows.touch(touched),)

    def took(
        self, session: Session, claim: Claim | None, worker: str | None, revision: int = 0
    ) -> None:
        """Take in what is committed for a session, at a revision where it touches the pool's row.

        Revision 0: a binding that is still to be written. The place that it leaves is nobody else's
        until then, for theirs may be written and this one not.
        """
        before, uid = session.status.claim, session.metadata.uid
        for each in (before, claim):
            held = None if each is None else self._seen(session.namespace, each)
            if held is not None:
                held.drop(uid)
        held = None if claim is None else self._seen(session.namespace, claim)
        if claim is not None and held is not None:
            held.add(Claimed(uid=uid, claim=claim, worker=worker))
        if claim is not None and before is not None and worker is not None and not revision:
            self._leave(session, before, claim)
        if claim is not None and claim != before and revision:
            self._since[self._row(session, claim)] = revision

    def _leave(self, session: Session, before: Claim, claim: Claim) -> None:
        """Keep what a session is about to leave; on its own place it leaves nothing."""
        held = self._seen(session.namespace, before)
        if held is None or (before.pool, before.place) == (claim.pool, claim.place):
            return
        left = f"{session.metadata.uid} leaves"
        held.add(Claimed(uid=left, claim=before))
        self._leaving.append((held, left))

    def written(self) -> None:
        """Give to others what the bindings have left, now that all of them are written."""
        for held, left in self._leaving:
            held.drop(left)
        if self._leaving:
            self._refused.clear()
        self._leaving.clear()

    def again(self) -> None:
        """Read anew: another writer has taken from what was read."""
        self.readings += 1
        self._revision = self._cache.revision
        self._since.clear()
        self._refused.clear()
        self._leaving.clear()
        self._claims = Claims(self._cache, self._now)

    def _seen(self, namespace: str, claim: Claim) -> PoolClaims | None:
        found = self._cache.find(Ref(Pool, namespace, claim.pool))
        return None if found is None else self._claims.of(found, claim.start, claim.end)

    def _row(self, session: Session, claim: Claim) -> str:
        return ledger_rows.claims(Ref(Pool, session.namespace, claim.pool).key)


def without_claim(cache: Cache) -> list[Session]:
    """Return waiting slots to which nothing is promised, who came first first.

    They were to wait for room, were accepted before there were claims, or lost theirs.
    """
    found = [
        session
        for session in cache.by(indices.SESSIONS_PENDING, True)
        if session.spec.slot.start is not None
        and not session_phases.end_asked(session)
        and (
            void(cache, session)
            if session.status.claim is not None
            else cache.count(indices.POOLS_IN, session.namespace) > 0
        )
    ]
    found.sort(key=lambda each: (str(each.metadata.creation_timestamp), each.key))
    return found


def alike(session: Session) -> tuple[object, ...]:
    """Return what a slot asks for, the same of all that find room or none together."""
    spec = session.spec
    start, end = session.status.start or spec.slot.start, session.status.end or spec.slot.end
    return session.namespace, refs.definition_of(session), spec.track, start, end


def void(cache: Cache, session: Session) -> bool:
    """Tell whether a claim can never be kept: its pool is gone, goes, or serves another track."""
    claim = session.status.claim
    if claim is None:
        return False
    pool = pool_of(cache, session)
    if pool is None or pool.deleting:
        return True
    definition = cache.find(refs.definition_of(session))
    track = session.spec.track or (definition and definition.spec.track)
    return track not in {None, pool.spec.track}


def _to_others(
    decision: Decision, promised: Mapping[str, Lack], request: PlacementRequest
) -> Decision:
    """Return that workers have room now which is promised to others."""
    name, lack = min(promised.items(), key=lambda each: (each[1].share, each[0]))
    short = f": short {wording.short(lack.shortages)}" if lack.shortages else ""
    told = (
        f"needs {wording.amounts(request.amounts)}; what {name} has free is promised to others "
        f"from {utc_text(lack.at)}{short}"
    )
    reason = str(WaitReason.PROMISED)
    return msgspec.structs.replace(decision, reason=reason, message=told)
