"""Changes a Region's status together with another write, guarded by preconditions."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import kinds, region
from labfleet.resources.meta import Metadata
from labfleet.resources.region import Region, RegionStatus
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext

Change = Callable[[RegionStatus], RegionStatus]


async def changed(
    services: ServiceContext, name: str, change: Change
) -> tuple[tuple[stores.Precondition, ...], tuple[stores.Write, ...]]:
    """Return preconditions and writes that change a region's status within a commit."""
    if intake.name_problem(name):
        raise intake.invalid(("region", "is not a region's name"))
    found = await services.objects.find(region.ref(name)) or fresh(services, name)
    status = change(found.status)
    if status == found.status:
        return (), ()
    new = msgspec.structs.replace(found, status=status)
    put = stores.Put(new.key, new.metadata.uid, kinds.encode(new), new.metadata.labels)
    return (stores.AtRevision(new.key, found.revision),), (put,)


def fresh(services: ServiceContext, name: str) -> Region:
    """Return a region that is not stored yet."""
    metadata = Metadata(
        name=name, uid=services.ids.uid(), generation=1, creation_timestamp=services.clock.now()
    )
    return Region(metadata=metadata)
