"""The rules of runs whose pods are seen: what runs is not ended, and what is over ends as its pods did.

Judged by what truly stands on the clusters, and by what processes were told of it: a process that
was told nothing, since the API server is silent or nobody leads, owes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.decisions.safe_mode import KUBERNETES
from labfleet.interfaces import store
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.kube_cluster import RunTruth
from labfleet.resources import conditions, kinds
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.meta import Key
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase
from labfleet.stores import rules

TOLD, WITHIN = 3, 120.0
"""A run is known to run once so many views within so many seconds have told it."""
LATE_SECONDS = 900.0
"""How long what is known may stay unrecorded: no leader, a full disk, a leader that is paused."""
_REASONS = {
    "Completed": PodsReason.COMPLETED,
    "Failed": PodsReason.FAILED,
    "OOMKilled": PodsReason.OOM_KILLED,
    "Evicted": PodsReason.EVICTED,
    "Gone": PodsReason.GONE,
}
_FAILED = frozenset({PodsReason.OOM_KILLED, PodsReason.EVICTED, PodsReason.FAILED})


@dataclass(slots=True)
class Pods:
    """Compares runs with their pods; `broken` takes the rule's word and what was seen.

    `ended` counts the runs that ended as their pods did.
    """

    world: Clusters
    broken: Callable[[str, str], None]
    time: Callable[[], float]
    ended: int = 0
    _runs: dict[Key, Simulation] = field(default_factory=dict)
    _late: dict[Key, float] = field(default_factory=dict)

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, at in written(commit, outcome):
                if isinstance(write, store.Put) and write.key.kind == "Simulation":
                    self._put(kinds.decode("Simulation", write.doc, at))

    def truth(self, run: Simulation) -> RunTruth | None:
        """Return what became of a run's pods; None where nobody looks at them, or none began."""
        place = self.world.places.get(run.spec.cluster)
        return None if place is None or not place.seen else place.runs.get(run.name)

    def _put(self, new: Simulation) -> None:
        old = self._runs.get(new.key)
        if new.status.phase in HOLDING:
            self._runs[new.key] = new
            return
        self._runs.pop(new.key, None)
        truth = self.truth(new)
        if old is not None and truth is not None and not new.status.reported:
            self._over(new, truth)

    def _over(self, new: Simulation, truth: RunTruth) -> None:
        """Judge the end of a run that its caller did not report."""
        phase = new.status.phase
        found = conditions.find(new.status.conditions, SimulationCondition.PODS_LIVE)
        if self._told(new) and truth.live:
            self.broken("pods", f"{new.key} is {phase} while its pods run: {new.status.note}")
        elif phase is SimulationPhase.EXPIRED:
            if found is not None and found.status == "False":
                self.broken("pods", f"{new.key} expires though its pods are over: {found.reason}")
        elif found is not None and phase is not SimulationPhase.CANCELLED:
            self.ended += 1
            if found.reason not in {_REASONS[how] for how in truth.told}:
                self.broken("pods", f"{new.key} ended {found.reason}, truly {truth.how}")
            if (found.reason in _FAILED) != (phase is SimulationPhase.FAILED):
                self.broken("pods", f"{new.key} is {phase}, its pods {found.reason}")

    def _told(self, run: Simulation) -> bool:
        """Tell whether processes were told, and just now, that a run's pods run."""
        place, now = self.world.places[run.spec.cluster], self.time()
        return sum(1 for at in place.views.get(run.name, ()) if at >= now - WITHIN) >= TOLD

    def patrol(self) -> None:
        """Check that what is known of pods is recorded; every virtual minute."""
        now, late = self.time(), dict[Key, str]()
        for key, run in self._runs.items():
            truth = self.truth(run)
            if truth is None:
                continue
            told = self._told(run)
            if told and truth.live and run.status.phase is not SimulationPhase.RUNNING:
                late[key] = f"{key} is {run.status.phase} though its pods run"
            found = conditions.find(run.status.conditions, SimulationCondition.PODS_LIVE)
            if truth.over is not None and found is not None and found.status == "True":
                late[key] = f"{key} is said to live though its pods are over"
        for key in [each for each in self._late if each not in late]:
            del self._late[key]
        for key, what in late.items():
            since = self._late.setdefault(key, now)
            seen = self.world.places[self._runs[key].spec.cluster].blind_since(KUBERNETES) is None
            if seen and now - since > LATE_SECONDS:
                self.broken("pods", what)
