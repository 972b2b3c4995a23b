"""What past sessions of a definition's family used: read from the history, judged by the rules.

Read when somebody asks, or when sessions of a family have ended; never for a decision. One page of
the newest sessions is looked at, however many there were.
"""

from __future__ import annotations

from labfleet.decisions import lab_bounds
from labfleet.decisions.lab_bounds import Asked
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import Run, RunKind
from labfleet.resources.lab_bound import LabBound
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import definition_rules


async def runs(services: ServiceContext, definition: Definition) -> tuple[Run, ...]:
    """Return the newest past sessions of a definition's family, the newest first."""
    found = await services.history.newest_runs(
        kind=RunKind.SESSION,
        family=family_of(definition),
        namespace=definition.namespace,
        limit=lab_bounds.LOOKED_AT,
    )
    return tuple(each.run for each in found)


async def asked(
    services: ServiceContext, definition: Definition, most: Amounts | None = None
) -> Asked:
    """Return what is asked about a definition, by what its nodes reserve and `most` there is."""
    return Asked(
        name=definition.name,
        declared=definition.status.demand,
        reserved=await definition_rules.reserved(services, definition),
        most=most,
    )


async def bounds(
    services: ServiceContext, definition: Definition, most: Amounts | None = None
) -> dict[str, LabBound]:
    """Return by dimension what past sessions say of a definition."""
    return lab_bounds.bounds(
        await runs(services, definition), await asked(services, definition, most)
    )
