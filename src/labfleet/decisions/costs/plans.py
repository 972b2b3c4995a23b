"""What a number of sessions at one time needs of a pool, what that costs, and what would be cheaper.

Pure. The sessions are packed beside what is promised as a booking would pack them
(`claims.together`), once into the places that the pool may have and once into as many as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from labfleet.decisions import placement
from labfleet.decisions.claims import refusals, together
from labfleet.decisions.claims.places import PoolClaims
from labfleet.kernel.quantity import count
from labfleet.resources.amounts import DIMENSIONS, Amounts, Claim

MOST_SESSIONS = 5000
RESERVE_MIB = 4096
"""What a CML server keeps of a machine's memory."""
OFFERS = 3
"""How many other types of machines are named."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is planned: so many sessions of one request; how early their workers are made.

    `price` is what an hour of a worker costs, None when that is unknown.
    """

    request: placement.PlacementRequest
    sessions: int
    lead: timedelta
    price: Decimal | None


@dataclass(frozen=True, slots=True)
class Offer:
    """Another type of machine: its name, what an hour of it costs, what it has by name and list."""

    name: str
    price: Decimal
    capacity: Amounts


@dataclass(frozen=True, slots=True)
class Cheaper:
    """One way to pay less: what to do, how many workers that takes, what it costs; None: unknown."""

    what: str
    workers: int
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found.

    fit: How many of the sessions the pool can promise.
    needed: How many workers they stand on, those of others that have room included.
    added: How many of these nothing else is promised on meanwhile.
    peak: How many places the pool needs in all, with all that is promised.
    per_worker: How many of the sessions an empty worker holds.
    start: When their workers must be started.
    end: When the last of them is free again.
    usd: What the added workers cost from then to then; None when a price is unknown.
    why: What is short, when not all fit.
    """

    fit: int
    needed: int
    added: int
    peak: int
    per_worker: int
    start: datetime
    end: datetime
    usd: Decimal | None
    why: str = ""


def plan(claims: PoolClaims, asked: Asked) -> Plan:
    """Return what the sessions need of a pool beside its claims, which stay as they are."""
    request = asked.request
    wanted = [(f"plan-{number}", request) for number in range(asked.sessions)]
    packed = together.pack([claims], wanted)
    together.drop([claims], wanted)
    why = "; ".join(refusals.lacking(pool.extent, lack) for pool, lack in packed.lacks)
    # As many as it takes: neither its maximum nor its hours or its budget bound these.
    held = [*claims.claims()]
    enough = asked.sessions + max((each.claim.place + 1 for each in held), default=0)
    wide = PoolClaims(replace(claims.extent, places=enough, startable=None), claims.now, held)
    busy = {each.claim.place for each in wide.claims() if _meets(each.claim, request, wide)}
    found = together.pack([wide], wanted)
    places = {each.place for each in found.claims if each is not None}
    start = max(claims.now, request.start - asked.lead)
    end = request.end or request.start
    added = len(places - busy)
    return Plan(
        fit=packed.fit, needed=len(places), added=added, peak=len(places | busy),
        per_worker=_per_worker(claims, request), start=start, end=end,
        usd=cost(added, start, end, asked.price), why=why,
    )  # fmt: skip


def cost(workers: int, start: datetime, end: datetime, price: Decimal | None) -> Decimal | None:
    """Return what so many workers cost from an instant to another; None when no price is known."""
    if price is None:
        return None
    return price * workers * Decimal((end - start) // timedelta(seconds=1)) / 3600


def cheaper(found: Plan, asked: Asked, shape: Amounts, offers: Sequence[Offer]) -> list[Cheaper]:
    """Return what would cost less, the cheapest first: fewer sessions, or another type of machine.

    Of another type its listed size counts; how many labs, nodes and ports it bears stays as it is.
    """
    ways = []
    spare = found.needed * found.per_worker - asked.sessions
    over = found.per_worker - spare if found.per_worker else 0
    if found.added and 0 < over < asked.sessions and over < found.per_worker:
        fewer = found.added - 1
        ways.append(
            Cheaper(
                f"{count(over, 'session')} fewer: the last worker would host only so many",
                fewer,
                cost(fewer, found.start, found.end, asked.price),
            )
        )
    others = []
    for each in offers:
        size = replaced(shape, each.capacity)
        held = fits_in(asked.request.amounts, size)
        if not held or found.usd is None:
            continue
        workers = int((Decimal(asked.sessions) / held).to_integral_value(ROUND_CEILING))
        usd = cost(workers, found.start, found.end, each.price)
        if usd is not None and usd < found.usd:
            others.append(Cheaper(f"machines of type {each.name}", workers, usd))
    others.sort(key=_by_price)
    return sorted([*ways, *others[:OFFERS]], key=_by_price)


def replaced(shape: Amounts, listed: Amounts) -> Amounts:
    """Return a worker's capacity on another type of machine: its CPU and memory are others."""
    return Amounts(**{
        name: getattr(listed if name in {"cpu_milli", "memory_mib"} else shape, name)
        for name in DIMENSIONS
    })  # fmt: skip


def fits_in(wanted: Amounts, has: Amounts) -> int:
    """Return how many times an amount fits into what a worker has."""
    asked = [name for name in DIMENSIONS if getattr(wanted, name)]
    return min((getattr(has, name) // getattr(wanted, name) for name in asked), default=0)


def _per_worker(claims: PoolClaims, request: placement.PlacementRequest) -> int:
    return fits_in(request.amounts, claims.extent.shape.capacity)


def _meets(claim: Claim, request: placement.PlacementRequest, claims: PoolClaims) -> bool:
    """Tell whether a claim holds its place at some time of the request's."""
    end = claims.end_of(claim)
    return claim.start < (request.end or end) and end > request.start


def _by_price(way: Cheaper) -> tuple[bool, Decimal]:
    return way.usd is None, way.usd or Decimal(0)
