"""One resource of one family: its peaks, what each guess was worth, and the bound from that.

Pure. Peaks are shifted by a small amount of the resource (SHIFT), so that 0 has a ratio too and
noise of a few units says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labfleet.decisions.prediction.pool import CHOSEN, LEVEL_ROW, Pools
from labfleet.decisions.prediction.quantiles import STATED, Adaptive, conformal, weighted
from labfleet.decisions.prediction.rules import PLAIN, RULES, Line, Rule, guess
from labfleet.decisions.prediction.sizing import Sizing
from labfleet.decisions.prediction.window import KEPT, Floats, Query, Slots, Window, nearest

OWN = 20
"""Runs from which on a family is judged by its own ratios."""
SETTLED = 5
"""Runs behind a guess from which on its ratio says something about guesses of a grown family."""
YOUNG = 10
"""Runs below which all families together say whose guess counts."""
OUTLIER = 8.0
"""No bound is above this many times the largest peak seen, scaled up to the run's size."""
RECENT = 64
"""Runs by whose errors a family chooses its rule."""
SHIFT = {
    "cpu_milli": 10.0,
    "memory_mib": 1.0,
    "storage_mib": 1.0,
    "network_kbps": 10.0,
    "duration_seconds": 0.1,
}


@dataclass(slots=True)
class Guess:
    """A guess before it is made a bound.

    rule: Whose guess it is.
    row: In which row of a bucket its ratios stand.
    peak: The guess, shifted.
    top: The largest bound it may become, shifted.
    closest: Slots of the closest runs whose peak is known, closest first.
    """

    rule: Rule
    row: int
    peak: float
    top: float
    closest: Slots


