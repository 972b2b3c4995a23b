"""What the runs of all families of a kind did at the same count, for families with few runs.

Pure. With one run behind it a family knows nothing of its own spread; all families at their
second run do. So the ratios (peak over guess) of every family are kept by how many runs it had.
"""

from __future__ import annotations

from bisect import bisect_right
from statistics import NormalDist

import numpy as np

from labfleet.decisions.prediction.conformal import conformal
from labfleet.decisions.prediction.quantiles import LEVEL_ROW, STATED, Adaptive, weighted
from labfleet.decisions.prediction.rules import RULES
from labfleet.decisions.prediction.window import Floats

BUCKETS = (1, 2, 3, 5, 10, 20, 50)
"""Least count of runs of each bucket; the last one has no end."""
POOLED = 512
"""Runs kept of one bucket."""
TRUSTED = 40
"""Runs from which on a bucket is taken as it is, without the assumed ones."""
ASSUMED = (0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2)
"""Spread of the logarithm of ratios that is assumed of a bucket before anything is known."""
ENOUGH = 20
"""First runs of other families from which on they say something about a new family."""
CHOSEN = RULES
"""The row of ratios of the rule that each family chose for itself."""


def bucket(count: int) -> int:
    """Return the number of the bucket for a count of runs, at least 1."""
    return bisect_right(BUCKETS, count) - 1


class Pool:
    """The latest figures of some kind of run, in rows, each weighed by how long it took."""

    def __init__(self, rows: int, assumed: Floats | None = None) -> None:
        """Begin empty, or with what is assumed until TRUSTED runs are known."""
        self.count = 0
        self._figures = np.ones((rows, POOLED))
        self._seconds = np.zeros(POOLED)
        self._assumed = np.zeros(0) if assumed is None else assumed
        self._shown = (self._figures[:, :0], self._seconds[:0])
        self._shown_at = 0
        self._made: dict[int, tuple[list[float], Floats]] = {}

    def add(self, figures: Floats, seconds: float) -> None:
        """Take in one run's figures, one a row; nan is unknown."""
        slot = self.count % POOLED
        self._figures[:, slot] = figures
        self._seconds[slot] = seconds
        self.count += 1
        # What is kept is shown when it has grown by a fiftieth, not with each run: sorting costs.
        kept = min(self.count, POOLED)
        if self.count - self._shown_at > kept // 50:
            self._shown_at = self.count
            self._shown = (self._figures[:, :kept].copy(), self._seconds[:kept].copy())
            self._made = {}

    @property
    def shown(self) -> Floats:
        """The figures that are counted by now, one column a run."""
        return self._shown[0]

    def ordered(self, row: int) -> list[float]:
        """Return the known figures of a row, smallest first."""
        return self._sorted(row)[0]

    def spread(self, row: int) -> Floats:
        """Return the figures of a row at LEVELS, each weighed by how long its run took."""
        return self._sorted(row)[1]

    def _sorted(self, row: int) -> tuple[list[float], Floats]:
        made = self._made.get(row)
        if made is None:
            figures, seconds = self._shown[0][row], self._shown[1]
            known = ~np.isnan(figures)
            if not known.all():
                figures, seconds = figures[known], seconds[known]
            if len(figures) < TRUSTED and len(self._assumed):
                middle = float(np.median(seconds)) if len(seconds) else 1.0
                seconds = np.concatenate((seconds, np.full(len(self._assumed), middle)))
                figures = np.concatenate((figures, self._assumed))
            spread = weighted(figures, seconds, LEVEL_ROW) if len(figures) else figures
            made = self._made[row] = (np.sort(figures).tolist(), spread)
        return made


class Bucket(Pool):
    """The ratios of runs whose families knew about equally many runs before."""

    def __init__(self, number: int) -> None:
        """Begin with what is assumed of bucket `number`."""
        normal = NormalDist(0.0, ASSUMED[number])
        shares = [(each + 0.5) / 19 for each in range(19)]
        super().__init__(RULES + 1, np.exp([normal.inv_cdf(share) for share in shares]))
        self.adaptive = Adaptive()
        self._best: tuple[int, int] = (-1, CHOSEN)

    @property
    def row(self) -> int:
        """The row with the tightest bounds at 95 %: whose guess counts for the youngest."""
        if self._best[0] != self._shown_at:
            best = CHOSEN
            ratios = self.shown
            if ratios.shape[1] >= TRUSTED:
                bound = np.quantile(ratios, 0.95, axis=1)
                best = int(np.argmin(bound * (1.0 / ratios).mean(axis=1)))
            self._best = (self._shown_at, best)
        return self._best[1]

    def bound(self, row: int, stated: float) -> float:
        """Return the ratio that a new run stays within at a stated level."""
        return conformal(self.ordered(row), self.adaptive.level(stated))[0]


class Firsts(Pool):
    """The first runs of families: all that is known of a family that has none yet.

    Row SHARE: peak as a share of what the run was given. Row PEAK: peak, shifted.
    """

    SHARE, PEAK = 0, 1

    def __init__(self) -> None:
        """Begin with nothing; a new family is compared with none then."""
        super().__init__(2)
        self.adaptive = (Adaptive(), Adaptive())

    def bound(self, row: int, stated: float) -> float | None:
        """Return what a first run stays within at a stated level; None when too few are known."""
        ordered = self.ordered(row)
        if len(ordered) < ENOUGH:
            return None
        return conformal(ordered, self.adaptive[row].level(stated))[0]

    def learn(self, share: float | None, peak: float, seconds: float) -> None:
        """Follow whether the bounds of a first run held, then take it in."""
        for row, figure in ((self.SHARE, share), (self.PEAK, peak)):
            for number, stated in enumerate(STATED if figure is not None else ()):
                bound = self.bound(row, stated)
                if bound is not None and figure is not None:
                    self.adaptive[row].learn(number, missed=figure > bound)
        self.add(np.array([np.nan if share is None else share, peak]), seconds)


class Pools:
    """All that the families of one kind lend each other about one resource."""

    def __init__(self) -> None:
        """Begin with what is assumed."""
        self.buckets = [Bucket(number) for number in range(len(BUCKETS))]
        self.firsts = Firsts()

    def at(self, count: int) -> Bucket:
        """Return the bucket of families with so many runs, at least 1."""
        return self.buckets[bucket(count)]
