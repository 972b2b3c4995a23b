"""The rule that what is taught as measured is what a run's own pods truly took, and no more.

A meter that is late or away makes a peak lower than the true one, never higher: a higher one would
be another run's, or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labfleet.interfaces import store
from labfleet.rehearsal.worlds.cluster_meter import FIGURES
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.resources.history import Run, RunKind, Source
from labfleet.stores import rules

ROUNDED = 1.0001
"""Figures are kept to six digits."""


@dataclass(slots=True)
class Measured:
    """Compares every measured run with the world; `broken` takes the rule's word and what was seen."""

    world: Clusters
    broken: Callable[[str, str], None]
    compared: int = 0

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write in commit.writes if isinstance(outcome, store.Committed) else ():
                if isinstance(write, store.Teach):
                    self._taught(write.run)

    def _taught(self, run: Run) -> None:
        if run.kind is not RunKind.SIMULATION or run.source is not Source.MEASURED:
            return
        script = next((each for each in self.world.scripts.values() if each.name == run.name), None)
        if script is None or script.shape is None:
            self.broken("measured", f"{run.name} was measured and never began")
            return
        self.compared += 1
        for figure, most in zip(FIGURES, script.shape.peaks, strict=True):
            use = run.use.get(figure)
            if use is None or use.peak is None or use.mean is None:
                continue
            if use.peak > most * ROUNDED or use.mean > use.peak * ROUNDED:
                told = f"peak {use.peak:.0f}, mean {use.mean:.0f}, truly at most {most:.0f}"
                self.broken("measured", f"{run.name}: {figure} {told}")
