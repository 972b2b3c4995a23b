"""What a run is expected to need: a bound of stated coverage, and the evidence for it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from labfleet.resources.history import RunKind
from labfleet.resources.meta import Record


class Evidence(StrEnum):
    """What a forecast rests on, the strongest first."""

    EXACT = "exact"
    CLOSEST = "closest"
    KIND = "kind"
    DECLARED = "declared"


LEVELS = (
    0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98,
    0.99, 0.995, 0.999, 1.0,
)  # fmt: skip
"""The levels at which a forecast's `spread` is given."""


class Later(Record, frozen=True, kw_only=True):
    """What a run is expected to take once it has lived for some time.

    after_seconds: From which age on.
    spread: Quantiles of the peak of runs that lived on, weighed by how much longer, at LEVELS.
    """

    after_seconds: float
    spread: tuple[float, ...]


class Forecast(Record, frozen=True, kw_only=True):
    """One resource of a run, in its base unit.

    resource: What it is about, as a name of history.RESOURCES.
    expected: The most likely peak.
    bound: Upper bound of the peak.
    coverage: Share of runs that stay within such bounds, as stated.
    evidence: What it rests on.
    spread: Quantiles of the peak while it runs, each run weighed by how long it ran, at LEVELS; of a
    duration those of all runs, each counted once.
    later: The same for a run that lives on, by age, the youngest first; of CPU, memory and network
    alone, and of a run that may still live.
    runs: Names of the past runs that it was made from, at most five; a runner is shown its own alone.
    known: How many past runs of the family itself stand behind it, whoever they are of.
    sentence: The evidence for people.
    """

    resource: str
    expected: float
    bound: float
    coverage: float
    evidence: Evidence
    spread: tuple[float, ...] = ()
    later: tuple[Later, ...] = ()
    runs: tuple[str, ...] = ()
    known: int = 0
    sentence: str = ""


class Prediction(Record, frozen=True, kw_only=True):
    """What a run is expected to need; the same history gives the same prediction.

    family: Which past runs it was compared with.
    forecasts: One for each resource that something is known of.
    version: Place in the history up to which runs were known.
    """

    family: str
    forecasts: tuple[Forecast, ...] = ()
    version: int = 0

    def of(self, resource: str) -> Forecast | None:
        """Return the forecast of one resource; None when nothing is known of it."""
        for each in self.forecasts:
            if each.resource == resource:
                return each
        return None

    def over(self) -> Prediction:
        """Return the prediction of a run that is over: nothing more is drawn of it."""
        left = tuple(msgspec.structs.replace(each, later=()) for each in self.forecasts)
        return msgspec.structs.replace(self, forecasts=left)


class Achieved(Record, frozen=True, kw_only=True):
    """How often bounds of one stated coverage held, over the runs that were learned from.

    kind: What ran.
    resource: What it is about, as a name of history.RESOURCES.
    stated: Share of runs that were to stay within their bound.
    runs: Runs that were judged; earlier ones count less.
    share: Share of them that stayed within.
    """

    kind: RunKind
    resource: str
    stated: float
    runs: int
    share: float


class Recommendation(Record, frozen=True, kw_only=True):
    """What a requirement should be so that least is wasted, in the resource's base unit.

    resource: What it is about, as a name of history.RESOURCES.
    size: What to give.
    missed: Share of the recent runs that would have needed more; null as long as that is unknown.
    later: The same for a run that lives on, by age, the youngest first.
    runs: Names of the past runs that it was made from, at most five.
    known: How many past runs of the family itself stand behind it.
    sentence: The evidence for people.
    """

    resource: str
    size: float
    missed: float | None = None
    runs: tuple[str, ...] = ()
    known: int = 0
    sentence: str = ""
