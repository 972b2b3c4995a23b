"""One resource of one family: its peaks, what each guess was worth, and the bound from that.

Pure. Peaks are shifted by a small amount of the resource (SHIFT), so that 0 has a ratio too and
noise of a few units says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from labfleet.decisions.prediction.conformal import conformal
from labfleet.decisions.prediction.pool import CHOSEN, ENOUGH, Firsts, Pools
from labfleet.decisions.prediction.quantiles import STATED, Adaptive, evenly
from labfleet.decisions.prediction.ratios import NO_AGES, Later, Ratios
from labfleet.decisions.prediction.rules import RULES, Line, Near, Rule, guess, guesses
from labfleet.decisions.prediction.sizing import Sizing
from labfleet.decisions.prediction.window import Floats, Query, Slots, Window, nearest

OWN = 20
"""Runs from which on a family is judged by its own ratios."""
ALONE = 50
"""Runs from which on a family's level follows its own misses, before that those of all."""
STALE = 8
"""What is fitted and chosen is made anew when one in so many of the kept runs is new."""
SETTLED = 5
"""Runs behind a guess from which on its ratio says something about guesses of a grown family."""
YOUNG = 10
"""Runs below which all families together say whose guess counts."""
FAR_LONGER = 3.0
"""A run of a young family is like no known one once it has lived so many times as long."""
OUTLIER = 8.0
"""No bound is above this many times the largest peak seen, scaled up to the run's size."""
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
    near: The closest runs whose peak is known.
    """

    rule: Rule
    row: int
    peak: float
    top: float
    near: Near


@dataclass(slots=True)
class Worth:
    """What a guess is multiplied by to become a forecast; equal for all runs until one is learned.

    bound: Ratio of the bound.
    middle: Ratio that half of the runs stayed within.
    spread: Ratios at LEVELS.
    ages: From which ages on other ratios hold.
    later: Those, one row an age.
    sentences: What was said of it before, by the rule of the guess and whether it is exact.
    """

    bound: float
    middle: float
    spread: Floats
    ages: Sequence[float]
    later: Floats
    sentences: dict[tuple[Rule, bool], str] = field(default_factory=dict)


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
        self.largest = 0.0
        """The largest peak kept, shifted."""
        self.largest_slot = -1
        self.lends = lends
        self.adaptive = Adaptive()
        self.sizing = Sizing()
        self._pools = pools
        self._bucket = pools.buckets[0]
        self._window = window
        self._ratios = Ratios(window, weighed=resource != "duration_seconds")
        self._peaks = np.full(max(8, len(window.seconds)), np.nan)
        self._held = 0
        self._known: Slots | None = None
        self._middle: float | None = None
        self._line: Line | None = None
        self._renewed_at = 0
        self._worth: dict[tuple[int, float], Worth] = {}

    def join(self, pools: Pools) -> None:
        """Borrow from these families from now on, and lend to them."""
        self._pools = pools
        self._bucket = pools.at(max(1, self.age))
        self._worth.clear()

    def near(self, query: Query) -> Near:
        """Return the closest runs whose peak is known."""
        if self._known is None:
            return Near(query.slots, self._peaks.take(query.closest).tolist())
        slots = self._known[nearest(query.far[self._known])]
        return Near(slots.tolist(), self._peaks[slots].tolist())

    def guess(self, query: Query) -> Guess:
        """Return the guess that counts for a run, by the family's own choice or by that of all."""
        rule, row = self._followed()
        near = self.near(query)
        peak = self.made_by(rule, query, near)
        return Guess(rule, row, peak, OUTLIER * self.largest * query.reach, near)

    def guesses(self, query: Query) -> tuple[Guess, list[float]]:
        """Return the guess that counts for a run, and those of all rules by their numbers."""
        rule, row = self._followed()
        near = self.near(query)
        made = guesses(query, near, self.largest, line=self._line, window=self._window)
        return Guess(rule, row, made[rule], OUTLIER * self.largest * query.reach, near), made

    def steady(self, now: Guess, query: Query) -> float:
        """Return the guess as a load is to count it: no less than the middle of all kept runs.

        Of many runs that began together the light ones end first, so the middle of the latest sinks
        while the heavy ones run on. Bounds follow the latest, since they shall follow what changes.
        Where runs asked for different things, what others took says nothing of this one.
        """
        if not query.alike or now.rule not in {Rule.TYPICAL, Rule.LINE}:
            return now.peak
        if self._middle is None:
            peaks = self._peaks[: len(self._window)]
            if self._known is not None:
                peaks = peaks[self._known]
            half = len(peaks) // 2
            self._middle = float(np.partition(peaks, half)[half])
        return max(now.peak, self._middle)

    def unlike(self, declared: float | None) -> tuple[float, Floats] | None:
        """Return from which age on a run is like no known one, and its peaks then, shifted.

        A young family may have runs of another kind that have not ended yet. One that has far
        outlived all known ones counts as a first run does. None once some more runs are known, and
        while few first runs of other families are.
        """
        firsts = self._pools.firsts
        row = Firsts.PEAK if declared is None else Firsts.SHARE
        if self.age > SETTLED or len(firsts.ordered(row)) < ENOUGH:
            return None
        peaks = firsts.spread(row)
        if declared is not None:
            peaks = float(declared) * peaks + SHIFT[self.resource]
        return FAR_LONGER * self._window.longest, peaks

    def _followed(self) -> tuple[Rule, int]:
        """Return whose guess counts, and in which row of a bucket its ratios stand."""
        rule = self._ratios.rule
        if self.age >= YOUNG:
            return rule, CHOSEN
        row = self._bucket.row
        return (rule if row == CHOSEN else Rule(row)), row

    def made_by(self, rule: Rule, query: Query, near: Near) -> float:
        """Return the guess of one rule, shifted; `near` as this series gives it."""
        return guess(rule, query, near, self.largest, line=self._line, window=self._window)

    def worth(self, row: int, coverage: float) -> Worth:
        """Return what guesses are multiplied by; kept where other families have no say in it."""
        found = self._worth.get((row, coverage))
        if found is None:
            ages, later = self.later()
            plain = self.resource == "duration_seconds"
            found = Worth(
                self.bound_ratio(row, coverage),
                self.middle(row),
                self.plain(row) if plain else self.spread(row),
                ages,
                later,
            )
            if (
                self.age >= ALONE
                and conformal(self._ratios.ordered, self.adaptive.level(coverage))[1]
            ):
                self._worth[row, coverage] = found
        return found

    def bound_ratios(self, row: int) -> list[float]:
        """Return the ratios of the bounds at STATED."""
        if self.age < OWN:
            return [self._bucket.bound(row, stated) for stated in STATED]
        ordered, last = self._ratios.ordered, len(self._ratios.ordered) - 1
        found = []
        for asked in self._adaptive.asked:
            # `conformal`, written out: this is done for each run that is learned.
            place = (last + 2) * (1.0 - asked) - 1.0
            if 0 < place < last:
                below = int(place)
                low = ordered[below]
                found.append(low + (place - below) * (ordered[below + 1] - low))
            else:
                found.append(self._own_ratio(1.0 - asked))
        return found

    def bound_ratio(self, row: int, stated: float) -> float:
        """Return by which ratio a guess is multiplied to become a bound at a stated level."""
        if self.age < OWN:
            return self._bucket.bound(row, stated)
        return self._own_ratio(self._adaptive.level(stated))

    def _own_ratio(self, level: float) -> float:
        ordered = self._ratios.ordered
        found, known = conformal(ordered, level)
        if known:
            return found
        # Beyond what so few runs can tell: how far others of this age were from their largest.
        beyond = conformal(self._bucket.ordered(CHOSEN), level)[0]
        return max(found * beyond, ordered[-2])

    @property
    def _adaptive(self) -> Adaptive:
        """Whose misses count: those of all families of this age until there were enough of ours."""
        return self.adaptive if self.age >= ALONE else self._bucket.adaptive

    def spread(self, row: int) -> Floats:
        """Return the ratios at LEVELS, each run weighed by how long it took."""
        return self._bucket.spread(row) if self.age < OWN else self._ratios.spread

    def plain(self, row: int) -> Floats:
        """Return the ratios at LEVELS, each run counted once."""
        return evenly(self._bucket.ordered(row) if self.age < OWN else self._ratios.ordered)

    def later(self) -> Later:
        """Return ages, and ratios of the runs that outlived each; none while it is young."""
        return NO_AGES if self.age < OWN else self._ratios.later

    def middle(self, row: int) -> float:
        """Return the ratio that half of the runs stayed within."""
        ordered = self._bucket.ordered(row) if self.age < OWN else self._ratios.ordered
        return ordered[len(ordered) // 2]

    def judge(
        self, made: list[float], peak: float, seconds: float, missed: list[bool], *, cut_off: bool
    ) -> Floats | None:
        """Return what each guess was worth for a run, and learn from it whether bounds hold.

        `made` are the guesses of all rules. `missed` says for STATED whether the run was above its bound. The run is not kept yet. One
        that was cut off may teach that more is needed, never that less is: it counts as a miss or
        not at all, its ratios count as at least the largest so far, and other families learn
        nothing of it.
        """
        ratios: Floats = peak / np.array(made)
        young = self.age < OWN
        if self.lends or self.age >= ALONE:
            self._adaptive.follow(missed, only_misses=cut_off)
        if cut_off:
            largest = self._ratios.largest()
            return ratios if largest is None else np.fmax(ratios, largest)
        if self.resource != "duration_seconds":
            self.sizing.learn(made, peak, seconds, self.largest)
        if self.lends:
            # Of grown families others learn how far above their largest ratio they went.
            own = ratios[self._ratios.rule]
            figures = np.empty(RULES + 1)
            figures[:RULES] = ratios
            figures[CHOSEN] = own if young else own / self._ratios.ordered[-1]
            self._bucket.add(figures, seconds)
        return ratios if self.count >= SETTLED else None

    def put(self, slot: int, peak: float, ratios: Floats | None, *, cut_off: bool = False) -> None:
        """Keep a peak at a slot of the window, with what each guess of it was worth.

        A run that was cut off makes the family no older: bounds of older families are tighter.
        """
        self._clear(slot)
        self._peaks[slot] = peak
        self._held += 1
        self._ratios.put(slot, ratios)
        if not cut_off or not self.count:
            self.count += 1
        if peak >= self.largest:
            self.largest, self.largest_slot = peak, slot
        self._renew()

    def skip(self, slot: int) -> None:
        """Take in that nothing is known of the run at a slot."""
        self._clear(slot)
        self._ratios.put(slot, None)
        self._renew()

    def _clear(self, slot: int) -> None:
        if slot >= len(self._peaks):
            more = len(self._window.seconds) - len(self._peaks)
            self._peaks = np.concatenate((self._peaks, np.full(more, np.nan)))
        if not np.isnan(self._peaks[slot]):
            self._held -= 1
            self._peaks[slot] = np.nan
        if slot == self.largest_slot:
            self.largest_slot = int(np.nanargmax(self._peaks)) if self._held else -1
            self.largest = float(self._peaks[self.largest_slot]) if self._held else 0.0

    def _renew(self) -> None:
        """Bring up to date what is read off the kept peaks."""
        self._worth.clear()
        self._middle = None
        kept = len(self._window)
        if not self._held:
            self.count = 0
        self._known = None
        if self._held < kept:
            self._known = np.flatnonzero(self._peaks[:kept] == self._peaks[:kept])
        enough = len(self._ratios.ordered) >= OWN - SETTLED
        if self.count - self._renewed_at > self._held // STALE or (enough and self.age < OWN):
            self._renewed_at = self.count
            self._fit()
            ratios = self._ratios.choose()
            if ratios is not None:
                self.sizing.renew(ratios)
        self.age = self.count if enough else min(self.count, OWN - 1)
        self._bucket = self._pools.at(max(1, self.age))

    def _fit(self) -> None:
        self._line = None
        if self._window.numbers and self._held > 2:
            slots = self._known
            if slots is None:
                slots = np.arange(len(self._window))
            self._line = Line(self._window, slots, self._peaks[slots])
