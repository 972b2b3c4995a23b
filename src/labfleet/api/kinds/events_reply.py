"""An object's history in the API's format: who, when, why, and the phase it led to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from labfleet.interfaces import store as stores
from labfleet.resources.meta import Record
from labfleet.service.core import views
from labfleet.service.core.access import Principal
from labfleet.service.reads import history

SMALL = 64 * 1024


class EventReply(Record, frozen=True, kw_only=True):
    """One change: `reason` is a word, `message` the sentence of this change, empty without one.

    revision: Revision of the store at which it happened.
    type: Whether the object was ADDED, MODIFIED or DELETED.
    kind: Kind of the object.
    namespace: Namespace of the object.
    name: Name of the object.
    at: When it happened (fleet time).
    actor: Who did it: a person's token, or a controller.
    reason: Word for why.
    request_id: Id of the request that did it; empty for a controller's step.
    phase: Phase that it led to; null for a kind without phases.
    message: Sentence of this change; empty without one.
    uid: Identity of the object, for a name may be given again.
    object: The whole form that it led to; null when that is large.
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
    """Changes, newest first; `next` is `before` of the next page.

    items: The changes.
    next: Value of `before` for the next page; null when this is the last.
    """

    items: tuple[EventReply, ...]
    next: int | None = None


def events_reply(
    principal: Principal,
    found: Sequence[stores.Event],
    limit: int,
    *,
    older: stores.Event | None = None,
) -> EventsReply:
    """Return a page of events as a caller may read them; `older` is the event before its last."""
    items = tuple(_item(principal, each) for each in history.told(found, older=older))
    return EventsReply(items=items, next=items[-1].revision if len(items) == limit else None)


def _item(principal: Principal, told: history.Told) -> EventReply:
    event = told.event
    doc = views.past(principal, event.key.kind, event.doc, event.revision)
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
        object=msgspec.Raw(doc) if doc is not None and len(doc) <= SMALL else None,
    )
