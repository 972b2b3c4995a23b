"""Instants as the databases keep them: microseconds since 1970 in UTC.

One integer form for both databases keeps order, needs no parsing and loses nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return microseconds since 1970; the instant must be aware."""
    return (instant - _START) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the aware UTC instant."""
    return _START + timedelta(microseconds=micros)
