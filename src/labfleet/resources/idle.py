"""Evidence for and against a worker being idle: events of use, and signals with a verdict.

Only records, and the parsing of CML's events; `decisions/idle` decides what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from labfleet.resources.meta import Record

RECENT = 10
"""How many events of use are kept with a worker, newest first (facts/upstream.md#idle)."""

SignalVerdict = Literal["busy", "held", "unknown", "quiet"]


class ActivityEvent(Record, frozen=True, kw_only=True):
    """One thing that somebody did on a server; `at` or `user` None: told, but not readable.

    category: What was done, in CML's word.
    at: When it was done; null when that cannot be read.
    user: Who did it; null when that cannot be read.
    """

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

    name: Name of the signal.
    verdict: What it says: busy, held, unknown or quiet.
    value: Its value in words.
    told: Sentence for people.
    at: When it was read.
    """

    name: str
    verdict: SignalVerdict
    value: str = ""
    told: str = ""
    at: datetime | None = None


_USER_KEYS = ("user_id", "user", "username", "owner")


def event_of(raw: Mapping[str, Any]) -> ActivityEvent:
    """Return one event as CML writes it; a category that is missing is the word `unknown`."""
    data = raw.get("data")
    places = (data if isinstance(data, Mapping) else {}, raw)
    users = (place.get(key) for place in places for key in _USER_KEYS)
    category = raw.get("category")
    return ActivityEvent(
        category=(category if isinstance(category, str) and category else "unknown")[:100],
        at=instant(raw.get("timestamp")),
        user=next((each[:100] for each in users if isinstance(each, str) and each), None),
    )


def instant(value: Any) -> datetime | None:
    """Return the instant of a stamp, None when it is none.

    Four forms (facts/upstream.md#idle): ISO 8601 with an offset, with Z and fractions, without a
    zone (UTC then, with T or a space), and seconds since 1970.
    """
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
