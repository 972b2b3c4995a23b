"""The event log: every change of every object, in the order of revisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from labfleet.resources.meta import Key

PAGE_LIMIT = 1000

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Cursor(NamedTuple):
    """A place in the log: the store's epoch and a revision. Text form `epoch.revision`."""

    epoch: str
    revision: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.revision}"

    @staticmethod
    def parse(text: str) -> Cursor:
        """Return the cursor of its text form; ValueError when it is none."""
        epoch, dot, number = text.rpartition(".")
        if not dot or not epoch or not number.isdecimal() or len(text) > 100:
            message = f"{text[:100]!r} is not a cursor (epoch.revision)"
            raise ValueError(message)
        return Cursor(epoch, int(number))


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object: what it became (for DELETED: what it last was), who, why."""

    revision: int
    type: EventType
    key: Key
    uid: str
    doc: bytes
    at: datetime
    actor: str
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in revision order after the asked cursor; `cursor` is where to go on from."""

    events: tuple[Event, ...]
    cursor: Cursor


class EventLog(Protocol):
    """Reads the log; only commits of objects append to it."""

    async def head(self) -> Cursor:
        """Return where the log ends."""
        ...

    async def events(self, after: Cursor, *, limit: int = PAGE_LIMIT) -> EventPage:
        """Return later events; TooOld for a cursor behind the horizon or of another epoch."""
        ...

    async def events_of(
        self, key: Key, *, before: int | None = None, limit: int = PAGE_LIMIT
    ) -> tuple[Event, ...]:
        """Return one object's events, newest first, for people; also those behind the horizon."""
        ...

    async def changed(self, after: int, *, seconds: float) -> None:
        """Return when the log may have grown past the revision, or after machine seconds."""
        ...