class Series:
    """The peaks of one resource, at the slots of the family's window."""

    def __init__(self, resource: str, window: Window, pools: Pools, *, lends: bool = True) -> None:
        """Begin with no peak; `pools` are of the family's kind and this resource.

        A series that does not lend borrows from other families, and they learn nothing of it.
        """
        self.resource = resource
        self.count = 0
        """Peaks learned so far."""
        self.age = 0
        """The count by which the series is judged: below OWN as long as few ratios are kept."""
        self.rule = Rule.LARGEST
        self.adaptive = Adaptive()
        self.sizing = Sizing()
        self.largest = 0.0
        """The largest peak kept, shifted."""
        self.largest_slot = 0
        self.lends = lends
        self._pools = pools
        self._window = window
        size = max(8, len(window.seconds))
        self._peaks = np.full(size, np.nan)
        self._ratios = np.full((RULES, size), np.nan)
        self._known: Slots | None = None
        self._line: Line | None = None
        self._fitted_at = 0
        self._made: tuple[Floats, Floats] | None = None

    def closest(self, query: Query) -> Slots:
        """Return the slots of the closest runs whose peak is known, closest first."""
        if self._known is None:
            return query.closest
        return self._known[nearest(query.far[self._known])]

    def guess(self, query: Query) -> Guess:
        """Return the guess that counts for a run, by the family's own choice or by that of all."""
        closest = self.closest(query)
        rule, row = self.rule, CHOSEN
        if self.age < YOUNG:
            row = self._pools.at(self.age).row
            rule = self.rule if row == CHOSEN else Rule(row)
        peak = self.made_by(rule, query, closest)
        return Guess(rule, row, peak, OUTLIER * self.largest * query.reach, closest)

    def bound_ratio(self, row: int, stated: float) -> float:
        """Return by which ratio a guess is multiplied to become a bound at a stated level."""
        bucket = self._pools.at(self.age)
        if self.age < OWN:
            return bucket.bound(row, stated)
        level = self.adaptive.level(stated)
        ordered = self._sorted()[0]
        found, known = conformal(ordered, level)
        if known:
            return found
        # Beyond what so few runs can tell: how far others of this age were from their largest.
        beyond = conformal(bucket.ordered(CHOSEN), level)[0]
        return max(found * beyond, float(ordered[-2]))

    def spread(self, row: int) -> Floats:
        """Return the ratios at LEVELS, each run weighed by how long it took."""
        return self._pools.at(self.age).spread(row) if self.age < OWN else self._sorted()[1]

    def middle(self, row: int) -> float:
        """Return the ratio that half of the runs stayed within."""
        young = self.age < OWN
        ordered = self._pools.at(self.age).ordered(row) if young else self._sorted()[0]
        return float(ordered[len(ordered) // 2])

    def judge(self, query: Query, peak: float, seconds: float, *, cut_off: bool) -> Floats:
        """Return what each guess was worth for a run, and learn from it whether bounds hold.

        The run is not kept yet. One that was cut off may teach that more is needed, never that
        less is: it counts as a miss or not at all, its ratios count as at least the largest so
        far, and other families learn nothing of it.
        """
        now = self.guess(query)
        guesses = np.array([self.made_by(rule, query, now.closest) for rule in Rule])
        ratios: Floats = peak / guesses
        if not cut_off:
            self.sizing.learn(guesses, peak, seconds, self.largest)
        bucket = self._pools.at(self.age)
        ratio = peak / now.peak
        young = self.age < OWN
        adaptive = bucket.adaptive if young else self.adaptive
        for number, stated in enumerate(STATED if self.lends or not young else ()):
            missed = ratio > self.bound_ratio(now.row, stated)
            if missed or not cut_off:
                adaptive.learn(number, missed=missed)
        if cut_off:
            return np.fmax(ratios, np.fmax.reduce(self._ratios, axis=1))
        if self.lends and young:
            bucket.add(np.append(ratios, ratios[self.rule]), seconds)
        elif self.lends:
            bucket.add(np.full(RULES + 1, ratio / self._sorted()[0][-1]), seconds)
        return ratios if self.count >= SETTLED else np.full(RULES, np.nan)

    def put(self, slot: int, peak: float, ratios: Floats | None, *, cut_off: bool = False) -> None:
        """Keep a peak at a slot of the window, with what each guess of it was worth.

        A run that was cut off makes the family no older: bounds of older families are tighter.
        """
        self._clear(slot)
        self._peaks[slot] = peak
        if ratios is not None:
            self._ratios[:, slot] = ratios
        if not cut_off or not self.count:
            self.count += 1
        self._renew()

    def skip(self, slot: int) -> None:
        """Take in that nothing is known of the run at a slot."""
        self._clear(slot)
        self._renew()

    def _clear(self, slot: int) -> None:
        if slot >= len(self._peaks):
            more = len(self._window.seconds) - len(self._peaks)
            self._peaks = np.concatenate((self._peaks, np.full(more, np.nan)))
            self._ratios = np.hstack((self._ratios, np.full((RULES, more), np.nan)))
        self._peaks[slot] = np.nan
        self._ratios[:, slot] = np.nan

    def _renew(self) -> None:
        """Bring up to date what is read off the kept peaks."""
        self._made = None
        peaks = self._peaks[: len(self._window)]
        known = np.flatnonzero(~np.isnan(peaks))
        self._known = None if len(known) == len(peaks) else known
        if not len(known):
            self.count = self.age = 0
            return
        kept = len(known) - int(np.isnan(self._ratios[0, known]).sum())
        self.age = self.count if kept >= OWN - SETTLED else min(self.count, OWN - 1)
        self.largest_slot = int(np.nanargmax(peaks))
        self.largest = float(peaks[self.largest_slot])
        # Fitted and chosen anew when a fiftieth has been added, not with each run.
        if self.count - self._fitted_at > len(known) // 50:
            self._fitted_at = self.count
            self._line = None
            if self._window.numbers and len(known) > 2:
                self._line = Line(self._window, known, peaks[known])
            self._choose(known)

    def _choose(self, known: Slots) -> None:
        """Choose the rule whose guesses were off by least."""
        judged = known[~np.isnan(self._ratios[0, known])]
        if len(judged) < SETTLED:
            return
        self.sizing.renew(self._ratios[:, judged])
        oldest = self._window.count % KEPT if len(self._window) == KEPT else 0
        judged = np.concatenate((judged[judged >= oldest], judged[judged < oldest]))
        off = np.abs(np.log(self._ratios[:, judged[-RECENT:]]))
        self.rule = Rule(int(np.argmin(off.mean(axis=1))))

    def made_by(self, rule: Rule, query: Query, closest: Slots) -> float:
        """Return the guess of one rule, shifted; `closest` as this series gives them."""
        line = None if rule in PLAIN else self._line
        return guess(
            rule, query, closest, self._peaks, self.largest, line=line, window=self._window
        )

    def _sorted(self) -> tuple[Floats, Floats]:
        """Return the chosen rule's ratios, smallest first, and their weighed quantiles."""
        if self._made is None:
            kept = len(self._window)
            ratios = self._ratios[self.rule, :kept]
            judged = ~np.isnan(ratios)
            ratios = ratios[judged]
            weights = self._window.seconds[:kept][judged]
            self._made = (np.sort(ratios), weighted(ratios, weights, LEVEL_ROW))
        return self._made
