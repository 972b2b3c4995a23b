"""The seats of a group are promised together, in the commit that books it: all, or as many as fit.

One by one a seat would get the same place; here the claims are read once for all of them, and a
refusal says how many fit and which slots hold the whole group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from labfleet.decisions.claims import refusals, together
from labfleet.decisions.claims.asked import asked
from labfleet.decisions.claims.nearest import Nearest
from labfleet.decisions.claims.places import PoolClaims
from labfleet.decisions.claims.together import Packed, Wanted
from labfleet.interfaces import store as stores
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources.amounts import Claim
from labfleet.resources.definition import Definition
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import session_claims
from labfleet.service.kinds.admitted import with_status
from labfleet.service.kinds.pool_claims import Claims


class Booked(NamedTuple):
    """The sessions that get room, with what their commit carries; `message` says what is missing."""

    sessions: tuple[Session, ...]
    preconditions: tuple[stores.Precondition, ...] = ()
    writes: tuple[stores.Write, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read for one group: its seats and the pools that serve them; whether it is moved."""

    services: ServiceContext
    caller: Caller
    claims: Claims
    pools: list[tuple[Pool, PoolClaims]]
    seats: Sequence[Session]
    definition: Definition
    moving: bool

    @property
    def known(self) -> list[PoolClaims]:
        """Return the claims of the pools."""
        return [each for _, each in self.pools]

    def wanted(self, seats: Sequence[Session], now: datetime) -> Wanted:
        """Return what seats ask for, as if it were `now`."""
        licensed = self.services.settings.now().scheduling.require_licence
        return [
            (each.metadata.uid, asked(each, self.definition, now, licensed=licensed))
            for each in seats
        ]


async def book(
    services: ServiceContext,
    caller: Caller,
    seats: Sequence[Session],
    definition: Definition,
    *,
    some: bool = False,
    near: bool = True,
    moving: bool = False,
) -> Booked:
    """Return the seats with their claims; Refused (NoCapacity) when they do not fit.

    With `some` those that fit are enough, in their order. Where nobody knows how much room there
    is, seats are booked without a claim, as a session would be (`session_claims.of_new`). What is
    `moving` has a place already, which does not stand in its way.
    """
    space = seats[0].namespace
    if session_claims.line(services, space) is None:
        return Booked(tuple(with_status(each, claim=None) for each in seats))
    revision, now = await services.fresh(), services.clock.now()
    theirs = frozenset(each.metadata.uid for each in seats) if moving else frozenset()
    claims = Claims(services.cache, now, services.objects.saved(Session), without=theirs)
    look = _Look(services, caller, claims, [], seats, definition, moving)
    wanted = look.wanted(seats, now)
    request = wanted[0][1]
    last = max(each.end for _, each in wanted if each.end is not None)
    bounded = True
    for pool in claims.pools(space, request):
        found = claims.of(pool, request.start, last)
        bounded = bounded and found is not None
        if found is not None and found.serves(request):
            look.pools.append((pool, found))
    packed = together.pack(look.known, wanted)
    booked: list[tuple[Session, Claim | None]]
    short = packed.fit < len(seats)
    bounded = bounded and not session_claims.served_by_others(services, space, request)
    if short and bounded and look.pools:
        message = await _short(look, packed, now, some=some, near=near)
        pairs = zip(seats, packed.claims, strict=True)
        booked = [pair for pair in pairs if pair[1] is not None]
    else:
        message, booked = "", [*zip(seats, packed.claims, strict=True)]
    used = {claim.pool: claim for _, claim in booked if claim is not None}
    rows = [
        session_claims.taken_of(used[pool.name], pool.key, revision)
        for pool, _ in look.pools
        if pool.name in used
    ]
    return Booked(
        tuple(with_status(each, claim=claim) for each, claim in booked),
        tuple(one for each in rows for one in each.preconditions),
        tuple(one for each in rows for one in each.writes),
        message,
    )


async def _short(look: _Look, packed: Packed, now: datetime, *, some: bool, near: bool) -> str:
    """Return what is missing, for a group that is booked in part; else raise it as Refused."""
    start, end = _span(look.seats)
    lacks = "; ".join(refusals.lacking(pool.extent, lack) for pool, lack in packed.lacks)
    seats = count(len(look.seats), "seat")
    head = f"{packed.fit} of {seats} fit from {utc_text(start)} to {utc_text(end)}: {lacks}"
    part = some and packed.fit > 0
    told, fits = await _nearest(look, packed, now, part=part) if near else ("", ())
    if part:
        return "; ".join(filter(None, (head, told)))
    if access.may(look.caller.principal, "update", "Pool"):
        grow = session_claims.limits(pool for pool, _ in look.pools)
        told += f"; a greater {grow} would hold them"
    if packed.fit and not some and not look.moving:
        told += f"; whenFull: some books the {packed.fit} that fit"
    said = "; ".join(filter(None, (head, told.removeprefix("; "))))
    raise Refused(said, reason="NoCapacity", problems=fits)


async def _nearest(
    look: _Look, packed: Packed, now: datetime, *, part: bool
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the nearest slots in words, and as problems of the field that would have to change.

    Of the whole group, unless only the rest is looked for or no slot can hold the whole.
    """
    start, end = _span(look.seats)
    moved = [_in_minutes(each) for each in look.seats]
    everyone = look.wanted(moved, start - session_claims.HEAD)
    most = together.most(look.known, everyone)
    said, whom, wanted = "", f"all {len(everyone)} seats", everyone
    if part or most < len(everyone):
        free = zip(everyone, packed.claims, strict=True)
        wanted = [each for each, claim in free if claim is None]
        whom = f"the other {count(len(wanted), 'seat')}"
    else:
        together.drop(look.known, everyone)
    if most < len(everyone):
        said = f"no slot holds more than {most} of them at once; "
    if not wanted or together.most(look.known, wanted) < len(wanted):
        return said.removesuffix("; "), ()
    near = await _looked(look, wanted, now)
    words = refusals.nearest(near, start, end, session_claims.DAYS, f" {whom}")
    fits = tuple(("spec.slot", f"{one} fits {whom}") for one in refusals.slots(near, start, end))
    return said + words, fits


async def _looked(look: _Look, wanted: Wanted, now: datetime) -> Nearest:
    longest = max((one for _, one in wanted), key=lambda one: one.end or one.start)
    latest = (longest.end or longest.start) - longest.start + now
    return await session_claims.nearest(
        look.claims,
        [pool for pool, _ in look.pools],
        longest,
        now=now,
        latest=latest + timedelta(days=session_claims.AHEAD_DAYS),
        fits=together.holds(look.known, wanted),
    )


def _span(seats: Sequence[Session]) -> tuple[datetime, datetime]:
    """Return the slot that most seats have, in minutes: the shortest."""
    found = [session_claims.in_minutes(each) for each in seats]
    return found[0][0], min(end for _, end in found)


def _in_minutes(seat: Session) -> Session:
    start, end = session_claims.in_minutes(seat)
    return session_claims.moved(seat, start, end)
