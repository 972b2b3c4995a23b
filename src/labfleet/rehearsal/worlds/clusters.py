"""Clusters as they truly are: what runs on them, and how much each run takes at any instant.

A run has a family and a size, and is pods on a cluster of its own in `kube_cluster`, where what they
take rises, stays for a while with waves on it, and falls to nothing at their end. Heavier runs of a
family last longer, so that what runs at an instant is heavier than runs are on the whole
(docs/explanation/admission-by-chance.md). The truth of the rules of admission is here: neither what the
product stores nor what a script reports changes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.kube_cluster import RESOURCES, KubeCluster, Need, Row, RunTruth

__all__ = ["FAMILIES", "RESOURCES", "Clusters", "Family", "Row", "Script", "Shape", "drawn"]
KILLED_AT = 0.7
"""After about which share of its time a run is killed whose memory is limited to a little less."""
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


@dataclass(frozen=True, slots=True)
class Shape:
    """How one run would go: its peaks, its time in seconds, and whether it is killed for memory."""

    peaks: Row
    seconds: float
    killed: bool = False

    @property
    def lasts(self) -> float:
        """Return after how many seconds it is over, by itself or, about, killed."""
        return self.seconds * (KILLED_AT if self.killed else 1.0)


def drawn(family: Family, size: int, rng: SeededRng) -> Shape:
    """Draw how a run of a family and size goes."""
    heavy = math.exp(family.spread * _normal(rng))
    factor = heavy * (rng.between(2.0, 3.0) if rng.chance(OUTLIERS) else 1.0)
    peaks = [
        (base + each * size) * factor * math.exp(0.1 * _normal(rng))
        for base, each in zip(family.base, family.each, strict=True)
    ]
    killed = rng.chance(KILLED)
    if killed:
        rng.random()  # Drawn for what is no more, so that each seed's runs stay what they were.
    if family.limits is not None:
        limits = [each * size for each in family.limits]
        killed = killed or peaks[1] > limits[1]
        peaks = [min(each) for each in zip(peaks, limits, strict=True)]
    seconds = family.seconds * heavy**family.longer * math.exp(0.2 * _normal(rng))
    rng.random()  # Likewise.
    return Shape((peaks[0], peaks[1], peaks[2]), max(seconds, 60.0), killed)


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
    """All clusters and their scripts.

    `spawn` runs something of a cluster's own, of no process of the product, under a name.
    """

    loop: Loop
    rng: SeededRng
    spawn: Callable[[str, Coroutine[Any, Any, None]], object]
    scripts: dict[float, Script] = field(default_factory=dict)
    places: dict[str, KubeCluster] = field(default_factory=dict)
    named: dict[str, Script] = field(default_factory=dict)
    count: int = 0

    def found(self, name: str, room: Row) -> KubeCluster:
        """Put up a cluster of this name and size."""
        place = KubeCluster(name, self.loop, self.rng.stream(name), room)
        self.places[name] = place
        self.spawn(f"cluster {name}", place.run())
        return place

    def begin(self, script: Script, name: str, shape: Shape, rng: SeededRng) -> None:
        """Let a script's pods start, under the approval of this name."""
        script.name, script.shape, script.began = name, shape, self.loop.time()
        self.named[name] = script
        self.count += 1
        need = Need(shape.peaks, shape.seconds, shape.killed)
        self.places[script.cluster].start(name, need, pods=1 + rng.below(2))

    def end(self, script: Script) -> None:
        """Remove a script's pods; no error when they are over."""
        self.places[script.cluster].remove(script.name)

    def truth(self, script: Script) -> RunTruth | None:
        """Return what became of a script's pods where they are seen; None where nobody looks."""
        place = self.places[script.cluster]
        return place.runs.get(script.name) if place.seen else None

    def how(self, script: Script) -> str:
        """Return how a script's run ended, in the words of a view; empty while it has not."""
        found = self.places[script.cluster].runs[script.name]
        return "" if found.over is None else found.how

    async def over(self, script: Script, seconds: float) -> bool:
        """Wait until all pods of a script are over, at most so long; tell whether they are."""
        found = self.places[script.cluster].runs[script.name]
        if not found.ended.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await found.ended.wait()
            except TimeoutError:
                return False
        return True

    def running(self, cluster: str) -> list[str]:
        """Return the approvals under which pods are on a cluster that are not over."""
        place = self.places.get(cluster)
        return [] if place is None else [name for name, run in place.runs.items() if run.live]

    def short(self, cluster: str) -> bool:
        """Tell whether a node of a cluster is cut off now."""
        place = self.places.get(cluster)
        return place is not None and bool(place.world.silent)

    def load(self, cluster: str, *, without: frozenset[str] = frozenset()) -> Row:
        """Return what truly runs on a cluster now, less that under the approvals named `without`."""
        place = self.places.get(cluster)
        return (0.0, 0.0, 0.0) if place is None else place.load(without=without)
