"""The newest events that this process has committed itself, so that nobody reads them back.

Whoever follows the log here is told of a commit a moment after it: what it wrote is still in
memory. Only what stands there without a gap is given: a commit of another process lies between.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from labfleet.interfaces import store
from labfleet.resources.meta import Key
from labfleet.stores.instants import from_micros
from labfleet.stores.rules import EventRow

LENGTH = 2 * store.PAGE_LIMIT
"""Events kept; whoever is further behind reads the database."""
BYTES = 8 * 2**20
"""Bytes of their documents, at most."""


class RecentEvents:
    """A run of events with neighbouring revisions; written in one thread, read in another."""

    def __init__(self, *, length: int = LENGTH, size: int = BYTES) -> None:
        self._length = length
        self._size = size
        self._lock = threading.Lock()
        self._rows: list[EventRow] = []
        self._bytes = 0
        self.newest = 0
        """The revision of the last event that was added."""

    def add(self, rows: Sequence[EventRow]) -> None:
        """Keep the events of a batch that is durable, in order."""
        if not rows:
            return
        with self._lock:
            if self._rows and rows[0][0] != self._rows[-1][0] + 1:
                # Another process has written between: from here on there is no gap again.
                self._rows, self._bytes = [], 0
            self._rows += rows
            self.newest = rows[-1][0]
            self._bytes += sum(len(row[6]) for row in rows)
            if len(self._rows) > self._length or self._bytes > self._size:
                self._shorten()

    def _shorten(self) -> None:
        """Drop the older half or more, so that it is rarely done."""
        keep, size = 0, 0
        for row in reversed(self._rows):
            size += len(row[6])
            if keep >= self._length // 2 or size > self._size // 2:
                break
            keep += 1
        self._rows = self._rows[len(self._rows) - keep :]
        self._bytes = sum(len(row[6]) for row in self._rows)

    def forget(self) -> None:
        """Keep nothing: the log ends elsewhere now."""
        with self._lock:
            self._rows, self._bytes = [], 0

    def after(self, revision: int, limit: int) -> tuple[store.Event, ...]:
        """Return up to `limit` events from the one after a revision on; none when it is not here."""
        with self._lock:
            start = revision + 1 - self._rows[0][0] if self._rows else -1
            rows = self._rows[start : start + limit] if start >= 0 else []
        return tuple([_event(row) for row in rows])


def _event(row: EventRow) -> store.Event:
    revision, kind, namespace, name, uid, type_, doc, at, actor, request_id, reason, _ = row
    return store.Event(
        revision,
        type_,  # type: ignore[arg-type]  # one of the three, as `rules` makes it
        Key(kind, namespace, name),
        uid,
        doc,
        from_micros(at),
        actor,
        request_id,
        reason,
    )
