"""The resident learner: fed with past runs in order, asked what a new run will need.

Pure and not thread-safe. Its state is a function of the rows it was fed with, in their order, and
asking changes nothing, so a learner rebuilt from the same rows answers the same, byte for byte.
What it keeps is bounded: some hundred runs a family, some thousand families. A family that made
room, or ran before the learner's first row, is not forgotten: `unread` names it and `adopt` takes it
in again, learned apart from its own last rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from labfleet.decisions.prediction.forecasts import (
    Case,
    Foreseen,
    Known,
    foreseen,
    limit,
    of_family,
    of_kind,
    recommendation,
)
from labfleet.decisions.prediction.pool import Pools
from labfleet.decisions.prediction.quantiles import STATED
from labfleet.decisions.prediction.series import SHIFT, Series
from labfleet.decisions.prediction.window import KEPT, Floats, Query, Window
from labfleet.resources.history import (
    LEARNED,
    RESOURCES,
    KeptRun,
    Parameter,
    Run,
    RunKind,
    Source,
    used,
)
from labfleet.resources.prediction import Achieved, Forecast, Prediction, Recommendation

FAMILIES = 1000
"""Families kept; the one that learned or was read longest ago makes room for a new one."""
SURE = 4 * FAMILIES
"""Families of which it is kept that nothing of them is missing; of further ones it is looked up."""
MEMORY_BUMP = 1.2
"""A run that was killed for want of memory needed at least this many times what it had."""
CENSORED_AT = STATED.index(0.95)
"""A run that was cut off below the bound of this coverage says nothing new."""
GREATEST = 1e15
"""A peak above this is taken for this."""
COUNTED = 2000
"""Runs after which earlier ones count half in what was achieved."""

Key = tuple[RunKind, str, str, str]


class Family:
    """The runs of one family, and what each resource learned from them."""

    def __init__(self) -> None:
        """Begin with no runs."""
        self.window = Window()
        self.series: dict[str, Series] = {}

    def known(self, resource: str) -> Series | None:
        """Return the series of a resource of which at least one peak is kept."""
        found = self.series.get(resource)
        return found if found is not None and found.count else None


@dataclass(frozen=True, slots=True)
class Question:
    """What a run is of which somebody asks what it will need; see `Learner.predict`.

    kind: What runs.
    namespace: Where it runs.
    family: Which runs it is like.
    parameters: What makes it what it is.
    declared: By resource what the caller or the cluster declares, in base units.
    coverage: Share of runs that shall stay within the bound, from 0.5 to 0.999.
    owner: Whose run it is.
    """

    kind: RunKind
    namespace: str
    family: str
    parameters: Mapping[str, Parameter]
    declared: Mapping[str, float]
    coverage: float = 0.95
    owner: str = ""


@dataclass(slots=True)
class _Judged:
    """A peak that is to be kept: shifted, with what each guess was worth."""

    peak: float
    ratios: Floats | None


class Learner:
    """What all past runs say of the next one.

    Measured and imported runs teach everybody; what a caller reported of its own run teaches only
    that owner's runs, and only where nothing was measured, unless `trust_reports` says otherwise.
    """

    def __init__(self, *, trust_reports: bool = False, since: int = 0) -> None:
        """Begin behind a place of the history; 0 is its beginning."""
        self.version = since
        """Place in the history of the last run that was learned from."""
        self.trusts_reports = trust_reports
        """Whether what callers reported teaches the runs of others too."""
        self._families: dict[Key, Family] = {}
        self._sure: dict[Key, None] | None = {} if since else None  # None: all of all families
        self._pools: dict[tuple[RunKind, str], Pools] = {}
        self._achieved: dict[tuple[RunKind, str], list[float]] = {}  # runs, then by STATED

    def learn(self, kept: KeptRun) -> None:
        """Take in the next run; one at or before the version is known already and left out."""
        if kept.place <= self.version:
            return
        self.version = kept.place
        run = kept.run
        if run.kind not in LEARNED:
            return
        reported = run.source is Source.REPORTED and not self.trusts_reports
        if reported and not run.owner:
            return
        key = (run.kind, run.namespace, run.family, run.owner if reported else "")
        family = self._families.pop(key, None) or Family()
        self._learn(run, family, lends=not reported)
        if len(family.window):
            self._keep(key, family)

    @property
    def partial(self) -> bool:
        """Tell whether there may be families of which it has not all that is to be known."""
        return self._sure is not None

    def unread(self, kind: RunKind, namespace: str, family: str, owner: str = "") -> list[Key]:
        """Return what has to be read of the history before such a run is asked about."""
        if self._sure is None:
            return []
        keys: list[Key] = [(kind, namespace, family, one) for one in dict.fromkeys(("", owner))]
        return [
            key
            for key in keys
            if key not in self._sure
            and ((found := self._families.get(key)) is None or len(found.window) < KEPT)
        ]

    def adopt(self, key: Key, apart: Learner) -> None:
        """Take in a family that another learner has learned from its last rows up to the version.

        What that one has of other families, and what all of them lend, stays apart.
        """
        family = apart._families.get(key)
        if family is not None:
            for name, series in family.series.items():
                series.join(self._lent(key[0], name))
            self._families.pop(key, None)
            self._keep(key, family)
        if self._sure is not None:
            self._sure[key] = None
            if len(self._sure) > SURE:
                del self._sure[next(iter(self._sure))]

    def _keep(self, key: Key, family: Family) -> None:
        """Keep a family as the last one; the first one makes room."""
        self._families[key] = family
        if len(self._families) > FAMILIES:
            if self._sure is None:
                self._sure = dict.fromkeys(self._families)
            first = next(iter(self._families))
            del self._families[first]
            self._sure.pop(first, None)

    def predict(
        self, kind: RunKind, namespace: str, family: str, parameters: Mapping[str, Parameter],
        declared: Mapping[str, float] | None = None, *, coverage: float = 0.95, owner: str = "",
    ) -> Prediction:  # fmt: skip
        """Return what a run will need; a resource of which nothing is known has no forecast.

        `declared` says by resource what the caller or the cluster declares, in base units; no
        bound is above it unless a run exceeded it. `coverage` is the share of runs that shall
        stay within the bound, from 0.5 to 0.999.
        """
        asked = Question(
            kind, namespace, family, parameters, declared or {}, coverage=coverage, owner=owner
        )
        return self.foresee([asked])[0].whole()

    def foresee(self, asked: Sequence[Question]) -> list[Foreseen]:
        """Return what `predict` returns for each run, to be had in brief or whole.

        Many at once cost less than one after the other; what is said of a run is the same.
        """
        return foreseen([self._known(each) for each in asked], self.version)

    def _known(self, asked: Question) -> Known:
        kind, space, family = asked.kind, asked.namespace, asked.family
        ours = self._families.get((kind, space, family, ""))
        theirs = None
        if asked.owner:
            theirs = self._families.get((kind, space, family, asked.owner))
        queries: dict[int, Query] = {}
        cases: list[Case | Forecast] = []
        for name in RESOURCES:
            given = asked.declared.get(name)
            for each in (ours, theirs):
                if each is not None and (series := each.known(name)) is not None:
                    query = queries.get(id(each))
                    if query is None:
                        query = queries[id(each)] = each.window.query(asked.parameters)
                    case = of_family(
                        family, each.window, series, query, declared=given, coverage=asked.coverage
                    )
                    cases.append(case)
                    break
            else:
                pools = self._pools.get((kind, name))
                found = of_kind(kind, name, pools, given, asked.coverage)
                if found is not None:
                    cases.append(found)
        return Known(family, asked.coverage, cases)

    def largest(
        self, kind: RunKind, namespace: str, family: str, name: str, *, owner: str = ""
    ) -> float | None:
        """Return the largest number that a parameter had in any known run; None when in none."""
        for holder in ("", owner):
            found = self._families.get((kind, namespace, family, holder))
            if found is not None:
                return found.window.largest(name)
        return None

    def recommend(
        self, kind: RunKind, namespace: str, family: str, parameters: Mapping[str, Parameter],
        resource: str, *, owner: str = "",
    ) -> Recommendation | None:  # fmt: skip
        """Return what a run should be given so that least is wasted; None when nothing is known.

        This is about cost, not about a promise: `predict` has the bound that keeps one.
        """
        for holder in ("", owner):
            found = self._families.get((kind, namespace, family, holder))
            series = None if found is None else found.known(resource)
            if found is not None and series is not None:
                query = found.window.query(parameters)
                return recommendation(family, found.window, series, query)
        return None

    def achieved(self) -> tuple[Achieved, ...]:
        """Return, by kind, resource and stated coverage, which share of bounds really held.

        Each run was judged by the bound it would have had just before it was learned from.
        """
        return tuple(
            Achieved(kind=kind, resource=name, stated=stated, runs=int(runs), share=share / runs)
            for (kind, name), (runs, *held) in sorted(self._achieved.items())
            for stated, share in zip(STATED, held, strict=True)
        )

    def _lent(self, kind: RunKind, resource: str) -> Pools:
        found = self._pools.get((kind, resource))
        if found is None:
            found = self._pools[kind, resource] = Pools()
        return found

    def _learn(self, run: Run, family: Family, *, lends: bool) -> None:
        """Judge what a run used by what was known before, then keep it."""
        query = family.window.query(run.parameters) if len(family.window) else None
        judged: dict[str, _Judged] = {}
        for name in RESOURCES:
            peak = used(run, name)
            if peak is not None and isfinite(peak):
                peak = min(max(peak, 0.0), GREATEST)
                found = self._judge(run, family, query, name, peak, lends=lends)
                if found is not None:
                    judged[name] = found
        if not judged:
            return
        slot = family.window.add(run.parameters, run.name or run.uid, _seconds(run))
        for name in judged:
            if name not in family.series:
                pools = self._lent(run.kind, name)
                family.series[name] = Series(name, family.window, pools, lends=lends)
        for name, series in family.series.items():
            if name in judged:
                new = judged[name]
                series.put(slot, new.peak, new.ratios, cut_off=bool(run.censored))
            else:
                series.skip(slot)

    def _judge(
        self, run: Run, family: Family, query: Query | None, name: str, peak: float, *, lends: bool
    ) -> _Judged | None:
        """Return what is to be kept of a peak; None when a cut-off run says nothing new."""
        given = run.allocation.get(name)
        if run.censored and name == "memory_mib" and "oom" in run.censored.lower():
            peak = max(peak, given or 0.0) * MEMORY_BUMP
        shift = SHIFT[name]
        peak += shift
        seconds = _seconds(run)
        series = family.known(name)
        if series is None or query is None:
            if run.censored and (given is None or peak <= given + shift):
                return None
            if lends and not run.censored:
                share = (peak - shift) / given if given else None
                self._lent(run.kind, name).firsts.learn(share, peak, seconds)
            return _Judged(peak, None)
        now, made = series.guesses(query)
        bounds = [now.peak * ratio for ratio in series.bound_ratios(now.row)]
        if run.censored and peak <= bounds[CENSORED_AT]:
            return None
        if lends:
            top = min(now.top, limit(series, given))
            self._count(run.kind, name, [peak <= min(bound, top) for bound in bounds])
        missed = [peak > bound for bound in bounds]
        ratios = series.judge(made, peak, seconds, missed, cut_off=bool(run.censored))
        return _Judged(peak, ratios)

    def _count(self, kind: RunKind, name: str, held: list[bool]) -> None:
        """Count whether the bounds at STATED held that a run would have had."""
        counts = self._achieved.get((kind, name))
        if counts is None:
            counts = self._achieved[kind, name] = [0.0] * (1 + len(STATED))
        if counts[0] >= COUNTED:
            counts[:] = [each / 2 for each in counts]
        counts[0] += 1
        for number, within in enumerate(held, 1):
            counts[number] += within


def _seconds(run: Run) -> float:
    """Return how long a run took; 0 where nobody knows."""
    found = run.duration_seconds
    return min(max(found, 0.0), GREATEST) if found is not None and isfinite(found) else 0.0
