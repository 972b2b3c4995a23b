"""The rules that a decision can be made again, and that no outlier carries a bound away.

A sample of the decisions is made anew at the end of a seed, from what was stored when each was
made: the past runs up to the version that it names, its cluster, and the runs that held something.
Prediction and evidence must come out the same always, the decision itself whenever what the
decider knew is known here too: nothing changed meanwhile that it had not read, and no write failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from labfleet.rehearsal.rules.counted import LATE_SECONDS
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import WhenBlind
from labfleet.resources.decision import Rule
from labfleet.resources.history import RESOURCES, Run, RunKind, Source, typed, used
from labfleet.resources.prediction import Evidence, Forecast, Prediction
from labfleet.resources.simulation import Simulation
from labfleet.stores import history

if TYPE_CHECKING:
    from labfleet.decisions.prediction.learner import Learner

SAMPLE = 150
"""Decisions of a seed that are made again."""
FACTOR = 8.0
"""No bound is above this many times the largest peak seen, scaled up to the run's size."""
BUMP, UNITS = 1.2, 10.0
"""How much more a run needed that was killed for memory; units that do not count (base units)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision and what was held before it; None when the decider may have known something else."""

    run: Simulation
    cluster: Cluster
    live: tuple[Simulation, ...] | None


@dataclass(slots=True)
class Decided:
    """Keeps decisions and makes them again; `broken` takes the rule's word and what was seen."""

    shared: SharedDatabase
    broken: Callable[[str, str], None]
    sample: list[Kept] = field(default_factory=list)
    whole: int = 0
    """How many of the sample were compared as a whole, not only by prediction and evidence."""
    _latest: datetime = EPOCH
    _missed: int = 0
    _missed_at: float = -math.inf

    def keep(
        self, run: Simulation, cluster: Cluster, live: tuple[Simulation, ...], others: int
    ) -> None:
        """Take a decision as it is committed; `others` is the newest change that was none."""
        decision = run.status.decision
        if decision is None or len(self.sample) >= SAMPLE:
            return
        known = max(others, self.shared.failed_at + 1, cluster.revision) <= decision.revision
        missed, now = self.shared.injector.missed["Simulation"], self.shared.loop.time()
        if missed != self._missed:
            self._missed, self._missed_at = missed, now
        # A leader that missed a change may count wrongly until it counts anew (`counted`).
        known = known and now - self._missed_at > LATE_SECONDS
        # What waits is judged before others start that are written first; and a clock that goes
        # back has let runs grow older than they are.
        known = known and decision.outcome == "approved" and decision.at >= self._latest
        self._latest = max(self._latest, decision.at)
        self.sample.append(Kept(run, cluster, live if known else None))

    def look(self) -> None:
        """Make every kept decision again; once, at the end."""
        if not self.sample:
            return
        from labfleet.decisions.prediction.learner import Learner  # numpy, which few seeds need

        learner, largest = Learner(), _Largest()
        database = self.shared.inner
        runs = list(history.read(database.rows(database.sql["history"], (0, 10**6))))
        runs.reverse()
        for each in sorted(self.sample, key=_version):
            while runs and runs[-1].place <= _version(each):
                known = runs.pop()
                learner.learn(known)
                largest.learn(known.run)
            self._again(learner, each)
            self._bounded(largest, each.run)

    def _again(self, learner: Learner, kept: Kept) -> None:
        from labfleet.decisions.admission.judge import Judge

        status, decision = kept.run.status, kept.run.status.decision
        if decision is None or status.prediction is None:
            self.broken("replayed", f"{kept.run.key} was decided and says no prediction")
            return
        again = Judge().decide(
            kept.run.spec,
            learner,
            uid=kept.run.metadata.uid,
            cluster=kept.cluster,
            live=kept.live or (),
            now=decision.at,
            revision=decision.revision,
            default_seconds=1,  # how long it may last is not compared
            blind=_blind(kept.cluster, decision.rule),
        )
        told = f"{kept.run.key}, made again from version {status.prediction.version}"
        if _learned(again.prediction) != _learned(status.prediction):
            self.broken("replayed", f"{told}: another prediction")
        elif kept.live is not None:
            self.whole += 1
            if (again.prediction, again.evidence) != (status.prediction, status.evidence):
                self.broken("replayed", f"{told}: another explanation")
            elif again.decision != decision:
                made = again.decision.message
                self.broken("replayed", f"{told}: {made!r} and not {decision.message!r}")

    def _bounded(self, largest: _Largest, run: Simulation) -> None:
        """No bound from a family's own runs is far above the largest of them."""
        prediction = run.status.prediction
        for each in () if prediction is None else prediction.forecasts:
            if each.evidence in {Evidence.EXACT, Evidence.CLOSEST}:
                self._not_carried_away(largest, run, each)

    def _not_carried_away(self, largest: _Largest, run: Simulation, forecast: Forecast) -> None:
        family = run.status.prediction.family if run.status.prediction is not None else ""
        # What callers report teaches about their own runs alone.
        most, seen = max(
            (FACTOR * (peak + UNITS) * largest.reach(run, family, owner), peak)
            for owner in ("", run.spec.owner)
            for peak in (largest.peak((run.namespace, family, owner), forecast.resource),)
        )
        if forecast.bound > most:
            what = f"{forecast.resource} {forecast.bound:.0f}, largest seen {seen:.0f}"
            self.broken("outlier", f"{run.key} is bounded by {what}")


def _blind(cluster: Cluster, rule: str) -> bool:
    """Tell whether a decision was made by declared values alone, since the cluster was in safe mode."""
    may = cluster.spec.metrics and cluster.spec.when_blind is WhenBlind.DECLARED
    return bool(may) and rule == Rule.DECLARED


def _learned(prediction: Prediction) -> list[tuple[object, ...]]:
    """Return what a prediction says by the history alone, not by what else lives of its family."""
    return [
        (each.resource, each.expected, each.bound, each.coverage, each.evidence, each.runs)
        for each in prediction.forecasts
    ]


def _version(kept: Kept) -> int:
    prediction = kept.run.status.prediction
    return 0 if prediction is None else prediction.version


_Runs = tuple[str, str, str]


@dataclass(slots=True)
class _Largest:
    """The largest peaks and parameters so far: by namespace, family and owner, then by name."""

    _peaks: dict[tuple[_Runs, str], float] = field(default_factory=dict)
    _numbers: dict[tuple[_Runs, str], float] = field(default_factory=dict)

    def learn(self, run: Run) -> None:
        """Take in the next past run."""
        if run.kind is not RunKind.SIMULATION:
            return
        whose = run.owner if run.source is Source.REPORTED else ""
        runs = (run.namespace, run.family, whose)
        for name in RESOURCES:
            peak = used(run, name)
            if peak is not None:
                if run.censored and name == "memory_mib":
                    peak = max(peak, run.allocation.get(name, 0)) * BUMP
                self._peaks[runs, name] = max(self._peaks.get((runs, name), 0.0), peak)
        for name, value in run.parameters.items():
            if isinstance(value, float):
                self._numbers[runs, name] = max(self._numbers.get((runs, name), 0.0), value)

    def peak(self, runs: _Runs, resource: str) -> float:
        """Return the largest peak of a family's runs, 0 when there is none."""
        return self._peaks.get((runs, resource), 0.0)

    def reach(self, run: Simulation, family: str, owner: str) -> float:
        """Return how many times larger a run is than any before, at least 1."""
        found = 1.0
        for name, value in typed(run.spec.params).items():
            before = self._numbers.get(((run.namespace, family, owner), name))
            if isinstance(value, float) and before:
                found = max(found, value / before)
        return found
