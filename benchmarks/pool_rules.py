"""The rules that the admission benchmark compares; the last three are the product's own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.tasks import Task
from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import draws
from labfleet.decisions.admission.exploring import believed
from labfleet.decisions.admission.load import Load, Need, later_of, need
from labfleet.decisions.prediction.forecasts import Foreseen
from labfleet.decisions.prediction.learner import Question
from labfleet.resources.amounts import MOST, Amounts
from labfleet.resources.decision import Rule
from labfleet.resources.history import KeptRun, Run, RunKind, Use

BEGIN = datetime(2026, 11, 28, tzinfo=UTC)
Declared = Mapping[str, float]


class Summed:
    """Admits while a sum of one number for each run stays within the pool."""

    def __init__(self, limit: float, cost: Callable[[Task], float]) -> None:
        self._limit = limit
        self._cost = cost
        self._held: dict[int, float] = {}
        self._load = 0.0

    def fits(self, place: int, task: Task) -> bool:
        """Return whether the sum stays within the limit."""
        return self._load + self._cost(task) <= self._limit

    def started(self, place: int, task: Task) -> None:
        """Hold what it costs as it looks now."""
        self._held[place] = self._cost(task)
        self._load += self._held[place]

    def ended(self, place: int, task: Task, at: float) -> None:
        """Give it back."""
        self._load -= self._held.pop(place)


def oracle(limit: float, declared: Declared) -> Summed:
    """Knows every peak before the run."""
    return Summed(limit, lambda task: task.memory_mib)


class Mean(Summed):
    """Upstream's rule: the mean of earlier runs of the family, or what is declared."""

    def __init__(self, limit: float, declared: Declared) -> None:
        super().__init__(limit, self._mean)
        self._declared = declared
        self._seen: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def _mean(self, task: Task) -> float:
        total, count = self._seen[task.family]
        return total / count if count else self._declared[task.family]

    def ended(self, place: int, task: Task, at: float) -> None:
        """Take it into the mean."""
        super().ended(place, task, at)
        self._seen[task.family][0] += task.memory_mib
        self._seen[task.family][1] += 1


class Product:
    """The product's load, rules and learner, with the product's defaults."""

    def __init__(self, limit: float, declared: Declared, rule: Rule, learner: Any) -> None:
        self._target = Amounts(cpu_milli=MOST, memory_mib=int(limit), network_kbps=MOST)
        self._declared = declared
        self._rule = rule
        self._learner = learner
        self._load = Load()
        self._known: tuple[int, int] | None = None
        self._now = 0.0
        self._need: Need
        self._drawn: Any = None
        self._foreseen: Foreseen | None = None
        self._living = 0

    def fits(self, place: int, task: Task) -> bool:
        """Return whether the product's decision is approved; the prediction is of now."""
        self._look(place, task)
        decision = chance.admit(
            self._need, self._drawn, load=self._load, cluster="pool", target=self._target,
            now=BEGIN, rule=self._rule,
        )  # fmt: skip
        return decision.outcome == "approved"

    def _look(self, place: int, task: Task) -> None:
        version = self._learner.version if self._learner is not None else 0
        if self._known == (place, version):
            return
        self._known = (place, version)
        stated = {"memory_mib": self._declared[task.family]}
        found = None
        self._foreseen = None
        if self._learner is not None:
            self._living = self._load.living(task.family)
            asked = Question(RunKind.SIMULATION, "default", task.family, task.parameters, stated)
            self._foreseen = self._learner.foresee([asked])[0]
            found = believed(self._foreseen.brief(), self._living)
        self._need = need(found, stated, Amounts())
        self._drawn = draws(f"run-{place}", self._need.spreads)

    def started(self, place: int, task: Task) -> None:
        """Count it as it was predicted."""
        self._look(place, task)
        wanted = self._need
        if self._foreseen is not None:
            # As the product does: only of a run that lives it matters what is drawn of it later.
            later = later_of(believed(self._foreseen.whole(), self._living))
            wanted = wanted.later_on(later)
        self._load.add(f"run-{place}", wanted, since=self._now, drawn=self._drawn)

    def ended(self, place: int, task: Task, at: float) -> None:
        """Give it back, and learn what it took."""
        self._now = at
        self._load.remove(f"run-{place}")
        self._load.advance(at)
        if self._learner is not None:
            given = self._declared[task.family]
            self._learner.learn(kept(task, place, self._learner.version + 1, at, given))


def kept(task: Task, place: int, version: int, at: float, given: float) -> KeptRun:
    """Return a task as the history keeps it; `given` MiB were declared for it."""
    run = Run(
        kind=RunKind.SIMULATION,
        uid=f"run-{place}",
        name=f"run-{place}",
        family=task.family,
        parameters=dict(task.parameters),
        allocation={"memory_mib": math.ceil(given)},
        use={"memory_mib": Use(peak=task.memory_mib)},
        duration_seconds=task.seconds,
        ended_at=BEGIN + timedelta(seconds=at),
    )
    return KeptRun(place=version, run=run)
