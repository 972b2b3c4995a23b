"""A slot is promised when it is accepted: its claim, in the commit that makes or extends a session.

A claim is written with the row of its pool's claims in the ledger as precondition, so of two who
take the last place one is told that it is gone. What cannot be promised is refused (NoCapacity),
unless the slot may wait for room, or nobody knows how much there is: a track that workers without a
pool serve too, or a pool that has no template, has no bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import learned_demand
from labfleet.decisions.claims import refusals
from labfleet.decisions.claims.asked import asked
from labfleet.decisions.claims.nearest import MINUTE, Nearest, looking
from labfleet.decisions.claims.places import Claimed, Lack, PoolClaims, claim_of
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.placement import PlacementRequest
from labfleet.decisions.pools import policy_kinds
from labfleet.interfaces import store as stores
from labfleet.kernel.clock import in_utc, utc_text
from labfleet.resources import refs
from labfleet.resources.amounts import Claim
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Key, Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session
from labfleet.service.core import access, ledger_rows
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices, pool_claims
from labfleet.service.kinds.pool_claims import Claims

DAYS = 7
"""How far from a slot that does not fit others are looked for."""
AHEAD_DAYS = 366
"""How far ahead a slot may start."""
HEAD = timedelta(days=1)
"""More than any lab's head start: a slot as it would be if it were far ahead."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A claim to be written, None when nothing is promised, with what its commit carries."""

    claim: Claim | None = None
    preconditions: tuple[stores.Precondition, ...] = ()
    writes: tuple[stores.Write, ...] = ()


@dataclass(frozen=True, slots=True)
class TooFar:
    """Why a session cannot last as long as asked, and the latest end that it can have."""

    end: datetime
    why: str


@dataclass(slots=True)
class Together:
    """Sessions that one commit changes: each is judged beside those before it.

    `revision` is the cache's when their claims were read, `changed` what was made of them so far.
    """

    claims: Claims
    revision: int
    changed: dict[Key, Session] = field(default_factory=dict)


async def together(services: ServiceContext) -> Together:
    """Return the beginning of a change of many sessions."""
    revision = await services.fresh()
    return Together(Claims(services.cache, services.clock.now(), stopped=True), revision)


def line(services: ServiceContext, namespace: str) -> str | None:
    """Return the lock under which claims of a namespace are taken one by one; None: none is."""
    if not services.cache.count(indices.POOLS_IN, namespace):
        return None
    return f"claims in {namespace}"


def line_of(services: ServiceContext, new: Session) -> str | None:
    """Return the lock under which a new session is made; only a slot takes a claim."""
    return None if new.spec.slot.start is None else line(services, new.namespace)


async def of_new(
    services: ServiceContext, caller: Caller, new: Session, definition: Definition
) -> Taken:
    """Return the claim of a new session's slot; Refused (NoCapacity) when no pool can hold it.

    A session without a start begins when it can, so nothing is promised to it. One that has a claim
    already, for another slot, does not stand in its own way, and is never put on a waiting list.
    """
    slot = new.spec.slot
    if slot.start is None or line(services, new.namespace) is None:
        return Taken()
    revision, now = await services.fresh(), services.clock.now()
    licensed = services.settings.now().scheduling.require_licence
    request = asked(new, definition, now, licensed=licensed)
    drafts = services.objects.saved(Session)
    claims = Claims(services.cache, now, drafts, without=frozenset({new.metadata.uid}))
    looked, lacks, open_ended = list[Pool](), list[tuple[PoolClaims, Lack | None]](), False
    for pool in claims.pools(new.namespace, request):
        found = claims.of(pool, request.start, request.end or request.start)
        open_ended |= found is None
        if found is None or not found.serves(request):
            continue
        looked.append(pool)
        place = found.find(request, size=found.extent.offered)
        if isinstance(place, int):
            return taken_of(claim_of(pool.name, place, request), pool.key, revision)
        lacks.append((found, place))
    waits = new.spec.when_full == "wait" and new.status.claim is None
    if waits or open_ended or not lacks or served_by_others(services, new.namespace, request):
        return Taken()
    start, end = in_minutes(new)
    whole = asked(moved(new, start, end), definition, start - HEAD, licensed=licensed)
    last = (whole.end or end) - start + now + timedelta(days=AHEAD_DAYS)
    near = await nearest(claims, looked, whole, now=now, latest=last)
    grow = limits(looked) if access.may(caller.principal, "update", "Pool") else ""
    fits = tuple(("spec.slot", f"{each} fits") for each in refusals.slots(near, start, end))
    told = refusals.advice(near, start, end, DAYS, grow=grow, waits=new.status.claim is None)
    raise _refused(new, lacks, told, fits)


