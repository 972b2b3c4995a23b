"""One reader of the event log per process, and who listens to it.

Listeners get events in revision order, each exactly once, then `caught_up`. When the position
is too old they get `reset` and list again. The feed polls underneath; the store's wake-up only
saves latency.
"""

from __future__ import annotations

from typing import Protocol

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock

POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0


class Listener(Protocol):
    """What wants to hear of every change."""

    async def reset(self) -> stores.Cursor:
        """List again and return the place the list is true at."""
        ...

    def event(self, event: stores.Event) -> None:
        """Take one event; must not block and must not raise."""
        ...

    def caught_up(self, cursor: stores.Cursor) -> None:
        """Learn that every event up to the cursor was delivered."""
        ...


class Feed:
    """Tails the log for one listener; run as many feeds as there are listeners."""

    def __init__(self, store: stores.Store, listener: Listener, clock: Clock) -> None:
        self._store = store
        self._listener = listener
        self._clock = clock

    async def run(self) -> None:
        """Follow the log until cancelled."""
        cursor: stores.Cursor | None = None
        while True:
            try:
                if cursor is None:
                    cursor = await self._listener.reset()
                    self._listener.caught_up(cursor)
                cursor = await self._drain(cursor)
                await self._store.changed(cursor.revision, seconds=POLL_SECONDS)
            except errors.TooOld:
                cursor = None
            except errors.LabfleetError:
                await self._clock.sleep(RETRY_SECONDS)

    async def _drain(self, cursor: stores.Cursor) -> stores.Cursor:
        while True:
            page = await self._store.events(cursor)
            for event in page.events:
                self._listener.event(event)
            self._listener.caught_up(page.cursor)
            if len(page.events) < stores.PAGE_LIMIT:
                return page.cursor
            cursor = page.cursor
