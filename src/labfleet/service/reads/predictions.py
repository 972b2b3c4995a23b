"""How well predictions hold: the coverage that is stated, and the one that was achieved."""

from __future__ import annotations

from labfleet.resources.prediction import Achieved
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext


async def achieved(services: ServiceContext, caller: Caller) -> tuple[tuple[Achieved, ...], int]:
    """Return the achieved coverage by kind, resource and level, and the history's last place.

    Of the start ranges of sessions too, those that this process has told since it began.
    """
    access.demand(caller.principal, "read", "Simulation")
    trust = services.settings.now().admission.trust_reports
    learner = await services.learning.current(trust_reports=trust)
    return (*learner.achieved(), *services.starts.achieved()), learner.version
