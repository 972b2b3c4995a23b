"""The rules of safe mode (invariant 7): begun in time, ended with the next good figures, and obeyed.

What processes were told is noted where they are told (`worlds.cluster_looks`): a figure counts as good
when it was true, whatever the source's clock says. So the rules owe nothing to what the product takes
for good, and a process that looked at nothing is never judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.adapters.kubernetes.calls import Bounds
from labfleet.decisions.safe_mode import KUBERNETES, METRICS, REASON
from labfleet.interfaces import store
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.resources import kinds
from labfleet.resources.cluster import Cluster
from labfleet.resources.cluster_access import WhenBlind
from labfleet.resources.decision import Rule
from labfleet.resources.meta import Key
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase
from labfleet.stores import rules

WRITTEN_SECONDS = 90.0
"""How long after its decision an approval may be written: a slow store, a leader that was paused."""
LATE_SECONDS = 900.0
"""How long a cluster may say the wrong mode: no leader, a full disk, a leader that is paused."""


@dataclass(slots=True)
class Blind:
    """Compares what clusters let in with what was known of them; `broken` takes word and sentence.

    `denied` and `declared` count what was decided in safe mode, `modes` the times it was entered.
    """

    world: Clusters
    broken: Callable[[str, str], None]
    time: Callable[[], float]
    denied: int = 0
    declared: int = 0
    entered: int = 0
    _clusters: dict[str, Cluster] = field(default_factory=dict)
    _runs: dict[Key, Simulation] = field(default_factory=dict)
    _wrong: dict[str, float] = field(default_factory=dict)

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, at in written(commit, outcome):
                if isinstance(write, store.Delete):
                    self._runs.pop(write.key, None)
                elif write.key.kind == "Simulation":
                    self._run(kinds.decode("Simulation", write.doc, at))
                elif write.key.kind == "Cluster":
                    self._cluster(kinds.decode("Cluster", write.doc, at))

    def _cluster(self, new: Cluster) -> None:
        old = self._clusters.get(new.name)
        safe = new.status.mode == "safe"
        self.entered += safe and old is not None and old.status.mode == "measured"
        self._clusters[new.name] = new

    def _run(self, new: Simulation) -> None:
        old = self._runs.get(new.key)
        self._runs[new.key] = new
        cluster = self._clusters.get(new.spec.cluster)
        decision = new.status.decision
        if cluster is None or not cluster.spec.metrics or decision is None:
            return
        if old is not None and old.status.decision == decision:
            return
        was = None if old is None else old.status
        self.denied += decision.reason == REASON
        if (
            decision.reason == REASON
            and decision.outcome == "denied"
            and new.spec.queue is not None
        ):
            self.broken("safe-mode", f"{new.key} may wait and is denied: {decision.message}")
        waited = was is not None and was.phase is SimulationPhase.QUEUED
        if waited and was is not None and was.asked_at != new.status.asked_at:
            self.broken("safe-mode", f"{new.key} has lost its place")
        if new.status.phase in HOLDING and (was is None or was.phase not in HOLDING):
            self._let_in(new, cluster)

    def _let_in(self, new: Simulation, cluster: Cluster) -> None:
        """Judge an approval by how old what was last known of its cluster is."""
        decision, age = new.status.decision, self.age(cluster)
        self.declared += decision is not None and (
            decision.rule == Rule.DECLARED and cluster.spec.rule is not Rule.DECLARED
        )
        place = self.world.places.get(cluster.name)
        if place is not None and place.silent_since is not None and cluster.spec.kubernetes:
            # A view may be so old, though the server that it is of says nothing any more.
            age = max(age, self.time() - place.silent_since - Bounds().old)
        if age <= cluster.spec.safe_after_seconds + WRITTEN_SECONDS or decision is None:
            return
        what = f"{new.key} is let in on {cluster.name}, of which nothing is known for {age:.0f} s"
        if cluster.spec.when_blind is WhenBlind.DENY:
            self.broken("safe-mode", what)
        elif decision.rule != Rule.DECLARED:
            self.broken("safe-mode", f"{what}, by the rule {decision.rule}")

    def age(self, cluster: Cluster) -> float:
        """Return how long ago the last good word of the silent part of a cluster was told."""
        place = self.world.places.get(cluster.name)
        if place is None:
            return 0.0
        parts = (METRICS,) if cluster.spec.kubernetes is None else (METRICS, KUBERNETES)
        return max(self.time() - place.good.get(each, 0.0) for each in parts)

    def patrol(self) -> None:
        """Check that every cluster says the mode that it is in; every virtual minute."""
        now, wrong = self.time(), dict[str, str]()
        for name, cluster in self._clusters.items():
            place = self.world.places.get(name)
            if place is None or not cluster.spec.metrics:
                continue
            safe = cluster.status.mode == "safe"
            parts = (METRICS,) if cluster.spec.kubernetes is None else (METRICS, KUBERNETES)
            blind = [at for each in parts if (at := place.blind_since(each)) is not None]
            limit = cluster.spec.safe_after_seconds
            if blind and not safe and now - min(blind) > limit:
                wrong[name] = f"{name} is blind since {min(blind):.0f} s and not in safe mode"
            elif not blind and safe and all(place.good.get(each) for each in parts):
                wrong[name] = f"{name} is in safe mode though its figures are good"
        for name in [each for each in self._wrong if each not in wrong]:
            del self._wrong[name]
        for name, what in wrong.items():
            if now - self._wrong.setdefault(name, now) > LATE_SECONDS:
                self.broken("safe-mode", what)
