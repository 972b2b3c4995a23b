"""The shared ring of recent events, and the filter by which a client sees some of them.

A `feed.Listener`: each event is decoded once, and encoded once for all clients that see the same of
it, however many they are. A client is an index into the ring; it cannot resume at an event that the
ring has dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.meta import Key, Record, Resource
from labfleet.service.core import access, views
from labfleet.service.core.access import Principal
from labfleet.service.core.views import Sources
from labfleet.service.reads import history

LENGTH = 4096
BYTES = 32 * 2**20


class Message(Record, frozen=True, kw_only=True):
    """One change, as every client of the stream gets it; word and sentence as in its history."""

    type: str
    kind: str
    object: Resource
    revision: int
    at: datetime
    actor: str
    reason: str
    message: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects a client asked for, within what its principal may see; empty means all."""

    principal: Principal
    kinds: frozenset[str] = frozenset()
    namespace: str | None = None
    names: frozenset[str] = frozenset()

    def passes_key(self, kind: str, namespace: str, name: str) -> bool:
        """Judge by the key alone, which costs no decoding."""
        return (
            (not self.kinds or kind in self.kinds)
            and (self.namespace is None or namespace == self.namespace)
            and (not self.names or name in self.names)
            and access.may(self.principal, "read", kind)
        )

    def passes(self, obj: Resource) -> bool:
        """Judge the whole object."""
        return self.passes_key(obj.kind, obj.metadata.namespace, obj.name) and access.sees(
            self.principal, obj
        )


class Entry:
    """One event in the ring; decoded and encoded when the first client needs it."""

    def __init__(
        self, event: stores.Event, epoch: str, reason: str | None = None, message: str = ""
    ) -> None:
        self.event = event
        self._epoch = epoch
        self._reason = event.reason if reason is None else reason
        self._message = message
        self._frames: dict[str, bytes] = {}

    @cached_property
    def object(self) -> Resource | None:
        """Return the typed object, or None when this program cannot read it."""
        try:
            obj: Resource = kinds.decode(self.event.key.kind, self.event.doc, self.event.revision)
        except (ValueError, KeyError):
            return None
        return obj

    def frame(self, sources: Sources, principal: Principal) -> bytes:
        """Return the event as it is sent to a caller."""
        kind = self.event.key.kind
        sight = views.sight(sources, principal, kind)
        made = self._frames.get(sight)
        if made is None:
            obj = self.object
            assert obj is not None  # noqa: S101 - only what passed a filter is encoded
            made = self._frames[sight] = self._encode(views.of(sources, principal, obj))
        return made

    def _encode(self, obj: Resource) -> bytes:
        event = self.event
        message = Message(
            type=event.type,
            kind=event.key.kind,
            object=obj,
            revision=event.revision,
            at=event.at,
            actor=event.actor,
            reason=self._reason,
            message=self._message,
            request_id=event.request_id,
        )
        place = stores.Cursor(self._epoch, event.revision)
        return frame(event.type, msgspec.json.encode(message), place)

    def passes(self, wanted: Filter) -> bool:
        """Tell whether a client gets this event."""
        if not wanted.passes_key(*self.event.key):
            return False
        obj = self.object
        return obj is not None and wanted.passes(obj)


class Ring:
    """The newest events, bounded in number and bytes; wakes the clients that wait for more."""

    def __init__(self, log: stores.EventLog, *, length: int = LENGTH, size: int = BYTES) -> None:
        self._log = log
        self._length = length
        self._limit = size
        self._entries: deque[Entry] = deque()
        # One status for each object that exists and had an event since the reset.
        self._seen: dict[Key, tuple[str, history.Status]] = {}
        self._bytes = 0
        self._wakes: set[Callable[[], None]] = set()
        self._ready = asyncio.Event()
        # The indices of the oldest event and after the newest: plain values, each client asks.
        self.first = self.end = 0
        self.head = stores.Cursor("", 0)
        self.horizon = 0
        self.generation = 0

    @property
    def ready(self) -> bool:
        """Tell whether the ring follows the log."""
        return self._ready.is_set()

    async def reset(self) -> stores.Cursor:
        """Begin at the log's end, with as much of its tail as one page holds (feed.Listener).

        So a client can resume after the server was restarted.
        """
        head = await self._log.head()
        self._entries.clear()
        self.end = self.first
        self._seen.clear()
        self._bytes = 0
        self.generation += 1
        self.horizon = head.revision
        self.head = head
        behind = stores.Cursor(head.epoch, max(0, head.revision - stores.PAGE_LIMIT))
        try:
            page = await self._log.events(behind)
        except errors.TooOld:
            return head
        self.horizon = behind.revision
        for event in page.events:
            self.event(event)
        return page.cursor

    def event(self, event: stores.Event) -> None:
        """Take one event (feed.Listener)."""
        self._entries.append(self._entry(event))
        self.end += 1
        self._bytes += len(event.doc)
        while len(self._entries) > self._length or self._bytes > self._limit:
            gone = self._entries.popleft()
            self._bytes -= len(gone.event.doc)
            self.horizon = gone.event.revision
            self.first += 1

    def _entry(self, event: stores.Event) -> Entry:
        """Return the entry of an event, told by what was seen of its object before."""
        uid, status = self._seen.pop(event.key, ("", None))
        try:
            doc = history.read(event)
        except (ValueError, KeyError):
            return Entry(event, self.head.epoch)  # of another version: no client gets it
        if event.type != "DELETED":
            self._seen[event.key] = (event.uid, doc.status)
        told = history.tell(event, doc, status if uid == event.uid else None)
        return Entry(event, self.head.epoch, told.reason, told.message)

    def caught_up(self, cursor: stores.Cursor) -> None:
        """Wake the clients (feed.Listener)."""
        moved = cursor != self.head or not self._ready.is_set()
        self.head = cursor
        self._ready.set()
        if moved:
            self.wake()

    def wake(self) -> None:
        """Wake the clients: there may be something to send."""
        for wake in tuple(self._wakes):
            wake()

    def after(self, cursor: stores.Cursor) -> int | None:
        """Return the index of the first event after a position; None when that is too old.

        For a position ahead of the ring it is the ring's end: those events are still to come.
        """
        if cursor.epoch != self.head.epoch or cursor.revision < self.horizon:
            return None
        low, high = 0, len(self._entries)
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].event.revision <= cursor.revision:
                low = middle + 1
            else:
                high = middle
        return self.first + low

    def since(self, index: int, limit: int) -> list[Entry] | None:
        """Return up to `limit` events from an index on; None when they were dropped."""
        if index < self.first:
            return None
        start = index - self.first
        count = len(self._entries)
        return [self._entries[at] for at in range(start, min(count, start + limit))]

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever there is more, until `leave`."""
        self._wakes.add(wake)

    def leave(self, wake: Callable[[], None]) -> None:
        """Stop calling."""
        self._wakes.discard(wake)


def frame(name: str, data: bytes, place: stores.Cursor | None = None) -> bytes:
    """Return one server-sent event; JSON has no raw line breaks, so one data line does."""
    at = b"" if place is None else f"id: {place}\n".encode()
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), at, data)
