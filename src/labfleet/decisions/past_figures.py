"""What past runs of one family used of one resource, in a few figures for people. Pure.

Nothing is decided by them: the learner has its own, kept run by run. Here a page of the newest runs
is enough, so that the figures cost the same however long the history is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST = 4
"""Runs in each half from which on a drift is told."""


@dataclass(frozen=True, slots=True)
class PastFigure:
    """Figures of one resource in its base unit.

    runs: In how many runs it was measured.
    median: What half of them stayed within.
    p95: What nineteen of twenty stayed within.
    greatest: The most that any used.
    drift: By which share the newer half's median differs from the older half's; None with too few
        runs, or where the older half used nothing.
    """

    runs: int
    median: float
    p95: float
    greatest: float
    drift: float | None


def figure(peaks: Sequence[float]) -> PastFigure | None:
    """Return the figures of peaks, the newest first; None without any."""
    if not peaks:
        return None
    ordered = sorted(peaks)
    return PastFigure(
        runs=len(ordered),
        median=quantile(ordered, 0.5),
        p95=quantile(ordered, 0.95),
        greatest=ordered[-1],
        drift=_drift(peaks),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least of the values, smallest first, within which that share of them lies."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _drift(peaks: Sequence[float]) -> float | None:
    half = len(peaks) // 2
    if half < LEAST:
        return None
    newer, older = quantile(sorted(peaks[:half]), 0.5), quantile(sorted(peaks[half:]), 0.5)
    return newer / older - 1.0 if older > 0 else None
