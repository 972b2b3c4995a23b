"""Changes the tags of a worker's machine, and remembers a short time what was refused."""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.decisions.lifecycle.worker import chores
from labfleet.decisions.lifecycle.worker.calls import Answer, TagChange
from labfleet.kernel import errors
from labfleet.resources.worker import Worker

REFUSED_SECONDS = 900.0
"""How long to wait before trying again tags that EC2 refused permanently (fleet seconds)."""
REFUSED_KEPT = 10_000


class Tagger:
    """Sets and removes tags; losing its memory costs one more refused call."""

    def __init__(self, context: Context, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory
        self._refused: dict[str, tuple[TagChange, float]] = {}

    def refused_lately(self, instance_id: str) -> TagChange | None:
        """Return the change that the provider refused for good a short time ago."""
        change, at = self._refused.get(instance_id, (None, 0.0))
        fresh = self._context.clock.monotonic() - at < REFUSED_SECONDS
        return change if fresh else None

    async def apply(self, worker: Worker, region: str, instance_id: str) -> Answer:
        """Make the machine list the worker's tags; the calls are safe to repeat."""
        found = await self._inventory.find(region, instance_id)
        if found is None:
            raise errors.Gone(f"the provider shows no {instance_id}")
        change = chores.tag_change(worker, found.tags)
        compute = self._context.compute
        self._inventory.forget(region, instance_id)
        try:
            if change.put:
                await compute.set_tags(region, instance_id, change.put)
            if change.gone:
                await compute.remove_tags(region, instance_id, change.gone)
        except errors.Permanent as problem:
            self._refuse(instance_id, change)
            return Answer(refused=f"{problem.reason}: {problem.message}"[:300])
        finally:
            self._inventory.forget(region, instance_id)
        return Answer(tags=tuple(sorted(worker.spec.tags)))

    def _refuse(self, instance_id: str, change: TagChange) -> None:
        self._refused.pop(instance_id, None)
        self._refused[instance_id] = (change, self._context.clock.monotonic())
        while len(self._refused) > REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]
