"""The routes of the two compatible streams; `compat_stream` and `status_stream` serve them."""

from __future__ import annotations

from typing import Annotated

from litestar.params import QueryParameter

from labfleet.api.compatible.compat_stream import CompatStream, filter_of
from labfleet.api.compatible.status_stream import StatusStream
from labfleet.api.core.route import Ask, EventStream, Routes
from labfleet.api.core.served import held_token
from labfleet.service.core.service_context import Caller

Some = Annotated[
    list[str] | None,
    QueryParameter(description="Only these; several with commas, or named again."),
]
System = Annotated[bool, QueryParameter(description="Send heartbeats and other events of its own.")]


def routes(events: CompatStream, state: StatusStream) -> Routes:
    """Return both."""
    made = Routes("seeds")

    @made.get(
        "/api/events/stream", "The same stream, with a first event `connected`", name="seedEvents"
    )
    async def compatible_events(
        request: Ask,
        who: Caller,
        *,
        worker_ids: Some = None,
        event_types: Some = None,
        include_system: System = True,
    ) -> EventStream:
        """Follow what happens as server-sent events of upstream 002's names, a snapshot first."""
        wanted = filter_of(
            who.principal, worker_ids or [], event_types or [], system=include_system
        )
        token = held_token(request)
        return EventStream(lambda receive, send: events.serve(wanted, receive, send, token))

    @made.get(
        "/status-stream", "Simulations and clusters, whole, at each change",
        needs=("read", "Cluster"),
    )  # fmt: skip
    async def status_stream(request: Ask) -> EventStream:
        """Follow simulations and clusters as server-sent events, all of them at each change."""
        token = held_token(request)
        return EventStream(lambda receive, send: state.serve(receive, send, token))

    return made
