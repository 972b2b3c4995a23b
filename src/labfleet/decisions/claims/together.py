"""Many slots that are promised together: which of them fit, and where to all of them would fit.

Pure. They are packed one after the other, in their order, each beside those before it, so that a
group gets the same places as its seats would get that asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from labfleet.decisions.claims.nearest import shifted
from labfleet.decisions.claims.places import Claimed, Lack, PoolClaims, claim_of
from labfleet.decisions.placement import PlacementRequest
from labfleet.resources.amounts import Claim

Wanted = Sequence[tuple[str, PlacementRequest]]
"""Whose slot (uid) and what it asks for, in the order in which they get their places."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The claim of each slot, None where there is no room; `lacks` says why of the first of these.

    `lacks` has a pool and its nearest lack for each pool that serves it at all.
    """

    claims: tuple[Claim | None, ...]
    lacks: tuple[tuple[PoolClaims, Lack | None], ...] = ()

    @property
    def fit(self) -> int:
        """Return how many of the slots fit."""
        return sum(each is not None for each in self.claims)


def pack(pools: Sequence[PoolClaims], wanted: Wanted, *, all_or_none: bool = False) -> Packed:
    """Return the claims of as many slots as fit, and count them in the pools.

    A place that was full for one slot is full for a later one that asks for the same, because here
    claims are only added: so each place is looked at once for all of them. With `all_or_none` it
    stops at the first that does not fit.
    """
    claims = list[Claim | None]()
    begins: dict[tuple[PlacementRequest, int], int] = {}
    without: PlacementRequest | None = None
    for uid, request in wanted:
        claim = None
        for number, pool in enumerate(pools):
            begin, places = begins.get((request, number), 0), pool.extent.places_at(request.start)
            found = pool.find(request, among=range(begin, places), size=pool.extent.offered)
            begins[request, number] = found if isinstance(found, int) else places
            if isinstance(found, int):
                claim = claim_of(pool.extent.pool, found, request)
                pool.add(Claimed(uid=uid, claim=claim))
                break
        claims.append(claim)
        if claim is None:
            without = without or request
            if all_or_none:
                break
    if without is None:
        return Packed(tuple(claims))
    lacks = [(pool, pool.find(without, size=pool.extent.offered)) for pool in pools]
    told = tuple((pool, lack if isinstance(lack, Lack) else None) for pool, lack in lacks)
    return Packed(tuple(claims), told)


def drop(pools: Iterable[PoolClaims], wanted: Wanted) -> None:
    """Take slots back that were packed to see whether they fit."""
    for pool in pools:
        for uid, _ in wanted:
            pool.drop(uid)


def holds(pools: Sequence[PoolClaims], wanted: Wanted) -> Callable[[timedelta], bool]:
    """Return what tells whether all slots fit when each is moved by so much."""

    def fits(move: timedelta) -> bool:
        moved = [(uid, shifted(request, move)) for uid, request in wanted]
        done = pack(pools, moved, all_or_none=True)
        drop(pools, moved)
        return done.fit == len(moved)

    return fits


def most(pools: Sequence[PoolClaims], wanted: Wanted) -> int:
    """Return how many of the slots fit at once where nothing else is promised."""
    empty = [PoolClaims(pool.extent, pool.now) for pool in pools]
    return pack(empty, wanted).fit
