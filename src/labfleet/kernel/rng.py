"""Random numbers as an argument, split into named streams.

One more draw in one place must not change the draws of another: otherwise a recorded seed would
no longer reproduce its run after an unrelated change (facts/performance.md#random-streams).
"""

from __future__ import annotations

from typing import Protocol


class Rng(Protocol):
    """A source of uniform numbers that can be split by name."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def stream(self, name: str) -> Rng:
        """Return an independent source that depends only on this one's seed and the name."""
        ...
