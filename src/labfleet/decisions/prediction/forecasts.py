"""Makes a forecast of what a family's series, or the first runs of other families, say.

Pure. Here the limits stand that hold whatever was learned: what is declared, and how far one
outlier may lift a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from labfleet.decisions.prediction import wording
from labfleet.decisions.prediction.pool import Firsts, Pools
from labfleet.decisions.prediction.rules import Rule
from labfleet.decisions.prediction.series import OUTLIER, SHIFT, Guess, Series
from labfleet.decisions.prediction.window import SAME, Floats, Query, Window
from labfleet.resources.history import RunKind
from labfleet.resources.prediction import (
    LEVELS,
    Evidence,
    Forecast,
    Later,
    Prediction,
    Recommendation,
)

BEFORE_A_LEADER = 0.95
"""Coverage of the bound that is recommended as long as no rule leads."""
LIVING = frozenset({"cpu_milli", "memory_mib", "network_kbps"})
"""Resources of which it matters that runs that live on are the heavier ones: what a load adds up."""
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


@dataclass(slots=True)
class Case:
    """A forecast of one resource before its numbers are rounded and limited; peaks are shifted.

    spread: Peaks at LEVELS.
    middle: The peak that half of the runs stay within.
    upper: The bound, before the limit `top`.
    ages: From which ages on other peaks are expected; `later` has them, one row an age.
    """

    resource: str
    spread: Floats
    middle: float
    upper: float
    top: float
    evidence: Evidence
    runs: tuple[str, ...]
    sentence: str
    known: int = 0
    ages: Sequence[float] = ()
    later: Floats | None = None


def of_family(
    family: str, window: Window, series: Series, query: Query, *,
    declared: float | None, coverage: float,
) -> Case:  # fmt: skip
    """Return the forecast from runs of the family itself."""
    now = series.guess(query)
    worth = series.worth(now.row, coverage)
    exact = bool(query.far[now.near.slots[0]] < SAME)
    slots = now.near.slots[:NAMED].tolist()
    if now.rule is Rule.LARGEST and series.largest_slot not in slots:
        slots = [series.largest_slot, *slots[: NAMED - 1]]
    sentence = worth.sentences.get((now.rule, exact))
    if sentence is None:
        sentence = worth.sentences[now.rule, exact] = wording.of_family(
            _runs(family, series), now.rule, series.count, worth.bound, exact=exact
        )
    lives = series.resource in LIVING
    level = series.steady(now, query) if lives else now.peak
    return Case(
        series.resource,
        level * worth.spread,
        now.peak * worth.middle,
        now.peak * worth.bound,
        top=min(now.top, limit(series, declared)),
        evidence=Evidence.EXACT if exact else Evidence.CLOSEST,
        runs=tuple([window.names[slot] for slot in slots]),
        sentence=sentence,
        known=series.count,
        ages=worth.ages if lives else (),
        later=level * worth.later if lives and worth.ages else None,
    )


def of_kind(
    kind: RunKind, resource: str, pools: Pools | None, declared: float | None, coverage: float
) -> Case | Forecast | None:
    """Return what the first runs of other families say; else what is declared; else None."""
    row, scale, shift = Firsts.PEAK, 1.0, 0.0
    if declared is not None:
        row, scale, shift = Firsts.SHARE, float(declared), SHIFT[resource]
    upper = None if pools is None else pools.firsts.bound(row, coverage)
    if pools is not None and upper is not None:
        ordered = pools.firsts.ordered(row)
        return Case(
            resource,
            scale * pools.firsts.spread(row) + shift,
            scale * ordered[len(ordered) // 2] + shift,
            scale * upper + shift,
            top=float("inf") if declared is None else scale + shift,
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


class Foreseen:
    """What is expected of one run, before it is written down for whoever needs how much of it."""

    def __init__(
        self, family: str, found: Sequence[Case | Forecast], *, coverage: float, version: int
    ) -> None:
        self._family = family
        self._coverage = coverage
        self._version = version
        self._cases = [each for each in found if isinstance(each, Case)]
        self._order = [each.resource for each in found]
        plain = {each.resource: each for each in found if isinstance(each, Forecast)}
        self._made = plain | self._forecasts()

    def brief(self) -> Prediction:
        """Return the prediction without what holds for a run that lives on: it may not start."""
        return self._prediction(self._made)

    def whole(self) -> Prediction:
        """Return the prediction with what holds for a run that lives on."""
        made = dict(self._made)
        living = [case for case in self._cases if case.later is not None]
        if living:
            rows = iter(_plain(
                [case for case in living for _ in case.ages],
                np.concatenate([case.later for case in living if case.later is not None]),
            ))  # fmt: skip
            for case in living:
                later = tuple(
                    [Later(after_seconds=age, spread=tuple(next(rows))) for age in case.ages]
                )
                made[case.resource] = msgspec.structs.replace(made[case.resource], later=later)
        return self._prediction(made)

    def _prediction(self, made: Mapping[str, Forecast]) -> Prediction:
        forecasts = tuple([made[name] for name in self._order])
        return Prediction(family=self._family, forecasts=forecasts, version=self._version)

    def _forecasts(self) -> dict[str, Forecast]:
        """Return the forecasts of all cases; their numbers are made at once."""
        cases = self._cases
        if not cases:
            return {}
        spreads = np.array([case.spread for case in cases])
        # The greatest draw is no less than the bound: few runs have not shown their greatest yet.
        np.maximum(spreads[:, -1], [case.upper for case in cases], out=spreads[:, -1])
        made = {}
        for case, row in zip(cases, _plain(cases, spreads), strict=True):
            shift = SHIFT[case.resource]
            bound = max(0.0, min(case.upper, case.top) - shift)
            made[case.resource] = Forecast(
                resource=case.resource,
                expected=min(bound, max(0.0, case.middle - shift)),
                bound=bound,
                coverage=self._coverage,
                evidence=case.evidence,
                spread=tuple(row),
                runs=case.runs,
                known=case.known,
                sentence=case.sentence,
            )
        return made


def _plain(cases: Sequence[Case], peaks: Floats) -> list[list[float]]:
    """Return shifted peaks, a row each of its case, as amounts none of which is above its top.

    Admission counts in whole units; more digits would only make every stored run larger.
    """
    shift = np.array([[SHIFT[case.resource]] for case in cases])
    top = np.array([[case.top] for case in cases])
    top -= shift
    plain = (peaks - shift).round(2)
    np.minimum(plain, top, out=plain)
    np.maximum(plain, 0.0, out=plain)
    found: list[list[float]] = plain.tolist()
    return found


def _runs(family: str, series: Series) -> str:
    return wording.runs_of(family, series.count, reported=not series.lends)
