"""Looks which promises of a pool are in danger, says so, and moves what has room elsewhere.

A claim moves only when its own place cannot hold it any more, and the move's event says why. Each
day is looked at again only when something of it changed, so the work does not grow with what is
promised and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.decisions.claims.arrivals import arrivals, at_risk, waiting
from labfleet.decisions.claims.danger import (
    LATE,
    Endangered,
    all_of,
    asked_of,
    endangered,
    marked,
)
from labfleet.decisions.claims.places import Claimed, Extent, PoolClaims, claim_of
from labfleet.kernel import errors
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.kernel.quantity import count
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core import ledger_rows
from labfleet.service.kinds import indices, pool_arrivals, pool_claims

ACTOR = "pool-controller"
NAMED = 5
"""How many sessions a message names."""
MOVES = 20
"""How many claims one look moves."""
MARKED = 50
"""Of how many sessions one look records that they are in danger, or no more."""
_MOVABLE = frozenset({PoolReason.PLACES_GONE, PoolReason.WORKERS_SMALLER})


@dataclass(frozen=True, slots=True)
class Danger:
    """How many promises are in danger, why the first of them is, and a sentence; None: none is.

    `promised` counts all that no worker hosts yet.
    """

    promised: int = 0
    many: int = 0
    why: PoolReason | None = None
    told: str = ""


Found = tuple[tuple[Session, PoolReason], ...]


@dataclass(frozen=True, slots=True)
class _Day:
    """What was found of one day, and what it was found from; it may change by itself `until`.

    `waiting` counts those that begin on it, or before the present day, and have no worker yet.
    """

    extent: Extent | None
    why: PoolReason | None
    sessions: tuple[Session, ...]
    until: datetime
    found: Found
    waiting: int


class DangerLook:
    """Looks at the promises of pools."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._days: dict[tuple[Key, int], _Day] = {}

    def forget(self, pool: Key) -> None:
        """Forget a pool that is gone."""
        for key in [each for each in self._days if each[0] == pool]:
            del self._days[key]

    def seen(
        self, pool: Pool, claims: PoolClaims | None, until: datetime, *, paused: bool = False
    ) -> Danger:
        """Return which promises of a pool are in danger now; a paused one makes no workers.

        `claims` are those of the workers that are due `until` then.
        """
        now = self._context.clock.now() if claims is None else claims.now
        found = self._found(pool, now)
        known = {each.key for each, _ in found}
        soon = self._late(pool, claims, until, paused=paused)
        late = [each for each in soon if each.key not in known]
        found = tuple(
            sorted((*found, *((each, PoolReason.BOOTS_LATE) for each in late)), key=_slot)
        )
        promised = sum(each.waiting for key, each in self._days.items() if key[0] == pool.key)
        if not found:
            return Danger(promised)
        first, why = found[0]
        claim = first.status.claim
        since = "" if claim is None else f" from {utc_text(claim.start)}"
        names = ", ".join(each.name for each, _ in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        be = "is" if len(found) == 1 else "are"
        told = f"{count(len(found), 'promised session')} {be} in danger, the first{since}"
        return Danger(promised, len(found), why, f"{told}: {names}{more}. {why.sentence}")

    async def move(self, pool: Pool, now: datetime) -> None:
        """Give those whose place cannot hold them another place, where there is one."""
        found = [each for each in self._found(pool, now) if each[1] in _MOVABLE]
        for session, why in found[:MOVES]:
            claim, cache = session.status.claim, self._context.cache
            if claim is None:
                continue
            revision = cache.revision
            held = pool_claims.Claims(cache, now).of(pool, claim.start, claim.end)
            uid = session.metadata.uid
            mine = None if held is None else held.of(uid)
            if held is None or mine is None:
                continue
            place = held.find(asked_of(mine), without=uid)
            if not isinstance(place, int):
                continue
            moved = claim_of(pool.name, place, asked_of(mine))
            status = msgspec.structs.replace(session.status, claim=moved)
            row, bound = ledger_rows.claims(pool.key), ledger_rows.bound_claims(pool.key)
            try:
                await self._context.write(
                    msgspec.structs.replace(session, status=status),
                    actor=ACTOR,
                    reason=f"promise moved to place {place} of pool {pool.name}: {why.sentence}",
                    preconditions=(
                        ledger_rows.untouched(row, revision),
                        ledger_rows.untouched(bound, revision),
                    ),
                    writes=(ledger_rows.touch(row),),
                )
            except errors.Conflict as problem:
                if isinstance(problem, errors.Fenced):
                    raise
                return  # Another writer was first; the next look sees what it wrote.

    async def mark(self, pool: Pool, now: datetime) -> None:
        """Record on the sessions themselves which are in danger, so that their owners are told."""
        found = {each.key: (each, why) for each, why in self._found(pool, now)}
        changed = list[Session]()
        calm = [
            (each, None)
            for each in self._context.cache.by(indices.SESSIONS_ENDANGERED, pool.key.path)
            if each.key not in found
        ]
        for session, why in (*calm, *found.values()):
            facts = marked(session, why, now)
            if facts is not None and len(changed) < MARKED:
                status = msgspec.structs.replace(session.status, conditions=facts)
                changed.append(msgspec.structs.replace(session, status=status))
        if not changed:
            return
        told = f"{count(len(changed), 'promise')} of pool {pool.name} in danger, or no more"
        try:
            await self._context.write(*changed, actor=ACTOR, reason=told)
        except errors.Conflict as problem:
            if isinstance(problem, errors.Fenced):
                raise
            # Another writer was first; the next look sees what it wrote.

    def _late(
        self, pool: Pool, claims: PoolClaims | None, until: datetime, *, paused: bool
    ) -> list[Session]:
        """Return the sessions whose workers will be late, of those whose workers are due.

        What was asked for at shorter notice than a boot takes is late from the beginning: that is
        said when its head start has begun.
        """
        cache = self._context.cache
        if claims is None or _cannot_make(pool, claims.extent) is not None:
            return []
        if next(waiting(claims, until), None) is None:
            return []
        workers = cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        fleet = pool_arrivals.fleet(pool, workers, claims.now, paused=paused)
        found = arrivals(claims, until, fleet)
        late = (cache.of_uid(Session, each.uid) for each in at_risk(claims, until, found))
        return [each for each in late if each is not None and _in_time(each, fleet.boot)]

    def _found(self, pool: Pool, now: datetime) -> Found:
        """Return the sessions in danger, the first slot first, each once."""
        cache, today = self._context.cache, in_utc(now).toordinal()
        extent, found = pool_claims.extent(cache, pool), dict[Key, tuple[Session, PoolReason]]()
        days = sorted(
            day
            for path, day in cache.values(indices.SESSIONS_CLAIMING)
            if path == pool.key.path and day >= today
        )
        for key in [each for each in self._days if each[0] == pool.key and each[1] not in days]:
            del self._days[key]
        for day in days:
            for each in self._day(pool, day, extent, now):
                found.setdefault(each[0].key, each)
        return tuple(sorted(found.values(), key=_slot))

    def _day(self, pool: Pool, day: int, extent: Extent | None, now: datetime) -> Found:
        sessions = self._context.cache.by(indices.SESSIONS_CLAIMING, (pool.key.path, day))
        why = _cannot_make(pool, extent)
        before = self._days.get((pool.key, day))
        same = before is not None and (before.extent, before.why) == (extent, why)
        if before is not None and same and before.sessions is sessions and now < before.until:
            return before.found
        by_uid = {each.metadata.uid: each for each in sessions}
        # What has begun, or is bound, is not waited for here, whatever becomes of its worker.
        claims = [
            _begun(each, by_uid[each.uid])
            for each in pool_claims.read(self._context.cache, sessions)
        ]
        lost: list[Endangered]
        if extent is None or why is not None:
            lost = list(all_of(claims, why or PoolReason.NO_TEMPLATE))
        else:
            lost = list(endangered(PoolClaims(extent, now, claims)))
        found = tuple((by_uid[each.claimed.uid], each.why) for each in lost)
        late = [each.claim.start + LATE for each in claims if each.claim.start + LATE > now]
        until = min(late, default=datetime.max.replace(tzinfo=now.tzinfo))
        first = 0 if day == in_utc(now).toordinal() else day
        waiting = sum(
            each.worker is None and first <= in_utc(each.claim.start).toordinal() <= day
            for each in claims
        )
        self._days[pool.key, day] = _Day(extent, why, sessions, until, found, waiting)
        return found


def _in_time(session: Session, boot: timedelta) -> bool:
    """Tell whether a session waits, and was asked for at least a boot before its claim begins."""
    claim, created = session.status.claim, session.metadata.creation_timestamp
    waits = session.status.phase is SessionPhase.PENDING and claim is not None
    return waits and claim is not None and (created is None or created + boot <= claim.start)


def _begun(claimed: Claimed, session: Session) -> Claimed:
    """Return a claim as having a worker, unless its session still waits for one."""
    if session.status.phase is SessionPhase.PENDING:
        return claimed
    return replace(claimed, worker=claimed.worker or session.status.worker or "")


def _cannot_make(pool: Pool, extent: Extent | None) -> PoolReason | None:
    """Return why a pool makes no workers any more; None when it does."""
    if pool.deleting or pool.spec.desired != "Ready":
        return PoolReason.DRAINING
    return PoolReason.NO_TEMPLATE if extent is None else None


def _slot(found: tuple[Session, PoolReason]) -> tuple[str, Key]:
    claim = found[0].status.claim
    return "" if claim is None else claim.start.isoformat(), found[0].key
