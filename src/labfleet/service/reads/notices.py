"""What the owner of an object was told of it: read from its events, by the rule that webhooks use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.meta import Resource
from labfleet.resources.notice import Notice
from labfleet.service.core import event_types


@dataclass(frozen=True, slots=True)
class ToldNotice:
    """One notice, and when it was due."""

    at: datetime
    notice: Notice


def told(events: Iterable[stores.Event], *, uid: str) -> tuple[ToldNotice, ...]:
    """Return the notices of one object's events, which come oldest first; so do the notices.

    Of the first event nothing is known to compare it with, unless it made the object.
    """
    found: list[ToldNotice] = []
    old: Resource | None = None
    for event in events:
        if event.uid != uid or event.type == "DELETED":
            continue
        try:
            new = kinds.decode(event.key.kind, event.doc, event.revision)
        except ValueError:
            old = None  # another version has written it in a form that this one cannot read
            continue
        if old is not None or event.type == "ADDED":
            found += (ToldNotice(event.at, each) for _, each in event_types.notices(old, new))
        old = new
    return tuple(found)
