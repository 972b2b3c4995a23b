"""Find machines that carry our owner tag and belong to no worker, and end them with patience.

Two looks, `GRACE` apart, and a last one before the act; a machine tagged `keep` is never
touched. A worker whose launch is still open may yet adopt its machine. Off until the cache has
listed everything once (aws.md 7.9; part 4 adds dry run, budgets and the other direction).
"""

from __future__ import annotations

from collections.abc import Mapping

from labfleet.controllers.context import Context
from labfleet.controllers.worker.inventory import Inventory
from labfleet.engine.controller import Again, Done
from labfleet.interfaces.compute import Instance
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase

KEY = Key("Worker", "", "garbage")
EVERY = 120.0
GRACE = 300.0
ROUND_LIMIT = 5
KEEP = "keep"


class GarbageController:
    """Reconciles the provider's list with our records, one region after the other."""

    def __init__(self, context: Context, inventory: Inventory) -> None:
        self.context = context
        self._inventory = inventory
        self._suspects: dict[tuple[str, str], float] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Look once at every region in use."""
        del key
        ended = 0
        for region in self._regions():
            try:
                machines = await self._inventory.all(region)
            except errors.LabfleetError:
                continue  # an error is not an empty list: nothing is judged on it
            self._forget(region, machines)
            for machine in machines.values():
                if ended < ROUND_LIMIT and await self._tried(region, machine):
                    ended += 1
        return Again(EVERY)

    def _forget(self, region: str, machines: Mapping[str, Instance]) -> None:
        """Drop suspects that are not there any more."""
        for place in [each for each in self._suspects if each[0] == region]:
            if place[1] not in machines:
                del self._suspects[place]

    async def _tried(self, region: str, machine: Instance) -> bool:
        """Judge one machine; its trouble must not save the others."""
        try:
            return await self._judge(region, machine)
        except errors.Fenced:
            raise
        except errors.LabfleetError:
            return False

    def _regions(self) -> list[str]:
        cache = self.context.cache
        machines = [each.spec.machine for each in cache.all(Worker)]
        machines += [each.spec.machine for each in cache.all(Template)]
        return sorted({each.aws.region for each in machines if each is not None})

    def _owned(self, machine: Instance) -> bool:
        """Tell whether some worker has this machine or may still adopt it."""
        cache = self.context.cache
        for worker in cache.by(Worker, "instance", machine.id):
            return worker.status.phase is not WorkerPhase.TERMINATED
        return any(
            worker.status.effect is not None and worker.status.effect.kind == "launch"
            for value in machine.tags.values()
            for worker in cache.by(Worker, "uid", value)
        )

    async def _judge(self, region: str, machine: Instance) -> bool:
        """Return whether the machine was ended as an orphan."""
        place = (region, machine.id)
        if self._owned(machine) or KEEP in machine.tags or machine.state == "shutting-down":
            self._suspects.pop(place, None)
            return False
        now = self.context.clock.monotonic()
        first = self._suspects.setdefault(place, now)
        if now - first < GRACE:
            return False
        fresh = await self.context.compute.describe(region, machine.id)
        self._suspects.pop(place, None)
        if fresh is None or self._owned(fresh) or KEEP in fresh.tags:
            return False
        await self.context.compute.terminate(region, machine.id)
        return True
