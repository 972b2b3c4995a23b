"""The rule that what is taught as measured is what a run's own pods truly took, as far as it was told.

A source that is late or away makes a peak lower than the true one, never higher: a higher one would
be another run's, or counted twice. And whatever samples were missed, peak and mean lie between the
least and the most that the sources told of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labfleet.interfaces import store
from labfleet.rehearsal.worlds.cluster_meter import FIGURES
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.resources.history import Run, RunKind, Source
from labfleet.stores import rules

ROUNDED, UNITS = 1.0001, 2.0
"""Figures are kept to six digits; and the API's are whole ones of each pod of a run, rounded up."""


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
        script = self.world.named.get(run.name)
        if script is None or script.shape is None:
            self.broken("measured", f"{run.name} was measured and never began")
            return
        self.compared += 1
        place = self.world.places[script.cluster]
        for figure, most in zip(FIGURES, script.shape.peaks, strict=True):
            use, told = run.use.get(figure), place.told.get(run.name, {}).get(figure)
            if use is None or use.peak is None or use.mean is None:
                continue
            said = f"{run.name}: {figure} peak {use.peak:.0f}, mean {use.mean:.0f}"
            if use.peak > most * ROUNDED + UNITS or use.mean > use.peak * ROUNDED:
                self.broken("measured", f"{said}, truly at most {most:.0f}")
            elif told is None:
                self.broken("measured", f"{said}, of which no source told anything")
            elif use.peak > told.most * ROUNDED or use.mean * ROUNDED < told.least:
                self.broken("measured", f"{said}, told {told.least:.0f} to {told.most:.0f}")
