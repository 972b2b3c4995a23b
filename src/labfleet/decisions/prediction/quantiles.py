"""Quantiles of ratios, plain and weighted, and the level that is asked for after past misses.

Pure. The adaptive part is adaptive conformal inference (Gibbs and Candès, 2021): each miss asks
for a higher level from then on, each bound that held for a slightly lower one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from labfleet.decisions.prediction.window import Floats
from labfleet.resources.prediction import LEVELS

LEVEL_ROW = np.array(LEVELS)
STATED = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Levels whose misses are followed; others lie between two of them."""
STEP = 0.2
"""How far one miss moves a level, as a share of the misses it allows."""
LEAST, MOST = 0.2, 2.0
"""How far all misses together may move it, in times the misses it allows."""


def _move(allowed: float, *, missed: bool) -> tuple[float, float, float]:
    """Return by how much a level moves, and between what it stays."""
    return STEP * allowed * (allowed - missed), LEAST * allowed, MOST * allowed


_MOVES = tuple(
    (_move(1.0 - stated, missed=False), _move(1.0 - stated, missed=True)) for stated in STATED
)


class Adaptive:
    """The share of misses to ask for, so that the stated share comes out."""

    def __init__(self) -> None:
        """Begin with asking for what is stated."""
        self.asked = [1.0 - level for level in STATED]

    def learn(self, number: int, *, missed: bool) -> None:
        """Move one of STATED by whether the bound that was asked for was missed."""
        step, least, most = _MOVES[number][missed]
        moved = self.asked[number] + step
        self.asked[number] = least if moved < least else min(moved, most)

    def follow(self, missed: Sequence[bool], *, only_misses: bool = False) -> None:
        """Learn from whether each of STATED was missed, or from those that were."""
        for number, above in enumerate(missed):
            if above or not only_misses:
                self.learn(number, missed=above)

    def level(self, stated: float) -> float:
        """Return the level to ask for, so that `stated` comes out."""
        at = bisect_left(STATED, stated)
        if at < len(STATED) and STATED[at] == stated:
            return 1.0 - self.asked[at]
        allowed = 1.0 - stated
        low, high = max(0, at - 1), min(at, len(STATED) - 1)
        shares = [self.asked[each] / (1.0 - STATED[each]) for each in (low, high)]
        if low == high:
            return 1.0 - allowed * shares[0]
        place = (stated - STATED[low]) / (STATED[high] - STATED[low])
        return 1.0 - min(1.0, allowed * (shares[0] + place * (shares[1] - shares[0])))


def evenly(ordered: Sequence[float]) -> Floats:
    """Return the quantiles at LEVELS of values in their order, each counted once."""
    last = len(ordered) - 1
    found = np.empty(len(LEVELS))
    for number, level in enumerate(LEVELS):
        below = int(level * last)
        above = min(last, below + 1)
        found[number] = ordered[below] + (level * last - below) * (ordered[above] - ordered[below])
    return found


def weighted(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of values, each counted by its weight; equal weights if all are 0.

    Level 0 is the least value and level 1 the greatest; between two values it is a straight line.
    """
    order = values.argsort(kind="stable")
    return weighted_in_order(values[order], weights[order], levels)


def weighted_in_order(ordered: Floats, weight: Floats, levels: Floats) -> Floats:
    """Return what `weighted` does, of values that are in order already, with their weights."""
    reached = weight.cumsum()
    total = float(reached[-1])
    if total <= 0:
        weight = np.ones(len(ordered))
        reached, total = weight.cumsum(), float(len(ordered))
    found: Floats = np.interp(levels, (reached - weight / 2) / total, ordered)
    found[0], found[-1] = ordered[0], ordered[-1]
    return found
