"""An event loop whose time jumps: hours pass at once, and every deadline is real to the code.

Nothing waits; when no task can go on, time becomes that of the next timer. So the product's
own controllers, queues, time-outs and sleeps run unchanged, always in the same order.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from labfleet.rehearsal.time.virtual_host import EPOCH

START = EPOCH + timedelta(seconds=1000)
"""The instant at which the loop begins."""


class _Jump(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Never waits: what would be a wait moves the loop's time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits for something that nobody will do")
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time; machine time and, at rate 1, fleet time too."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._jump.now


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


class Ids:
    """Ids that count up."""

    def __init__(self) -> None:
        self.count = 0

    def uid(self) -> str:
        self.count += 1
        return f"{self.count:08x}-0000-4000-8000-{self.count:012x}"

    def token(self) -> str:
        self.count += 1
        return f"secret{self.count:037d}"
