"""What past sessions of a definition's family used: read from the history, judged by the rules.

Read when somebody asks, or when sessions of a family have ended; never for a decision. One page of
the newest sessions is looked at, however many there were.
"""

from __future__ import annotations

from collections.abc import Sequence

from labfleet.decisions import families, lab_bounds
from labfleet.decisions.lab_bounds import Asked
from labfleet.decisions.lab_reviews import Place, Significant
from labfleet.engine.cache import Cache
from labfleet.resources import amounts, prices, refs
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import Run, RunKind
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.prices import PriceList
from labfleet.resources.settings_of_labs import Review
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import catalogues, definition_rules, indices, paid_rows


async def runs(
    services: ServiceContext, definition: Definition, *, alone: bool = False
) -> tuple[Run, ...]:
    """Return the newest past sessions of a definition's family, the newest first.

    `alone` leaves out those of its other versions: an earlier one may have been another lab.
    """
    found = await services.history.newest_runs(
        kind=RunKind.SESSION,
        family=family_of(definition),
        namespace=definition.namespace,
        limit=lab_bounds.LOOKED_AT,
    )
    named = definition.name
    return tuple(
        each.run for each in found if not alone or each.run.parameters.get("definition") == named
    )


def places(cache: Cache, definition: Definition, listed: PriceList = prices.SHIPPED) -> list[Place]:
    """Return the pools of its track that may host a definition's lab, in the order of their names."""
    found, track = [], definition.spec.track
    for pool in sorted(
        cache.by(indices.POOLS_IN, definition.namespace), key=lambda each: each.name
    ):
        template = cache.find(refs.template_of(pool))
        shape = catalogues.shape_of(pool, template, cache)
        if pool.deleting or template is None or shape is None or track not in {None, shape.track}:
            continue
        price = paid_rows.hourly_usd(template.spec.machine, None, listed)
        found.append(Place(pool.name, shape.capacity, price))
    return found


def most(found: Sequence[Place]) -> Amounts | None:
    """Return what the largest worker of any of these pools has; None when there is none."""
    if not found:
        return None
    names = amounts.DIMENSIONS
    return Amounts(**{name: max(getattr(each.capacity, name) for each in found) for name in names})


async def asked(services: ServiceContext, definition: Definition) -> Asked:
    """Return what is asked about a definition: what it declares, what bounds a recommendation."""
    settings = services.settings.now().review
    return Asked(
        name=definition.name,
        declared=definition.status.demand,
        reserved=await definition_rules.reserved(services, definition),
        most=most(places(services.cache, definition, services.prices)),
        coverage=settings.coverage_percent / 100,
        least_sessions=settings.least_sessions,
    )


async def bounds(services: ServiceContext, definition: Definition) -> dict[str, LabBound]:
    """Return by dimension what past sessions say of a definition."""
    return lab_bounds.bounds(await runs(services, definition), await asked(services, definition))


def significant(settings: Review) -> Significant:
    """Return from which difference on a definition needs a review."""
    return Significant(
        percent=settings.difference_percent,
        memory_mib=settings.difference_memory_mib,
        cpu_milli=settings.difference_cpu_milli,
    )


def versions(cache: Cache, definition: Definition) -> list[Definition]:
    """Return the versions of a definition's family, the newest last."""
    family = family_of(definition)
    known = cache.by(indices.DEFINITIONS_OF_FAMILY, (definition.namespace, family))
    return families.members(known, family)
