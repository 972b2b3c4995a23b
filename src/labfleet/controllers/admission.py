"""Runs the decider on simulations while this process leads; requests of its API go to it directly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from labfleet.controllers.context import Context
from labfleet.engine.controller import Again, Done
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs.deciding import Decider

KEY = Key("Simulation", "", "admission")
CYCLE = 15.0
"""Fleet seconds until those that wait are tried again without an event."""
COUNT_SECONDS = 240.0
"""Fleet seconds after which what is held is counted anew; less than a resync, which asks for it."""


class AdmissionController:
    """Decides under one key, so never twice at once."""

    def __init__(
        self, context: Context, services: ServiceContext, wake: Callable[[], object]
    ) -> None:
        self.context = context
        self._services = services
        self.decider = Decider(services)
        self._wake = wake
        self._token: int | None = None
        self._counted_at = 0.0

    async def reconcile(self, key: Key) -> Done | Again:
        """Decide all that waits; count anew what is held when this process has just begun to lead."""
        del key
        fence = self.context.fence()
        if fence.token != self._token:
            # Others may have decided up to now: what they wrote has to be in the cache first.
            await self._services.fresh()
            self.decider.forget()
            self._token = fence.token
            self._counted_at = self.context.clock.monotonic()
            vacant = self.context.leadership.vacant * self.context.clock.rate
            self._services.watch.begin(self._counted_at, vacant)
            self._services.asked.serve(self._wake, self._leads)
        else:
            await self._count_anew()
        more = True
        while more:
            more = await self.decider.round(fence)
            # A round that has nothing to wait for must not keep others from the loop.
            await asyncio.sleep(0)
        waiting = self.context.cache.values(indices.SIMULATIONS_QUEUED)
        return Again(CYCLE) if waiting else Done()

    async def _count_anew(self) -> None:
        """Count anew now and then: a change that was missed must not count for ever."""
        now = self.context.clock.monotonic()
        if now - self._counted_at < COUNT_SECONDS or not self.decider.loads:
            return
        try:
            await self._services.fresh()
        except errors.Temporary:
            return  # The count of before is as good until the cache has caught up.
        self.decider.forget()
        self._counted_at = now

    @property
    def leads(self) -> bool:
        """Tell whether this process decides now, and has counted since it began to lead."""
        fence = self.context.leadership.fence
        return fence is not None and fence.token == self._token

    def _leads(self) -> bool:
        return self.context.leadership.fence is not None
