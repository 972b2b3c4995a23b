"""Instants in the zone of whoever asked, for sentences: always with UTC beside it.

An hour without its zone misleads whoever sits in another one (facts/fleet-bugs.md#t03). The zone
database is constant data of the installation; nothing else is read.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from labfleet.kernel.clock import in_utc, utc_text


def zone_of(name: str) -> tzinfo:
    """Return the zone of an IANA name; UTC for one that this installation does not know."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def both(at: datetime, zone: str) -> str:
    """Return an instant as `2026-11-30 09:00 Europe/Warsaw (08:00Z)`, in UTC alone when that is its zone.

    The day stands in the parentheses too where it is another one in UTC.
    """
    there = zone_of(zone)
    if there is UTC or zone == "UTC":
        return utc_text(at)
    try:
        local = at.astimezone(there)
    except OverflowError:
        return utc_text(at)
    beside = utc_text(at) if local.date() != in_utc(at).date() else f"{in_utc(at):%H:%M}Z"
    return f"{local:%Y-%m-%d %H:%M} {zone} ({beside})"


def span(start: datetime | None, end: datetime | None, zone: str) -> str:
    """Return from when to when, each in both zones; words where one is not known yet."""
    begins = "as soon as there is room" if start is None else both(start, zone)
    if end is None:
        return begins
    return (
        f"{begins} to {both(end, zone)}"
        if start is not None
        else f"{begins}, until {both(end, zone)}"
    )


def at_wall(wall: datetime, zone: str) -> datetime | None:
    """Return the instant of a time without an offset by the clocks of a zone; None for no zone.

    A time that clocks leave out is read with the offset before it, and of one that comes twice the
    first is meant, as RFC 5545 says.
    """
    try:
        there = ZoneInfo(zone)
        return wall.replace(tzinfo=there, fold=0).astimezone(UTC)
    except (KeyError, ValueError, OSError, OverflowError):
        return None


def contradiction(at: datetime | None, zone: str) -> str:
    """Return what is told of an instant whose offset its zone does not have then; empty when it fits.

    An instant in UTC is one of everywhere.
    """
    offset = None if at is None else at.utcoffset()
    if at is None or not offset:
        return ""
    try:
        there = at.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError, OverflowError):
        return ""
    if there.utcoffset() == offset:
        return ""
    clocks = there.isoformat(timespec="minutes")[16:]
    return (
        f"{at.isoformat(timespec='minutes')} is {there:%H:%M} in {zone}, whose clocks are at {clocks} "
        f"then; for {at:%H:%M} there leave the offset out"
    )
