"""All rules of simulations, as one: what each looks at, and when.

They hear the commits beside `Invariants`, and do nothing in a seed without run scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.rehearsal.replicas.replica import Replica
from labfleet.rehearsal.rules.approvals import Approvals
from labfleet.rehearsal.rules.blind import Blind
from labfleet.rehearsal.rules.counted import Counted
from labfleet.rehearsal.rules.decided import Decided
from labfleet.rehearsal.rules.measured import Measured
from labfleet.rehearsal.rules.overload import Overload
from labfleet.rehearsal.rules.pods import Pods
from labfleet.rehearsal.worlds.clusters import Clusters
from labfleet.rehearsal.worlds.database import SharedDatabase


@dataclass(slots=True)
class Simulations:
    """Watches what becomes of run scripts; `broken` takes a rule's word and what was seen."""

    shared: SharedDatabase
    world: Clusters
    broken: Callable[[str, str], None]
    approvals: Approvals = field(init=False)
    counted: Counted = field(init=False)
    decided: Decided = field(init=False)
    measured: Measured = field(init=False)
    pods: Pods = field(init=False)
    blind: Blind = field(init=False)
    overload: Overload = field(init=False)

    def __post_init__(self) -> None:
        time = self.shared.loop.time
        self.decided = Decided(self.shared, self.broken)
        self.approvals = Approvals(self.world, self.broken, time, self.decided.keep)
        self.counted = Counted(self.approvals, self.broken, time)
        self.overload = Overload(self.world, self.broken)
        self.measured = Measured(self.world, self.broken)
        self.pods = Pods(self.world, self.broken, time)
        self.blind = Blind(self.world, self.broken, time)
        self.shared.heard += [
            self.approvals.committed,
            self.measured.committed,
            self.pods.committed,
            self.blind.committed,
        ]

    def patrol(self, replicas: list[Replica]) -> None:
        """Check what depends on time; every virtual minute."""
        if self.world.scripts:
            self.approvals.patrol()
            self.pods.patrol()
            self.blind.patrol()
            self.counted.look(replicas)
            self.overload.look(self.approvals.clusters.values(), self.approvals.runs.values())

    def unsettled(self) -> list[str]:
        """Return what has not come to its end yet."""
        return self.approvals.unsettled()

    def end(self) -> None:
        """Check what is judged by a whole seed."""
        self.decided.look()
        self.overload.judge(self.approvals.clusters.values())

    def figures(self) -> dict[str, int]:
        """Return what was looked at, as counts that add up over seeds."""
        found = {"decisions again": len(self.decided.sample), "whole": self.decided.whole,
                 "loads compared": self.counted.looks, "runs": self.world.count,
                 "measured runs": self.measured.compared, "ended by pods": self.pods.ended,
                 "safe modes": self.blind.entered, "denied blind": self.blind.denied,
                 "declared blind": self.blind.declared}  # fmt: skip
        for name, seen in sorted(self.overload.seen.items()):
            found[f"{name} minutes"], found[f"{name} over"] = seen.minutes, seen.over
            found[f"{name} independent"] = seen.sample
        return found
