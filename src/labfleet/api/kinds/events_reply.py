"""An object's history in the API's format: who, when, why, and the phase it led to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Record
from labfleet.service.reads import history

SMALL = 64 * 1024


class EventReply(Record, frozen=True, kw_only=True):
    """One change: `reason` is a word, `message` the sentence of this change, empty without one.

    `phase` is the one it led to, `uid` tells apart objects that had this name one after the other,
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
    uid: str = ""
    object: Any = None


class EventsReply(Record, frozen=True, kw_only=True):
    """Changes, newest first; `next` is `before` of the next page."""

    items: tuple[EventReply, ...]
    next: int | None = None


def events_reply(
    found: Sequence[stores.Event], limit: int, *, older: stores.Event | None = None
) -> EventsReply:
    """Return a page of events in the API's format; `older` is the event before its last."""
    items = tuple(_item(each) for each in history.told(found, older=older))
    return EventsReply(items=items, next=items[-1].revision if len(items) == limit else None)


def _item(told: history.Told) -> EventReply:
    event = told.event
    return EventReply(
        revision=event.revision,
        type=event.type,
        kind=event.key.kind,
        namespace=event.key.namespace,
        name=event.key.name,
        at=event.at,
        actor=event.actor,
        reason=told.reason,
        request_id=event.request_id,
        phase=told.phase,
        message=told.message,
        uid=event.uid,
        object=msgspec.Raw(told.doc) if len(told.doc) <= SMALL else None,
    )
