"""A sleep that somebody else can cut short.

The queue sleeps until the next key is due and wakes when an earlier one arrives; a leader's
watch sleeps until its lease is over and wakes when it is taken away. It holds no state worth
reading: whoever wakes looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Pause = Callable[[float], Awaitable[None]]


class Bell:
    """Wakes everybody who sleeps through it."""

    def __init__(self) -> None:
        self._sleeping: dict[asyncio.Timeout, None] = {}

    async def sleep(self, seconds: float | None, pause: Pause) -> None:
        """Return after `pause(seconds)` or the next `ring`; None waits for the ring only.

        A ring is not remembered: look at the state right before sleeping, with no await
        between the two.
        """
        try:
            # A time-out without a time is the one primitive that wakes a sleeper without a
            # second task; `ring` sets its time to now.
            async with asyncio.timeout(None) as patience:
                self._sleeping[patience] = None
                try:
                    if seconds is None:
                        await asyncio.Event().wait()
                    else:
                        await pause(seconds)
                finally:
                    self._sleeping.pop(patience, None)
        except TimeoutError:
            return

    def ring(self) -> None:
        """Wake all who sleep now."""
        if not self._sleeping:
            return
        sleeping, self._sleeping = self._sleeping, {}
        now = asyncio.get_running_loop().time()
        for patience in sleeping:
            patience.reschedule(now)
