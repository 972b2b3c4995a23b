"""With what a new session is counted: fixed once, when it is accepted, and never by a placement.

Read from the history only where its definition or the pools of its track ask for learned demand:
one page of the newest sessions of its family (`family_use`), however many there were.
"""

from __future__ import annotations

from labfleet.decisions import learned_demand
from labfleet.resources.definition import Definition
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.pool import Pool
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import definition_rules, family_use, indices


async def of_new(
    services: ServiceContext, definition: Definition, track: str | None
) -> LearnedDemand | None:
    """Return what a session on a track is counted with by past use; None: with what is declared."""
    pools = _pools(services, definition.namespace, track or definition.spec.track)
    if learned_demand.rule_of(definition, pools) == "declared":
        return None
    reserved = await definition_rules.reserved(services, definition)
    bounds = await family_use.bounds(services, definition)
    return learned_demand.learned(definition, reserved, bounds, services.clock.now())


def _pools(services: ServiceContext, namespace: str, track: str | None) -> list[Pool]:
    """Return the pools that live and whose workers may get it."""
    return [
        pool
        for pool in services.cache.by(indices.POOLS_IN, namespace)
        if track in {None, pool.spec.track} and not pool.deleting and pool.spec.desired == "Ready"
    ]
