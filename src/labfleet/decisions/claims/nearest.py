"""The slots nearest to one that does not fit, of the same length, that do fit.

Pure. Room changes only where a claim begins or ends, so only slots that begin where one ends, or
end where one begins, are tried: nearest first, so many each way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from labfleet.decisions import placement
from labfleet.decisions.claims.places import PoolClaims

TRIES = 32
"""Slots that are tried each way."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """How far a slot would have to be moved to fit, each way; None: no such slot was found.

    earlier: The move to an earlier slot, 0 or negative.
    later: The move to a later slot.
    before: The last earlier move that was tried, when there were more; None: all were tried.
    after: The same of later moves.
    """

    earlier: timedelta | None = None
    later: timedelta | None = None
    before: timedelta | None = None
    after: timedelta | None = None


def nearest(
    pools: Iterable[PoolClaims],
    request: placement.PlacementRequest,
    *,
    first: datetime,
    last: datetime,
    fits: Callable[[timedelta], bool] | None = None,
) -> Nearest:
    """Return the nearest moves of a request at once, as `looking` finds them."""
    look = looking(pools, request, first=first, last=last, fits=fits)
    while True:
        try:
            next(look)
        except StopIteration as over:
            found: Nearest = over.value
            return found


def looking(
    pools: Iterable[PoolClaims],
    request: placement.PlacementRequest,
    *,
    first: datetime,
    last: datetime,
    fits: Callable[[timedelta], bool] | None = None,
) -> Generator[None, None, Nearest]:
    """Return the nearest moves of a request, in whole minutes, within [first, last].

    It yields before each try, for a caller that lets others work in between. `fits` tells of a move
    whether it will do; without it, that the request alone has room.

    The pools must hold all claims between these instants. The request itself counts as an earlier
    slot: it may be one that was rounded to minutes from what does not fit.
    """
    pools = list(pools)
    end = request.end
    if end is None:
        return Nearest()
    later, earlier = set[timedelta](), {timedelta()}
    for pool in pools:
        for each in pool.claims():
            free = pool.end_of(each.claim)
            if request.start < free <= last:
                later.add(_minutes(free - request.start, up=True))
            if first < each.claim.start < end:
                earlier.add(_minutes(each.claim.start - end, up=False))
    after = sorted(move for move in later if end + move <= last)
    before = sorted((move for move in earlier if request.start + move >= first), reverse=True)
    judge = partial(_alone, pools, request) if fits is None else fits
    found, rest = yield from _fitting(judge, before)
    found_later, rest_later = yield from _fitting(judge, after)
    return Nearest(earlier=found, later=found_later, before=rest, after=rest_later)


def _fitting(
    fits: Callable[[timedelta], bool], moves: list[timedelta]
) -> Generator[None, None, tuple[timedelta | None, timedelta | None]]:
    """Return the first move that fits, and the last one tried when not all were."""
    for move in moves[:TRIES]:
        yield
        if fits(move):
            return move, None
    return None, moves[TRIES - 1] if len(moves) > TRIES else None


def _alone(pools: list[PoolClaims], request: placement.PlacementRequest, move: timedelta) -> bool:
    moved = shifted(request, move)
    return any(isinstance(pool.find(moved, size=pool.extent.offered), int) for pool in pools)


def shifted(request: placement.PlacementRequest, move: timedelta) -> placement.PlacementRequest:
    """Return the request for a slot that is moved by so much."""
    end = None if request.end is None else request.end + move
    return replace(request, start=request.start + move, end=end)


def _minutes(span: timedelta, *, up: bool) -> timedelta:
    whole = span // MINUTE * MINUTE
    return whole + MINUTE if up and whole < span else whole
