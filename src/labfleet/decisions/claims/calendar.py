"""What a pool has promised over a span of time, interval by interval.

Pure. One sweep over where claims begin and end, so the work grows with the claims that live in the
span, and only as many intervals are made as are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import add, itemgetter, le, sub

from labfleet.decisions.claims.places import PoolClaims
from labfleet.decisions.claims.steps import NONE, Row
from labfleet.resources.amounts import Claim, vector


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim as a calendar shows it: `about` is its group or lab; `mine`: the reader's own."""

    claim: Claim
    about: str
    mine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A time in which what is promised stays the same.

    sessions: Sessions that hold a place.
    places: Places that they need.
    danger: Sessions on places that are gone, or that have less than is promised on them.
    mine: How many of the sessions are the reader's own.
    about: How many are of which group or lab.
    """

    start: datetime
    end: datetime
    sessions: int = 0
    places: int = 0
    danger: int = 0
    mine: int = 0
    about: tuple[tuple[str, int], ...] = ()

    @property
    def what(self) -> tuple[object, ...]:
        """Return all but the time: two intervals after each other with the same are one."""
        return self.sessions, self.places, self.danger, self.mine, self.about


def intervals(
    claims: PoolClaims, entries: list[Entry], first: datetime, last: datetime
) -> Iterator[Interval]:
    """Yield what is promised from `first` to `last`, without gaps."""
    before: Interval | None = None
    for each in _changes(claims, entries, first, last):
        if before is not None and before.what == each.what:
            before = _joined(before, each)
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


def _joined(before: Interval, after: Interval) -> Interval:
    return Interval(
        start=before.start, end=after.end, sessions=before.sessions, places=before.places,
        danger=before.danger, mine=before.mine, about=before.about,
    )  # fmt: skip


def _changes(
    claims: PoolClaims, entries: list[Entry], first: datetime, last: datetime
) -> Iterator[Interval]:
    moves = list[tuple[datetime, int, Entry]]()
    for each in entries:
        start, end = max(each.claim.start, first), min(claims.end_of(each.claim), last)
        if start < end:
            moves += [(start, 1, each), (end, -1, each)]
    moves.sort(key=itemgetter(0))
    held, at = _Held(claims), first
    for instant, here in groupby(moves, key=itemgetter(0)):
        if instant > at:
            yield held.seen(at, instant)
            at = instant
        for _, sign, entry in here:
            held.move(sign, entry)
    if at < last:
        yield held.seen(at, last)


@dataclass(slots=True)
class _Held:
    """What is held at one instant of the sweep."""

    claims: PoolClaims
    places: Counter[int] = field(default_factory=Counter)
    amounts: dict[int, Row] = field(default_factory=dict)
    about: Counter[str] = field(default_factory=Counter)
    bad: set[int] = field(default_factory=set)
    mine: int = 0

    def move(self, sign: int, entry: Entry) -> None:
        place, row = entry.claim.place, vector(entry.claim.amounts)
        self.places[place] += sign
        self.about[entry.about] += sign
        self.mine += sign * entry.mine
        held = tuple(map(add if sign > 0 else sub, self.amounts.get(place, NONE), row))
        self.amounts[place] = held
        if not self.places[place]:
            del self.places[place], self.amounts[place]
        if not self.about[entry.about]:
            del self.about[entry.about]
        gone = place >= self.claims.extent.places_at(entry.claim.start)
        if place in self.places and (gone or not all(map(le, held, self._size(place)))):
            self.bad.add(place)
        else:
            self.bad.discard(place)

    def _size(self, place: int) -> Row:
        extent, home = self.claims.extent, self.claims.worker_of(place)
        known = None if home is None else extent.sizes.get(home)
        shape = vector(extent.shape.capacity)
        return shape if known is None else tuple(map(max, vector(known), shape))

    def seen(self, start: datetime, end: datetime) -> Interval:
        about = sorted(self.about.items(), key=lambda each: (-each[1], each[0]))
        return Interval(
            start=start,
            end=end,
            sessions=self.places.total(),
            places=len(self.places),
            danger=sum(self.places[place] for place in self.bad),
            mine=self.mine,
            about=tuple(about),
        )
