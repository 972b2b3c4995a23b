"""Counts what became of runs of simulations, from the event log: each by its name, and once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from labfleet.decisions.admission.targets import NEVER_FITS
from labfleet.resources import conditions
from labfleet.resources.cluster_conditions import PodsReason, SimulationCondition
from labfleet.resources.prediction import Evidence
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase, family_of

_LEARNED = frozenset({Evidence.EXACT, Evidence.CLOSEST})


@dataclass
class RunCounts:
    """Names of runs, by what the log says of them.

    admitted: They might start.
    learned: Admitted by what earlier runs of their family used, which the evidence names; their
        caller stated nothing.
    too_large: Denied, because the cluster will never have as much.
    queued: They waited in a queue, and started.
    crashed: Ended because their pods failed; their caller had not reported it.
    """

    admitted: set[str] = field(default_factory=set)
    learned: set[str] = field(default_factory=set)
    too_large: set[str] = field(default_factory=set)
    queued: set[str] = field(default_factory=set)
    crashed: set[str] = field(default_factory=set)
    _families: dict[str, str] = field(default_factory=dict)
    _waited: set[str] = field(default_factory=set)

    def take(self, run: Simulation) -> None:
        """Count a run as an event shows it."""
        status = run.status
        if status.phase is SimulationPhase.QUEUED:
            self._waited.add(run.name)
        elif status.phase in HOLDING:
            self._admitted(run)
        elif status.phase is SimulationPhase.DENIED:
            if status.decision is not None and status.decision.reason == NEVER_FITS:
                self.too_large.add(run.name)
        elif status.phase is SimulationPhase.FAILED and not status.reported:
            told = conditions.find(status.conditions, SimulationCondition.PODS_LIVE)
            if told is not None and (told.status, told.reason) == ("False", PodsReason.FAILED):
                self.crashed.add(run.name)

    def _admitted(self, run: Simulation) -> None:
        self.admitted.add(run.name)
        self._families[run.name] = family_of(run.spec)
        if run.name in self._waited and run.status.phase is SimulationPhase.RUNNING:
            self.queued.add(run.name)
        stated = run.spec.cost is not None and "cpu_milli" in run.spec.cost.stated
        found = None if run.status.prediction is None else run.status.prediction.of("cpu_milli")
        if stated or found is None or found.evidence not in _LEARNED or not found.runs:
            return
        mine = self._families[run.name]
        if all(self._families.get(each) == mine for each in found.runs):
            self.learned.add(run.name)

    def of(self, names: Collection[str]) -> dict[str, int]:
        """Return how many of these runs are counted, by their key in the demo's result."""
        return {
            "simulations_approved": len(self.admitted & set(names)),
            "simulations_learned": len(self.learned & set(names)),
            "simulations_denied": len(self.too_large & set(names)),
            "simulations_queued": len(self.queued & set(names)),
            "simulations_crashed": len(self.crashed & set(names)),
        }
