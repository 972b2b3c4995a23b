"""When the workers for what is promised are up, and which of them will be late: an exam's morning.

Pure. Each place with a claim that no worker hosts yet gets the worker that serves it, else one that
is up or comes up and serves no place, the earliest slot first; else one is still to be made, as early
as the pool's lead says. What a boot takes is the bound that was measured (`lead`), so a time that is
said here is kept by 95 in 100; of a worker that has booted for longer nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.decisions.claims.danger import LATE
from labfleet.decisions.claims.places import Claimed, PoolClaims


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The workers of a pool, and how it makes more.

    ready: Workers that can host now.
    coming: Workers on their way to that, each with when it is up; None: nobody knows.
    early: How long before a claim begins its worker is made.
    boot: How long a boot takes at most.
    makes: Whether the pool makes workers at all now; a paused one does not.
    """

    ready: AbstractSet[str] = frozenset()
    coming: Mapping[str, datetime | None]
    early: timedelta
    boot: timedelta
    makes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The worker of a place: `name` is empty while it is to be made; `by` None: nobody knows when."""

    place: int
    start: datetime
    name: str
    by: datetime | None

    @property
    def late(self) -> bool:
        """Tell whether it will be late for the first claim that waits there, as far as is known."""
        return self.by is None or self.by > self.start + LATE


def up_by(started: datetime | None, boot: timedelta, now: datetime) -> datetime | None:
    """Return when a worker that boots is up; None once it has taken longer than nearly all did."""
    by = (now if started is None else started) + boot
    return by if by > now else None


def arrivals(claims: PoolClaims, until: datetime, fleet: Fleet) -> list[Arrival]:
    """Return the workers of the places with claims that wait and begin until an instant."""
    first = dict[int, datetime]()
    for each in waiting(claims, until):
        place, start = each.claim.place, each.claim.start
        first[place] = min(first.get(place, start), start)
    busy = {home for each in claims.claims() if (home := claims.worker_of(each.claim.place))}
    free = _free(fleet, busy)
    found = list[Arrival]()
    for place, start in sorted(first.items(), key=lambda each: (each[1], each[0])):
        home = claims.worker_of(place)
        if place >= claims.extent.places_at(start):
            found.append(Arrival(place=place, start=start, name="", by=None))
            continue
        if home is None or not (home in fleet.ready or home in fleet.coming):
            home = free.pop(0) if free else ""
        found.append(
            Arrival(place=place, start=start, name=home, by=_by(home, start, claims, fleet))
        )
    return found


def waiting(claims: PoolClaims, until: datetime) -> Iterator[Claimed]:
    """Yield the claims that no worker hosts yet, and which begin until then."""
    for each in claims.claims():
        claim = each.claim
        if each.worker is None and claim.start <= until and claim.end > claims.now:
            yield each


def at_risk(claims: PoolClaims, until: datetime, found: Sequence[Arrival]) -> list[Claimed]:
    """Return the claims whose worker will be late, the first slot first."""
    late = {each.place: each.by for each in found if each.late}
    risky = [
        each
        for each in waiting(claims, until)
        if each.claim.place in late and _after(late[each.claim.place], each.claim.start + LATE)
    ]
    return sorted(risky, key=lambda each: (each.claim.start, each.uid))


def _after(by: datetime | None, limit: datetime) -> bool:
    return by is None or by > limit


def _free(fleet: Fleet, busy: AbstractSet[str]) -> list[str]:
    """Return the workers that serve no place: those that are up, then the others by when they are."""
    known = sorted((by, name) for name, by in fleet.coming.items() if by is not None)
    unknown = sorted(name for name, by in fleet.coming.items() if by is None)
    coming = [*(name for _, name in known), *unknown]
    return [*sorted(fleet.ready - busy), *(name for name in coming if name not in busy)]


def _by(name: str, start: datetime, claims: PoolClaims, fleet: Fleet) -> datetime | None:
    now = claims.now
    if name in fleet.ready:
        return now
    if name:
        return fleet.coming[name]
    made = max(now, start - fleet.early)
    return made + fleet.boot if fleet.makes or made > now else None
