"""Stories in virtual time: the rehearsal's loop, always in the same drawn order.

Nothing waits: the product's own controllers, queues, time-outs and sleeps run unchanged, and
when no task can go on, time becomes that of the next timer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from labfleet.rehearsal.time import loop

SEED = 1
"""What the order of those that are ready at one instant is drawn from."""


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function to its end in virtual time, which begins at EPOCH."""
    loop.run(SEED, lambda _: story())


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
