"""The claims of one pool, packed into its workers: a promise is a place that has room for it.

Pure. A *place* is one of the workers that a pool may have, there or to be made, counted from 0. A
claim has the place that it was given when it was accepted, so that the places are the proof that
all claims fit: nothing is summed over workers, and what is accepted later takes only what is left
(docs/decisions/0027-claims-on-places.md). A worker serves one place while sessions are bound to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import add, le, sub

from labfleet.decisions import placement
from labfleet.decisions.claims.steps import Row, Steps, short_of, steps_of
from labfleet.decisions.ledger import OVERDUE
from labfleet.decisions.pools.startable import Startable
from labfleet.kernel.clock import in_utc
from labfleet.resources.amounts import DIMENSIONS, Amounts, Claim, Shortage, of_vector, vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One claim as it stands: whose (uid), and the worker that its session is bound to, if any."""

    uid: str
    claim: Claim
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many workers a pool may have, and what an empty one of them has.

    `shape` is a worker that is still to be made; `sizes` what workers that are there really have,
    by name, where that is known. `offered` is what of a place may be promised anew while smaller
    workers of an earlier template are there, which may come to serve any place; None: all of it.
    `startable` says how many of the places there are at some time; None: all, at all times.
    """

    pool: str
    places: int
    shape: placement.WorkerShape
    sizes: Mapping[str, Amounts] = field(default_factory=dict)
    offered: Amounts | None = None
    startable: Startable | None = None

    def places_at(self, start: datetime) -> int:
        """Return how many workers the pool may have for a slot that starts then."""
        return self.places if self.startable is None else self.startable.workers(start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why a place cannot hold a request: the first instant at which it is short, and of what."""

    place: int
    at: datetime
    shortages: tuple[Shortage, ...]

    @property
    def share(self) -> float:
        """Return how much is missing, as a share of what is wanted; the least is the nearest."""
        return sum((each.wanted - each.free) / each.wanted for each in self.shortages)


