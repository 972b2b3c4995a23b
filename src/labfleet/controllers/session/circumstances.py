"""What was the matter around a promise that was not kept, read when it is known not to be.

Only what the product itself has recorded is read: of the pool, its workers and the session. It is read
once in a session's life, so nothing is kept up for it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from labfleet.controllers.context import Context
from labfleet.decisions import parking
from labfleet.decisions.claims import lead
from labfleet.decisions.lifecycle.session.promise import Circumstances
from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources import conditions
from labfleet.resources.amounts import Claim
from labfleet.resources.conditions import Condition, ConditionType
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.session import Session
from labfleet.resources.session_conditions import PhaseReason, SessionCondition, SessionReason
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition as W
from labfleet.service.kinds import indices, pool_claims

_PROVIDER = (W.PROVIDER_ANSWERS, W.MACHINE_LAUNCHED, W.MACHINE_STARTED)
_SERVER = (W.CML_READY, W.CML_HEALTHY)
COMING_UP = timedelta(minutes=1)
"""For so long after a worker came up its facts still become what they are."""
Facts = tuple[Condition, ...]


def around(context: Context, session: Session, claim: Claim) -> Circumstances:
    """Return what was the matter since the head start of the pool that made the promise."""
    cache = context.cache
    pool = cache.find(Ref(Pool, session.namespace, claim.pool))
    if pool is None:
        return Circumstances(ended=True)
    since = claim.start - lead.of(pool)
    workers = [
        each
        for each in cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        if each.status.phase is not WorkerPhase.TERMINATED or _came(each.status.phase_since, since)
    ]

    def some(holds: Callable[[Worker], bool]) -> bool:
        return any(holds(each) for each in workers)

    extent = pool_claims.extent(cache, pool)
    facts = pool.status.conditions
    template = conditions.find(facts, PoolCondition.DEMAND_MET)
    created = session.metadata.creation_timestamp
    turn = conditions.find(session.status.conditions, SessionCondition.START_TURN)
    return Circumstances(
        paused=context.settings.paused(Ref(Pool, pool.namespace, pool.name)) is not None
        or _was(facts, PoolCondition.PAUSED, since, bad="True"),
        ended=pool.deleting or pool.spec.desired != "Ready",
        lowered=extent is not None and claim.place >= extent.places_at(claim.start),
        without_template=extent is None
        or (template is not None and template.reason == PoolReason.NO_TEMPLATE),
        without_machine=some(_without_machine),
        closed=some(_closed),
        unlicensed=some(
            lambda each: (
                each.status.phase is WorkerPhase.READY_UNLICENSED
                or _failed(each, W.LICENSED, since)
            )
        ),
        lost=any(each.at >= since for each in pool.status.losses)
        or some(lambda each: each.status.phase is WorkerPhase.FAILED or _late(each, since)),
        silent=some(lambda each: any(_failed(each, name, since) for name in _SERVER)),
        held=session.status.reason == PhaseReason.ROOM_HELD
        or (turn is not None and turn.reason == SessionReason.ROOM_HELD),
        short=_came(created, since),
    )


def _came(at: datetime | None, since: datetime) -> bool:
    return at is not None and at >= since


def _was(facts: Facts, name: ConditionType, since: datetime, *, bad: str = "False") -> bool:
    """Tell whether a fact is bad, or changed within the time."""
    found = conditions.find(facts, name)
    if found is None:
        return False
    return found.status == bad or _came(found.last_transition_time, since)


def _without_machine(worker: Worker) -> bool:
    """Tell whether the provider gives a worker no machine, or does not answer."""
    facts = [conditions.find(worker.status.conditions, name) for name in _PROVIDER]
    return any(each is not None and each.status != "True" for each in facts)


def _failed(worker: Worker, name: W, since: datetime) -> bool:
    """Tell whether a fact of a worker that is up is bad, or was since it came up."""
    fact, up = conditions.find(worker.status.conditions, name), worker.status.ready_since
    if fact is None or worker.status.phase not in phases.HOSTING:
        return False
    if fact.status == "False":
        return True
    changed = fact.last_transition_time
    return up is not None and _came(changed, since) and _came(changed, up + COMING_UP)


def _late(worker: Worker, since: datetime) -> bool:
    """Tell whether a worker came up later than it may, or came up again."""
    return _was(worker.status.conditions, W.LATE, since, bad="True")


def _closed(worker: Worker) -> bool:
    """Tell whether people keep sessions from a worker, or end it."""
    if worker.spec.drain is not None or worker.deleting:
        return True
    stopped = worker.spec.desired == "Stopped" and not parking.auto_stopped(worker)
    cordoned = worker.spec.cordoned and not parking.cordoned(worker)
    return stopped or cordoned or worker.spec.desired == "Terminated"
