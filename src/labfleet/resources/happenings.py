"""How a list of events is read: what repeats is one row, and each row has a word and a sentence.

Pure, and shared by the command line and the pages; `web/static/events.js` folds what comes later by
the same rule. Which word and which sentence an event has is said in `service/reads/history`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from labfleet.kernel.clock import utc_text

T = TypeVar("T")
_NOTHING_NEW = "StatusChanged"
NAMED_BEFORE = "another object had this name before"


@dataclass(frozen=True, slots=True)
class Said:
    """What an event says of whom; `object` is the identity of the object, not its name."""

    object: str
    type: str
    phase: str | None
    actor: str
    reason: str
    message: str


def folded(events: Iterable[T], said: Callable[[T], Said]) -> list[list[T]]:
    """Return runs of events that tell the same, such as the steps of a controller that waits.

    `events` are oldest first, and of any number of objects; so is each run. The runs stand in the
    order of their last events: an object's run goes on past what happens to others.
    """
    runs: dict[int, list[T]] = {}
    latest: dict[str, int] = {}
    for number, event in enumerate(events):
        told = said(event)
        before = latest.get(told.object)
        run = [] if before is None else runs[before]
        if before is not None and not _adds(said(run[0]), told):
            runs.pop(before)
        else:
            run = []
        run.append(event)
        runs[number] = run
        latest[told.object] = number
    return list(runs.values())


def _adds(first: Said, event: Said) -> bool:
    """Tell whether an event says anything that the first of its run has not said."""
    same = (first.type, first.phase, first.actor) == (event.type, event.phase, event.actor)
    if not same or (event.message and event.message != first.message):
        return True
    return event.reason not in {first.reason, _NOTHING_NEW}


def worded(reason: str, message: str) -> tuple[str, str]:
    """Return the word and the sentence of a row, neither of which repeats the other."""
    if message and reason.endswith(f" {message}"):
        reason = reason.partition(" ")[0]  # settings repeat their word and what follows it
    return reason, "" if message == reason else message


def with_count(message: str, count: int, since: datetime | None) -> str:
    """Return a row's sentence with how often it was said, and since when, if more than once."""
    if count < 2:
        return message
    begun = "" if since is None else f" since {utc_text(since, seconds=True)}"
    return f"{message} ({count} times{begun})".lstrip()
