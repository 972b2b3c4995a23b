"""What to do about each phase that lasts and each condition that is not an alert.

The rows stand with their kinds; together with `alerts` they are the whole runbook:
`docs/reference/runbook.md` is written from both, and a test holds them against every phase and
every condition that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from labfleet.resources.conditions import ConditionType
from labfleet.resources.declaration import Advice, Entry
from labfleet.resources.kinds import KINDS, Kind


def conditions(row: Kind) -> Iterator[Entry]:
    """Yield the rows of a kind's conditions."""
    return (each for each in row.runbook if each.subject in _types(row))


def phases(row: Kind) -> Iterator[Entry]:
    """Yield the rows of a kind's phases."""
    return (each for each in row.runbook if each.subject not in _types(row))


def of_phase(kind: str, phase: str, reason: str = "") -> Entry | None:
    """Return the row of a phase, None for one in which an object may stay; as a reason has it."""
    row = next((each for each in phases(KINDS[kind]) if each.subject == phase), None)
    return None if row is None else _advised(row, reason)


def of_condition(kind: str, condition: str, reason: str = "") -> Entry:
    """Return the row of a condition, as a reason has it."""
    row = next(each for each in conditions(KINDS[kind]) if each.subject == condition)
    return _advised(row, reason)


def advice(kind: str, subject: str, reason: str) -> Advice | None:
    """Return what is said of a phase or condition for one reason, None when that has no own."""
    known = KINDS[kind].advice
    return next((each for each in known if (each.subject, each.reason) == (subject, reason)), None)


def for_others(row: Entry) -> Entry:
    """Return the row as those read it who may not change pools."""
    of_row = (row.subject, row.cause)
    known = KINDS[row.kind].advice
    found = next((each for each in known if (each.subject, each.cause) == of_row), None)
    if found is None or not found.others:
        return row
    return msgspec.structs.replace(row, fix=found.others)


def _advised(row: Entry, reason: str) -> Entry:
    found = advice(row.kind, row.subject, reason)
    if found is None:
        return row
    return msgspec.structs.replace(row, cause=found.cause, fix=found.fix)


def _types(row: Kind) -> tuple[ConditionType, ...]:
    return () if row.conditions is None else tuple(row.conditions)
