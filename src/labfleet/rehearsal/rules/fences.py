"""The rule on leases: only the newest leader writes, and only what its role decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from labfleet.controllers.assembly import ROLES
from labfleet.interfaces import store
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.service.core import access

SCHEDULER, WORKERS, LABS = ROLES
LEASES: dict[str, frozenset[str]] = {
    "scheduler": frozenset({SCHEDULER}),
    "pool-controller": frozenset({SCHEDULER}),
    "upkeep": frozenset({SCHEDULER}),
    "admission": frozenset({SCHEDULER}),
    "cluster-controller": frozenset({SCHEDULER}),
    "webhooks": frozenset({SCHEDULER}),
    "worker-controller": frozenset({WORKERS}),
    "idle-controller": frozenset({WORKERS}),
    "garbage": frozenset({WORKERS}),
    "discovery": frozenset({WORKERS}),
    "session-controller": frozenset({LABS}),
    "lab-keeper": frozenset({LABS}),
    access.SYSTEM.name: frozenset(ROLES),
}
"""Actor -> the leases under which it may write; an actor not listed is a person and has none.

What a person asks of a cluster is decided by the scheduler's leader and written in the person's name.
"""


@dataclass(slots=True)
class Fences:
    """Judges the fencing token of each commit; `broken` gets the rule's name and what was seen."""

    broken: Callable[[str, str], None]
    shared: SharedDatabase
    _newest: dict[str, int] = field(default_factory=dict)

    def commit(self, commit: store.Commit) -> None:
        """Judge one commit that was just made durable."""
        actor, fence = commit.cause.actor, commit.fence
        leases = LEASES.get(actor)
        if fence is None:
            if leases is not None or actor.endswith("-controller"):
                self.broken("fence", f"{actor} wrote without a fence")
            return
        if leases is None and _asked_of_a_cluster(commit):
            leases = LEASES["admission"]
        if leases is None or fence.lease not in leases:
            self.broken("fence", f"{actor} wrote under the lease of {fence.lease}")
        inner = self.shared.inner
        rows = inner.rows(inner.sql["lease"], (fence.lease,))
        newest = max(self._newest.get(fence.lease, 0), rows[0][2] if rows else 0)
        self._newest[fence.lease] = newest
        if fence.token != newest:
            told = f"{fence.lease}: token {fence.token} wrote, the newest is {newest}"
            self.broken("fence", told)


def _asked_of_a_cluster(commit: store.Commit) -> bool:
    """Tell whether a commit puts simulations and no other object."""
    puts = {each.key.kind for each in commit.writes if isinstance(each, store.Put)}
    return puts == {"Simulation"}
