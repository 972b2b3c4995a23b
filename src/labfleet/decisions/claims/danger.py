"""Which promises are in danger, and why: said as soon as it is known, hours before their slots.

Pure. A promise is in danger when its pool may have fewer workers than it had, when its place has less
than was promised there, or when its head start has begun and no worker hosts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.decisions.claims.places import Claimed, PoolClaims
from labfleet.decisions.placement import PlacementRequest
from labfleet.resources import conditions
from labfleet.resources.conditions import Condition
from labfleet.resources.pool_conditions import PoolReason
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import SessionCondition, SessionReason

LATE = timedelta(minutes=5)
"""How long after its head start began a promise without a worker is late."""
HOLD = timedelta(minutes=10)
"""For how long a session stays in danger, or out of it, at least: a pool's maximum that is lowered
and raised again must not send its owners a letter each time."""

_REASONS = {str(each): each for each in SessionReason}


@dataclass(frozen=True, slots=True)
class Endangered:
    """A claim that may not be kept, and why."""

    claimed: Claimed
    why: PoolReason


def endangered(claims: PoolClaims) -> Iterator[Endangered]:
    """Yield the claims in danger; of those that fit a place no more, those that begin last.

    What is bound is never in danger here: it has its worker, whose own record tells of it.
    """
    kept = PoolClaims(claims.extent, claims.now)
    for each in sorted(claims.claims(), key=_firmest):
        if each.worker is not None:
            kept.add(each)
        elif each.claim.place >= claims.extent.places_at(each.claim.start):
            yield Endangered(each, PoolReason.PLACES_GONE)
        elif kept.lack(each.claim.place, asked_of(each)) is not None:
            yield Endangered(each, PoolReason.WORKERS_SMALLER)
        else:
            kept.add(each)
            if _late(each, claims.now):
                yield Endangered(each, PoolReason.WORKERS_LATE)


def all_of(claimed: Iterable[Claimed], why: PoolReason) -> Iterator[Endangered]:
    """Yield all claims that no worker hosts yet as being in danger for one reason."""
    return (Endangered(each, why) for each in claimed if each.worker is None)


def asked_of(claimed: Claimed) -> PlacementRequest:
    """Return the request that a claim holds room for."""
    claim = claimed.claim
    return PlacementRequest(amounts=claim.amounts, start=claim.start, end=claim.end)


def _late(claimed: Claimed, now: datetime) -> bool:
    return claimed.claim.start + LATE <= now < claimed.claim.end


def _firmest(claimed: Claimed) -> tuple[bool, datetime, str]:
    return claimed.worker is None, claimed.claim.start, claimed.uid


def marked(session: Session, why: PoolReason | None, now: datetime) -> tuple[Condition, ...] | None:
    """Return the session's facts with its danger, or that there is none; None: nothing new to record.

    A session that never was in danger has no such fact, and another reason for the same danger is
    no news.
    """
    known = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    wanted: conditions.Status = "True" if why is None else "False"
    if (known is None and why is None) or (known is not None and known.status == wanted):
        return None
    if known is not None and now - known.last_transition_time < HOLD:
        return None
    reason = (
        SessionReason.KEPT if why is None else _REASONS.get(str(why), SessionReason.WORKERS_LATE)
    )
    return conditions.put(
        session.status.conditions,
        SessionCondition.PROMISE_SAFE,
        wanted,
        reason,
        reason.sentence,
        now=now,
    )
