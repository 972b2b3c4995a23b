"""What a requirement should be: the guess and margin that have wasted least so far.

Pure. A bound keeps a promise about misses; a recommended size is about cost. Each pair of a rule
and a margin is followed as if it had been given to every run: what was unused is wasted, and a run
that needed more wastes all of its first try. The pair that wasted least so far is followed.
"""

from __future__ import annotations

import numpy as np

from labfleet.decisions.prediction.rules import RULES, Rule
from labfleet.decisions.prediction.window import Floats

MARGINS = (0.75, 0.9, 0.97, 1.0)
"""Quantiles of a rule's own ratios that are tried as its margin."""
KEEPING = 0.99
"""Share of what was wasted before that is kept with each run."""
AGAIN = 1.02
"""A second try gets the largest peak seen, times this; further ones double it."""
WAITING = 32
FIRST = 10
"""Runs that were followed from which on there is a leader."""


class Sizing:
    """What every pair of a rule and a margin would have wasted.

    Runs wait here until WAITING of them do: many are followed at the cost of few.
    """

    def __init__(self) -> None:
        """Begin with nothing followed."""
        self.count = 0.0
        self._wasted = np.zeros((RULES, len(MARGINS)))
        self._missed = np.zeros((RULES, len(MARGINS)))
        self._margins: Floats | None = None
        self._waiting: list[tuple[Floats, list[float], float, float, float]] = []

    def renew(self, ratios: Floats) -> None:
        """Take the margins from the rules' ratios, one row a rule."""
        ordered = np.sort(ratios, axis=1)
        last = ordered.shape[1] - 1
        self._margins = ordered[:, [round(share * last) for share in MARGINS]]

    def learn(self, guesses: list[float], peak: float, seconds: float, largest: float) -> None:
        """Follow every pair over one more run; `largest` is the largest peak before it."""
        if self._margins is None:
            return
        again = largest * AGAIN
        while again < peak:
            again *= 2
        self._waiting.append((self._margins, guesses, peak, max(seconds, 0.001), again))
        if len(self._waiting) == WAITING:
            self.count, self._wasted, self._missed = self._followed()
            self._waiting.clear()

    def best(self) -> tuple[Rule, float, float] | None:
        """Return the rule that wasted least, its margin, and its share of runs that needed more."""
        count, wasted, missed = self._followed()
        if self._margins is None or count < FIRST * KEEPING**FIRST:
            return None
        row, column = np.unravel_index(int(np.argmin(wasted)), wasted.shape)
        return (
            Rule(int(row)),
            float(self._margins[row, column]),
            float(missed[row, column]) / count,
        )

    def _followed(self) -> tuple[float, Floats, Floats]:
        """Return what is known once those that wait are followed; asking changes nothing."""
        if not self._waiting:
            return self.count, self._wasted, self._missed
        margins, guesses, *rest = (np.array(each) for each in zip(*self._waiting, strict=True))
        peaks, seconds, again = (each[:, np.newaxis, np.newaxis] for each in rest)
        sizes = guesses[:, :, np.newaxis] * margins
        short = sizes < peaks
        wasted = (np.where(short, sizes + again, sizes) - peaks) * seconds
        last = len(self._waiting)
        kept = KEEPING ** np.arange(last - 1, -1, -1.0)
        before = KEEPING**last
        return (
            before * self.count + float(kept.sum()),
            before * self._wasted + np.tensordot(kept, wasted, 1),
            before * self._missed + np.tensordot(kept, short, 1),
        )
