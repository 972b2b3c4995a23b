"""The rules of pools, and their events."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.service.core.kind_table import Change, EventType, KindRules
from labfleet.service.kinds import indices, machine_rules


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


def _about(pool: Pool) -> str:
    """Return the pool's message, and what its stopped workers cost."""
    status = pool.status
    if not status.stopped:
        return status.message
    count = (
        "1 worker is stopped" if status.stopped == 1 else f"{status.stopped} workers are stopped"
    )
    told = f"{count}; their disks cost money"
    return f"{status.message}; {told}" if status.message else told


RULES = KindRules(
    name="Pool",
    create=machine_rules.create_pool,
    update=machine_rules.update_pool,
    delete=machine_rules.delete_pool,
    pools=lambda pool: (Ref(Pool, pool.namespace, pool.name),),
    about=_about,
    event_types=PoolEvent,
    changed=_changed,
    indices=(indices.POOLS_GROWING, indices.POOLS_OF_TEMPLATE, indices.POOLS_IN),
)
