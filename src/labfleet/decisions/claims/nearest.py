"""The slots nearest to one that does not fit, of the same length, that do fit.

Pure. Room changes only where a claim begins or ends, so only slots that begin where one ends, or
end where one begins, are tried: nearest first, so many each way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from labfleet.decisions import placement
from labfleet.decisions.claims.places import PoolClaims

TRIES = 32
"""Slots that are tried each way."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """How far a slot would have to be moved to fit: earlier (negative) and later; None: unknown."""

    earlier: timedelta | None = None
    later: timedelta | None = None


def nearest(
    pools: Iterable[PoolClaims],
    request: placement.PlacementRequest,
    *,
    first: datetime,
    last: datetime,
) -> Nearest:
    """Return the nearest moves of a request, in whole minutes, within [first, last].

    The pools must hold all claims between these instants.
    """
    pools = list(pools)
    end = request.end
    if end is None:
        return Nearest()
    later, earlier = set[timedelta](), set[timedelta]()
    for pool in pools:
        for each in pool.claims():
            if request.start < each.claim.end <= last:
                later.add(_minutes(each.claim.end - request.start, up=True))
            if first < each.claim.start < end:
                earlier.add(_minutes(each.claim.start - end, up=False))
    after = sorted(move for move in later if end + move <= last)
    before = sorted((move for move in earlier if request.start + move >= first), reverse=True)
    return Nearest(earlier=_fitting(pools, request, before), later=_fitting(pools, request, after))


def _fitting(
    pools: list[PoolClaims], request: placement.PlacementRequest, moves: list[timedelta]
) -> timedelta | None:
    for move in moves[:TRIES]:
        moved = shifted(request, move)
        if any(isinstance(pool.find(moved), int) for pool in pools):
            return move
    return None


def shifted(request: placement.PlacementRequest, move: timedelta) -> placement.PlacementRequest:
    """Return the request for a slot that is moved by so much."""
    end = None if request.end is None else request.end + move
    return replace(request, start=request.start + move, end=end)


def _minutes(span: timedelta, *, up: bool) -> timedelta:
    whole = span // MINUTE * MINUTE
    return whole + MINUTE if up and whole < span else whole