def in_minutes(new: Session) -> tuple[datetime, datetime]:
    """Return a slot from a whole minute, as many minutes long: what is named can be asked for."""
    start, end = new.status.start or new.spec.slot.start, new.status.end
    if start is None or end is None:
        raise AssertionError("a slot that is claimed has a start and an end")
    begin = in_utc(start).replace(second=0, microsecond=0)
    return begin, begin - (start - end) // MINUTE * MINUTE


def moved(new: Session, start: datetime, end: datetime) -> Session:
    """Return a session with another slot."""
    slot = msgspec.structs.replace(new.spec.slot, start=start, end=end)
    return msgspec.structs.replace(
        new,
        spec=msgspec.structs.replace(new.spec, slot=slot),
        status=msgspec.structs.replace(new.status, start=start, end=end),
    )


def limits(pools: Iterable[Pool]) -> str:
    """Return which fields bound the number of the pools' workers, for a sentence."""
    found = set[str]()
    for pool in pools:
        scaling = pool.spec.scaling
        if policy_kinds.demand(scaling):
            found.add("maxWorkers")
            if scaling.hours:
                found.add("hours")
        elif policy_kinds.timed(scaling):
            found.add("timetable")
        elif scaling.min_workers < scaling.max_workers:
            found.add("minWorkers")
        else:
            found.add("minWorkers and maxWorkers")
    return " or ".join(sorted(found))


def taken_of(claim: Claim, pool: Key, revision: int) -> Taken:
    """Return a claim with what its commit carries: nobody took from the pool since `revision`."""
    row, bound = ledger_rows.claims(pool), ledger_rows.bound_claims(pool)
    free = (ledger_rows.untouched(row, revision), ledger_rows.untouched(bound, revision))
    return Taken(claim, free, (ledger_rows.touch(row),))


def served_by_others(services: ServiceContext, namespace: str, request: PlacementRequest) -> bool:
    """Tell whether a worker without a pool may host it: of those nobody knows how many there are."""
    return any(
        request.track in {None, each.spec.track}
        and each.status.phase in phases.HOSTING
        and not phases.observed(each)
        for each in services.cache.by(indices.WORKERS_SINGLE, namespace)
    )


async def nearest(
    claims: Claims,
    pools: list[Pool],
    request: PlacementRequest,
    *,
    now: datetime,
    latest: datetime,
    fits: Callable[[timedelta], bool] | None = None,
) -> Nearest:
    """Return the nearest slots within days that end until `latest`; `fits` as of `looking`.

    A look at thousands of claims takes long, so between two tries others have their turn.
    """
    span = timedelta(days=DAYS)
    end = request.end or request.start
    first, last = max(now, request.start - span), min(end + span, latest)
    found = [claims.of(pool, first, last) for pool in pools]
    known = [each for each in found if each is not None]
    look = looking(known, request, first=first, last=last, fits=fits)
    while True:
        try:
            next(look)
        except StopIteration as over:
            near: Nearest = over.value
            return near
        await asyncio.sleep(0)


def _refused(
    new: Session,
    lacks: list[tuple[PoolClaims, Lack | None]],
    told: str,
    fits: tuple[tuple[str, str], ...],
) -> Refused:
    """Return the refusal: of which pool at which minute what is short, and which slots fit."""
    start, end = new.status.start or new.spec.slot.start, new.status.end
    if start is None or end is None:
        raise AssertionError("a slot that is claimed has a start and an end")
    said = tuple(refusals.lacking(each.extent, lack) for each, lack in lacks)
    message = f"no room from {utc_text(start)} to {utc_text(end)}: {'; '.join(said)}; {told}"
    return Refused(message, reason="NoCapacity", problems=fits)


