"""One open event stream: the head, waiting and waking, heartbeats, the three ways it ends.

The subclasses in `stream` and `compat_stream` decide what is sent. Nothing is queued here; a
client that reads nothing for half a minute is disconnected.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from labfleet.api.core.served import Again
from labfleet.kernel import errors

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SEND_SECONDS = 30.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class OpenStream(ABC):
    """One client. `again` repeats the authentication at each heartbeat (machine seconds apart)."""

    def __init__(self, send: Send, again: Again, *, heartbeat: float) -> None:
        self._send = send
        self._again = again
        self._heartbeat_seconds = heartbeat
        self._gone = False
        self._over = False
        self._due = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(heartbeat, self._beat)

    # --- what each stream overrides ------------------------------------------------------------

    @abstractmethod
    async def _more(self) -> bool:
        """Send what there is; return whether more may be ready already."""

    @abstractmethod
    def _ending(self) -> bool:
        """Tell whether the server ends."""

    @abstractmethod
    def _farewell(self) -> bytes:
        """Return the event that is sent before an orderly end."""

    @abstractmethod
    def _expired(self) -> bytes:
        """Return the event that is sent when the token has expired."""

    @abstractmethod
    def _alive(self) -> bytes:
        """Return the heartbeat; nothing when this client wants none."""

    # --- the life of a stream ----------------------------------------------------------------

    def wake(self) -> None:
        """Look again: more events, the end, or a heartbeat."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Drop the timer."""
        self._timer.cancel()

    async def head(self) -> None:
        """Send the response's head."""
        await self._bounded({"type": "http.response.start", "status": 200, "headers": HEADERS})

    async def run(self) -> None:
        """Send until the client is gone or the stream ends."""
        while not (self._gone or self._over):
            if self._ending():
                await self._write(self._farewell())
                break
            if self._due and not await self._heartbeat():
                break
            if await self._more() or self._ending():
                continue
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
            self._waiting = None
        if not self._gone:
            await self._bounded({"type": "http.response.body", "body": b"", "more_body": False})

    async def disconnected(self, receive: Receive) -> None:
        """Notice that the client went away."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                self.wake()
                return

    async def _heartbeat(self) -> bool:
        self._due = False
        self._timer = asyncio.get_running_loop().call_later(self._heartbeat_seconds, self._beat)
        try:
            await self._again()
        except errors.Denied:
            await self._write(self._expired())
            return False
        except errors.Temporary:
            pass  # the store is unavailable for a moment; the token was valid one heartbeat ago
        await self._write(self._alive())
        return True

    def _beat(self) -> None:
        self._due = True
        self.wake()

    async def _write(self, body: bytes) -> None:
        if body:
            await self._bounded({"type": "http.response.body", "body": body, "more_body": True})

    async def _bounded(self, message: dict[str, Any]) -> None:
        """Send, and disconnect a client that reads nothing for half a minute."""
        if self._gone:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(message)
        except (TimeoutError, OSError):
            self._gone = True
