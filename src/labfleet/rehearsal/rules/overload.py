"""How often clusters were truly over a target, beside epsilon: reported, and judged with care.

Every virtual minute in which an approved run truly runs counts. Minutes are not independent: the
same runs run on. So the sample of a cluster is one minute for each life of a run on the whole, or,
where that is longer, for each overload. One overload lasts as long as any of the runs that ran when
it began: the longer the run that caused it, the more minutes tell of that one run. A violation is
only what cannot be chance: the lower end of a one-sided 99.9 % binomial interval of the overloaded
share is above CLEARLY times epsilon. What runs on after its approval has ended is left out, since
admission looks at approvals, not at loads that are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from labfleet.rehearsal.rules.approvals import TARGETED, targets
from labfleet.rehearsal.worlds.clusters import RESOURCES, Clusters
from labfleet.resources.cluster import Cluster, as_seen
from labfleet.resources.decision import Rule
from labfleet.resources.simulation import HOLDING, Simulation

CONFIDENCE = 0.999
CLEARLY = 4.0
LEAST = 30
"""Lives of runs below which nothing is judged, only told: so short a rehearsal says too little."""


@dataclass(slots=True)
class Seen:
    """What was seen of one cluster, minute by minute.

    minutes: In which at least one run ran.
    over: Of them, those over a target.
    run_minutes: Of all runs together.
    runs: Names of all that ran.
    lasted: Minutes over a target of each overload, in their order.
    began: Names of the runs that ran when the latest overload began.
    """

    minutes: int = 0
    over: int = 0
    run_minutes: int = 0
    runs: set[str] = field(default_factory=set)
    lasted: list[int] = field(default_factory=list)
    began: frozenset[str] = frozenset()

    def count(self, here: Collection[str], *, over: bool) -> None:
        """Take in a minute in which these runs ran."""
        self.minutes += 1
        self.run_minutes += len(here)
        self.runs.update(here)
        if not over:
            return
        self.over += 1
        if self.began.isdisjoint(here):
            self.began = frozenset(here)
            self.lasted.append(0)
        self.lasted[-1] += 1

    @property
    def lives(self) -> float:
        """Return how many times as long as the mean life of a run was looked."""
        return self.minutes * len(self.runs) / self.run_minutes if self.runs else 0.0

    @property
    def sample(self) -> int:
        """Return how many minutes count as independent.

        The mean over all minutes over a target of how long their overload lasted, so one long
        overload beside short ones counts for little more than itself (the effective number of Kish).
        """
        if not self.minutes:
            return 0
        found = self.lives
        if self.over:
            found = min(found, self.minutes * self.over / sum(each * each for each in self.lasted))
        return max(1, round(found))

    @property
    def surely(self) -> float:
        """Return which share of its time it was surely over a target; 0 where too little was seen."""
        if self.lives < LEAST:
            return 0.0
        return least_share(math.floor(self.over * self.sample / self.minutes), self.sample)


@dataclass(slots=True)
class Overload:
    """Looks at the true load of every cluster; `broken` takes the rule's word and what was seen."""

    world: Clusters
    broken: Callable[[str, str], None]
    seen: dict[str, Seen] = field(default_factory=dict)

    def look(self, clusters: Iterable[Cluster], runs: Iterable[Simulation]) -> None:
        """Count this minute."""
        held = {each.name for each in runs if each.status.phase in HOLDING}
        for cluster in clusters:
            there = self.world.running(cluster.name)
            here = [name for name in there if name in held]
            # Of a cluster that has lost a node more runs than was known when they were let in.
            if here and not self.world.short(cluster.name):
                most = targets(as_seen(cluster))
                ended = frozenset(name for name in there if name not in held)
                load = self.world.load(cluster.name, without=ended)
                over = any(
                    amount > getattr(most, name) > 0
                    for name, amount in zip(RESOURCES, load, strict=True)
                    if name in TARGETED
                )
                self.seen.setdefault(cluster.name, Seen()).count(here, over=over)

    def judge(self, clusters: Iterable[Cluster]) -> None:
        """Compare what was seen with what each cluster allows; once, at the end."""
        for cluster in clusters:
            found = self.seen.get(cluster.name)
            if found is None or cluster.spec.rule is not Rule.CHANCE:
                continue
            allowed = cluster.spec.overload_percent / 100
            if found.surely > CLEARLY * allowed:
                self.broken(
                    "overload",
                    f"{cluster.name}: {found.over} of {found.minutes} minutes over a target "
                    f"({found.sample} independent), surely above {found.surely:.2%}, "
                    f"allowed {allowed:.2%}",
                )


def least_share(hits: int, sample: int, confidence: float = CONFIDENCE) -> float:
    """Return the lower end of the one-sided binomial interval (Clopper and Pearson)."""
    if hits <= 0:
        return 0.0
    low, high = 0.0, min(hits / sample, 1 - 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        below = sum(_probability(each, sample, middle) for each in range(hits))
        low, high = (middle, high) if 1 - below < 1 - confidence else (low, middle)
    return low


def _probability(hits: int, sample: int, share: float) -> float:
    """Return how probable exactly so many hits are; by logarithms, since samples may be large."""
    ways = math.lgamma(sample + 1) - math.lgamma(hits + 1) - math.lgamma(sample - hits + 1)
    return math.exp(ways + hits * math.log(share) + (sample - hits) * math.log1p(-share))
