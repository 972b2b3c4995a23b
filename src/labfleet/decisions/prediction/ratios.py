"""What the guesses of one family were worth: peak over guess of each kept run, by rule.

Pure. The chosen rule's ratios are kept in order, so that a bound is one look and not a sort.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from labfleet.decisions.prediction.quantiles import LEVEL_ROW, weighted_in_order
from labfleet.decisions.prediction.rules import RULES, Rule
from labfleet.decisions.prediction.window import KEPT, Floats, Slots, Window

RECENT = 64
"""Runs by whose errors a family chooses its rule."""
LEAST = 5
"""Ratios from which on a rule is chosen by them."""
OUTLIVED = (0.5, 0.8, 0.95)
"""Shares of a family's runs that have ended at the ages at which one is looked at anew."""
Later = tuple[list[float], Floats]
NO_AGES: Later = ([], np.zeros((0, len(LEVEL_ROW))))


class Ratios:
    """The ratios of a series, at the slots of its window; a slot without them holds nan."""

    def __init__(self, window: Window, *, weighed: bool = True) -> None:
        """Begin with none; `weighed` says whether each counts by how long its run took too."""
        self.rule = Rule.LARGEST
        """The rule whose guesses were off by least."""
        self.ordered: list[float] = []
        """Its ratios, smallest first."""
        self.spread: Floats = LEVEL_ROW
        """Its ratios at LEVELS, each weighed by how long its run took, as of the last choice."""
        self.later = NO_AGES
        """Ages in seconds, and a row for each: the ratios of runs that lived on, by time left."""
        self._weighed = weighed
        self._window = window
        self._kept = np.full((RULES, max(8, len(window.seconds))), np.nan)

    def put(self, slot: int, ratios: Floats | None) -> None:
        """Replace what is kept at a slot; None keeps nothing there."""
        if slot >= self._kept.shape[1]:
            more = len(self._window.seconds) - self._kept.shape[1]
            self._kept = np.hstack((self._kept, np.full((RULES, more), np.nan)))
        old = float(self._kept[self.rule, slot])
        if old == old:  # noqa: PLR0124  # nan is the one number that is not itself
            del self.ordered[bisect_left(self.ordered, old)]
        if ratios is None:
            self._kept[:, slot] = np.nan
        else:
            self._kept[:, slot] = ratios
            insort(self.ordered, float(ratios[self.rule]))

    def largest(self) -> Floats | None:
        """Return the largest ratio of every rule; None when nothing is kept."""
        return np.fmax.reduce(self._kept, axis=1) if self.ordered else None

    def choose(self) -> Floats | None:
        """Choose the rule and weigh its ratios anew; return every rule's ratios.

        None as long as there are too few.
        """
        if len(self.ordered) < LEAST:
            return None
        judged = self._by_age()
        kept = self._kept[:, judged]
        off = np.abs(np.log(kept[:, -RECENT:])).sum(axis=1)
        rule = Rule(int(off.argmin()))
        if rule is not self.rule:
            self.rule = rule
            self.ordered = sorted(kept[rule].tolist())
        if self._weighed:
            order = kept[rule].argsort(kind="stable")
            ordered, seconds = kept[rule][order], self._window.seconds[judged][order]
            self.spread = weighted_in_order(ordered, seconds, LEVEL_ROW)
            self.later = _later(ordered, seconds)
        return kept

    def _by_age(self) -> Slots:
        """Return the slots that hold ratios, the oldest first."""
        judged = np.flatnonzero(self._kept[0] == self._kept[0])
        if len(self._window) < KEPT:
            return judged
        oldest = self._window.count % KEPT
        return np.concatenate((judged[judged >= oldest], judged[judged < oldest]))


def _later(ordered: Floats, seconds: Floats) -> Later:
    """Return the ratios of the runs that outlived some ages, weighed by how long they lived on."""
    ages, rows = [], []
    for age in _quantiles(np.sort(seconds).tolist()):
        left = seconds - age
        living = left > 0
        if np.count_nonzero(living) >= LEAST:
            ages.append(age)
            rows.append(weighted_in_order(ordered[living], left[living], LEVEL_ROW))
    return (ages, np.array(rows)) if ages else NO_AGES


def _quantiles(ordered: list[float]) -> Iterator[float]:
    """Yield the quantiles OUTLIVED; numpy's own function takes ten times as long for so few."""
    last = len(ordered) - 1
    for share in OUTLIVED:
        below = int(share * last)
        low, high = ordered[below], ordered[min(last, below + 1)]
        part = share * last - below
        yield low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
