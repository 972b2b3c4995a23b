"""How long something lasts: what past ones took, and one of its values in a drawn future."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b

from labfleet.resources.prediction import LEVELS

OVERDUE = timedelta(minutes=15)
"""How much longer something is taken to last once the longest that was known has passed."""
ENOUGH = 10
"""Past ones from which on they say how long the next one lasts."""
_LONGER = 1.5
_SHORTER = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """How long something lasts, in seconds.

    most: As long as it may last at most, as somebody declared it.
    spread: Quantiles of past ones at prediction.LEVELS; () means that too few are known.
    known: How many past ones that is.
    """

    most: float
    spread: tuple[float, ...] = ()
    known: int = 0

    @property
    def usual(self) -> float | None:
        """Return how long it lasts in the middle; None where nothing is known."""
        return self.spread[LEVELS.index(0.5)] if self.spread else None


def learned(past: Sequence[float], most: float) -> Lasting:
    """Return how long something lasts by past ones; fewer than ENOUGH say nothing.

    A further one lies between two neighbours of n past ones with probability 1 / (n + 1), and as
    often below or above all of them: there it is taken to last half or one and a half of the end.
    """
    count = len(past)
    if count < ENOUGH:
        return Lasting(most=most)
    ends = sorted(past)
    values = [ends[0] * _SHORTER, *ends, ends[-1] * _LONGER]
    levels = [at / (count + 1) for at in range(count + 2)]
    spread = tuple(crossed(levels, values, level) for level in LEVELS)
    return Lasting(most=most, spread=spread, known=count)


def draw(name: str, lasting: Lasting, elapsed: float = 0.0) -> float:
    """Return the seconds that something lasts in a drawn future, given that it has lasted `elapsed`.

    Drawn from the name alone. What is only declared is drawn evenly up to its bound.
    """
    mixed = blake2b(name.encode(), digest_size=8).digest()
    share = int.from_bytes(mixed, "big") / 2**64
    levels, spread = (
        (LEVELS, lasting.spread) if lasting.spread else ((0.0, 1.0), (0.0, lasting.most))
    )
    over = crossed(spread, levels, elapsed) if elapsed else 0.0
    if over >= 1.0:
        return elapsed + share * OVERDUE.total_seconds()
    return max(elapsed, crossed(levels, spread, over + share * (1.0 - over)))


def crossed(from_: Sequence[float], to: Sequence[float], value: float) -> float:
    """Return the value on the line through the points (from_, to), which both grow."""
    at = bisect_right(from_, value)
    if at == 0:
        return to[0]
    if at == len(from_):
        return to[-1]
    low, high = from_[at - 1], from_[at]
    return to[at - 1] + (to[at] - to[at - 1]) * (value - low) / (high - low)