class PoolClaims:
    """The claims of one pool by place; `looked` counts those that were looked at, for tests.

    What has begun and is past its end holds its place a little longer, as on a worker
    (`ledger.settled`): it is free once the lab was seen gone.
    """

    def __init__(self, extent: Extent, now: datetime, claimed: Iterable[Claimed] = ()) -> None:
        self.extent = extent
        self.now = now
        self.looked = 0
        self._at: dict[int, dict[str, Claimed]] = {}
        self._steps: dict[int, Steps] = {}
        self._asked: set[int] = set()
        self._place: dict[str, int] = {}
        self._homes: dict[int, str] = {}
        self._served: dict[str, int] = {}
        for each in claimed:
            self.add(each)

    def add(self, claimed: Claimed) -> None:
        """Take a claim in, instead of an earlier one of the same session."""
        self.drop(claimed.uid)
        place = claimed.claim.place
        self._changed(place)
        self._at.setdefault(place, {})[claimed.uid] = claimed
        self._place[claimed.uid] = place
        if claimed.worker is not None:
            self._homes.setdefault(place, claimed.worker)
            self._served.setdefault(claimed.worker, place)

    def drop(self, uid: str) -> None:
        """Forget the claim of a session; its worker still serves the place for this look."""
        place = self._place.pop(uid, None)
        if place is not None:
            self._changed(place)
            del self._at[place][uid]

    def __contains__(self, uid: object) -> bool:
        return uid in self._place

    def of(self, uid: str) -> Claimed | None:
        """Return the claim of a session; None when it has none here."""
        place = self._place.get(uid)
        return None if place is None else self._at[place][uid]

    def claims(self) -> Iterator[Claimed]:
        """Yield all claims, by place."""
        for place in sorted(self._at):
            yield from self._at[place].values()

    def worker_of(self, place: int) -> str | None:
        """Return the worker that serves a place now; None when it may be any free one."""
        return self._homes.get(place)

    def place_of(self, worker: str) -> int | None:
        """Return the place that a worker serves now; None when it serves none."""
        return self._served.get(worker)

    def serves(self, request: placement.PlacementRequest) -> bool:
        """Tell whether an empty worker of the pool can host the request at all."""
        ours = request.track in {None, self.extent.shape.track}
        return ours and placement.fits_empty(request, self.extent.shape)

    def find(
        self,
        request: placement.PlacementRequest,
        *,
        without: str = "",
        among: Iterable[int] | None = None,
        size: Amounts | None = None,
    ) -> int | Lack | None:
        """Return the first place that has room, else the nearest lack; None: there is no place.

        `without` is a session whose own claim does not count; `among` are the places to look at;
        `size` as of `lack`.
        """
        nearest: Lack | None = None
        for place in range(self.extent.places_at(request.start)) if among is None else among:
            found = self.lack(place, request, without=without, size=size)
            if found is None:
                return place
            if nearest is None or found.share < nearest.share:
                nearest = found
        return nearest

    def lack(
        self,
        place: int,
        request: placement.PlacementRequest,
        *,
        without: str = "",
        size: Amounts | None = None,
    ) -> Lack | None:
        """Return why a place cannot hold a request beside its claims; None when it can.

        `size` is what its worker has, when the caller knows better.
        """
        wanted, has = vector(request.amounts), vector(size or self._size(place, request))
        steps = None if without in self._at.get(place, ()) else self._repeated(place)
        if steps is not None:
            found = steps.first_short(request.start, request.end, wanted, has)
            return found and Lack(place=place, at=found[0], shortages=found[1])
        begin, changes = request.start, dict[datetime, Row]()
        none: Row = (0,) * len(DIMENSIONS)
        most = held = none
        for each in self._at.get(place, {}).values():
            if each.uid == without:
                continue
            self.looked += 1
            start, end = each.claim.start, self.end_of(each.claim)
            if end <= begin or (request.end is not None and start >= request.end):
                continue
            row = vector(each.claim.amounts)
            most = tuple(map(add, most, row))
            if start <= begin:
                held = tuple(map(add, held, row))
            else:
                changes[start] = tuple(map(add, changes.get(start, none), row))
            changes[end] = tuple(map(sub, changes.get(end, none), row))
        if all(map(le, map(add, most, wanted), has)):
            return None
        changes[begin] = none
        for at in sorted(changes):
            if request.end is not None and at >= request.end:
                break
            # All that begins and ends at one instant counts before it is judged.
            held = tuple(map(add, held, changes[at]))
            short = short_of(wanted, has, held)
            if short:
                return Lack(place=place, at=at, shortages=short)
        return None

    def _repeated(self, place: int) -> Steps | None:
        """Return what a place holds over time, when it is asked about again and nothing changed.

        To know that costs as much as one look and makes each further one cheap: a refusal asks each
        place about dozens of slots.
        """
        known = self._steps.get(place)
        if known is None and place in self._asked:
            claims = self._at.get(place, {}).values()
            self.looked += len(claims)
            spans = ((e.claim.start, self.end_of(e.claim), vector(e.claim.amounts)) for e in claims)
            known = self._steps[place] = steps_of(spans)
        self._asked.add(place)
        return known

    def _changed(self, place: int) -> None:
        self._asked.discard(place)
        self._steps.pop(place, None)

    def _size(self, place: int, request: placement.PlacementRequest) -> Amounts:
        """Return what a place has: its worker's size while what is bound there lasts.

        Later another worker may serve the place, one that is still to be made.
        """
        worker, shape = self._homes.get(place), self.extent.shape.capacity
        known = None if worker is None else self.extent.sizes.get(worker)
        if known is None:
            return shape
        bound = [each for each in self._at.get(place, {}).values() if each.worker == worker]
        until = max((self.end_of(each.claim) for each in bound), default=self.now)
        if request.end is not None and request.end <= until:
            return known
        return of_vector(map(min, vector(known), vector(shape)))

    def end_of(self, claim: Claim) -> datetime:
        """Return when a claim's place is free again, as far as is known now."""
        late = self.now + OVERDUE
        return late if claim.start <= self.now and claim.end < late else claim.end


def claim_of(pool: str, place: int, request: placement.PlacementRequest) -> Claim:
    """Return the claim of a request on a place; the request has an end."""
    if request.end is None:
        raise AssertionError("a claim has an end")
    return Claim(
        pool=pool,
        place=place,
        amounts=request.amounts,
        start=in_utc(request.start),
        end=in_utc(request.end),
    )


def covers(claim: Claim, request: placement.PlacementRequest) -> bool:
    """Tell whether a claim holds all that a request asks for."""
    within = request.end is not None and claim.start <= request.start and request.end <= claim.end
    return within and all(map(le, vector(request.amounts), vector(claim.amounts)))
