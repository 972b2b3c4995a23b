"""Conditions: the facts about an object, each with one owner, a reason and a sentence.

`lastTransitionTime` moves only when the status flips (upstream refreshed it on every write,
facts/upstream.md#worker-phases). Reasons are CamelCase words; the reference page lists them per
type.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from labfleet.resources.meta import Record

Status = Literal["True", "False", "Unknown"]


class Condition(Record, frozen=True, kw_only=True):
    """One fact: True, False or Unknown, since when, why, in words."""

    type: str
    status: Status
    reason: str
    message: str = ""
    last_transition_time: datetime
    observed_generation: int = 0


def find(conditions: Iterable[Condition], name: str) -> Condition | None:
    """Return the condition of this type, or None when nobody has said anything yet."""
    for each in conditions:
        if each.type == name:
            return each
    return None


def is_true(conditions: Iterable[Condition], name: str) -> bool:
    """Tell whether the fact is known to hold."""
    found = find(conditions, name)
    return found is not None and found.status == "True"


def put(
    conditions: tuple[Condition, ...],
    name: str,
    status: Status,
    reason: str,
    message: str = "",
    *,
    now: datetime,
    generation: int = 0,
) -> tuple[Condition, ...]:
    """Return the conditions with this fact recorded; same tuple when nothing changed."""
    old = find(conditions, name)
    if old is not None and old.status == status:
        if (old.reason, old.message, old.observed_generation) == (reason, message, generation):
            return conditions
        since = old.last_transition_time
    else:
        since = now
    new = Condition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )
    kept = tuple(each for each in conditions if each.type != name)
    return tuple(sorted((*kept, new), key=_by_type))


def drop(conditions: tuple[Condition, ...], name: str) -> tuple[Condition, ...]:
    """Return the conditions without this fact; the same tuple when there was none."""
    if find(conditions, name) is None:
        return conditions
    return tuple(each for each in conditions if each.type != name)


def _by_type(condition: Condition) -> str:
    return condition.type


def changed(before: tuple[Condition, ...], after: tuple[Condition, ...]) -> bool:
    """Tell whether a write is worth its event: any difference beyond observedGeneration."""
    strip = [
        tuple(msgspec.structs.replace(each, observed_generation=0) for each in side)
        for side in (before, after)
    ]
    return strip[0] != strip[1]
