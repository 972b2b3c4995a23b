"""What an object's events say: a word why, and a sentence that belongs to this change. Pure.

A person's verb records its name (`CancelAsked`), a controller the sentence of its step; the status
in the event may still hold the sentence of an earlier one. Here the two are told apart, for the log
of any release, so that no list shows the last step's sentence beside the next step's cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.meta import Key

_WORDED = re.compile(r"([A-Z][A-Za-z0-9]*)(?:: (.*))?", re.DOTALL)
"""`Cordoned`, or `PoolPaused: three workers were lost`."""
_OF_SETTINGS = "Settings"
"""Their events say `Changed idle.enabled: false -> true (why)`: always a word first."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event with its phase, the word for why it came, and its sentence, which may be empty."""

    event: stores.Event
    phase: str | None
    reason: str
    message: str


class Status(msgspec.Struct):
    """What a status says in words."""

    phase: str | None = None
    message: str = ""
    reason: str = ""


class _Wish(msgspec.Struct):
    reason: str = ""


class _Spec(msgspec.Struct):
    cancel: _Wish | None = None
    drain: _Wish | None = None


class Doc(msgspec.Struct):
    """The part of an object from which its events are told."""

    status: Status = msgspec.field(default_factory=Status)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(Doc).decode


def told(found: Sequence[stores.Event], *, older: stores.Event | None = None) -> Iterator[Told]:
    """Yield the events in their order, newest first; `older` is the one before the last of them.

    They may be of many objects: what an event changed is judged by the one before it of its object.
    """
    before: dict[tuple[Key, str], Status] = {}
    seen = [] if older is None else [older]
    rows: list[Told] = []
    for event in (*seen, *reversed(found)):
        doc = read(event)
        rows.append(tell(event, doc, before.get((event.key, event.uid))))
        before[event.key, event.uid] = doc.status
    yield from reversed(rows[len(seen) :])


def read(event: stores.Event) -> Doc:
    """Return what of an event's object a sentence is made of; ValueError when it has another form."""
    return _decode(kinds.present(event.key.kind, event.doc))


def tell(event: stores.Event, doc: Doc, before: Status | None) -> Told:
    """Return what one event says; `before` is its object's status before it, None if unknown."""
    reason, message = _told(event, doc.status, before)
    asked = _asked(doc.spec, reason)
    return Told(event, doc.status.phase, reason, asked or message)


def _told(event: stores.Event, now: Status, before: Status | None) -> tuple[str, str]:
    said = "" if event.reason == now.phase else event.reason
    worded = _WORDED.fullmatch(said)
    if worded is not None:
        return worded[1], worded[2] or _news(event, now, before)
    if event.key.kind == _OF_SETTINGS and said:
        # Programs read old and new values there: the reason stays whole, after its word.
        return said, said.partition(" ")[2]
    return _word(event, now, before), said or _news(event, now, before)


def _asked(spec: _Spec, reason: str) -> str:
    """Return the words of whoever asked for a session's or a worker's end, if any."""
    wish = {"CancelAsked": spec.cancel, "DrainAsked": spec.drain}.get(reason)
    return "" if wish is None else wish.reason


def _news(event: stores.Event, now: Status, before: Status | None) -> str:
    """Return the status's sentence if this event brought it."""
    if before is None:
        return now.message if event.type == "ADDED" else ""
    return now.message if now.message != before.message else ""


def _word(event: stores.Event, now: Status, before: Status | None) -> str:
    """Return the word for a change whose cause is a sentence."""
    if event.type != "MODIFIED":
        return "Created" if event.type == "ADDED" else "Removed"
    moved = before is not None and before.phase != now.phase
    if now.reason and (before is None or moved or before.reason != now.reason):
        return now.reason
    return "PhaseChanged" if moved else "StatusChanged"
