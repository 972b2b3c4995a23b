"""Judges requests beside the load of their clusters, by what past runs say of them.

Holds what a decider keeps in memory: the load of each cluster that was asked for. It is a function
of what is stored, so a judge that is made anew answers the same. Pure, not thread-safe; imports
numpy, so it is imported when the first request is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.admission import chance, needs
from labfleet.decisions.admission.draws import Draws, draws, draws_of_all
from labfleet.decisions.admission.exploring import believed
from labfleet.decisions.admission.load import Load, Need, later_of, need
from labfleet.decisions.admission.targets import targets
from labfleet.decisions.admission.tightening import in_force
from labfleet.decisions.prediction.forecasts import Foreseen
from labfleet.decisions.prediction.learner import Learner, Question
from labfleet.resources import history, refs
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import Cluster, as_seen, others_of
from labfleet.resources.decision import Decision, Rule
from labfleet.resources.history import RunKind, Use
from labfleet.resources.prediction import Prediction
from labfleet.resources.simulation import HOLDING, OPEN, Simulation, SimulationSpec, family_of

_FIGURES = {
    "cpu_milli": "CPU",
    "memory_mib": "memory",
    "storage_mib": "disk",
    "network_kbps": "network",
    "duration_seconds": "duration",
}
MOST_SECONDS = 7 * 24 * 3600
"""No approval lasts longer, whatever was learned: what `duration_seconds` may say at most."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A decision, what it was made from, and how long the run may last (None: nobody knows)."""

    decision: Decision
    prediction: Prediction
    need: Need
    seconds: int | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """A request as far as it can be judged whatever runs on its cluster.

    foreseen: What past runs say of it.
    said: What its caller states, by resource.
    default: What it counts for where nobody knows; `sentence` says so.
    least: What a prediction may not be below; None where it may.
    prediction: What is foreseen, without what it may not say, in brief.
    need: What it is judged by, as long as the prediction is believed.
    drawn: The outcomes of that.
    """

    foreseen: Foreseen
    said: Mapping[str, float]
    default: Amounts
    sentence: str
    least: Amounts | None
    prediction: Prediction
    need: Need
    drawn: Draws


