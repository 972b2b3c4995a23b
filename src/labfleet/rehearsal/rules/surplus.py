"""The rule on surplus: no worker stays empty for much longer than its pool allows.

Judged over time by the checker's own copy of the objects. Waiting at the end of a run until a
pool has shrunk would cost each run hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from labfleet.decisions.pools import policy_kinds
from labfleet.rehearsal.rules.pauses import pool_label
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Health, Worker, WorkerPhase

P = WorkerPhase
SLACK_SECONDS = 3600.0
"""Grace beyond the pool's own time: for outages of EC2, paused leaders, restarts. Only minutes in
which nothing kept the pool from giving a worker back are counted."""
AWAY = frozenset({P.STOPPED, P.TERMINATED})
SERVING = frozenset({P.READY, P.ACTIVE})


@dataclass(slots=True)
class Surplus:
    """Judges now and then; `broken` takes the rule's word and what was seen."""

    broken: Callable[[str, str], None]
    _spent: dict[str, float] = field(default_factory=dict)
    _looked: float = 0.0

    def look(
        self,
        now: float,
        pools: Iterable[Pool],
        workers: Iterable[Worker],
        used: Callable[[Worker], bool],
        *,
        hungry: bool,
        held: Callable[[str | None], bool],
    ) -> None:
        """Judge all pools now; `used` tells whether anything is on a worker or booked there.

        `hungry`: somebody waits for a worker, or will within the time of a boot.

        A pool that is paused, or has a worker in transition, unhealthy or failed, may wait: its
        disruption budget then keeps the others. A worker that the idle rule has stopped costs
        little and counts as given back.
        """
        everyone = list(workers)
        passed, self._looked = now - self._looked, now
        serving = {each.key.label for each in everyone if each.status.phase not in AWAY}
        for name in self._spent.keys() - serving:
            del self._spent[name]  # what comes back begins anew
        for pool in pools:
            mine = [
                each for each in everyone
                if pool_label(each) == pool.key.label and each.spec.origin is None
                and each.status.phase not in AWAY
            ]  # fmt: skip
            scaling = pool.spec.scaling
            calm = all(
                each.status.phase in SERVING
                and each.status.health is Health.HEALTHY
                and each.spec.drain is None
                and not each.spec.cordoned
                for each in mine
            )
            empty = [each.key.label for each in mine if not used(each)]
            judged = (
                policy_kinds.demand(scaling)
                and len(mine) > scaling.min_workers
                and calm
                and not hungry
                and not held(pool.key.label)
                and pool.spec.desired == "Ready"
            )
            for each in mine:
                if each.key.label not in empty:
                    self._spent.pop(each.key.label, None)
            if not judged:
                continue
            most = scaling.empty_seconds + scaling.cooldown_down_seconds * len(mine) + SLACK_SECONDS
            for name in empty:
                self._spent[name] = self._spent.get(name, 0.0) + passed
            if empty and min(self._spent[name] for name in empty) > most:
                told = f"{len(mine)} workers, {scaling.min_workers} are meant, empty: {empty[:3]}"
                self.broken("surplus", f"pool {pool.key.label} has {told} for {most / 3600:.1f} h")
