"""What a class or an exam at one time would need of a pool, and cost: nothing is booked or stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from labfleet.decisions.claims import lead
from labfleet.decisions.claims.asked import asked
from labfleet.decisions.costs import plans
from labfleet.decisions.costs.plans import Asked, Cheaper, Offer
from labfleet.kernel import errors
from labfleet.kernel.clock import parse_instant
from labfleet.resources import prices, providers, refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Metadata, Record
from labfleet.resources.pool import Pool
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.session import Session, SessionSpec, SessionStatus, Slot
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cost_now, paid_rows
from labfleet.service.kinds.pool_claims import Claims
from labfleet.service.kinds.session_claims import AHEAD_DAYS

LONGEST_MINUTES = 7 * 24 * 60


class CheaperPlan(Record, frozen=True, kw_only=True):
    """One way to pay less.

    what: What to do.
    workers: How many more workers that takes than are needed without these sessions.
    usd: What they cost; null when a price is unknown.
    """

    what: str
    workers: int
    usd: float | None = None


class PoolPlan(Record, frozen=True, kw_only=True):
    """What so many sessions at one time need of a pool, and cost.

    pool: Name of the pool.
    definition: Name of the definition.
    sessions: How many sessions are planned.
    start: When they begin.
    end: When they end.
    fits: Whether all of them can be promised now.
    fit: How many can.
    why: What is short when not all can.
    maximum: Workers that the pool may have then, by its maximum, its policy, its hours and its budget.
    needed: Workers on which the sessions stand.
    added: Workers among them that are needed for nothing else meanwhile.
    peak: Workers that the pool needs meanwhile in all, with what it has promised.
    per_worker: Sessions that an empty worker holds.
    workers_start: When their workers must be started, by the boots that were measured.
    workers_end: When the last of them is free again.
    lead: How early workers are made, and why.
    usd: What the added workers cost from start to end, disks included; null when a price is unknown.
    unpriced: Of what no price is known; empty when all has one.
    cheaper: What would cost less, the cheapest first.
    """

    pool: str
    definition: str
    sessions: int
    start: datetime
    end: datetime
    fits: bool
    fit: int
    why: str = ""
    maximum: int
    needed: int
    added: int
    peak: int
    per_worker: int
    workers_start: datetime
    workers_end: datetime
    lead: str = ""
    usd: float | None = None
    unpriced: str = ""
    cheaper: tuple[CheaperPlan, ...] = ()


async def read(
    services: ServiceContext,
    name: str,
    namespace: str,
    *,
    at: str,
    sessions: int,
    definition: str,
    minutes: int | None = None,
) -> PoolPlan:
    """Return the plan; Gone for a pool or definition that is not there, Invalid for what cannot be."""
    await services.fresh()
    cache, now = services.cache, services.clock.now()
    pool = cache.get(Pool, name, namespace)
    lab = cache.get(Definition, definition, namespace)
    if pool is None:
        raise errors.Gone(f"pool {name[:80]!r} does not exist in {namespace[:80]!r}")
    if not definition:
        raise intake.invalid(("definition", "say which lab each of the sessions runs"))
    if lab is None:
        raise errors.Gone(f"definition {definition[:80]!r} does not exist in {namespace[:80]!r}")
    start = _start(at, now)
    session = _session(lab, start, minutes)
    licensed = services.settings.now().scheduling.require_licence
    request = asked(session, lab, now, licensed=licensed)
    claims = Claims(cache, now).of(pool, request.start, request.end or start)
    template = cache.find(refs.template_of(pool))
    if claims is None or template is None:
        what = "its template is missing or disabled, so nobody knows what its workers hold"
        raise intake.invalid(("pool", what))
    if not claims.serves(request):
        what = f"an empty worker of pool {name} cannot host it: see its track and its capacity"
        raise intake.invalid(("definition", what))
    machine = template.spec.machine
    price = cost_now.hourly(machine, None, services.prices, start)
    question = Asked(request, sessions, lead.of(pool), price)
    found = plans.plan(claims, question)
    offers = list(_offers(services, machine, start))
    ways = plans.cheaper(found, question, claims.extent.shape.capacity, offers)
    told = pool.status.lead
    return PoolPlan(
        pool=pool.name, definition=lab.name, sessions=sessions, start=start,
        end=session.status.end or start, fits=found.fit == sessions, fit=found.fit, why=found.why,
        maximum=claims.extent.places_at(request.start), needed=found.needed, added=found.added, peak=found.peak,
        per_worker=found.per_worker, workers_start=found.start, workers_end=found.end,
        lead="" if told is None else lead.words(told), usd=_money(found.usd),
        unpriced="" if price is not None else _unpriced(machine),
        cheaper=tuple(_told(each) for each in ways),
    )  # fmt: skip


def _start(at: str, now: datetime) -> datetime:
    try:
        start = parse_instant(at)
    except ValueError:
        told = "is no instant with a zone; write for example 2027-03-01T09:00:00Z"
        raise intake.invalid(("at", told)) from None
    if not now <= start <= now + timedelta(days=AHEAD_DAYS):
        raise intake.invalid(("at", f"must lie ahead, at most {AHEAD_DAYS} days"))
    return start


def _session(lab: Definition, start: datetime, minutes: int | None) -> Session:
    """Return a session as it would be booked; it is never stored."""
    length = timedelta(minutes=minutes or lab.spec.default_duration_minutes)
    slot = Slot(start=start, end=start + length)
    return Session(
        metadata=Metadata(name="plan", namespace=lab.namespace, uid="plan"),
        spec=SessionSpec(definition=lab.name, slot=slot),
        status=SessionStatus(start=slot.start, end=slot.end),
    )


def _offers(services: ServiceContext, machine: Machine, at: datetime) -> Iterator[Offer]:
    """Yield the types of which size and price are known, in the region of the template."""
    if not isinstance(machine.provider, AwsSettings):
        return
    region, mine = machine.provider.region, providers.first_type(machine.provider)
    disk = paid_rows.disk_month(machine, services.prices)
    for name, each in prices.TYPES.items():
        hour = services.prices.hourly(region, name)
        if name == mine or hour is None or disk is None:
            continue
        size = Amounts(
            cpu_milli=each.vcpus * 1000,
            memory_mib=each.memory_gib * 1024 - plans.RESERVE_MIB,
        )
        yield Offer(_nested(name), hour + disk / cost_now.month_hours(at), size)


def _nested(name: str) -> str:
    return name if ".metal" in name else f"{name} (with nestedVirtualization)"


def _unpriced(machine: Machine) -> str:
    return f"{providers.first_type(machine.provider) or 'servers'} in {machine.provider.region}"


def _told(way: Cheaper) -> CheaperPlan:
    return CheaperPlan(what=way.what, workers=way.workers, usd=_money(way.usd))


def _money(usd: Decimal | None) -> float | None:
    return None if usd is None else round(float(usd), 2)
