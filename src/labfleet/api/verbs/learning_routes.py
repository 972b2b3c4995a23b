"""Routes of what was learned from past runs."""

from __future__ import annotations

from labfleet.api.core.route import Routes
from labfleet.resources.meta import Record
from labfleet.resources.prediction import Achieved
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import predictions


class PredictionList(Record, frozen=True, kw_only=True):
    """Coverage of predictions, stated and achieved.

    items: One for each kind, resource and stated coverage of which runs were judged.
    version: Place in the history up to which was learned.
    """

    items: tuple[Achieved, ...]
    version: int


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("history")

    @made.get(
        "/api/v1/predictions", "How well predictions of past runs held",
        needs=("read", "Simulation"),
    )  # fmt: skip
    async def list_predictions(who: Caller) -> PredictionList:
        """Return by kind, resource and stated coverage which share of runs stayed within bounds."""
        items, version = await predictions.achieved(services, who)
        return PredictionList(items=items, version=version)

    return made
