"""The rules on the sizes of pools: within their bounds, calm, and nothing needed is taken away.

Judged at the pool controller's own commits, by the checker's copies of pools, workers and sessions. It
knows nothing of policies: what a pool makes or gives back is judged by counts alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.resources.meta import Key, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker, WorkerPhase

ACTOR = "pool-controller"
GIVEN_BACK = frozenset({"Empty", "AboveMaximum", "NotNeeded", "SlotOver"})
"""Why a pool gives a worker back of its own accord; all else is replaced, or was asked for."""
SOON = timedelta(minutes=5)
"""A promise that begins within that, and is as old, is needed: what is younger may cross a look."""
HOUR = timedelta(hours=1)
TURNS = 12
"""How often an hour a pool may turn from growing to giving back; a class that begins is one turn."""
_GONE = frozenset({WorkerPhase.TERMINATED, WorkerPhase.FAILED})


@dataclass(slots=True)
class PoolSizes:
    """Watches the pools; `broken` takes the rule's word and what was seen, `sessions` are those known."""

    broken: Callable[[str, str], None]
    sessions: Mapping[Key, Session]
    _pools: dict[str, Pool] = field(default_factory=dict)
    _workers: dict[str, dict[str, Worker]] = field(default_factory=dict)
    _turns: dict[str, deque[datetime]] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)

    def put(self, new: Resource, actor: str, reason: str, at: datetime) -> None:
        """Take what was just made durable, and judge it if a pool did it."""
        if isinstance(new, Pool):
            self._pools[new.key.path] = new
        if not isinstance(new, Worker) or new.spec.pool is None:
            return
        path = f"{new.namespace}/{new.spec.pool}"
        mine = self._workers.setdefault(path, {})
        old = mine.get(new.name)
        mine[new.name] = new
        pool = self._pools.get(path)
        if actor != ACTOR or pool is None:
            return
        if old is None:
            self._made(path, pool, at)
        elif old.spec.desired != "Terminated" == new.spec.desired:
            self._retired(path, pool, new, reason.removeprefix("retired: "), at)

    def gone(self, key: Key) -> None:
        """Forget a worker or a pool whose record is gone."""
        for mine in self._workers.values():
            known = mine.get(key.name)
            if known is not None and known.key == key:
                del mine[key.name]
        if key.kind == "Pool":
            self._pools.pop(key.path, None)

    def _made(self, path: str, pool: Pool, at: datetime) -> None:
        """Judge a new worker: the pool has no more than its maximum, those that failed apart."""
        live = [each for each in self._workers[path].values() if each.status.phase not in _GONE]
        if len(live) > pool.spec.scaling.max_workers:
            told = f"{len(live)} workers, {pool.spec.scaling.max_workers} are the maximum"
            self.broken("pool-size", f"pool {path} has {told}")
        self._turned(path, "up", at)

    def _retired(self, path: str, pool: Pool, worker: Worker, reason: str, at: datetime) -> None:
        """Judge one that goes: it hosts nothing, is above the minimum, and no promise needs it."""
        if reason not in GIVEN_BACK or pool.spec.desired != "Ready" or pool.deleting:
            return
        here = [each.name for each in self._on(worker)]
        if here:
            self.broken("pool-busy", f"{worker.key} is given back ({reason}) with {here[:3]}")
        left = [each for each in self._workers[path].values() if _serves(each)]
        least = pool.spec.scaling.min_workers
        if len(left) < least:
            self.broken("pool-size", f"pool {path} keeps {len(left)} workers, {least} are meant")
        free = sum(not any(self._on(each)) for each in left)
        wanting = self._wanting(path, at)
        if len(wanting) > free:
            told = f"{len(wanting)} places are promised within minutes, {free} workers are free"
            self.broken("pool-promise", f"{worker.key} is given back ({reason}): {told}")
        self._turned(path, "down", at)

    def _wanting(self, path: str, at: datetime) -> set[int]:
        """Return the places that begin soon and that no worker serves yet."""
        due, served = set[int](), set[int]()
        for each in self.sessions.values():
            claim, made = each.status.claim, each.metadata.creation_timestamp
            if claim is None or f"{each.namespace}/{claim.pool}" != path:
                continue
            if each.status.reservation is not None:
                served.add(claim.place)
            elif each.status.phase is SessionPhase.PENDING and made and made <= at - SOON:
                due |= {claim.place} if claim.start <= at + SOON < claim.end else set()
        return due - served

    def _on(self, worker: Worker) -> Iterator[Session]:
        for each in self.sessions.values():
            same = each.status.worker == worker.name and each.namespace == worker.namespace
            if same and each.status.reservation is not None:
                yield each

    def _turned(self, path: str, way: str, at: datetime) -> None:
        """Count a turn from growing to giving back; too many within an hour are flapping."""
        before, self._last[path] = self._last.get(path), way
        if before != "up" or way != "down":
            return
        turns = self._turns.setdefault(path, deque())
        turns.append(at)
        while turns[0] <= at - HOUR:
            turns.popleft()
        if len(turns) > TURNS:
            self.broken("pool-calm", f"pool {path} turned {len(turns)} times within an hour")


def _serves(worker: Worker) -> bool:
    """Tell whether a worker serves, or comes up to serve."""
    return worker.spec.desired == "Ready" and worker.status.phase not in _GONE
