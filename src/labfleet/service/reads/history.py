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

_WORDED = re.compile(r"([A-Z][A-Za-z0-9]*)(?:: (.*))?", re.DOTALL)
"""`Cordoned`, or `PoolPaused: three workers were lost`."""
_OF_SETTINGS = "Settings"
"""Their events say `Changed idle.enabled: false -> true (why)`: always a word first."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event with its phase, the word for why it came, and its sentence, which may be empty."""

    event: stores.Event
    doc: bytes
    phase: str | None
    reason: str
    message: str


class _Status(msgspec.Struct):
    phase: str | None = None
    message: str = ""
    reason: str = ""


class _Wish(msgspec.Struct):
    reason: str = ""


class _Spec(msgspec.Struct):
    cancel: _Wish | None = None
    drain: _Wish | None = None


class _Doc(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Doc).decode


def told(found: Sequence[stores.Event], *, older: stores.Event | None = None) -> Iterator[Told]:
    """Yield the events in their order, newest first; `older` is the one before the last of them."""
    events = [*found] if older is None else [*found, older]
    docs = [kinds.shown(each.key.kind, each.doc, each.revision) for each in events]
    read = [_decode(doc) for doc in docs]
    seen = [each.status for each in read]
    for at, event in enumerate(found):
        before = None
        if at + 1 < len(events) and events[at + 1].uid == event.uid:
            before = seen[at + 1]
        reason, message = _told(event, seen[at], before)
        asked = _asked(read[at].spec, reason)
        yield Told(event, docs[at], seen[at].phase, reason, asked or message)


def _told(event: stores.Event, now: _Status, before: _Status | None) -> tuple[str, str]:
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


def _news(event: stores.Event, now: _Status, before: _Status | None) -> str:
    """Return the status's sentence if this event brought it."""
    if before is None:
        return now.message if event.type == "ADDED" else ""
    return now.message if now.message != before.message else ""


def _word(event: stores.Event, now: _Status, before: _Status | None) -> str:
    """Return the word for a change whose cause is a sentence."""
    if event.type != "MODIFIED":
        return "Created" if event.type == "ADDED" else "Removed"
    moved = before is not None and before.phase != now.phase
    if now.reason and (before is None or moved or before.reason != now.reason):
        return now.reason
    return "PhaseChanged" if moved else "StatusChanged"
