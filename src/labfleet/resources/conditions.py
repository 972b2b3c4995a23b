"""Conditions: the facts about an object, each with one owner, a reason and a sentence.

`lastTransitionTime` moves only when the status flips (upstream refreshed it on every write,
facts/upstream.md#worker-phases). Types and reasons are closed lists of each kind, enums whose members
have a sentence that the reference shows; what is stored is their bare text.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Literal, NewType, Self

import msgspec

from labfleet.kernel.errors import LabfleetError
from labfleet.resources.meta import Record

Status = Literal["True", "False", "Unknown"]


ErrorReason = NewType("ErrorReason", str)
"""The reason of an error as a condition's reason: the closed list of docs/reference/errors.md."""
ANY_ERROR = "any reason of an error"
"""Stands among a condition type's reasons where an error's own reason is recorded."""


class Word(StrEnum):
    """Base of closed lists of words: each has the sentence that the reference shows."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        """Return the member: its text is the word."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.sentence = sentence
        return made


class Reason(Word):
    """Base of the reasons of a kind's conditions."""


class ConditionType(Word):
    """Base of the condition types of a kind; each member lists its reasons too."""

    reasons: tuple[Reason | str, ...]

    def __new__(cls, word: str, sentence: str, *reasons: Reason | str) -> Self:
        """Return the member: its text is the word."""
        made = str.__new__(cls, word)
        made._value_ = word
        made.sentence, made.reasons = sentence, reasons
        return made


def of_error(problem: LabfleetError) -> ErrorReason:
    """Return the reason of an error, to be recorded as that of a condition."""
    return ErrorReason(problem.reason)


class Measured(Record, frozen=True, kw_only=True):
    """A number behind a condition: its unit as a word, the limit that it passed, when it was so.

    value: The number.
    unit: Its unit, as a word.
    limit: The limit that it passed; null where there is none.
    at: When it was so; null means when the condition was written.
    """

    value: float
    unit: str
    limit: float | None = None
    at: datetime | None = None

    def __str__(self) -> str:
        sign = " %" if self.unit == "percent" else f" {self.unit}"
        limit = "" if self.limit is None else f" (limit {_plain(self.limit)}{sign})"
        return f"{_plain(self.value)}{sign}{limit}"


def _plain(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Condition(Record, frozen=True, kw_only=True):
    """One fact: True, False or Unknown, since when, why, in words.

    A number that moves would make an event of each look, so `measured` stays as it was when status
    or message last changed.

    type: Name of the fact.
    status: Whether it holds: True, False or Unknown.
    reason: Word for why it is so.
    message: Sentence for people.
    last_transition_time: When the status last changed.
    observed_generation: Generation of the spec that it was judged by.
    measured: The number that made it so; left out where nothing was measured.
    """

    type: str
    status: Status
    reason: str
    message: str = ""
    last_transition_time: datetime
    observed_generation: int = 0
    measured: Measured | msgspec.UnsetType = msgspec.UNSET


def find(conditions: Iterable[Condition], name: ConditionType) -> Condition | None:
    """Return the condition of this type, or None when nobody has said anything yet."""
    for each in conditions:
        if each.type == name:
            return each
    return None


def is_true(conditions: Iterable[Condition], name: ConditionType) -> bool:
    """Tell whether the fact is known to hold."""
    found = find(conditions, name)
    return found is not None and found.status == "True"


def put(
    conditions: tuple[Condition, ...],
    name: ConditionType,
    status: Status,
    reason: Reason | ErrorReason,
    message: str = "",
    *,
    now: datetime,
    generation: int = 0,
    measured: Measured | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions with this fact recorded; same tuple when nothing changed.

    `measured` counts when status or message changes, and where there was none.
    """
    old = find(conditions, name)
    number: Measured | msgspec.UnsetType = msgspec.UNSET
    if measured is not None:
        number = msgspec.structs.replace(measured, at=now)
    if old is not None and old.status == status:
        if old.message == message and old.measured is not msgspec.UNSET:
            number = old.measured
        known = (old.reason, old.message, old.observed_generation, old.measured)
        if known == (reason, message, generation, number):
            return conditions
        since = old.last_transition_time
    else:
        since = now
    new = Condition(
        type=str(name),
        status=status,
        reason=str(reason),
        message=message,
        last_transition_time=since,
        observed_generation=generation,
        measured=number,
    )
    kept = tuple(each for each in conditions if each.type != name)
    return tuple(sorted((*kept, new), key=_by_type))


def drop(conditions: tuple[Condition, ...], name: ConditionType) -> tuple[Condition, ...]:
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
