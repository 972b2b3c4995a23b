"""The rules of pools, and their events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

from labfleet.decisions.claims import arrivals, lead
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.pools import policy_kinds
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import Change, EventType, KindRules
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, machine_rules, pool_arrivals, pool_dangers
from labfleet.service.kinds.pool_claims import Claims

MORNING = timedelta(hours=12)
"""How far ahead an explanation looks for what is promised."""
NAMED = 5
"""How many booting workers an explanation names."""


class PoolEvent(EventType):
    """What can happen to a pool."""

    STATUS_UPDATED = "pool.status.updated", "a pool's phase changed"
    SCALED = "pool.scaled", "a pool added, replaced or removed a worker"


def _changed(old: Pool, new: Pool) -> Iterator[Change]:
    if old.status.phase != new.status.phase:
        pair = {"old_status": old.status.phase, "new_status": new.status.phase}
        yield Change(PoolEvent.STATUS_UPDATED, pair)
    known = set(old.status.events)
    for event in new.status.events:
        if event not in known:
            yield Change(PoolEvent.SCALED, msgspec.to_builtins(event))


async def _explain(services: ServiceContext, pool: Pool) -> Explanation:
    """Return the pool's message, what waits for it, and the workers that it waits for."""
    found = services.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    booting = sorted(
        (each for each in found if each.status.phase in phases.BOOTING), key=lambda each: each.name
    )
    waits = [_booting(each) for each in booting[:NAMED]]
    if len(booting) > NAMED:
        waits.append(f"{count(len(booting) - NAMED, 'more worker')} that boot")
    said = [_about(pool), *_morning(services, pool)]
    return plain(pool, "; ".join(each for each in said if each), waits)


def _morning(services: ServiceContext, pool: Pool) -> Iterator[str]:
    """Yield what is promised within hours, and how many of the workers for it are up or coming."""
    now = services.clock.now()
    claims = Claims(services.cache, now).of(pool, now, now + MORNING)
    if claims is None:
        return
    found = services.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    paused = services.settings.paused(Ref(Pool, pool.namespace, pool.name)) is not None
    fleet, until = pool_arrivals.fleet(pool, found, now, paused=paused), now + MORNING
    soon = list(arrivals.waiting(claims, until))
    if soon:
        coming = arrivals.arrivals(claims, until, fleet)
        risky = arrivals.at_risk(claims, until, coming)
        names = [_name(services, each.uid) for each in risky[:NAMED]]
        many, first = count(len(soon), "session"), min(each.claim.start for each in soon)
        yield f"{many} promised from {utc_text(first)}: {_up(coming, fleet)}"
        if risky:
            more = f" and {len(risky) - NAMED} more" if len(risky) > NAMED else ""
            yield f"at risk: {', '.join(names)}{more}"
    told = conditions.find(pool.status.conditions, PoolCondition.PROMISES_KEPT)
    if told is not None and told.status == "False":
        yield told.message
    if pool.status.lead is not None and policy_kinds.demand(pool.spec.scaling):
        yield lead.words(pool.status.lead)


def _up(coming: Sequence[arrivals.Arrival], fleet: arrivals.Fleet) -> str:
    """Return how many of the workers for what is promised are up, and when all are."""
    up = sum(each.name in fleet.ready for each in coming)
    said = f"{up} of {count(len(coming), 'worker')} up"
    known = [each.by for each in coming if each.by is not None]
    unknown = len(coming) - len(known)
    if up == len(coming):
        return said
    if unknown:
        return f"{said}; when {unknown} of the others will be is not known"
    return f"{said}, all by {utc_text(max(known))}"


def _name(services: ServiceContext, uid: str) -> str:
    found = services.cache.of_uid(Session, uid)
    return uid if found is None else found.name


def _booting(worker: Worker) -> str:
    phase, message = worker.status.phase, worker.status.message
    far = f"{phase}: {message}" if message else str(phase)
    return f"worker {worker.name} to boot ({far})"


def _about(pool: Pool) -> str:
    """Return the pool's message, what waits for it, and what its stopped workers cost."""
    status = pool.status
    said = [status.message]
    if status.waiting_sessions and "for capacity" not in status.message:
        wait = "waits" if status.waiting_sessions == 1 else "wait"
        said.append(f"{count(status.waiting_sessions, 'session')} {wait} for capacity")
    if status.stopped:
        be = "is" if status.stopped == 1 else "are"
        said.append(f"{count(status.stopped, 'worker')} {be} stopped; their disks cost money")
    return "; ".join(each for each in said if each)


RULES = KindRules(
    name="Pool",
    create=machine_rules.create_pool,
    update=machine_rules.update_pool,
    delete=machine_rules.delete_pool,
    pools=lambda pool: (Ref(Pool, pool.namespace, pool.name),),
    explain=_explain,
    warns=pool_dangers.warns,
    event_types=PoolEvent,
    changed=_changed,
    indices=(indices.POOLS_GROWING, indices.POOLS_OF_TEMPLATE, indices.POOLS_IN),
)
