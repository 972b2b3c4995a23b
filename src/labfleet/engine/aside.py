"""CPU work that would hold up the loop: in one thread of its own, one piece at a time.

One caller's large text must not stop streams, leases and everybody else. One thread, because
Python runs one at a time anyway: with several, the loop would get its turn more rarely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from labfleet.kernel import errors

LARGE = 64 * 1024
"""Bytes from which on a text is worth a thread; less takes a few milliseconds."""
WAITING = 8
"""How many pieces may wait; each holds its text in memory."""

T = TypeVar("T")


class Aside(Protocol):
    """Runs work on a text of so many bytes where it holds up nobody."""

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what the work returns, or raise what it raises."""
        ...


class Here:
    """Runs work at once, where nobody waits meanwhile: virtual time, tests."""

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what the work returns."""
        del size
        return work()


class OneThread:
    """Runs small work at once, and large work one after the other in a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
        self._waiting = 0

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Return what the work returns; Temporary (reason Busy) when too many wait.

        A caller who goes away leaves its work running: a thread cannot be stopped, and the next
        work waits for it.
        """
        if size <= LARGE:
            return work()
        if self._waiting >= WAITING:
            message = f"{WAITING} large bodies are being read already; send this one again"
            raise errors.Temporary(message, reason="Busy", retry_after=2)
        self._waiting += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, work)
        done.add_done_callback(self._left)
        return await asyncio.shield(done)

    def _left(self, _: asyncio.Future[T]) -> None:
        self._waiting -= 1
