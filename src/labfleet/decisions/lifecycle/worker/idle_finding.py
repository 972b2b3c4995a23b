"""What a look for the idle rule found on one worker; see `idle_rule` for what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.decisions.idle import IdleFacts
from labfleet.resources.fleet_settings import Idle

FRESH = timedelta(minutes=2)
"""How old a look may be when it is decided on; an older one says nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFinding:
    """What was read of the server, with what the cache holds at the decision.

    `at` is when the look ended. `whole`: the server was asked for everything, after the worker
    was closed for new sessions, and the cache had all that was committed up to `revision` when
    that look began. `paused`: nothing may be done that nobody asked for. `peer_closed`: the rule
    has closed another worker of the pool and looks at that one. `peer_aging`: it empties another one
    for its age. `wanted`: a waiting session would take this stopped worker without a pool.
    """

    facts: IdleFacts
    settings: Idle
    at: datetime
    whole: bool = False
    revision: int | None = None
    paused: bool = False
    peer_closed: bool = False
    peer_aging: bool = False
    wanted: bool = False
