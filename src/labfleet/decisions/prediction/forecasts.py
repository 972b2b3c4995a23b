"""Makes a forecast of what a family's series, or the first runs of other families, say.

Pure. Here the limits stand that hold whatever was learned: what is declared, and how far one
outlier may lift a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labfleet.decisions.prediction import wording
from labfleet.decisions.prediction.pool import Firsts, Pools
from labfleet.decisions.prediction.rules import Rule
from labfleet.decisions.prediction.series import OUTLIER, SHIFT, Guess, Series
from labfleet.decisions.prediction.window import Floats, Query, Window
from labfleet.resources.history import RunKind
from labfleet.resources.prediction import (
    LEVELS,
    Evidence,
    Forecast,
    Later,
    Recommendation,
)

SAME = 1e-6
"""Distance below which two runs asked for the same; ages are what is left of it."""
BEFORE_A_LEADER = 0.95
"""Coverage of the bound that is recommended as long as no rule leads."""
NAMED = 5
"""Names of runs that a forecast gives."""


def limit(series: Series, declared: float | None) -> float:
    """Return the shifted peak that no bound may pass: what is declared, unless a run passed it."""
    if declared is None:
        return float("inf")
    shifted = declared + SHIFT[series.resource]
    return shifted if series.largest <= shifted else float("inf")


def bound(series: Series, now: Guess, declared: float | None, coverage: float) -> float:
    """Return the shifted upper bound of stated coverage."""
    found = now.peak * series.bound_ratio(now.row, coverage)
    return min(found, now.top, limit(series, declared))


def of_family(
    family: str, window: Window, series: Series, query: Query, *,
    declared: float | None, coverage: float,
) -> Forecast:  # fmt: skip
    """Return the forecast from runs of the family itself."""
    now = series.guess(query)
    ages, later = series.later()
    ratio = series.bound_ratio(now.row, coverage)
    exact = query.far[now.near.slots[0]] < SAME
    slots = now.near.slots[:NAMED].tolist()
    if now.rule is Rule.LARGEST and series.largest_slot not in slots:
        slots = [series.largest_slot, *slots[: NAMED - 1]]
    return _forecast(
        series.resource,
        now.peak * _ratios(series, now.row),
        now.peak * series.middle(now.row),
        now.peak * ratio,
        top=min(now.top, limit(series, declared)),
        coverage=coverage,
        evidence=Evidence.EXACT if exact else Evidence.CLOSEST,
        runs=tuple([window.names[slot] for slot in slots]),
        known=series.count,
        ages=ages,
        later=now.peak * later,
        sentence=wording.of_family(
            _runs(family, series), now.rule, series.count, ratio, exact=exact
        ),
    )


def _ratios(series: Series, row: int) -> Floats:
    """Return the ratios at LEVELS: of a duration each run once, else as they are met running."""
    return series.plain(row) if series.resource == "duration_seconds" else series.spread(row)


def of_kind(
    kind: RunKind, resource: str, pools: Pools | None, declared: float | None, coverage: float
) -> Forecast | None:
    """Return what the first runs of other families say; else what is declared; else None."""
    row, scale, shift = Firsts.PEAK, 1.0, 0.0
    if declared is not None:
        row, scale, shift = Firsts.SHARE, float(declared), SHIFT[resource]
    upper = None if pools is None else pools.firsts.bound(row, coverage)
    if pools is not None and upper is not None:
        ordered = pools.firsts.ordered(row)
        return _forecast(
            resource,
            scale * pools.firsts.spread(row) + shift,
            scale * ordered[len(ordered) // 2] + shift,
            scale * upper + shift,
            top=float("inf") if declared is None else scale + shift,
            coverage=coverage,
            evidence=Evidence.KIND,
            runs=(),
            sentence=wording.of_kind(kind, len(ordered), declared=declared is not None),
        )
    if declared is None:
        return None
    value = float(declared)
    return Forecast(
        resource=resource, expected=value, bound=value, coverage=coverage,
        evidence=Evidence.DECLARED, spread=(value,) * len(LEVELS), sentence=wording.declared(),
    )  # fmt: skip


def recommendation(family: str, window: Window, series: Series, query: Query) -> Recommendation:
    """Return the size that wastes least, by the bound as long as nothing leads."""
    best = series.sizing.best()
    if best is None:
        now = series.guess(query)
        size, missed, slots = bound(series, now, None, BEFORE_A_LEADER), None, now.near.slots
        sentence = wording.no_leader(_runs(family, series))
    else:
        rule, margin, missed = best
        near = series.near(query)
        slots = near.slots
        size = min(
            series.made_by(rule, query, near) * margin, OUTLIER * series.largest * query.reach
        )
        sentence = wording.leader(_runs(family, series), rule, series.count, margin, missed)
    return Recommendation(
        resource=series.resource,
        size=max(0.0, size - SHIFT[series.resource]),
        missed=missed,
        runs=tuple(window.names[slot] for slot in slots[:NAMED].tolist()),
        sentence=sentence,
    )


def _forecast(
    resource: str, spread: Floats, middle: float, upper: float, *,
    top: float, coverage: float, evidence: Evidence, runs: tuple[str, ...], sentence: str,
    known: int = 0, ages: Sequence[float] = (), later: Floats | None = None,
) -> Forecast:  # fmt: skip
    """Return a forecast of shifted peaks: those at LEVELS, the middle one and the bound."""
    shift = SHIFT[resource]
    # The greatest draw is no less than the bound: few runs have not shown their greatest yet.
    spread[-1] = max(spread[-1], upper)
    upper = max(0.0, min(upper, top) - shift)
    return Forecast(
        resource=resource,
        expected=min(upper, max(0.0, middle - shift)),
        bound=upper,
        coverage=coverage,
        evidence=evidence,
        spread=tuple(_plain(spread, top, shift)),
        later=tuple(
            [
                Later(after_seconds=age, spread=tuple(row))
                for age, row in zip(ages, _plain(later, top, shift), strict=True)
            ]
            if later is not None and ages
            else ()
        ),
        runs=runs,
        known=known,
        sentence=sentence,
    )


def _plain(peaks: Floats, top: float, shift: float) -> list[Any]:
    """Return shifted peaks, in a row or in rows, as amounts none of which is above `top`.

    Admission counts in whole units; more digits would only make every stored run larger.
    """
    peaks -= shift
    plain = peaks.round(2)
    np.minimum(plain, top - shift, out=plain)
    np.maximum(plain, 0.0, out=plain)
    found: list[Any] = plain.tolist()
    return found


def _runs(family: str, series: Series) -> str:
    return wording.runs_of(family, series.count, reported=not series.lends)
