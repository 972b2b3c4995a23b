"""The route of the calendar of pools."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.kernel import errors
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import calendar
from labfleet.service.reads.calendar import Calendar

From = Annotated[
    str,
    QueryParameter(
        name="from", max_length=64, description="From this instant on; without it, from now on."
    ),
]
To = Annotated[
    str,
    QueryParameter(
        name="to",
        max_length=64,
        description="Until this instant, at most 31 days later; 7 without.",
    ),
]
OfPool = Annotated[
    str | None,
    QueryParameter(name="pool", max_length=256, description="Only this pool; all without."),
]
Spans = Annotated[
    int,
    QueryParameter(
        name="limit", ge=1, le=calendar.MOST_INTERVALS,
        description="How many times each pool has at most; `next` says from when more is read.",
    ),
]  # fmt: skip


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("pools")

    @made.get("/api/v1/calendar", "What pools have promised, and when places are free",
              needs=("read", "Session"), refuses=(errors.Gone,))  # fmt: skip
    async def get_calendar(
        who: Caller,
        namespace: Namespace = "default",
        pool: OfPool = None,
        *,
        begin: From = "",
        to: To = "",
        limit: Spans = 200,
    ) -> Calendar:
        """Return for each pool, time by time, what is promised, and how many places are free.

        Callers who see only their own sessions see what is free and how much of it is theirs.
        """
        return await calendar.read(
            services, who, namespace=namespace, pool=pool, start=begin, end=to, limit=limit
        )

    return made
