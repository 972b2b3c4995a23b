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
class Due:
    """A place with a claim that no worker hosts yet: when its first one begins, and who serves it.

    `worker` is None when none serves the place.
    """

    start: datetime
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class Promised:
    """What claims need of a pool until some instant.

    `due` are the places that are waited for; `busy` are the workers that serve any place.
    """

    due: tuple[Due, ...] = ()
    busy: frozenset[str] = frozenset()


def promised(claims: PoolClaims, until: datetime) -> Promised:
    """Return what the claims that begin until an instant, and are not over, need."""
    due, busy = dict[int, Due](), set[str]()
    for each in claims.claims():
        place, start = each.claim.place, each.claim.start
        home = claims.worker_of(place)
        if home is not None:
            busy.add(home)
        waits = each.worker is None and start <= until and each.claim.end > claims.now
        if waits and place < claims.extent.places_at(start):
            known = due.get(place)
            due[place] = Due(start if known is None else min(start, known.start), home)
    return Promised(due=tuple(due[place] for place in sorted(due)), busy=frozenset(busy))


def missing(promised: Promised, serving: AbstractSet[str], *, until: datetime | None = None) -> int:
    """Return how many workers are missing beside those that serve, or come up to serve.

    `until` leaves out the places whose claims begin later.
    """
    homeless = sum(
        (each.worker is None or each.worker not in serving)
        and (until is None or each.start <= until)
        for each in promised.due
    )
    return max(0, homeless - len(serving - promised.busy))
