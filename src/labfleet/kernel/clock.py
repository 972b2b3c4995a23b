"""The two kinds of time in the product.

*Fleet time* is what labs, slots, boots and bills are measured in. It is real time in
production, runs faster in the demo (epoch and factor) and is virtual in a rehearsal.
It comes from a `Clock`.

*Machine time* is what sockets, leases and deadlines of calls are measured in. It is the
running event loop's `time()` and is never scaled; a rehearsal replaces the loop, so it is
virtual there too. No package below the composition roots reads any other clock.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Fleet time."""

    @property
    def rate(self) -> float:
        """Return fleet seconds per machine second: 1.0 except in a demo."""
        ...

    def now(self) -> datetime:
        """Return the instant, aware, UTC. May jump when the host's clock is set."""
        ...

    def monotonic(self) -> float:
        """Return fleet seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many fleet seconds."""
        ...


def parse_instant(text: str) -> datetime:
    """Return an aware UTC instant from RFC 3339 text; ValueError when it has no zone.

    Naive times are refused because a slot without a zone moves by hours between hosts.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        message = f"{text!r} has no time zone; write for example 2026-11-27T09:00:00Z"
        raise ValueError(message)
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        message = f"{text!r} lies outside the years 1 to 9999"
        raise ValueError(message) from None


def format_instant(instant: datetime, timespec: str = "milliseconds") -> str:
    """Return RFC 3339 text in UTC with a trailing Z, for programs; to the millisecond."""
    return in_utc(instant).isoformat(timespec=timespec).replace("+00:00", "Z")


def utc_text(instant: datetime, *, seconds: bool = False) -> str:
    """Return an instant in a sentence for people: `2026-11-27 09:00Z`, in UTC whatever its offset.

    The only place where an instant becomes text for people: an offset cut off by a format of
    one's own shows another hour with a Z behind it.
    """
    precision = "seconds" if seconds else "minutes"
    return in_utc(instant).isoformat(" ", precision).replace("+00:00", "Z")


def utc_minute(instant: datetime) -> str:
    """Return the time of day to the minute: `09:00Z`."""
    return f"{in_utc(instant):%H:%M}Z"


def utc_time(instant: datetime) -> str:
    """Return the time of day for a sentence about the next minutes: `09:00:05 UTC`."""
    return f"{in_utc(instant):%H:%M:%S} UTC"


def in_utc(instant: datetime) -> datetime:
    """Return the same instant in UTC; at the ends of the years the nearest that there is."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        if instant.year > 1:
            return datetime.max.replace(tzinfo=UTC)
        return datetime.min.replace(tzinfo=UTC)
