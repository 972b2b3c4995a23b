"""The guesses that can be made of a run's peak from the runs closest to it.

Pure. All peaks here are shifted (see `series`), so none is 0 and ratios have a meaning. A rule
need not be right: what it lacks is measured by its ratios, peak over guess, of earlier runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import exp, log

import numpy as np

from labfleet.decisions.prediction.window import ABSENT, Floats, Query, Slots, Window

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
LINE_COLUMNS = 6
"""Numbers that a line is drawn through."""
RIDGE = 1.0
"""Weight of 'size does not matter' against the runs, in runs."""


@dataclass(slots=True)
class Near:
    """The closest runs whose peak is known, closest first; at least one.

    slots: Where they are kept.
    peaks: What they used, shifted.
    """

    slots: list[int]
    peaks: list[float]


class Line:
    """A ridge regression of the logarithm of peaks on those parameters that are numbers."""

    def __init__(self, window: Window, slots: Slots, peaks: Floats) -> None:
        """Fit it to the peaks of some kept runs; peaks are shifted and above 0."""
        columns = window.numbers[:LINE_COLUMNS]
        known = window.points[slots][:, columns]
        level = np.log(peaks)
        self.mean = float(level.sum()) / len(level)
        # A number that is absent counts as the mean of the others.
        absent = known < ABSENT / 2
        if absent.any():
            centre = np.nanmean(np.where(absent, np.nan, known), axis=0)
            known = np.where(absent, centre, known)
        else:
            centre = known.sum(axis=0) / len(known)
        away = known - centre
        products = away.T @ away
        products.flat[:: len(columns) + 1] += RIDGE
        slope = np.linalg.solve(products, away.T @ (level - self.mean))
        self._columns = tuple(zip(columns, centre.tolist(), slope.tolist(), strict=True))

    def at(self, values: Sequence[float]) -> float:
        """Return the logarithm of the peak that the line has for a run's parameters."""
        found = self.mean
        for column, centre, slope in self._columns:
            value = values[column]
            if value > ABSENT / 2:
                found += slope * (value - centre)
        return found


def guess(
    rule: Rule, query: Query, near: Near, largest: float, *, line: Line | None, window: Window
) -> float:
    """Return one rule's guess of the shifted peak.

    SCALED and LINE are CLOSEST and TYPICAL as long as no number differs between the runs, and
    never leave what was seen by more than the run's numbers do.
    """
    if rule is Rule.LARGEST:
        return largest
    if rule is Rule.CLOSEST:
        return near.peaks[0]
    if rule is Rule.LARGEST_CLOSE:
        return max(near.peaks[:FEW])
    if rule is Rule.TYPICAL or (rule is Rule.LINE and line is None):
        return sorted(near.peaks)[len(near.peaks) // 2]
    if line is None:
        return near.peaks[0]
    found = line.at(query.values)
    if rule is Rule.SCALED:
        found += log(near.peaks[0]) - line.at(window.at(near.slots[0], query))
    return min(exp(min(found, 80.0)), largest * query.reach)


def guesses(
    query: Query, near: Near, largest: float, *, line: Line | None, window: Window
) -> list[float]:
    """Return every rule's guess of the shifted peak, as `guess` makes them, by the rules' numbers."""
    peaks = near.peaks
    closest, typical = peaks[0], sorted(peaks)[len(peaks) // 2]
    scaled, drawn = closest, typical
    if line is not None:
        most, found = largest * query.reach, line.at(query.values)
        drawn = min(exp(min(found, 80.0)), most)
        found += log(closest) - line.at(window.at(near.slots[0], query))
        scaled = min(exp(min(found, 80.0)), most)
    return [largest, closest, max(peaks[:FEW]), typical, scaled, drawn]
