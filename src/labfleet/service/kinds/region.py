"""The rules of regions: they are only read."""

from __future__ import annotations

from labfleet.resources.region import Region
from labfleet.service.core.explanation import Explanation, plain
from labfleet.service.core.kind_table import KindRules
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds.left_behind import suspects


async def _explain(services: ServiceContext, region: Region) -> Explanation:
    """Return what is suspected in a region, and what was ended there."""
    found = suspects(services.cache, services.clock.now())
    count = sum(each.region == region.name for each in found)
    status = region.status
    return plain(
        region,
        f"{count} seem left behind; {status.ended} ended by garbage collection, "
        f"{status.ended_outside} by others",
    )


RULES = KindRules(name="Region", explain=_explain)
