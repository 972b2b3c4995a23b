"""What to do about each phase that lasts and each condition that is not an alert.

The rows stand with their kinds; together with `alerts` they are the whole runbook:
`docs/reference/runbook.md` is written from both, and a test holds them against every phase and
every condition that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from labfleet.resources.conditions import ConditionType
from labfleet.resources.declaration import Entry
from labfleet.resources.kinds import KINDS, Kind


def conditions(row: Kind) -> Iterator[Entry]:
    """Yield the rows of a kind's conditions."""
    return (each for each in row.runbook if each.subject in _types(row))


def phases(row: Kind) -> Iterator[Entry]:
    """Yield the rows of a kind's phases."""
    return (each for each in row.runbook if each.subject not in _types(row))


def of_phase(kind: str, phase: str) -> Entry | None:
    """Return the row of a phase, None for one in which an object may stay."""
    return next((each for each in phases(KINDS[kind]) if each.subject == phase), None)


def of_condition(kind: str, condition: str) -> Entry:
    """Return the row of a condition."""
    return next(each for each in conditions(KINDS[kind]) if each.subject == condition)


def _types(row: Kind) -> tuple[ConditionType, ...]:
    return () if row.conditions is None else tuple(row.conditions)
