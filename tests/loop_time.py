"""Deadlines on real sockets without waiting for them: the loop's time leaps, events are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def leap(seconds: float) -> None:
    """Move the running loop's time on: timers within it are due at once, sockets notice nothing.

    So a deadline in a test may be long enough for the slowest machine and still cost nothing.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


async def seen(holds: Callable[[], object]) -> None:
    """Let the loop run until the claim holds; how long that takes is pytest-timeout's business."""
    while not holds():
        await asyncio.sleep(0.001)


async def locks(count: int = 100) -> None:
    """Let whatever is due be done, and what follows from it."""
    for _ in range(count):
        await asyncio.sleep(0)
