"""What a requirement should be: the guess and margin that have wasted least so far.

Pure. A bound keeps a promise about misses; a recommended size is about cost. Each pair of a rule
and a margin is followed as if it had been given to every run: what was unused is wasted, and a run
that needed more wastes all of its first try. The pair that wasted least so far is followed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labfleet.decisions.prediction.rules import RULES, Rule
from labfleet.decisions.prediction.window import Floats

MARGINS = (0.75, 0.9, 0.97, 1.0)
"""Quantiles of a rule's own ratios that are tried as its margin."""
KEEPING = 0.99
"""Share of what was wasted before that is kept with each run."""
AGAIN = 1.02
"""A second try gets the largest peak seen, times this; further ones double it."""
FIRST = 10
"""Runs that were followed from which on there is a leader."""


class Sizing:
    """What every pair of a rule and a margin would have wasted."""

    def __init__(self) -> None:
        """Begin with nothing followed."""
        self.count = 0.0
        self._wasted = np.zeros((RULES, len(MARGINS)))
        self._missed = np.zeros((RULES, len(MARGINS)))
        self._margins: Floats | None = None

    def renew(self, ordered: Floats) -> None:
        """Take the margins from the rules' ratios, one row a rule, smallest first."""
        last = ordered.shape[1] - 1
        self._margins = ordered[:, [round(share * last) for share in MARGINS]]

    def learn(self, guesses: Sequence[float], peak: float, seconds: float, largest: float) -> None:
        """Follow every pair over one more run; `largest` is the largest peak before it."""
        if self._margins is None:
            return
        sizes = np.array(guesses)[:, np.newaxis] * self._margins
        again = largest * AGAIN
        while again < peak:
            again *= 2
        short = sizes < peak
        wasted = np.where(short, sizes + again, sizes) - peak
        self._wasted = KEEPING * self._wasted + wasted * max(seconds, 0.001)
        self._missed = KEEPING * self._missed + short
        self.count = KEEPING * self.count + 1

    def best(self) -> tuple[Rule, float, float] | None:
        """Return the rule that wasted least, its margin, and its share of runs that needed more."""
        if self._margins is None or self.count < FIRST * KEEPING**FIRST:
            return None
        row, column = np.unravel_index(int(np.argmin(self._wasted)), self._wasted.shape)
        missed = float(self._missed[row, column]) / self.count
        return Rule(int(row)), float(self._margins[row, column]), missed
