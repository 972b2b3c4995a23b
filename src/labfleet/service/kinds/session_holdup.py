"""What keeps a worker from coming for a session that waits for one, or for a promised place."""

from __future__ import annotations

from typing import NamedTuple

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Claim
from labfleet.resources.definition import Definition
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import NEED_A_WORKER, Holdup, SessionCondition
from labfleet.resources.worker import WorkerPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, pool_claims


class Held(NamedTuple):
    """What keeps a worker from coming, and the pool that it is about."""

    why: Holdup
    pool: str = ""


def held_up(services: ServiceContext, obj: Session, definition: Definition | None) -> Held | None:
    """Return what keeps a worker from coming for a session that waits for one; None: nothing."""
    decision, cache = obj.status.decision, services.cache
    if obj.status.phase is not SessionPhase.PENDING or decision is None:
        return None
    if decision.reason not in NEED_A_WORKER:
        return None
    if services.settings.now().automation.paused:
        return Held(Holdup.FLEET_PAUSED)
    track = obj.spec.track or (None if definition is None else definition.spec.track)
    full = cache.by(indices.POOLS_GROWING, (obj.namespace, track, True))
    pools = sorted(
        (*cache.by(indices.POOLS_GROWING, (obj.namespace, track, False)), *full),
        key=lambda each: each.key,
    )
    awake = [each for each in pools if not each.spec.paused]
    if not awake:
        return Held(Holdup.POOL_PAUSED, pools[0].name) if pools else Held(Holdup.NO_POOL)
    workers = [
        worker for pool in awake for worker in cache.by(indices.WORKERS_OF_POOL, pool.key.path)
    ]
    # Records of workers that have ended stay for a month, with what held them up at their end.
    over = phases.HOSTING | {WorkerPhase.TERMINATED}
    if any(each.status.phase not in over and phases.provider_trouble(each) for each in workers):
        return Held(Holdup.PROVIDER_TROUBLE)
    if all(each in full for each in awake):
        return Held(Holdup.AT_MAXIMUM, awake[0].name)
    if all(_without_template(each) for each in awake):
        return Held(Holdup.NO_TEMPLATE, awake[0].name)
    return None


class Danger(NamedTuple):
    """The pool whose promise may not be kept, and why, as a clause; empty when the pool is gone."""

    pool: str
    why: str = ""


def danger(services: ServiceContext, session: Session) -> Danger | None:
    """Return what endangers the place that is promised to a session; None: nothing, or no promise.

    A place that is gone is seen at once; that its worker is late goes by what was last said of it.
    """
    claim = session.status.claim
    if claim is None:
        return None
    pool = pool_claims.pool_of(services.cache, session)
    if pool is None:
        return Danger(claim.pool)
    why = broken(services, pool, claim)
    said = conditions.find(session.status.conditions, SessionCondition.PROMISE_SAFE)
    if why is not None:
        told = why.sentence
    elif said is not None and said.status == "False":
        told = said.message or said.reason
    else:
        return None
    return Danger(claim.pool, told[:1].lower() + told[1:].removesuffix("."))


def _without_template(pool: Pool) -> bool:
    fact = conditions.find(pool.status.conditions, PoolCondition.DEMAND_MET)
    return fact is not None and fact.status == "False" and fact.reason == PoolReason.NO_TEMPLATE


def broken(services: ServiceContext, pool: Pool, claim: Claim) -> PoolReason | None:
    """Return why a pool cannot have the worker of a claim's place; None when it can."""
    if pool.deleting or pool.spec.desired != "Ready":
        return PoolReason.DRAINING
    extent = pool_claims.extent(services.cache, pool)
    if extent is None:
        return PoolReason.NO_TEMPLATE
    return PoolReason.PLACES_GONE if claim.place >= extent.places_at(claim.start) else None
