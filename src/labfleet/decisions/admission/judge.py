"""Judges requests beside the load of their clusters, by what past runs say of them.

Holds what a decider keeps in memory: the load of each cluster that was asked for. It is a function
of what is stored, so a judge that is made anew answers the same. Pure, not thread-safe; imports
numpy, so it is imported when the first request is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from labfleet.decisions.admission import chance, needs
from labfleet.decisions.admission.draws import draws
from labfleet.decisions.admission.load import Load, Need, need
from labfleet.decisions.admission.targets import targets
from labfleet.decisions.prediction.learner import Learner
from labfleet.resources import history, refs
from labfleet.resources.cluster import Cluster
from labfleet.resources.decision import Decision
from labfleet.resources.history import RunKind
from labfleet.resources.prediction import Prediction
from labfleet.resources.simulation import HOLDING, Simulation, SimulationSpec, family_of

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


class Judge:
    """The loads of the clusters."""

    def __init__(self) -> None:
        self.loads: dict[str, Load] = {}
        """By the path of their cluster; only those that somebody has asked for."""

    def load(self, cluster: Cluster, live: Iterable[Simulation]) -> Load:
        """Return a cluster's load, made from its live runs when it is asked for first."""
        path = cluster.key.path
        found = self.loads.get(path)
        if found is None:
            found = self.loads[path] = Load()
            for each in live:
                self.count(each)
        return found

    def count(self, run: Simulation) -> None:
        """Count a run as it is now: once while it holds something, else not at all."""
        found = self.loads.get(refs.cluster_of(run).key.path)
        if found is None:
            return
        wanted = held(run)
        if wanted is None:
            found.remove(run.metadata.uid)
        else:
            found.add(run.metadata.uid, wanted)

    def drop(self, run: Simulation) -> None:
        """Count a run no longer; no error when it was not counted."""
        found = self.loads.get(refs.cluster_of(run).key.path)
        if found is not None:
            found.remove(run.metadata.uid)

    def forget(self) -> None:
        """Count what is held anew at the next question."""
        self.loads.clear()

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
    ) -> Judged:
        """Return whether a run may start on the cluster now; `live` are its live runs."""
        said = needs.stated(spec)
        parameters = history.typed(spec.params)
        family = family_of(spec)
        prediction = learner.predict(
            RunKind.SIMULATION,
            cluster.namespace,
            family,
            parameters,
            said,
            coverage=cluster.spec.coverage_percent / 100,
            owner=spec.owner,
        )
        prediction = needs.judged(prediction, cluster.spec, said)
        default, sentence = needs.default_of(cluster.spec, family, parameters)
        wanted = need(prediction, said, default)
        decision = chance.admit(
            wanted,
            draws(uid, wanted.spreads),
            load=self.load(cluster, live),
            cluster=cluster.name,
            target=targets(cluster.spec),
            now=now,
            rule=cluster.spec.rule,
            epsilon=cluster.spec.overload_percent / 100,
            revision=revision,
        )
        known = {each.resource for each in prediction.forecasts} | set(said)
        evidence = [each.sentence for each in prediction.forecasts if each.sentence]
        if not known.issuperset(needs.TARGETED[:2]):
            evidence.append(sentence)
        return Judged(decision, prediction, wanted, _seconds(spec, prediction), tuple(evidence))


def held(run: Simulation) -> Need | None:
    """Return what a run counts for, from its record alone; None when it holds nothing."""
    reservation = run.status.reservation
    if reservation is None or run.status.phase not in HOLDING:
        return None
    said = needs.stated(run.spec)
    return need(run.status.prediction, said, reservation.amounts)


def _seconds(spec: SimulationSpec, prediction: Prediction) -> int | None:
    """Return how long the run may last: what its caller says, else what was learned."""
    if spec.duration_seconds is not None:
        return spec.duration_seconds
    found = prediction.of("duration_seconds")
    return None if found is None else min(MOST_SECONDS, int(found.bound) + 1)
