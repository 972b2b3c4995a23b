"""A sleep that another task can cut short.

The queue sleeps until the next key is due and wakes when an earlier one arrives; a leader sleeps
until its lease is over and wakes when leadership is lost. The reason for waking is not told:
whoever wakes reads the state again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Pause = Callable[[float], Awaitable[None]]


class Wakeup:
    """Wakes every task that sleeps in its `sleep`."""

    def __init__(self) -> None:
        self._sleeping: dict[asyncio.Timeout, None] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}

    async def sleep(self, seconds: float | None, pause: Pause) -> None:
        """Return after `pause(seconds)` or the next `wake`; with None only after a `wake`.

        A `wake` before the sleep has no effect: check the state right before sleeping, with no
        await between the two.
        """
        if seconds is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[waiter] = None
            try:
                await waiter
            finally:
                self._waiting.pop(waiter, None)
            return
        try:
            # A time-out without a time is the one primitive that cuts a sleep short without
            # a second task; `wake` sets its time to now.
            async with asyncio.timeout(None) as patience:
                self._sleeping[patience] = None
                try:
                    await pause(seconds)
                finally:
                    self._sleeping.pop(patience, None)
        except TimeoutError:
            return

    def wake(self) -> None:
        """Wake all who sleep now."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)
        if self._sleeping:
            sleeping, self._sleeping = self._sleeping, {}
            now = asyncio.get_running_loop().time()
            for patience in sleeping:
                patience.reschedule(now)
