"""How a leading controller changes a Region's status: fenced, from a fresh read.

Discovery, garbage collection and people write the same object, so after a conflict the change
is made again on the newest version; the caller supplies the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from labfleet.controllers.context import Context
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import region as regions
from labfleet.resources.meta import Metadata
from labfleet.resources.region import Region, RegionStatus

TRIES = 4
Change = Callable[[RegionStatus], RegionStatus]


async def change(
    context: Context,
    name: str,
    new_status: Change,
    *,
    actor: str,
    reason: str,
    guard: Sequence[stores.Precondition] = (),
) -> Region:
    """Write a region's new status when it differs; the first write creates the object.

    `guard` are further preconditions of the commit; raises Conflict when they do not hold.
    """
    for tried in range(TRIES):
        found = await context.objects.find(regions.ref(name))
        old = found or Region(
            metadata=Metadata(
                name=name,
                uid=context.ids.uid(),
                generation=1,
                creation_timestamp=context.clock.now(),
            )
        )
        status = new_status(old.status)
        if status == old.status:
            return old
        try:
            fresh = msgspec.structs.replace(old, status=status)
            done = await context.write(fresh, actor=actor, reason=reason, preconditions=guard)
            return done[0]
        except errors.Fenced:
            raise
        except errors.Conflict:
            if tried == TRIES - 1:
                raise
    raise AssertionError("not reached")
