"""How often clusters were truly over a target, beside epsilon: reported, and judged with care.

Every virtual minute in which an approved run truly runs counts. Minutes are not independent: the
same runs run on. So the sample of a cluster is as many minutes as one run lasts on the whole, and
a violation is only what cannot be chance: the lower end of a one-sided 99.9 % binomial interval
of the overloaded share is above CLEARLY times epsilon, of at least LEAST of them. What runs on after
its approval has ended is left out, since admission looks at approvals, not at loads that are measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labfleet.rehearsal.rules.approvals import TARGETED, targets
from labfleet.rehearsal.worlds.clusters import RESOURCES, Clusters
from labfleet.resources.cluster import Cluster, as_seen
from labfleet.resources.decision import Rule
from labfleet.resources.simulation import HOLDING, Simulation

CONFIDENCE = 0.999
CLEARLY = 4.0
LEAST = 30
"""Independent minutes below which nothing is judged, only told: in a short rehearsal one outlier that
runs long is one event, and covers several of them."""


@dataclass(slots=True)
class Seen:
    """Minutes that were looked at, minutes over a target, and minutes of all runs together."""

    minutes: int = 0
    over: int = 0
    run_minutes: int = 0
    runs: set[str] = field(default_factory=set)

    @property
    def sample(self) -> int:
        """Return how many minutes count as independent."""
        if not self.runs:
            return 0
        return max(1, round(self.minutes * len(self.runs) / self.run_minutes))


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
                found = self.seen.setdefault(cluster.name, Seen())
                found.minutes += 1
                found.over += over
                found.run_minutes += len(here)
                found.runs.update(here)

    def judge(self, clusters: Iterable[Cluster]) -> None:
        """Compare what was seen with what each cluster allows; once, at the end."""
        for cluster in clusters:
            found = self.seen.get(cluster.name)
            if found is None or cluster.spec.rule is not Rule.CHANCE:
                continue
            share = found.over / found.minutes
            least = least_share(math.floor(share * found.sample), found.sample)
            allowed = cluster.spec.overload_percent / 100
            if found.sample >= LEAST and least > CLEARLY * allowed:
                self.broken(
                    "overload",
                    f"{cluster.name}: {found.over} of {found.minutes} minutes over a target "
                    f"({found.sample} independent), surely above {least:.2%}, "
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
