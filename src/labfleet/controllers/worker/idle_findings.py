"""What the idle looks found, kept until the worker's step decides on it: the newest per worker.

In this process's memory only. Whoever starts anew looks anew: the cordon that comes before a whole
look is stored, and nothing else of it has to be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labfleet.controllers.context import Context
from labfleet.controllers.requests import Requests, held
from labfleet.decisions import parking, placement
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.lifecycle.worker.idle_finding import FRESH, IdleFinding
from labfleet.resources import refs
from labfleet.resources.meta import Key
from labfleet.resources.worker import Worker
from labfleet.service.kinds import catalogues, indices
from labfleet.service.reads import idle_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was read of a server, when, and with `revision` what the cache had before it."""

    reading: idle_facts.Reading
    at: datetime
    whole: bool = False
    revision: int | None = None


class IdleFindings:
    """Written by the idle controller, read by the worker's; built once per process."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._requests = Requests(context)
        self._looks: dict[Key, Look] = {}

    def put(self, key: Key, look: Look) -> None:
        """Keep the look in place of an earlier one."""
        self._looks[key] = look

    def take(self, key: Key) -> IdleFinding | None:
        """Return the newest look with the cache's facts of now; None without one that counts."""
        look = self._looks.get(key)
        if look is None:
            return None
        worker = self.context.cache.get(Worker, key.name, key.namespace)
        if worker is None or self.context.clock.now() - look.at > FRESH:
            self.drop(key)
            return None
        return self.finding(worker, look)

    def consumed(self, key: Key, finding: IdleFinding) -> None:
        """Forget the look that a recorded step decided on, unless a newer one came meanwhile."""
        look = self._looks.get(key)
        if look is not None and (look.at, look.revision) == (finding.at, finding.revision):
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Forget the look of a worker."""
        self._looks.pop(key, None)

    def finding(self, worker: Worker, look: Look) -> IdleFinding:
        """Return a look with what the cache holds now."""
        context, now = self.context, self.context.clock.now()
        facts = idle_facts.gather(
            context.cache, context.settings, worker, look.reading, now, brief=True
        )
        peers = self._peers(worker)
        return IdleFinding(
            facts=facts,
            settings=context.settings.now().idle,
            at=look.at,
            whole=look.whole,
            revision=look.revision,
            paused=context.settings.paused(refs.pool_of(worker)) is not None,
            peer_closed=any(idle_rule.closing(each) for each in peers),
            peer_aging=any(idle_rule.aging(each) for each in peers),
            wanted=self._wanted(worker, now),
        )

    def _peers(self, worker: Worker) -> list[Worker]:
        pool = refs.pool_of(worker)
        if pool is None:
            return []
        everybody = self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        return [each for each in everybody if each.key != worker.key]

    def _wanted(self, worker: Worker, now: datetime) -> bool:
        """Tell whether a waiting session needs this stopped worker without a pool."""
        if worker.spec.pool is not None or not parking.auto_stopped(worker):
            return False
        alone = self.context.cache.by(indices.WORKERS_SINGLE, worker.namespace)
        coming = [
            self._as_ready(each)
            for each in alone
            if each.status.phase not in worker_phases.HOSTING
            and not worker_phases.drain_wanted(each)
        ]
        parked = [
            self._as_ready(each)
            for each in alone
            if parking.auto_stopped(each) and parking.ours(each)
        ]
        waiting = []
        for session in self._requests.due_without_pool(worker.namespace, now):
            looked = session.status.decision is not None
            request = self._requests.of(session, now) if looked else None
            if request is not None:
                waiting.append(request)
        left = parking.uncovered(coming, waiting, now=now)
        return worker.name in parking.to_start(parked, left, now=now)

    def _as_ready(self, worker: Worker) -> placement.Candidate:
        """Return a worker without a pool as placement will see it once it is ready."""
        closed = worker.spec.cordoned and not parking.cordoned(worker)
        return placement.Candidate(
            name=worker.name,
            track=worker.spec.track,
            closed="Cordoned" if closed else None,
            licensed=True,
            product=worker.status.licence.product,
            capacity=worker.status.capacity,
            reservations=held(self.context.cache, worker),
            has=catalogues.of_worker(self.context.cache, worker),
        )
