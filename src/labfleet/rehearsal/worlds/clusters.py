"""Clusters as they truly are: what runs on them, and how much each run takes at any instant.

A run has a family and a size; what it takes rises, stays for a while with waves on it, and falls
to nothing at its end. Heavier runs of a family last longer, so that what runs at an instant is
heavier than runs are on the whole (docs/explanation/admission-by-chance.md). The truth of the rules
of admission is here: neither what the product stores nor what a script reports changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from labfleet.rehearsal.time.virtual_host import SeededRng

RESOURCES = ("cpu_milli", "memory_mib", "network_kbps")
"""What a run takes, in the order of every row of numbers here."""
Row = tuple[float, float, float]
WAVE = 0.15
"""How far the plateau of CPU and network swings below its peak, as a share of it."""
OUTLIERS, KILLED = 0.02, 0.03
"""Shares of runs that take a multiple of what their family takes, and that are killed for memory."""


@dataclass(frozen=True, slots=True)
class Family:
    """A chart: what a node of it takes, how widely runs differ, and how long they last.

    `spread` is the standard deviation of the logarithm of how heavy a run is for its size, and
    `longer` the power of that heaviness by which a heavier run lasts longer.
    """

    name: str
    size: str
    sizes: tuple[int, ...]
    each: Row
    base: Row
    spread: float
    seconds: float
    longer: float
    limits: Row | None = None


FAMILIES = (
    Family("waku", "nodecount", (5, 10, 20, 30, 40), (150.0, 190.0, 900.0), (200.0, 300.0, 500.0),
           0.25, 1500.0, 1.0, limits=(500.0, 600.0, math.inf)),
    Family("nimlibp2p", "number_of_peers", (10, 20, 30), (90.0, 110.0, 1500.0),
           (400.0, 600.0, 0.0), 0.4, 900.0, 0.7, limits=(500.0, 600.0, math.inf)),
    Family("chaos", "replicas", (2, 4, 8), (700.0, 900.0, 400.0), (0.0, 500.0, 100.0),
           0.6, 2400.0, 1.3),
)  # fmt: skip
"""The first two have the limits of a pod that upstream 004 states (facts/upstream.md#gate)."""
NAMED = {each.name: each for each in FAMILIES}


@dataclass(frozen=True, slots=True)
class Shape:
    """How one run would go: its peaks, its time in seconds, and where its waves begin.

    `killed` is the share of its time after which it is killed for want of memory; None: it is not.
    """

    peaks: Row
    seconds: float
    phase: float = 0.0
    killed: float | None = None

    @property
    def lasts(self) -> float:
        """Return after how many seconds it is over, by itself or killed."""
        return self.seconds * (1.0 if self.killed is None else self.killed)

    def takes(self, age: float) -> Row:
        """Return what it takes at an age in seconds: a tenth of its time to rise, then waves."""
        if not 0 <= age < self.lasts:
            return (0.0, 0.0, 0.0)
        part = age / self.seconds
        rise = min(1.0, part * 10)
        wave = 1 - WAVE * (0.5 + 0.5 * math.sin(self.phase + part * 40))
        # Memory is not given back before the end, and creeps up to its peak.
        return (
            self.peaks[0] * rise * wave,
            self.peaks[1] * rise * (0.85 + 0.15 * part),
            self.peaks[2] * rise * wave,
        )

    def most(self) -> Row:
        """Return the peaks that were reached by the time it is over."""
        ages = [self.lasts * step / 64 for step in range(64)]
        found = [self.takes(age) for age in ages]
        return (
            max(each[0] for each in found),
            max(each[1] for each in found),
            max(each[2] for each in found),
        )


def drawn(family: Family, size: int, rng: SeededRng) -> Shape:
    """Draw how a run of a family and size goes."""
    heavy = math.exp(family.spread * _normal(rng))
    factor = heavy * (rng.between(2.0, 3.0) if rng.chance(OUTLIERS) else 1.0)
    peaks = [
        (base + each * size) * factor * math.exp(0.1 * _normal(rng))
        for base, each in zip(family.base, family.each, strict=True)
    ]
    killed = rng.between(0.3, 0.95) if rng.chance(KILLED) else None
    if family.limits is not None:
        limits = [each * size for each in family.limits]
        if peaks[1] > limits[1]:
            killed = killed or 0.9
        peaks = [min(each) for each in zip(peaks, limits, strict=True)]
    seconds = family.seconds * heavy**family.longer * math.exp(0.2 * _normal(rng))
    shape = (peaks[0], peaks[1], peaks[2])
    return Shape(shape, max(seconds, 60.0), rng.between(0.0, 6.3), killed)


def _normal(rng: SeededRng) -> float:
    """Return a number of the standard normal distribution (Box and Muller)."""
    return math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2 * math.pi * rng.random())


@dataclass(slots=True)
class Script:
    """One wish of a run script: what it was told, what it has asked, and what truly runs of it.

    `wish` is a number that its parameters carry, so that a stored record tells whose it is.
    By approval, `tried` is when it last sent a report of life and `beat` when it sent the last one
    that was answered; `ends` are approvals of which it has reported the end.
    """

    wish: float
    cluster: str
    family: str
    keyed: bool
    told: dict[str, set[str]] = field(default_factory=dict)
    ends: set[str] = field(default_factory=set)
    tried: dict[str, float] = field(default_factory=dict)
    beat: dict[str, float] = field(default_factory=dict)
    shape: Shape | None = None
    began: float = 0.0
    name: str = ""


@dataclass(slots=True)
class Clusters:
    """All clusters: their scripts, and what runs on them now."""

    scripts: dict[float, Script] = field(default_factory=dict)
    running: dict[float, Script] = field(default_factory=dict)
    count: int = 0

    def begin(self, script: Script, name: str, shape: Shape, now: float) -> None:
        """Let a script's pods start, under the approval of this name."""
        script.name, script.shape, script.began = name, shape, now
        self.running[script.wish] = script
        self.count += 1

    def end(self, script: Script) -> None:
        """Let a script's pods be gone; no error when they are."""
        self.running.pop(script.wish, None)

    def load(self, cluster: str, now: float, *, without: frozenset[str] = frozenset()) -> Row:
        """Return what truly runs on a cluster, less that under the approvals named `without`."""
        sums = [0.0, 0.0, 0.0]
        for each in self.running.values():
            if each.cluster == cluster and each.shape is not None and each.name not in without:
                for place, amount in enumerate(each.shape.takes(now - each.began)):
                    sums[place] += amount
        return (sums[0], sums[1], sums[2])
