"""What a run has used: peak, mean, median and 95 % out of its own samples, in bounded memory.

A run's samples are those of its own pods: what runs beside it is never subtracted from a total.
Peak and mean are exact over what was added. Median and 95 % come from a histogram whose classes
are each 4 % wider than the one below, so that they are at most 2 % off; a minute of several
measurements, read back from the store, counts in it as so many times its mean. Nothing is added
for a time in which nobody measured, and a figure without samples is absent, never 0. Pure; needs no
numpy, since a process that only ends runs reads it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta

from labfleet.resources import series
from labfleet.resources.history import FIGURES, Use
from labfleet.resources.series import Spread

BYTES_OF_KBIT = 125.0
METRIC_OF: dict[str, tuple[str, float]] = {
    "cpu_milli": ("cpu", 1.0),
    "memory_mib": ("memory", 1.0),
    "storage_mib": ("storage", 1.0),
    "network_in_kbps": ("networkIn", BYTES_OF_KBIT),
    "network_out_kbps": ("networkOut", BYTES_OF_KBIT),
    "pods": ("pods", 1.0),
}
"""What a meter tells of now -> the metric of the series, and by what its values are multiplied."""

GROWN = 1.05
LONGER = 1.25
_LEAST = 1e-3
"""What is smaller counts as nothing: a millionth of a CPU, a byte a second."""
_WIDTH = math.log(1.04)


class Histogram:
    """Counts, mean and extremes of the values of one figure.

    At most some 1,100 classes, whatever is added: from a thousandth to 1e16 each 4 % wider.
    """

    def __init__(self) -> None:
        self.count = 0
        self._total = 0.0
        self._low = math.inf
        self._high = -math.inf
        self._classes: dict[int, int] = {}

    def add(self, spread: Spread) -> None:
        """Count the values of a bucket, or one alone."""
        self.count += spread.count
        self._total += spread.total
        self._low, self._high = min(self._low, spread.low), max(self._high, spread.high)
        place = _class(spread.mean)
        self._classes[place] = self._classes.get(place, 0) + spread.count

    def use(self) -> Use | None:
        """Return the four figures; None before anything was added."""
        if not self.count:
            return None
        return Use(
            peak=_rounded(self._high),
            mean=_rounded(self._total / self.count),
            median=_rounded(self._quantile(0.5)),
            p95=_rounded(self._quantile(0.95)),
        )

    def _quantile(self, share: float) -> float:
        wanted, below, found = share * self.count, 0, 0
        for found in sorted(self._classes):
            below += self._classes[found]
            if below >= wanted:
                break
        return min(max(_middle(found), self._low), self._high)


def _class(value: float) -> int:
    """Return the class of a value; -1 holds nothing, 0 what lies just above `_LEAST`."""
    if value <= _LEAST:
        return -1
    return min(int(math.log(value / _LEAST) / _WIDTH), 1100)


def _middle(place: int) -> float:
    return 0.0 if place < 0 else _LEAST * math.exp((place + 0.5) * _WIDTH)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


class RunUse:
    """What one run has used since its first sample, by figure of history.FIGURES."""

    def __init__(self) -> None:
        self._figures: dict[str, Histogram] = {}

    @property
    def samples(self) -> int:
        """How often its best measured figure was measured."""
        return max((each.count for each in self._figures.values()), default=0)

    def add(self, now: Mapping[str, float]) -> None:
        """Count what it uses now, by figure; what is no number or below 0 is left out."""
        for name, value in now.items():
            if name in FIGURES and math.isfinite(value) and value >= 0:
                self._of(name).add(Spread(1, value, value, value))

    def add_bucket(self, bucket: series.Bucket) -> None:
        """Count a bucket of its series."""
        for name in FIGURES:
            metric, factor = METRIC_OF[name]
            found = bucket.get(metric)
            if found is not None and found.low >= 0:
                low, total, high = found.low / factor, found.total / factor, found.high / factor
                self._of(name).add(Spread(found.count, low, total, high))

    def used(self) -> dict[str, Use]:
        """Return what it has used, without the figures that nobody measured."""
        found = ((name, each.use()) for name, each in self._figures.items())
        return {name: use for name, use in found if use is not None}

    def _of(self, name: str) -> Histogram:
        return self._figures.setdefault(name, Histogram())


def metrics(now: Mapping[str, float]) -> dict[str, float | None]:
    """Return what a meter tells of now by the names and in the units of the series."""
    return {
        metric: now[name] * factor for name, (metric, factor) in METRIC_OF.items() if name in now
    }


def joined(
    told: Mapping[str, Use], seen: Mapping[str, Use], before: Mapping[str, Use]
) -> dict[str, Use]:
    """Return what a meter tells of a run's use, filled up by what was seen of it.

    A peak is the greatest that anybody knows, `before` being what was recorded: it never falls.
    """
    names = [name for name in FIGURES if name in told or name in seen or name in before]
    return {name: _joined(told.get(name), seen.get(name), before.get(name)) for name in names}


def _joined(told: Use | None, seen: Use | None, before: Use | None) -> Use:
    ranked = [each for each in (told, seen, before) if each is not None]
    peaks = [each.peak for each in ranked if each.peak is not None]

    def first(values: Iterable[float | None]) -> float | None:
        return next((each for each in values if each is not None), None)

    return Use(
        peak=max(peaks, default=None),
        mean=first(each.mean for each in ranked),
        median=first(each.median for each in ranked),
        p95=first(each.p95 for each in ranked),
    )


def grown(before: Mapping[str, Use], now: Mapping[str, Use]) -> bool:
    """Tell whether any peak is new, or a twentieth more than what is recorded."""
    for name, use in now.items():
        old = before.get(name)
        if use.peak is None:
            continue
        if old is None or old.peak is None or use.peak > max(old.peak * GROWN, old.peak + 1):
            return True
    return False


def moved(before: Mapping[str, Use], now: Mapping[str, Use]) -> bool:
    """Tell whether a mean, median or 95 % is new, or a twentieth away from what is recorded."""
    for name, use in now.items():
        old = before.get(name, Use())
        for was, value in (
            (old.mean, use.mean), (old.median, use.median), (old.p95, use.p95),
        ):  # fmt: skip
            if value is None:
                continue
            if was is None or abs(value - was) > max(abs(was) * (GROWN - 1), 1.0):
                return True
    return False


def at_end(
    recorded: Mapping[str, Use], minutes: Iterable[series.Bucket], lasted: timedelta
) -> dict[str, Use]:
    """Return what a run has used at its end: what was recorded of it, and its kept minutes.

    The minutes reach back as far as the finest tier. Of a longer run they would tell of its end
    alone, so that only its peak takes part; mean, median and 95 % are then those recorded last.
    """
    seen = RunUse()
    for bucket in minutes:
        seen.add_bucket(bucket)
    found = seen.used()
    if lasted <= series.TIERS[0].window:
        return joined({}, found, recorded)
    return joined(recorded, found, recorded)
