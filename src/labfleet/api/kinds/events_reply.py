"""An object's history in the API's format: who, when, why, and the phase it led to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.meta import Record

SMALL = 64 * 1024


class EventReply(Record, frozen=True, kw_only=True):
    """One change; `phase` and `message` are those of the status it led to.

    `object` is the whole form it led to, when that is small.
    """

    revision: int
    type: str
    kind: str
    namespace: str
    name: str
    at: datetime
    actor: str
    reason: str
    request_id: str
    phase: str | None = None
    message: str = ""
    object: Any = None


class EventsReply(Record, frozen=True, kw_only=True):
    """Changes, newest first; `next` is `before` of the next page."""

    items: tuple[EventReply, ...]
    next: int | None = None


class _Status(msgspec.Struct):
    phase: str | None = None
    message: str = ""


class _Doc(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Doc).decode


def events_reply(found: Sequence[stores.Event], limit: int) -> EventsReply:
    """Return a page of events in the API's format."""
    items = tuple(_item(event) for event in found)
    return EventsReply(items=items, next=items[-1].revision if len(items) == limit else None)


def _item(event: stores.Event) -> EventReply:
    doc = kinds.present(event.key.kind, event.doc)
    status = _decode(doc).status
    return EventReply(
        revision=event.revision,
        type=event.type,
        kind=event.key.kind,
        namespace=event.key.namespace,
        name=event.key.name,
        at=event.at,
        actor=event.actor,
        reason=event.reason,
        request_id=event.request_id,
        phase=status.phase,
        message=status.message,
        object=msgspec.Raw(doc) if len(doc) <= SMALL else None,
    )
