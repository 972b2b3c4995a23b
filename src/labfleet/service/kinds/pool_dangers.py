"""Which promises a changed pool could keep no more: said before the change is saved, and at it."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from labfleet.decisions.claims.places import Extent
from labfleet.decisions.costs import budgets
from labfleet.decisions.costs.budgets import Spending
from labfleet.engine.cache import Cache
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import refs
from labfleet.resources.amounts import Claim
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cost_now, indices, pool_claims

NAMED = 5
"""How many sessions the sentence names."""


def warns(services: ServiceContext, pool: Pool) -> tuple[str, ...]:
    """Return which sessions lose the place that a pool has promised, if it gets this spec.

    Nothing of the spec that it has: condition PromisesKept tells of that, and looks again all the time.
    """
    stored = services.cache.get(Pool, pool.name, pool.namespace)
    if stored is None or stored.spec == pool.spec:
        return ()
    if stored.spec.budget != pool.spec.budget:
        pool = _paid(services, pool)
    lost = _lost(services.cache, pool)
    if not lost:
        return ()
    names = ", ".join(name for _, name in lost[:NAMED])
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    lose = "promised session loses its place" if len(lost) == 1 else "promised sessions lose theirs"
    many = count(len(lost), "session").split()[0]
    return (f"{many} {lose}, the first from {lost[0][0]}: {names}{more}",)


def _paid(services: ServiceContext, pool: Pool) -> Pool:
    """Return a pool with how many workers its new budget would let run at a time."""
    template, budget, workers = services.cache.find(refs.template_of(pool)), pool.spec.budget, None
    if template is not None and budget is not None:
        machine, now = template.spec.machine, services.clock.now()
        one = cost_now.hourly(machine, None, services.prices, now)
        # Whatever the month has cost: that it is over ends nothing that is promised after it.
        workers = budgets.budget_bound(budget, Spending(Decimal(0), Decimal(0), one)).workers
    status = msgspec.structs.replace(pool.status, budget_workers=workers)
    return msgspec.structs.replace(pool, status=status)


def _lost(cache: Cache, pool: Pool) -> list[tuple[str, str]]:
    """Return the start and the name of each session that waits for a place that would be gone."""
    extent = pool_claims.extent(cache, pool)
    found = set[tuple[str, str]]()
    for path, day in cache.values(indices.SESSIONS_CLAIMING):
        if path != pool.key.path:
            continue
        for each in cache.by(indices.SESSIONS_CLAIMING, (path, day)):
            claim = each.status.claim
            if claim is not None and _loses(each, claim, pool, extent):
                found.add((utc_text(claim.start), each.name))
    return sorted(found)


def _loses(session: Session, claim: Claim, pool: Pool, extent: Extent | None) -> bool:
    if session.status.phase is not SessionPhase.PENDING:
        return False
    if extent is None or pool.spec.desired != "Ready":
        return True
    return claim.place >= extent.places_at(claim.start)
