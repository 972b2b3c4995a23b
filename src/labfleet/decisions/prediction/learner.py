"""The resident learner: fed with past runs in order, asked what a new run will need.

Pure and not thread-safe. Its state is a function of the rows it was fed with, in their order, and
asking changes nothing, so a learner rebuilt from the same rows answers the same, byte for byte.
What it keeps is bounded: some hundred runs a family, some thousand families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from labfleet.decisions.prediction.forecasts import bound, of_family, of_kind
from labfleet.decisions.prediction.pool import Pools
from labfleet.decisions.prediction.quantiles import STATED
from labfleet.decisions.prediction.series import SHIFT, Guess, Series
from labfleet.decisions.prediction.window import Floats, Query, Window
from labfleet.resources.history import RESOURCES, KeptRun, Parameter, Run, RunKind, Source, used
from labfleet.resources.prediction import Achieved, Prediction

FAMILIES = 2000
"""Families kept; the one that learned longest ago makes room for a new one."""
MEMORY_BUMP = 1.2
"""A run that was killed for want of memory needed at least this many times what it had."""
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

    def __init__(self, *, trust_reports: bool = False) -> None:
        """Begin with no history."""
        self.version = 0
        """Place in the history of the last run that was learned from."""
        self.trusts_reports = trust_reports
        """Whether what callers reported teaches the runs of others too."""
        self._families: dict[Key, Family] = {}
        self._pools: dict[tuple[RunKind, str], Pools] = {}
        self._achieved: dict[tuple[RunKind, str], list[list[float]]] = {}

    def learn(self, kept: KeptRun) -> None:
        """Take in the next run; one at or before the version is known already and left out."""
        if kept.place <= self.version:
            return
        self.version = kept.place
        run = kept.run
        reported = run.source is Source.REPORTED and not self.trusts_reports
        key = (run.kind, run.namespace, run.family, run.owner if reported else "")
        peaks = {name: peak for name in RESOURCES if (peak := used(run, name)) is not None}
        family = self._families.pop(key, None) or Family()
        query = family.window.query(run.parameters) if len(family.window) else None
        judged: dict[str, _Judged] = {}
        for name, peak in peaks.items():
            found = self._judge(run, family, query, name, max(peak, 0.0) + SHIFT[name])
            if found is not None:
                judged[name] = found
        if judged:
            slot = family.window.add(
                run.parameters, run.name or run.uid, run.duration_seconds or 0.0
            )
            for name in judged:
                if name not in family.series:
                    pools = self._lent(run.kind, name)
                    family.series[name] = Series(name, family.window, pools)
            for name, series in family.series.items():
                if name in judged:
                    series.put(slot, judged[name].peak, judged[name].ratios)
                else:
                    series.skip(slot)
        if len(family.window):
            self._families[key] = family
            if len(self._families) > FAMILIES:
                del self._families[next(iter(self._families))]

    def predict(
        self, kind: RunKind, namespace: str, family: str, parameters: Mapping[str, Parameter],
        declared: Mapping[str, float] | None = None, *, coverage: float = 0.95, owner: str = "",
    ) -> Prediction:  # fmt: skip
        """Return what a run will need; a resource of which nothing is known has no forecast.

        `declared` says by resource what the caller or the cluster declares, in base units; no
        bound is above it unless a run exceeded it. `coverage` is the share of runs that shall
        stay within the bound, from 0.5 to 0.999.
        """
        declared = declared or {}
        ours = self._families.get((kind, namespace, family, ""))
        theirs = self._families.get((kind, namespace, family, owner)) if owner else None
        queries: dict[int, Query] = {}
        forecasts = []
        for name in RESOURCES:
            limit = declared.get(name)
            for each in (ours, theirs):
                if each is not None and (series := each.known(name)) is not None:
                    query = queries.get(id(each))
                    if query is None:
                        query = queries[id(each)] = each.window.query(parameters)
                    forecasts.append(
                        of_family(
                            family, each.window, series, query, declared=limit, coverage=coverage
                        )
                    )
                    break
            else:
                found = of_kind(kind, name, self._pools.get((kind, name)), limit, coverage)
                if found is not None:
                    forecasts.append(found)
        return Prediction(family=family, forecasts=tuple(forecasts), version=self.version)

    def achieved(self) -> tuple[Achieved, ...]:
        """Return, by kind, resource and stated coverage, which share of bounds really held.

        Each run was judged by the bound it would have had just before it was learned from.
        """
        return tuple(
            Achieved(
                kind=kind, resource=name, stated=stated,
                runs=int(counts[0]), share=counts[1] / counts[0],
            )
            for (kind, name), rows in sorted(self._achieved.items())
            for stated, counts in zip(STATED, rows, strict=True)
            if counts[0]
        )  # fmt: skip

    def _lent(self, kind: RunKind, resource: str) -> Pools:
        found = self._pools.get((kind, resource))
        if found is None:
            found = self._pools[kind, resource] = Pools()
        return found

    def _judge(
        self, run: Run, family: Family, query: Query | None, name: str, peak: float
    ) -> _Judged | None:
        """Return what is to be kept of a peak; None when a cut-off run says nothing new."""
        shift = SHIFT[name]
        seconds = run.duration_seconds or 0.0
        given = run.allocation.get(name)
        series = family.known(name)
        if run.censored and name == "memory_mib" and "oom" in run.censored.lower():
            peak = max(peak, (given or 0) + shift) * MEMORY_BUMP
        if series is None or query is None:
            if run.censored and (given is None or peak <= given + shift):
                return None
            if not run.censored:
                share = peak / (given + shift) if given else float("nan")
                self._lent(run.kind, name).firsts.add(np.array([share, peak]), seconds)
            return _Judged(peak, None)
        now = series.guess(query)
        if run.censored and peak <= now.peak * series.bound_ratio(now.row, 0.95):
            return None
        self._count(run, series, now, peak)
        ratios = series.judge(query, peak, seconds, cut_off=bool(run.censored))
        return _Judged(peak, ratios)

    def _count(self, run: Run, series: Series, now: Guess, peak: float) -> None:
        """Count whether the bounds held that the run would have had."""
        name = series.resource
        given = run.allocation.get(name)
        rows = self._achieved.setdefault((run.kind, name), [[0.0, 0.0] for _ in STATED])
        for stated, counts in zip(STATED, rows, strict=True):
            if counts[0] >= COUNTED:
                counts[0] /= 2
                counts[1] /= 2
            counts[0] += 1
            counts[1] += peak <= bound(series, now, given, stated)
