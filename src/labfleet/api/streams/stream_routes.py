"""The route of the event stream; `stream` serves it."""

from __future__ import annotations

from typing import Annotated

from litestar.params import HeaderParameter, QueryParameter

from labfleet.api.core.route import Ask, EventStream, Routes
from labfleet.api.core.served import held_token
from labfleet.api.streams.stream import Stream, request_of
from labfleet.service.core.service_context import Caller

Words = Annotated[str, QueryParameter(description="Only these; several with commas.")]
Yes = Annotated[bool, QueryParameter(description="Send the present state first.")]
Since = Annotated[str, QueryParameter(description="Where to go on from: epoch.revision.")]
FramesWord = Annotated[
    str,
    QueryParameter(
        description="What to send, several with commas: objects, samples, alerts, queue; objects "
        "without."
    ),
]
Padding = Annotated[
    int,
    QueryParameter(
        ge=0,
        le=16384,
        description="Bytes by which each burst is filled up, for proxies that hold back less.",
    ),
]
Pace = Annotated[
    int,
    QueryParameter(
        ge=0,
        le=5000,
        description="Milliseconds between two turns, each with the newest state of every object "
        "that changed; 0 sends every change.",
    ),
]
LastId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="The same as `since`; browsers send it."),
]


def routes(events: Stream) -> Routes:
    """Return the route; any role may listen and gets what it may see."""
    made = Routes("system")

    @made.get("/api/v1/events", "Every change, as server-sent events", name="events")
    async def stream(
        request: Ask,
        who: Caller,
        *,
        kinds: Words = "",
        names: Words = "",
        namespace: Words = "",
        snapshot: Yes = True,
        since: Since = "",
        frames: FramesWord = "",
        padding: Padding = 0,
        pace: Pace = 0,
        last_event_id: LastId = None,
    ) -> EventStream:
        """Follow every change that the caller may see, from now or from a cursor on.

        Each has `reason`, a word, and `message`, as in the events of its object. With `frames` come
        measured samples, raised alerts and places in the queue too, each as `whole` first and then
        what changed (`items`) and what is told no more (`gone`). With `pace` an object that changed
        several times in a turn comes once, as it is then.
        """
        wish = request_of(
            who.principal,
            kinds=kinds,
            names=names,
            namespace=namespace,
            snapshot=snapshot,
            since=last_event_id or since,
            frames=frames,
            padding=padding,
            pace=pace,
        )
        token = held_token(request)
        return EventStream(lambda receive, send: events.serve(wish, receive, send, token))

    return made
