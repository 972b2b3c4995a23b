"""The rule that a pool replaces workers on impaired hosts no faster than its disruption budget.

The check may be what is wrong: a whole zone can fail it at once. That such workers go at all is
a matter of `convergence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.worker.phases import HOSTING
from labfleet.rehearsal.rules.pauses import pool_label
from labfleet.rehearsal.rules.unfit import CHECK, Unfit
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker, WorkerPhase

_OUT = frozenset({WorkerPhase.STOPPED, WorkerPhase.TERMINATING_EC2, WorkerPhase.TERMINATED})


@dataclass(slots=True)
class Replacement:
    """Counts the impaired workers that a pool has under way to their end."""

    broken: Callable[[str, str], None]
    unfit: Unfit
    pools: Mapping[str, Pool]
    _going: dict[str, set[str]] = field(default_factory=dict)

    def worker(
        self, actor: str, old: Worker | None, new: Worker, workers: Iterable[Worker]
    ) -> None:
        """Judge a retirement by a pool at its commit; `workers` are the records before it."""
        label, pool = new.key.label, self.pools.get(pool_label(new) or "")
        if pool is None:
            return
        going = self._going.setdefault(pool.key.label, set())
        if new.status.phase in _OUT:
            going.discard(label)
            return
        asked = old is not None and old.spec.desired == "Ready" and new.spec.desired != "Ready"
        impaired = self.unfit.holds(new.status.machine.id or "", CHECK)
        if not (asked and impaired and actor == "pool-controller" and pool.spec.desired == "Ready"):
            return
        if new.status.phase not in HOSTING or pool.deleting:
            return
        going.add(label)
        budget, mine = pool.spec.disruption, pool.key.label
        total = sum(
            pool_label(each) == mine and each.status.phase not in _OUT for each in workers
        )
        most = max(budget.max_workers, total * budget.max_percent // 100)
        if len(going) > most:
            told = f"{len(going)} impaired workers of {total} go at once, {most} may"
            self.broken("replaced", f"pool {mine}: {told}")