async def longer(
    services: ServiceContext, old: Session, span: timedelta, beside: Together
) -> Taken | TooFar:
    """Return a session's claim that lasts so much longer; TooFar when others are promised it.

    What a pool's worker hosts without a claim gets one; what nobody knows the bound of has none
    afterwards. What waits for its worker may change its place;
    what has one needs no template that can make others.
    """
    now, claim = services.clock.now(), old.status.claim
    if claim is None:
        claim = _hosted(services, beside.claims, old)
    pool = None if claim is None else services.cache.find(Ref(Pool, old.namespace, claim.pool))
    if claim is None or pool is None:
        return Taken()
    until, present = claim.end + span, old.status.end or old.spec.slot.end or claim.end
    # What waits needs a template that can make its worker; what runs has one.
    waits = old.status.reservation is None
    unknown = waits and pool_claims.extent(services.cache, pool) is None
    found = None if unknown else beside.claims.of(pool, claim.start, until)
    if found is None:
        why = (
            f"nobody knows whether the time after {utc_text(present, seconds=True)} is "
            f"promised to others while template {pool.spec.template!r} of pool {pool.name!r} cannot "
            "be used; enable or mend it, and ask again"
        )
        return TooFar(present, why)
    request = PlacementRequest(
        amounts=claim.amounts, start=max(now, claim.start), end=until, track=pool.spec.track
    )
    # A lab that uses more than was learned takes that much of the others' time, too.
    real = learned_demand.claimed(old) or claim
    place, lack = _roomy(found, old, claim, replace(request, amounts=real.amounts), now)
    if lack is not None:
        told = refusals.lacking(found.extent, lack)
        why = f"the time after {utc_text(present, seconds=True)} is promised to others: {told}"
        return TooFar(max(lack.at - (claim.end - present), present), why)
    taken = claim_of(claim.pool, place, replace(request, start=claim.start))
    known = found.of(old.metadata.uid)
    worker = None if known is None else known.worker
    found.add(Claimed(uid=old.metadata.uid, claim=taken, worker=worker))
    return taken_of(taken, pool.key, beside.revision)


def _roomy(
    found: PoolClaims, old: Session, claim: Claim, request: PlacementRequest, now: datetime
) -> tuple[int, Lack | None]:
    """Return the place on which a claim may last as long as asked, else what its own lacks."""
    uid, place, since = old.metadata.uid, claim.place, max(now, claim.end)
    lack = found.lack(place, replace(request, start=since), without=uid)
    if old.status.reservation is not None:
        return place, lack
    if lack is None and place >= found.extent.places_at(claim.start):
        lack = Lack(place=place, at=since, shortages=())
    if lack is None:
        return place, None
    elsewhere = found.find(request, without=uid)
    if isinstance(elsewhere, int):
        return elsewhere, None
    if not lack.shortages and elsewhere is not None:
        lack = elsewhere  # its own place is gone: the nearest lack of those that are there
    return place, lack


def _hosted(services: ServiceContext, claims: Claims, session: Session) -> Claim | None:
    """Return what counts as the claim of a session that a pool's worker hosts without one."""
    ref = None if session.status.reservation is None else refs.worker_of(session)
    worker = None if ref is None else services.cache.find(ref)
    if worker is None or worker.spec.pool is None:
        return None
    pool = services.cache.find(Ref(Pool, session.namespace, worker.spec.pool))
    now = services.clock.now()
    found = None if pool is None else claims.of(pool, now, now)
    held = None if found is None else found.of(session.metadata.uid)
    return None if held is None else held.claim


def shorter(old: Session, span: timedelta) -> Claim | None:
    """Return a session's claim that ends so much earlier; what it held then is free at once."""
    claim = old.status.claim
    return None if claim is None else msgspec.structs.replace(claim, end=claim.end - span)
