"""How many workers a pool must have soon for what it has promised.

Pure. A place whose claims begin within the pool's lead time needs a worker: the one that serves it
already, or one that serves no place yet, present or booting.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.claims.places import PoolClaims


@dataclass(frozen=True, slots=True)
class Promised:
    """What claims need of a pool until some instant.

    `due` has for each place with a claim that no worker hosts yet the worker that serves the place,
    None when none does; `busy` are the workers that serve any place.
    """

    due: tuple[str | None, ...] = ()
    busy: frozenset[str] = frozenset()


def promised(claims: PoolClaims, until: datetime) -> Promised:
    """Return what the claims that begin until an instant, and are not over, need."""
    due, busy = dict[int, str | None](), set[str]()
    for each in claims.claims():
        home = claims.worker_of(each.claim.place)
        if home is not None:
            busy.add(home)
        waits = each.worker is None and each.claim.start <= until and each.claim.end > claims.now
        if waits and each.claim.place < claims.extent.places:
            due[each.claim.place] = home
    return Promised(due=tuple(due[place] for place in sorted(due)), busy=frozenset(busy))


def missing(promised: Promised, serving: AbstractSet[str]) -> int:
    """Return how many workers are missing beside those that serve, or come up to serve."""
    homeless = sum(home is None or home not in serving for home in promised.due)
    free = len(serving - promised.busy)
    return max(0, homeless - free)