class Judge:
    """The loads of the clusters."""

    def __init__(self) -> None:
        self.loads: dict[str, Load] = {}
        """By the path of their cluster; only those that somebody has asked for."""
        self._asked: tuple[str, tuple[tuple[float, ...], ...], Draws] | None = None
        """The run that was decided last, with its outcomes: it is counted next, if approved."""

    def load(self, cluster: Cluster, live: Iterable[Simulation]) -> Load:
        """Return a cluster's load, made from its live runs when it is asked for first."""
        path = cluster.key.path
        found = self.loads.get(path)
        if found is None:
            found = self.loads[path] = Load()
            for each in live:
                self.count(each)
        found.others(others_of(cluster))
        return found

    def count(self, run: Simulation) -> None:
        """Count a run as it is now: once while it holds something, else not at all."""
        found = self.loads.get(refs.cluster_path(run))
        if found is None:
            return
        uid, held = run.metadata.uid, run.status.reservation
        if held is None or run.status.phase not in HOLDING:
            found.remove(uid)
            return
        if uid not in found and (wanted := self.wanted(run)) is not None:
            asked = self._asked
            same = asked is not None and asked[0] == uid and asked[1] == wanted.spreads
            drawn = asked[2] if same and asked is not None else None
            found.add(uid, wanted, since=held.start.timestamp(), drawn=drawn)
        if run.status.used:
            found.observe(uid, _peaks(run.status.used))

    def wanted(self, run: Simulation) -> Need | None:
        """Return what a stored run counts for, from its record alone; None when it is over."""
        status = run.status
        if status.phase not in OPEN or status.decision is None:
            return None
        amounts = status.decision.requested
        if status.reservation is not None:
            amounts = status.reservation.amounts
        return need(status.prediction, needs.stated(run.spec), amounts)

    def in_force(self, cluster: Cluster, *, blind: bool = False) -> tuple[Rule, float]:
        """Return the rule and the share of time above targets that hold for a cluster now.

        `blind`: nothing newer is known of it, so that only what callers declare is believed.
        """
        allowed = cluster.spec.overload_percent / 100
        if blind:
            return Rule.DECLARED, allowed
        return in_force(cluster.spec.rule, allowed, cluster.status.overload)

    def drop(self, run: Simulation) -> None:
        """Count a run no longer; no error when it was not counted."""
        found = self.loads.get(refs.cluster_path(run))
        if found is not None:
            found.remove(run.metadata.uid)

    def forget(self) -> None:
        """Count what is held anew at the next question."""
        self.loads.clear()

    def ready(
        self, cluster: Cluster, learner: Learner, asked: Sequence[tuple[str, SimulationSpec]]
    ) -> list[Ready]:
        """Return all that is known of requests (uid, spec) before they meet the load.

        Those of a round at once: each step is done for all of them before the next one.
        """
        seen = as_seen(cluster)
        target = targets(seen)
        parameters = [history.compared(spec.params) for _, spec in asked]
        questions = [
            Question(
                RunKind.SIMULATION, cluster.namespace, family_of(spec), given, needs.stated(spec),
                coverage=cluster.spec.coverage_percent / 100, owner=spec.owner,
            )
            for (_, spec), given in zip(asked, parameters, strict=True)
        ]  # fmt: skip
        rows = []
        found = learner.foresee(questions)
        for (_, spec), about, each in zip(asked, questions, found, strict=True):
            default, sentence = needs.default_of(seen, about.family, about.parameters)
            least = default if _far_larger(learner, cluster, spec, about.family) else None
            told = needs.judged(each.brief(), seen, about.declared, least)
            prediction = needs.within(told, target)
            wanted = need(prediction, about.declared, default)
            rows.append((each, about.declared, default, sentence, least, prediction, wanted))
        drawn = draws_of_all([
            (uid, row[-1].spreads) for (uid, _), row in zip(asked, rows, strict=True)
        ])  # fmt: skip
        return [Ready(*row, outcomes) for row, outcomes in zip(rows, drawn, strict=True)]

    def decide(
        self,
        spec: SimulationSpec,
        learner: Learner,
        *,
        uid: str,
        cluster: Cluster,
        live: Iterable[Simulation],
        now: datetime,
        revision: int,
        default_seconds: int,
        blind: bool = False,
        ready: Ready | None = None,
    ) -> Judged:
        """Return whether a run may start on the cluster now; `live` are its live runs.

        `blind`: by what is declared alone, since nothing newer is known of the cluster. `ready` is
        what was made of the request before, by the same learner.
        """
        if ready is None:
            (ready,) = self.ready(cluster, learner, [(uid, spec)])
        said, seen = ready.said, as_seen(cluster)
        target = targets(seen)
        load = self.load(cluster, live)
        load.advance(now.timestamp())
        living = load.living(family_of(spec))
        prediction, wanted, drawn = believed(ready.prediction, living), ready.need, ready.drawn
        if prediction is not ready.prediction:
            wanted = need(prediction, said, ready.default)
            drawn = draws(uid, wanted.spreads)
        rule, epsilon = self.in_force(cluster, blind=blind)
        decision = chance.admit(
            wanted,
            drawn,
            load=load,
            cluster=cluster.name,
            target=target,
            now=now,
            rule=rule,
            epsilon=epsilon,
            revision=revision,
        )
        if decision.outcome == "approved" or spec.queue is not None:
            # Only of a run that lives it matters what is drawn of it later.
            whole = needs.judged(ready.foreseen.whole(), seen, said, ready.least)
            prediction = believed(needs.within(whole, target), living)
            wanted = wanted.later_on(later_of(prediction))
        self._asked = (uid, wanted.spreads, drawn)
        evidence = _evidence(prediction, said, ready.sentence)
        seconds = _seconds(spec, prediction, default_seconds)
        return Judged(decision, prediction, wanted, seconds, evidence)


def _far_larger(learner: Learner, cluster: Cluster, spec: SimulationSpec, family: str) -> bool:
    """Tell whether a run is far larger than any known one of its family."""

    def largest(name: str) -> float | None:
        kind = RunKind.SIMULATION
        return learner.largest(kind, cluster.namespace, family, name, owner=spec.owner)

    return needs.beyond(cluster.spec, family, spec.params, largest)


def _evidence(prediction: Prediction, said: Mapping[str, float], default: str) -> tuple[str, ...]:
    """Return what the bounds rest on, in sentences; `default` where CPU or memory has none."""
    told = [
        f"{_FIGURES[each.resource]}: {each.sentence}"
        for each in prediction.forecasts
        if each.sentence
    ]
    known = {each.resource for each in prediction.forecasts} | set(said)
    return tuple(told if known.issuperset(needs.TARGETED[:2]) else [*told, default])


def _peaks(used: Mapping[str, Use]) -> dict[str, float]:
    """Return the peaks of what a run has used so far, by dimension of a cluster."""
    found = {name: history.peak(used, name) for name in DIMENSIONS}
    return {name: peak for name, peak in found.items() if peak is not None}


def _seconds(spec: SimulationSpec, prediction: Prediction, default: int) -> int:
    """Return how long the run may last: what its caller says, else what was learned.

    Never less than the default: a few short runs, such as first tries, would cut the next ones off.
    """
    if spec.duration_seconds is not None:
        return spec.duration_seconds
    found = prediction.of("duration_seconds")
    return default if found is None else max(default, min(MOST_SECONDS, int(found.bound) + 1))
