"""Reads CML's telemetry events: who did what and when, as far as the server tells.

The server gives every event it has, with no filter and no paging (facts/cml.md#api-rules). Which of
them count as use is decided elsewhere. A time that cannot be read stays None, so that the decision
can treat it with care; it never counts as long ago.
"""

from __future__ import annotations

from typing import Any

from labfleet.adapters.cml import parsing
from labfleet.adapters.cml.client import Client
from labfleet.kernel import errors
from labfleet.resources.idle import Activity, ActivityEvent, event_of

KEPT = 1000
"""How many events are handed on, the newest; undated ones come first."""


async def read(client: Client) -> Activity:
    """Return the events and whether people declined them; two requests.

    The order matters: events first, so that somebody who opts out in between is seen.
    """
    events = await client.get("telemetry/events")
    return parse(events, parsing.mapping(await client.get("telemetry")).get("opt_in"))


def parse(events: Any, opt_in: Any) -> Activity:
    """Return both answers' meaning; Protocol when the events are no list."""
    if not isinstance(events, list):
        raise errors.Protocol("telemetry/events: not a list")
    found = [event_of(each) for each in events if isinstance(each, dict)]
    found.sort(key=_newness)
    declined = opt_in is False or (isinstance(opt_in, str) and opt_in.lower() == "declined")
    return Activity(events=tuple(found[:KEPT]), declined=declined)


def _newness(event: ActivityEvent) -> float:
    return float("-inf") if event.at is None else -event.at.timestamp()
