"""What speaks for and against a worker being idle: events of use, and signals with a verdict.

Nouns only; what they mean is decided in `decisions/idle`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.resources.meta import Record

RECENT = 10
"""How many events of use are kept with a worker, newest first (upstream.md 2.4)."""

SignalVerdict = Literal["busy", "held", "unknown", "quiet"]


class ActivityEvent(Record, frozen=True, kw_only=True):
    """One thing that somebody did on a server; `at` or `user` None: told, but not readable."""

    category: str
    at: datetime | None = None
    user: str | None = None


class Activity(Record, frozen=True, kw_only=True):
    """What a server tells of its use, newest first.

    `declined`: people have opted out of telemetry there, so that silence says nothing.
    """

    events: tuple[ActivityEvent, ...] = ()
    declined: bool = False


class IdleSignal(Record, frozen=True, kw_only=True):
    """One signal: its value in words, what it says, a sentence, and when it was read.

    busy: in use. held: nothing to do with use, but nobody may stop the worker now. unknown:
    missing, failed or stale, which keeps the worker. quiet: no sign of use.
    """

    name: str
    verdict: SignalVerdict
    value: str = ""
    told: str = ""
    at: datetime | None = None
