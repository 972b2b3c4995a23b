"""Reads the event log and passes each event to a listener.

A listener gets events in revision order, each exactly once, then `caught_up`. When the position
is too old it gets `reset` and lists again. The feed polls; a notification of the store only
saves latency.

A feed that lists again every `relist` fleet seconds repairs a listener that lost events, so a
store that delivers no events costs only latency. Caches use that; a stream to clients does not,
because there listing again means a resync for every client.
"""

from __future__ import annotations

import math
from typing import Protocol

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock

# Machine seconds.
POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0
# Fleet seconds.
RELIST_SECONDS = 1800.0


class Listener(Protocol):
    """Is told of every change."""

    async def reset(self) -> stores.Cursor:
        """List again and return the cursor at which the list is true."""
        ...

    def event(self, event: stores.Event) -> None:
        """Process one event; must not block and must not raise."""
        ...

    def caught_up(self, cursor: stores.Cursor) -> None:
        """Note that every event up to the cursor was delivered."""
        ...


class Feed:
    """Tails the log for one listener; run as many feeds as there are listeners."""

    def __init__(
        self,
        log: stores.EventLog,
        listener: Listener,
        clock: Clock,
        *,
        relist: float | None = None,
    ) -> None:
        self._log = log
        self._listener = listener
        self._clock = clock
        self._relist = relist
        self._relist_at = math.inf
        self._cursor: stores.Cursor | None = None

    async def run(self) -> None:
        """Follow the log until cancelled."""
        # A feed that is started again after its listener failed does not know what was lost.
        self._cursor = None
        while True:
            try:
                await self._follow()
            except errors.TooOld:
                if self._cursor is None:  # overtaken while listing
                    await self._rest()
                self._cursor = None
            except errors.LabfleetError:
                await self._rest()

    async def _follow(self) -> None:
        while True:
            if self._cursor is None or self._clock.monotonic() >= self._relist_at:
                self._cursor = await self._listener.reset()
                if self._relist is not None:
                    self._relist_at = self._clock.monotonic() + self._relist
                self._listener.caught_up(self._cursor)
            reached = await self._drain(self._cursor)
            await self._log.changed(reached.revision, seconds=POLL_SECONDS)

    async def _drain(self, cursor: stores.Cursor) -> stores.Cursor:
        """Deliver all present events; saves the cursor after each page, so none comes twice."""
        while True:
            page = await self._log.events(cursor)
            for event in page.events:
                self._listener.event(event)
            self._cursor = cursor = page.cursor
            self._listener.caught_up(cursor)
            if len(page.events) < stores.PAGE_LIMIT:
                return cursor

    async def _rest(self) -> None:
        await self._clock.sleep(RETRY_SECONDS * self._clock.rate)
