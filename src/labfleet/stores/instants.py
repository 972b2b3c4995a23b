"""Instants as the databases keep them: microseconds since 1970 in UTC.

One integer form for both databases keeps order, needs no parsing and loses nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return microseconds since 1970; the instant must be aware."""
    return (instant - _START) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the aware UTC instant; the last representable one for any later value.

    One row with an instant beyond it must not make its whole table unreadable.
    """
    try:
        return _START + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else _FIRST
