"""The guesses that can be made of a run's peak from the runs closest to it.

Pure. All peaks here are shifted (see `series`), so none is 0 and ratios have a meaning. A rule
need not be right: what it lacks is measured by its ratios, peak over guess, of earlier runs.
"""

from __future__ import annotations

from enum import IntEnum
from math import exp

import numpy as np

from labfleet.decisions.prediction.window import Floats, Query, Slots, Window

FEW = 5


class Rule(IntEnum):
    """How a guess is made; the numbers are rows of the arrays of ratios."""

    LARGEST = 0
    CLOSEST = 1
    LARGEST_CLOSE = 2
    TYPICAL = 3
    SCALED = 4
    LINE = 5


RULES = len(Rule)
PLAIN = (Rule.LARGEST, Rule.CLOSEST, Rule.LARGEST_CLOSE, Rule.TYPICAL)
"""Rules that need no parameter which is a number."""
LINE_COLUMNS = 6
"""Numbers that a line is drawn through."""
RIDGE = 1.0
"""Weight of 'size does not matter' against the runs, in runs."""


class Line:
    """A ridge regression of the logarithm of peaks on those parameters that are numbers."""

    def __init__(self, window: Window, slots: Slots, peaks: Floats) -> None:
        """Fit it to the peaks of some kept runs; peaks are shifted and above 0."""
        self.columns = window.numbers[:LINE_COLUMNS]
        known = window.points[slots][:, self.columns]
        level = np.log(peaks)
        # A number that is absent counts as the mean of the others.
        absent = known < -900.0
        if absent.any():
            present = np.where(absent, np.nan, known)
            self.centre = np.nanmean(present, axis=0)
            known = np.where(absent, self.centre, known)
        else:
            self.centre = known.mean(axis=0)
        self.mean = float(level.mean())
        away = known - self.centre
        products = away.T @ away
        products[np.diag_indices_from(products)] += RIDGE
        self.slope: Floats = np.linalg.solve(products, away.T @ (level - self.mean))

    def at(self, point: Floats) -> float:
        """Return the logarithm of the peak that the line has at a point."""
        away = point[self.columns] - self.centre
        away[away < -900.0] = 0.0
        return self.mean + float(self.slope @ away)


def guess(
    rule: Rule, query: Query, closest: Slots, peaks: Floats, largest: float, *,
    line: Line | None, window: Window,
) -> float:  # fmt: skip
    """Return one rule's guess of the shifted peak.

    `closest` are slots whose peak is known, closest first, at least one. SCALED and LINE are
    CLOSEST and TYPICAL as long as no number differs between the runs, and never leave what was
    seen by more than the run's numbers do.
    """
    if rule is Rule.LARGEST:
        return largest
    if rule is Rule.CLOSEST:
        return float(peaks[closest[0]])
    if rule is Rule.LARGEST_CLOSE:
        return float(peaks[closest[:FEW]].max())
    if line is None:
        if rule is Rule.SCALED:
            return float(peaks[closest[0]])
        return _middle(peaks[closest])
    if rule is Rule.TYPICAL:
        return _middle(peaks[closest])
    if rule is Rule.LINE:
        found = line.at(query.point)
    else:
        near = closest[0]
        change = line.at(query.point) - line.at(window.points[near])
        found = float(np.log(peaks[near])) + change
    return min(exp(min(found, 80.0)), largest * query.reach)


def _middle(peaks: Floats) -> float:
    ordered: list[float] = sorted(peaks.tolist())
    return ordered[len(ordered) // 2]
