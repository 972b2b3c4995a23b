"""The routes of costs: what the fleet costs, the statement of a month, the prices in force."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from labfleet.api.core.route import Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.decisions.costs import plans
from labfleet.decisions.costs.statements import By
from labfleet.kernel import errors
from labfleet.resources.prices import PriceList
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import cost_statement, costs, pool_plan
from labfleet.service.reads.cost_statement import CostStatement
from labfleet.service.reads.costs import CostReport
from labfleet.service.reads.pool_plan import PoolPlan

Month = Annotated[
    str,
    QueryParameter(
        name="month", max_length=16, description="A month of UTC, such as 2026-11; this one without."
    ),
]  # fmt: skip
Sorted = Annotated[
    By | None,
    QueryParameter(
        name="by", description="What the lines are about; without it pools, for users sessions."
    ),
]
OfPool = Annotated[
    str | None,
    QueryParameter(
        name="pool",
        max_length=300,
        description="Only this pool, outside of `default` as `namespace/name`; all without.",
    ),
]

At = Annotated[
    str,
    QueryParameter(
        name="at", max_length=64, description="When they begin, such as 2027-03-01T09:00:00Z."
    ),
]
Sessions = Annotated[
    int,
    QueryParameter(name="sessions", ge=1, le=plans.MOST_SESSIONS, description="How many sessions."),
]
OfDefinition = Annotated[
    str,
    QueryParameter(
        name="definition", max_length=256, description="Definition whose lab each of them runs."
    ),
]
Minutes = Annotated[
    int | None,
    QueryParameter(
        name="minutes",
        ge=1,
        le=pool_plan.LONGEST_MINUTES,
        description="How long each lasts; without it as long as the definition says.",
    ),
]


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("costs")

    @made.get("/api/v1/cost", "What the fleet costs: now, today, this month, and to its end",
              needs=("create", "Session"))  # fmt: skip
    async def get_cost(
        who: Caller, month: Month = "", *, by: Sorted = None, pool: OfPool = None
    ) -> CostReport:
        """Return what a month costs so far, by pool, session, person or course.

        Users see their own sessions (`by=session`) and nothing of others; programs see nothing.
        """
        return await costs.read(services, who, month=month, by=by, pool=pool)

    @made.get("/api/v1/cost/statement", "The statement of a month, whose rows add up to the bill",
              needs=("update", "Pool"))  # fmt: skip
    async def get_statement(who: Caller, month: Month = "") -> CostStatement:
        """Return a row for each machine and kind of time; rows with a price come to `usd` exactly."""
        return await cost_statement.read(services, who, month=month)

    @made.get("/api/v1/cost/prices", "The prices in force", needs=("read", "Template"))
    async def get_prices(who: Caller) -> PriceList:
        """Return the price list, in the form of the file that may replace it (`prices_file`)."""
        access.demand(who.principal, "read", "Template")
        return services.prices

    @made.get("/api/v1/pools/{name:str}/plan", "What sessions at one time would need and cost",
              needs=("update", "Pool"), refuses=(errors.Gone,))  # fmt: skip
    async def get_pool_plan(
        name: Name,
        *,
        namespace: Namespace = "default",
        at: At = "",
        sessions: Sessions = 1,
        definition: OfDefinition = "",
        minutes: Minutes = None,
    ) -> PoolPlan:
        """Return whether so many sessions fit beside what is promised, what they need, and cost.

        Nothing is booked; what is promised meanwhile may take the room.
        """
        return await pool_plan.read(
            services, name, namespace, at=at, sessions=sessions, definition=definition,
            minutes=minutes,
        )  # fmt: skip

    return made
