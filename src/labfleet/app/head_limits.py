"""Limits the heads of requests in bytes and seconds, and connections, which uvicorn does not.

A client without a token could otherwise send headers for ever, or open connections and say
nothing. Bodies are bounded in `api.front`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which ends connections whose request head is too long or too slow.

    A head may exceed the limit by the size of the last read. One connection more than `most` is
    ended at once, and `full` is called.
    """

    most: ClassVar[int] = 2**31
    full: ClassVar[Callable[[], None]] = staticmethod(lambda: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            type(self).full()
            transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to a head, and refuse one that is too long."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # What comes after an early answer (401, 413) ends uvicorn's time-out for idle connections.
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        answered = cycle is not None and cycle.response_complete
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self.transport.write(_REFUSAL)
            self.transport.close()
        elif self._head_timer is None and (self._head_bytes or answered):
            self._wait()

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self.head_ended()
        if self.parser.should_upgrade() and self._has_body():
            # httptools would read its body as the next request; uvicorn answers this with 400.
            raise ValueError("a body cannot follow an upgrade")
        super().on_headers_complete()

    def _has_body(self) -> bool:
        given = dict(self.headers)
        return b"transfer-encoding" in given or given.get(b"content-length", b"0") != b"0"

    def on_message_complete(self) -> None:
        """Expect the next head; while the connection is idle uvicorn's own time-out counts."""
        self.expect_head()
        super().on_message_complete()

    def head_ended(self) -> None:
        """Count and wait no longer: the head is there."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()

    def expect_head(self) -> None:
        """Count the next bytes as those of a head."""
        self._in_head = True
        self._head_bytes = 0

    def _wait(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
