"""The rules that a pool replaces workers on impaired hosts, within its disruption budget.

The check may be what is wrong: a whole zone can fail it at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from labfleet.decisions.lifecycle.worker.phases import HOSTING, drain_wanted
from labfleet.rehearsal.rules.pauses import pool_label
from labfleet.rehearsal.rules.unfit import CHECK, Unfit
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker, WorkerPhase

LATE_SECONDS = 3600.0
"""How long an empty worker may stay on a host that is known to be impaired. Only minutes in which
nothing keeps its pool from replacing it are counted."""
_OUT = frozenset({WorkerPhase.STOPPED, WorkerPhase.TERMINATING_EC2, WorkerPhase.TERMINATED})


@dataclass(slots=True)
class Replacement:
    """Counts the impaired workers that a pool has under way to their end."""

    broken: Callable[[str, str], None]
    unfit: Unfit
    pools: Mapping[str, Pool]
    _going: dict[str, set[str]] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)
    _looked: float = 0.0

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
        total = sum(pool_label(each) == mine and each.status.phase not in _OUT for each in workers)
        most = max(budget.max_workers, total * budget.max_percent // 100)
        if len(going) > most:
            told = f"{len(going)} impaired workers of {total} go at once, {most} may"
            self.broken("replaced", f"pool {mine}: {told}")

    def patrol(
        self,
        now: float,
        workers: Iterable[Worker],
        used: Callable[[Worker], bool],
        held: Callable[[str | None], bool],
    ) -> None:
        """Judge who still stands on an impaired host; `used` tells whether anything is there."""
        passed, self._looked = now - self._looked, now
        if not self.unfit.any(CHECK):
            self._spent.clear()
            return
        everyone = list(workers)
        away = Counter(
            pool_label(each)
            for each in everyone
            if each.status.phase not in _OUT
            and (each.status.phase not in HOSTING or drain_wanted(each))
        )
        for each in everyone:
            name, pool = each.key.label, pool_label(each)
            ill = each.status.machine.host_check == "impaired" and self.unfit.shown(each, CHECK)
            if not ill or each.status.phase not in HOSTING or used(each):
                self._spent.pop(name, None)
            elif pool in self.pools and not (away[pool] or held(pool)):
                self._spent[name] = self._spent.get(name, 0.0) + passed
                if self._spent[name] > LATE_SECONDS:
                    del self._spent[name]
                    told = f"stands empty on an impaired host for {LATE_SECONDS / 60:.0f} min"
                    self.broken("replaced", f"{each.key} {told}")
