"""One open event stream: the head, waiting and waking, heartbeats, the three ways it ends.

The subclasses in `stream` and `compat_stream` decide what is sent. Nothing is queued here; a
client that reads nothing for half a minute is disconnected.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from labfleet.kernel import errors
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.tokens import HeldToken

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SEND_SECONDS = 30.0
CHECK_SECONDS = 15.0
"""How long a token that another process revoked may go on reading (machine time)."""
EARLY_SECONDS = 0.002
"""A timer may ring so much before its instant."""
LIMIT, RESERVE = 2000, 100
"""Streams of one process, and how many of them only operators and admins may open."""
PER_TOKEN = 50
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_RUNS_THE_FLEET = frozenset({Role.ADMIN, Role.OPERATOR})


class OpenStreams:
    """All open streams of a process, of every kind."""

    def __init__(
        self, *, limit: int = LIMIT, reserve: int = RESERVE, per_token: int = PER_TOKEN
    ) -> None:
        self._limit = limit
        self._reserve = min(reserve, limit // 2)
        self._per_token = per_token
        self._open: set[OpenStream] = set()
        self._of: Counter[str] = Counter()
        self._closing = False

    @property
    def clients(self) -> int:
        """Return how many clients are connected, for metrics."""
        return len(self._open)

    def shutdown(self) -> None:
        """Tell every client that the server ends, and let them go."""
        self._closing = True
        for client in self._open:
            client.end()

    async def serve(
        self, make: Callable[[], OpenStream], token: HeldToken, receive: Receive
    ) -> None:
        """Serve one client until it disconnects, the server ends or its token does.

        Raises Temporary or Throttled before anything was sent: the server is full or ends, or
        this token has as many streams as one may have.
        """
        who = token.principal
        self._judge(who)
        client = make()
        self._open.add(client)
        self._of[who.id] += 1
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(client.disconnected(receive))
                await client.begin()
                await client.run()
                watch.cancel()
        finally:
            client.close()
            self._open.discard(client)
            self._of[who.id] -= 1
            if not self._of[who.id]:
                del self._of[who.id]

    def _judge(self, who: Principal) -> None:
        if self._closing:
            raise errors.Temporary("the server ends", reason="TooManyStreams", retry_after=2)
        if self._of[who.id] >= self._per_token:
            message = f"this token has {self._per_token} streams open, as many as one may have"
            raise errors.Throttled(message, reason="TooManyStreamsOfToken", retry_after=5)
        kept = 0 if who.role in _RUNS_THE_FLEET else self._reserve
        if len(self._open) >= self._limit - kept:
            message = "too many streams are open here"
            raise errors.Temporary(message, reason="TooManyStreams", retry_after=2)


class OpenStream(ABC):
    """One client; `heartbeat` in machine seconds."""

    __slots__ = (
        "_beat_at",
        "_beat_due",
        "_check_at",
        "_check_due",
        "_ending",
        "_gone",
        "_heartbeat_seconds",
        "_over",
        "_send",
        "_timer",
        "_token",
        "_waiting",
    )

    def __init__(self, send: Send, token: HeldToken, *, heartbeat: float) -> None:
        self._send = send
        self._token = token
        self._heartbeat_seconds = heartbeat
        self._gone = False
        self._over = False
        self._ending = False
        self._beat_due = False
        self._check_due = False
        self._waiting: asyncio.Future[None] | None = None
        now = asyncio.get_running_loop().time()
        self._beat_at, self._check_at = now + heartbeat, now + CHECK_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    # --- what each stream overrides ------------------------------------------------------------

    @abstractmethod
    async def _more(self) -> bool:
        """Send what there is; return whether more may be ready already."""

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

    def end(self) -> None:
        """Say farewell and end: the server does."""
        self._ending = True
        self.wake()

    def close(self) -> None:
        """Drop the timer."""
        self._disarm()

    async def begin(self) -> None:
        """Send what every client gets first."""
        await self.head()

    async def head(self) -> None:
        """Send the response's head."""
        await self._bounded({"type": "http.response.start", "status": 200, "headers": HEADERS})

    async def run(self) -> None:
        """Send until the client is gone or the stream ends."""
        while not (self._gone or self._over):
            if self._token.ended() or (self._check_due and not await self._still_valid()):
                await self._raw(self._expired())
                break
            if self._ending:
                await self._write(self._farewell())
                break
            if self._beat_due:
                await self._heartbeat()
            if await self._more() or self._interrupted():
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

    def _interrupted(self) -> bool:
        """Tell whether something came while frames were sent, when nobody could be woken."""
        due = self._beat_due or self._check_due
        return due or self._gone or self._ending or self._token.ended()

    async def _still_valid(self) -> bool:
        self._check_due = False
        self._check_at = asyncio.get_running_loop().time() + CHECK_SECONDS
        self._arm()
        try:
            await self._token.check()
        except errors.Denied:
            return False
        except errors.Temporary:
            pass  # the store is unavailable for a moment; the token was valid one check ago
        return True

    async def _heartbeat(self) -> None:
        self._beat_due = False
        self._beat_at = asyncio.get_running_loop().time() + self._heartbeat_seconds
        self._arm()
        await self._write(self._alive())

    def _arm(self) -> None:
        """Set the one timer to what is due next and is not due yet."""
        ahead = [
            at
            for at, due in ((self._beat_at, self._beat_due), (self._check_at, self._check_due))
            if not due
        ]
        self._disarm()
        if ahead:
            self._timer = asyncio.get_running_loop().call_at(min(ahead), self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time() + EARLY_SECONDS
        self._beat_due = self._beat_due or self._beat_at <= now
        self._check_due = self._check_due or self._check_at <= now
        self._arm()
        self.wake()

    async def _write(self, body: bytes) -> None:
        """Send a frame, unless it is known that the token is no longer valid."""
        if not self._token.ended():
            await self._raw(body)

    async def _raw(self, body: bytes) -> None:
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
