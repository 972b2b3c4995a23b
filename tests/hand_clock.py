"""The clock of tests without a loop in virtual time: the rehearsal's, moved by hand.

Tests that play hours run in a virtual loop and take `rehearsal.time.virtual_host.Clock` as it is.
"""

from __future__ import annotations

import asyncio
import heapq
from datetime import datetime, timedelta

from labfleet.rehearsal.time.virtual_host import EPOCH, VirtualClock

START = EPOCH + timedelta(hours=9)


class HandClock(VirtualClock):
    """Time that stands until a test moves it; serves as fleet clock and as machine time.

    Who sleeps waits for `advance`; with `sleep_moves`, a sleep itself moves the time.
    """

    def __init__(self, rate: float = 1.0, *, sleep_moves: bool = False) -> None:
        super().__init__((START - EPOCH).total_seconds(), rate, lambda: self._time)
        self._time = 0.0
        self._sleep_moves = sleep_moves
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def instant(self) -> datetime:
        """Return the instant; setting it wakes nobody."""
        return self.now()

    @instant.setter
    def instant(self, at: datetime) -> None:
        self._time = (at - START).total_seconds()

    def forward(self, seconds: float) -> None:
        """Move the time; wakes nobody."""
        self._time += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until the time was moved so far, or move it."""
        if self._sleep_moves:
            self._time += seconds
        if seconds <= 0 or self._sleep_moves:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (self._time + seconds, self._order, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Wake each sleeper at its own time, in order, then stand at the end."""
        end = self._time + seconds
        await pump()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                self._time = max(self._time, due)
                future.set_result(None)
                await pump()
        self._time = end
        await pump()


async def pump(locks: int = 40) -> None:
    """Let every task go on until it waits for something."""
    for _ in range(locks):
        await asyncio.sleep(0)
