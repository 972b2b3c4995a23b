"""Looks at workers for the idle rule; the worker's own step decides on what was found.

Writes nothing, and has a queue of its own, so that a slow look delays no worker. A worker that
may be stopped is cordoned first, by its step; then everything is looked at, after the cache has
caught up with the store, one worker of a pool at a time. A finding that would change nothing is
not handed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from labfleet.controllers.context import BEHIND_SECONDS, Context
from labfleet.controllers.worker.idle_findings import IdleFindings, Look
from labfleet.controllers.worker.idle_observer import IdleObserver
from labfleet.decisions import parking
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.lifecycle.worker.idle_rule import Wish
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import refs
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.meta import Key
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import KeyedLocks
from labfleet.service.reads import idle_facts

EVERY = 20.0
SOONEST = 5.0


class IdleController:
    """Looks at workers, and wakes the steps of those for which it found something."""

    def __init__(
        self,
        context: Context,
        log: stores.EventLog,
        findings: IdleFindings,
        wake: Callable[[Key], None],
    ) -> None:
        self.context = context
        self._log = log
        self._findings = findings
        self._wake = wake
        self._look = IdleObserver(context)
        self._locks_by_key = KeyedLocks()
        self._doubts: set[Key] = set()

    async def reconcile(self, key: Key) -> Done | Again:
        """Look at the worker of this key once."""
        worker = self._now(key)
        if worker is None:
            self._doubts.discard(key)
            self._findings.drop(key)
            return Done()
        if parking.auto_stopped(worker):
            self._from_sample(worker)
            return Again(EVERY)
        if idle_rule.aging(worker):
            return await self._aged(worker)
        if worker.status.phase not in worker_phases.HOSTING or not parking.ours(worker):
            return Done()  # the change to its next phase triggers the next reconcile
        settings = self.context.settings.now().idle
        off = not settings.enabled and settings.max_age_hours is None
        if off and worker.status.idle.warned_at is None and not parking.cordoned(worker):
            return Done()
        return await self._serving(worker, settings)

    def _now(self, key: Key) -> Worker | None:
        return self.context.cache.get(Worker, key.name, key.namespace)

    # --- looks ---------------------------------------------------------------------------

    async def _serving(self, worker: Worker, settings: Idle) -> Done | Again:
        """Look at the cheap signals, and at everything once the worker is closed for its stop."""
        reading = await self._look.cheap(worker, settings)
        found = self._now(worker.key)
        if found is None:
            return Done()
        now = self.context.clock.now()
        judgement = self._hand_on(found, Look(reading=reading, at=now))
        if judgement.wish is Wish.LOOK:
            return await self._whole(found)
        if judgement.wish is Wish.RETIRE:
            return Again(SOONEST)
        verdict, warned = judgement.verdict, worker.status.idle.warned_at
        if verdict is None or (verdict.eligible and idle_rule.due(found, settings, now)):
            return Again(EVERY)  # its step, or the stop of another one of its pool, is under way
        return Again(max(SOONEST, idle_rule.next_look(verdict, warned, settings, now)))

    async def _whole(self, worker: Worker) -> Done | Again:
        """Look at everything; one worker of a pool at a time."""
        key = worker.key
        async with self._locks_by_key.of(str((refs.pool_of(worker) or worker).key)):
            await self._caught_up()
            revision = self.context.cache.revision
            found = self._now(key)
            if found is None or found.spec.desired != "Ready" or found.deleting:
                return Again(SOONEST)
            reading = await self._look.whole(found)
            found = self._now(key)
            if found is None:
                return Done()
            now = self.context.clock.now()
            self._hand_on(found, Look(reading=reading, at=now, whole=True, revision=revision))
        return Again(EVERY)

    async def _aged(self, worker: Worker) -> Done | Again:
        """Look at everything on a drained old worker, which stops once nothing runs on it."""
        if self._from_sample(worker).wish is Wish.LOOK:
            return await self._whole(worker)
        return Again(EVERY)

    def _from_sample(self, worker: Worker) -> idle_rule.Judgement:
        """Hand on what the newest sample tells."""
        reading = idle_facts.of_sample(worker, self.context.samples.newest(worker.key))
        return self._hand_on(worker, Look(reading=reading, at=self.context.clock.now()))

    async def _caught_up(self) -> None:
        """Wait until the cache has everything committed so far; raise Temporary if it lags."""
        head = await self._log.head()
        try:
            async with asyncio.timeout(BEHIND_SECONDS):
                await self.context.cache.reached(head.revision)
        except TimeoutError:
            raise errors.Temporary("the cache is behind the store", reason="CacheBehind") from None

    # --- what becomes of a look ----------------------------------------------------------

    def _hand_on(self, worker: Worker, look: Look) -> idle_rule.Judgement:
        """Keep the look for the worker's step and wake that, if the rule wants something.

        Otherwise an earlier look that no step has decided on yet is out of date.
        """
        finding = self._findings.finding(worker, look)
        judgement = idle_rule.judge(worker, finding, self.context.clock.now())
        first = self._first_doubt(worker, judgement)
        nothing = judgement.wish in {Wish.NOTHING, Wish.LOOK}
        if nothing or (first and judgement.wish is Wish.NOTE):
            self._findings.drop(worker.key)
        else:
            self._findings.put(worker.key, look)
            self._wake(worker.key)
        return judgement

    def _first_doubt(self, worker: Worker, judgement: idle_rule.Judgement) -> bool:
        """Tell whether this look is the first doubtful one: one failed read is no event."""
        known, verdict = worker.status.idle.verdict, judgement.verdict
        doubtful = verdict is not None and verdict.verdict == "unknown" != known
        first = doubtful and worker.key not in self._doubts
        (self._doubts.add if doubtful else self._doubts.discard)(worker.key)
        return first
