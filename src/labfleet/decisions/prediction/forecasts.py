"""Makes a forecast of what a family's series, or the first runs of other families, say.

Pure. Here the limits stand that hold whatever was learned: what is declared, and how far one
outlier may lift a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from labfleet.decisions.prediction import wording
from labfleet.decisions.prediction.pool import Firsts, Pools
from labfleet.decisions.prediction.ratios import NO_AGES
from labfleet.decisions.prediction.rules import Rule
from labfleet.decisions.prediction.series import OUTLIER, SHIFT, Guess, Series, Worth
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
    """A forecast of one resource before its numbers are made; peaks are shifted.

    resource: What it is about.
    peak: The guess.
    level: The guess as a load is to count it.
    worth: What it is multiplied by.
    top: No number may be above this.
    evidence: What it rests on.
    runs: Names of runs behind it.
    sentence: The evidence for people.
    known: How many runs of the family stand behind it.
    unlike: From which age on it is like no known run, and what it takes then; None: never.
    """

    resource: str
    peak: float
    level: float
    worth: Worth
    top: float
    evidence: Evidence
    runs: tuple[str, ...]
    sentence: str
    known: int = 0
    unlike: tuple[float, Floats] | None = None

    @property
    def upper(self) -> float:
        """The bound, before the limit `top`."""
        return self.peak * self.worth.bound

    @property
    def ages(self) -> Sequence[float]:
        """From which ages on other peaks are expected of a run that lives on."""
        if self.resource not in LIVING:
            return ()
        return self.worth.ages if self.unlike is None else (self.unlike[0],)

    @property
    def later(self) -> Floats:
        """Those peaks, one row an age."""
        if self.unlike is None:
            return self.level * self.worth.later
        return np.maximum(self.level * self.worth.spread, self.unlike[1])[np.newaxis]


def of_family(
    family: str, window: Window, series: Series, query: Query, *,
    declared: float | None, coverage: float,
) -> Case:  # fmt: skip
    """Return the forecast from runs of the family itself."""
    now = series.guess(query)
    worth = series.worth(now.row, coverage)
    slots = now.near.slots[:NAMED]
    exact = bool(query.far[slots[0]] < SAME)
    if now.rule is Rule.LARGEST and series.largest_slot not in slots:
        slots = [series.largest_slot, *slots[: NAMED - 1]]
    sentence = worth.sentences.get((now.rule, exact))
    if sentence is None:
        sentence = worth.sentences[now.rule, exact] = wording.of_family(
            _runs(family, series), now.rule, series.count, worth.bound, exact=exact
        )
    lives = series.resource in LIVING
    return Case(
        series.resource,
        now.peak,
        series.steady(now, query) if lives else now.peak,
        worth,
        min(now.top, limit(series, declared)),
        Evidence.EXACT if exact else Evidence.CLOSEST,
        tuple([window.names[slot] for slot in slots]),
        sentence,
        series.count,
        series.unlike(declared) if lives else None,
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
            1.0,
            1.0,
            Worth(
                scale * upper + shift,
                scale * ordered[len(ordered) // 2] + shift,
                scale * pools.firsts.spread(row) + shift,
                *NO_AGES,
            ),
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
        runs=tuple(window.names[slot] for slot in slots[:NAMED]),
        sentence=sentence,
    )


class Foreseen:
    """What is expected of one run, before it is written down for whoever needs how much of it."""

    def __init__(
        self, family: str, found: Sequence[tuple[Forecast, Case | None]], *, version: int
    ) -> None:
        self._family = family
        self._found = found
        self._version = version

    def brief(self) -> Prediction:
        """Return the prediction without what holds for a run that lives on: it may not start."""
        return self._prediction([made for made, _ in self._found])

    def whole(self) -> Prediction:
        """Return the prediction with what holds for a run that lives on."""
        living = [case for _, case in self._found if case is not None and case.ages]
        if not living:
            return self.brief()
        rows = iter(_plain(
            [case for case in living for _ in case.ages],
            np.concatenate([case.later for case in living]),
        ))  # fmt: skip
        made = []
        for each, case in self._found:
            if case is None or not case.ages:
                made.append(each)
                continue
            later = [Later(after_seconds=age, spread=tuple(next(rows))) for age in case.ages]
            made.append(msgspec.structs.replace(each, later=tuple(later)))
        return self._prediction(made)

    def _prediction(self, made: Sequence[Forecast]) -> Prediction:
        return Prediction(family=self._family, forecasts=tuple(made), version=self._version)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one run by resource, before its numbers are made.

    family: Which runs it is like.
    coverage: Share of runs that shall stay within their bounds.
    cases: For each resource what is known of it, or a forecast that is made already.
    """

    family: str
    coverage: float
    cases: Sequence[Case | Forecast]


def foreseen(known: Sequence[Known], version: int) -> list[Foreseen]:
    """Return what is expected of each run; the numbers of all are made at once."""
    cases = [case for each in known for case in each.cases if isinstance(case, Case)]
    numbers = iter(_numbers(cases))
    return [
        Foreseen(
            each.family,
            [
                (_forecast(case, each.coverage, *next(numbers)), case)
                if isinstance(case, Case)
                else (case, None)
                for case in each.cases
            ],
            version=version,
        )
        for each in known
    ]


def _numbers(cases: Sequence[Case]) -> list[tuple[float, list[float]]]:
    """Return the bound, shifted and not limited yet, and the spread of each case."""
    if not cases:
        return []
    spreads = np.array([case.worth.spread for case in cases])
    spreads *= np.array([case.level for case in cases]).reshape(-1, 1)
    uppers = [case.upper for case in cases]
    # The greatest draw is no less than the bound: few runs have not shown their greatest yet.
    np.maximum(spreads[:, -1], uppers, out=spreads[:, -1])
    return list(zip(uppers, _plain(cases, spreads), strict=True))


def _forecast(case: Case, coverage: float, upper: float, spread: list[float]) -> Forecast:
    shift = SHIFT[case.resource]
    bound = max(0.0, min(upper, case.top) - shift)
    return Forecast(
        resource=case.resource,
        expected=min(bound, max(0.0, case.peak * case.worth.middle - shift)),
        bound=bound,
        coverage=coverage,
        evidence=case.evidence,
        spread=tuple(spread),
        runs=case.runs,
        known=case.known,
        sentence=case.sentence,
    )


def _plain(cases: Sequence[Case], peaks: Floats) -> list[list[float]]:
    """Return shifted peaks, a row each of its case, as amounts none of which is above its top.

    Admission counts in whole units; more digits would only make every stored run larger.
    """
    shift = np.array([SHIFT[case.resource] for case in cases]).reshape(-1, 1)
    top = np.array([case.top for case in cases]).reshape(-1, 1)
    top -= shift
    plain = (peaks - shift).round(2)
    np.minimum(plain, top, out=plain)
    np.maximum(plain, 0.0, out=plain)
    found: list[list[float]] = plain.tolist()
    return found


def _runs(family: str, series: Series) -> str:
    return wording.runs_of(family, series.count, reported=not series.lends)
