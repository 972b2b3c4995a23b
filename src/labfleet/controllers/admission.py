"""Runs the decider on simulations while this process leads; requests of its API go to it directly."""

from __future__ import annotations

from collections.abc import Callable

from labfleet.controllers.context import Context
from labfleet.engine.controller import Again, Done
from labfleet.resources.meta import Key
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs.deciding import Decider

KEY = Key("Simulation", "", "admission")
CYCLE = 15.0
"""Fleet seconds until those that wait are tried again without an event."""


class AdmissionController:
    """Decides under one key, so never twice at once."""

    def __init__(
        self, context: Context, services: ServiceContext, wake: Callable[[], object]
    ) -> None:
        self.context = context
        self._services = services
        self._decider = Decider(services)
        self._wake = wake
        self._token: int | None = None

    async def reconcile(self, key: Key) -> Done | Again:
        """Decide all that waits; count anew what is held when this process has just begun to lead."""
        del key
        fence = self.context.fence()
        if fence.token != self._token:
            # Others may have decided up to now: what they wrote has to be in the cache first.
            await self._services.fresh()
            self._decider.forget()
            self._token = fence.token
            self._services.asked.serve(self._wake, self._leads)
        while await self._decider.round(fence):
            pass
        waiting = self.context.cache.values(indices.SIMULATIONS_QUEUED)
        return Again(CYCLE) if waiting else Done()

    def _leads(self) -> bool:
        return self.context.leadership.fence is not None
