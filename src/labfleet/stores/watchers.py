"""Wakes those who wait for the log to grow. Knows the newest revision seen, and no database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from labfleet.interfaces import store
from labfleet.kernel import errors


class Watchers:
    """The waiting tasks of one store in one event loop."""

    def __init__(self, head: int) -> None:
        self._head = head
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._closed = False

    def advance(self, revision: int) -> None:
        """Note that the log reaches this revision."""
        if revision > self._head:
            self._head = revision
            self._wake()

    def close(self) -> None:
        """Wake every waiting task; later waits return at once."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def wait(
        self,
        after: int,
        *,
        seconds: float,
        poll: float | None,
        look: Callable[[], Awaitable[store.Cursor]],
    ) -> None:
        """Return when the log may reach past `after`, at the latest after these seconds.

        Every `poll` seconds `look` asks the database, since other processes write too and a
        wake-up may be lost on the way.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._head <= after and not self._closed and (left := end - loop.time()) > 0:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting[future] = None
            try:
                async with asyncio.timeout(left if poll is None else min(poll, left)):
                    await future
            except TimeoutError:
                if poll is not None:
                    await self._look(look)
            finally:
                self._waiting.pop(future, None)

    async def _look(self, look: Callable[[], Awaitable[store.Cursor]]) -> None:
        try:
            self.advance((await look()).revision)
        except errors.Temporary:
            return  # not reported here: the next read raises the error
