"""The idle rule: judge each worker that serves, warn, cordon, look again, stop.

A stop is one intent, written once (facts/aws-bugs.md#case-15, #case-27), with the precondition that
nothing was reserved on the worker since the last look, so a session placed meanwhile wins. When
the last look finds use, this controller uncordons the worker again. A worker that it stopped may
be started again by its pool, or here when it has no pool. It makes no call that changes a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from labfleet.controllers.context import BEHIND_SECONDS, Context
from labfleet.controllers.requests import Requests, held
from labfleet.controllers.worker.idle_observer import IdleObserver
from labfleet.decisions import idle, parking, placement
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources import conditions, refs
from labfleet.resources.fleet_settings import Idle
from labfleet.resources.meta import Key
from labfleet.resources.worker import Drain, IdleStatus, Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason
from labfleet.service.core import ledger_rows
from labfleet.service.core.service_context import KeyedLocks
from labfleet.service.kinds import indices
from labfleet.service.reads import idle_facts

ACTOR = "idle-controller"
EVERY = 20.0
SOONEST = 5.0
Guard = Sequence[stores.Precondition]
MOVED = timedelta(minutes=5)
"""Activity that is newer by less than this is not written."""
PATIENCE = timedelta(minutes=10)
"""How long an idle stop may wait for a complete last look before it is cancelled."""
KEPT = frozenset({"nodes", "console", "telemetry", "cpu", "network", "health"})
"""Signals read from outside; kept as evidence for processes that cannot ask the server."""


class IdleController:
    """Reconciles workers; `look` reads their servers."""

    def __init__(self, context: Context, log: stores.EventLog) -> None:
        self.context = context
        self._log = log
        self._look = IdleObserver(context)
        self._requests = Requests(context)
        self._locks_by_key = KeyedLocks()
        self._doubts: set[Key] = set()

    async def reconcile(self, key: Key) -> Done | Again:
        """Take one step for the worker of this key."""
        worker = self.context.cache.get(Worker, key.name, key.namespace)
        if worker is None:
            self._doubts.discard(key)
            return Done()
        settings = self.context.settings.now().idle
        if parking.auto_stopped(worker):
            return await self._parked(worker)
        if _aging(worker):
            return await self._aged(worker, settings)
        if worker.status.phase not in worker_phases.HOSTING or not idle_facts.ours(worker):
            return Done()  # the change to its next phase triggers the next reconcile
        off = not settings.enabled and settings.max_age_hours is None
        if off and worker.status.idle.warned_at is None and not parking.cordoned(worker):
            return Done()
        return await self._judge(worker, settings)

    async def _judge(self, worker: Worker, settings: Idle) -> Again:
        reading = await self._look.cheap(worker, settings)
        now = self.context.clock.now()
        verdict = self._verdict(worker, reading, settings, now)
        old = idle.too_old(worker, settings, now)
        if old is not None and await self._retire(worker, old, now):
            return Again(SOONEST)
        warned = worker.status.idle.warned_at
        due = warned is not None and now >= warned + timedelta(minutes=settings.warn_minutes)
        if verdict.eligible and (due or not settings.warn_minutes):
            return await self._stop(worker, settings)
        if parking.cordoned(worker) or (warned is not None and not verdict.warn):
            await self._open(worker, verdict, now)
        else:
            await self._note(worker, verdict, settings, now)
        return Again(_pause(verdict, warned, settings, now))

    def _verdict(
        self, worker: Worker, reading: idle_facts.Reading, settings: Idle, now: datetime
    ) -> idle.IdleVerdict:
        context = self.context
        facts = idle_facts.gather(context.cache, context.settings, worker, reading, now, brief=True)
        return idle.judge(worker, facts, settings, now)

    # --- what is recorded ----------------------------------------------------------------

    async def _note(
        self, worker: Worker, verdict: idle.IdleVerdict, settings: Idle, now: datetime
    ) -> None:
        """Record the verdict when it or its reasons changed; warn when the stop is near."""
        known = worker.status.idle
        begins = verdict.warn and known.warned_at is None
        doubtful = verdict.verdict == "unknown" != known.verdict
        first_doubt = doubtful and worker.key not in self._doubts
        (self._doubts.add if doubtful else self._doubts.discard)(worker.key)
        if not begins and (first_doubt or not _news(known, verdict)):
            return  # a single failed read is not worth an event
        told = _told(known, verdict, now)
        status = msgspec.structs.replace(worker.status, idle=told)
        reason = f"{verdict.verdict}: {', '.join(verdict.kept_by) or 'nothing keeps it'}"
        if begins:
            at = max(verdict.stop_at or now, now + timedelta(minutes=settings.warn_minutes))
            reason = f"IdleWarning: unused, will be stopped at {utc_text(at)}"
            status = msgspec.structs.replace(
                status,
                idle=msgspec.structs.replace(told, warned_at=now),
                conditions=conditions.put(
                    status.conditions,
                    WorkerCondition.IDLE_WARNING,
                    "True",
                    WorkerReason.STOP_NEAR,
                    reason[13:],
                    now=now,
                ),
            )
        await self.context.record(worker, status=status, actor=ACTOR, reason=reason)

    async def _open(self, worker: Worker, verdict: idle.IdleVerdict, now: datetime) -> None:
        """Withdraw warning and cordon: something keeps the worker after all."""
        told = msgspec.structs.replace(_told(worker.status.idle, verdict, now), warned_at=None)
        why = ", ".join(verdict.kept_by) or "the stop was put off"
        facts = conditions.put(
            worker.status.conditions,
            WorkerCondition.IDLE_WARNING,
            "False",
            WorkerReason.KEPT,
            f"kept by {why}",
            now=now,
        )
        status = msgspec.structs.replace(worker.status, idle=told, conditions=facts)
        new = msgspec.structs.replace(worker, status=status)
        if parking.cordoned(worker):
            new = parking.with_cordon(new, closed=False)
        await self.context.write(new, actor=ACTOR, reason=f"not stopped: kept by {why}")

    # --- the stop ------------------------------------------------------------------------

    async def _stop(self, worker: Worker, settings: Idle) -> Again:
        """Cordon, look again at everything, request the stop; one worker of a pool at a time."""
        async with self._locks_by_key.of(str((refs.pool_of(worker) or worker).key)):
            if not worker.spec.cordoned:
                closed = parking.with_cordon(worker, closed=True)
                told = "cordoned: idle, looked at once more before its stop"
                await self.context.write(closed, actor=ACTOR, reason=told)
            await self._caught_up()
            guard = self._guard(worker)
            found = self.context.cache.get(Worker, worker.name, worker.metadata.namespace)
            if found is None or found.spec.desired != "Ready" or found.deleting:
                return Again(SOONEST)
            verdict = await self._second_look(found, settings)
            now = self.context.clock.now()
            if not verdict.eligible:
                await self._open(found, verdict, now)
                return Again(_pause(verdict, None, settings, now))
            status = msgspec.structs.replace(
                found.status, idle=_told(found.status.idle, verdict, now)
            )
            judged = msgspec.structs.replace(found, status=status)
            since = utc_text(verdict.since) if verdict.since else "long ago"
            await self._ask(judged, now, "idle_timeout", f"stopped: unused since {since}", guard)
            return Again(EVERY)

    async def _second_look(self, worker: Worker, settings: Idle) -> idle.IdleVerdict:
        """Ask the server itself, then read the cache, which has all that was committed."""
        reading = await self._look.whole(worker)
        return self._verdict(worker, reading, settings, self.context.clock.now())

    def _guard(self, worker: Worker) -> tuple[stores.Precondition, ...]:
        """Return the preconditions of the commit that requests the stop, as they hold now.

        Meanwhile nothing was reserved here, no other worker of the pool was taken out of
        service, and automatic actions were not paused.
        """
        cache = self.context.cache
        rows = (ledger_rows.untouched(row, cache.revision) for row in _rows(worker))
        return (*rows, *self._unpaused(worker))

    def _unpaused(self, worker: Worker) -> tuple[stores.Precondition, ...]:
        """Return the preconditions of an automatic action: it was not paused meanwhile."""
        settings = self.context.settings.unchanged()
        pool = self.context.cache.find(refs.pool_of(worker))
        if pool is None:
            return (settings,)
        return settings, stores.AtRevision(pool.key, pool.revision)

    async def _ask(
        self, worker: Worker, now: datetime, word: str, reason: str, guard: Guard
    ) -> None:
        """Request the stop if nothing that the decision used has changed."""
        new = parking.paused(worker, now, by=ACTOR, reason=word, auto=True)
        status = msgspec.structs.replace(
            new.status,
            conditions=conditions.put(
                new.status.conditions,
                WorkerCondition.IDLE_WARNING,
                "False",
                WorkerReason.STOPPED,
                reason,
                now=now,
            ),
        )
        new = msgspec.structs.replace(new, status=status)
        writes = tuple(ledger_rows.touch(row) for row in _rows(worker))
        await self.context.write(
            new, actor=ACTOR, reason=reason, preconditions=guard, writes=writes
        )

    async def _caught_up(self) -> None:
        """Wait until the cache has everything committed so far; raise Temporary if it lags."""
        head = await self._log.head()
        try:
            async with asyncio.timeout(BEHIND_SECONDS):
                await self.context.cache.reached(head.revision)
        except TimeoutError:
            raise errors.Temporary("the cache is behind the store", reason="CacheBehind") from None

    # --- stopped, and back ---------------------------------------------------------------

    async def _parked(self, worker: Worker) -> Again:
        """Manage a worker stopped by this rule: cancel its stop, or start it for a session."""
        now = self.context.clock.now()
        if self.context.settings.paused(refs.pool_of(worker)) is not None:
            return Again(EVERY)
        why = self._used_again(worker, now)
        if worker.status.phase is WorkerPhase.FAILED:
            await self._let_go(worker)
            return Again(EVERY)
        if (
            why is None
            and worker.spec.pool is None
            and worker.name in self._wanted(worker.namespace, now)
        ):
            why = "a session waits for it"
        if why is not None:
            again = parking.resumed(worker, now, auto=True)
            guard = self._unpaused(worker)
            told = f"started again: {why}"
            await self.context.write(again, actor=ACTOR, reason=told, preconditions=guard)
        return Again(EVERY)

    async def _let_go(self, worker: Worker) -> None:
        """Give up a worker that failed while this rule drained or stopped it.

        A worker that is being drained or stopped is not replaced by its pool. So one of a pool is
        terminated, like every failed one; one without a pool is left for people to look at. If
        its machine still exists, the worker controller stops that first.
        """
        failed = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
        ended = failed is not None and failed.reason == WorkerReason.INSTANCE_TERMINATED
        if worker.spec.pool is None or not (ended or worker.spec.drain is not None):
            if worker.spec.drain is not None:
                whole = parking.undrained(worker)
                await self.context.write(whole, actor=ACTOR, reason="no longer drained: it failed")
            return
        gone = parking.given_up(worker)
        if self.context.settings.paused(refs.pool_of(worker)) is not None:
            return
        told = "retired: it failed while it was idle"
        guard = self._unpaused(worker)
        await self.context.write(gone, actor=ACTOR, reason=told, preconditions=guard)

    def _used_again(self, worker: Worker, now: datetime) -> str | None:
        """Return why an idle stop that has not begun yet is cancelled."""
        if worker.status.phase is not WorkerPhase.DRAINING:
            return None
        since = worker.status.phase_since or now
        sample = self.context.samples.newest(worker.key)
        reading = idle_facts.of_sample(worker, sample)
        fresh = reading.read_at is not None and reading.read_at >= since
        if fresh and reading.nodes:
            return f"{reading.nodes} nodes run"
        if idle_facts.gather(
            self.context.cache, self.context.settings, worker, reading, now
        ).sessions:
            return "sessions are placed here"
        return "the server could not be looked at" if now - since > PATIENCE else None

    def _wanted(self, namespace: str, now: datetime) -> tuple[str, ...]:
        """Return the namespace's parked workers without a pool that waiting sessions need."""
        alone = self.context.cache.by(indices.WORKERS_SINGLE, namespace)
        coming = [
            _as_ready(each, self.context)
            for each in alone
            if each.status.phase not in worker_phases.HOSTING
            and not worker_phases.drain_wanted(each)
        ]
        parked = [
            _as_ready(each, self.context)
            for each in alone
            if parking.auto_stopped(each) and idle_facts.ours(each)
        ]
        waiting = []
        for session in self._requests.due_without_pool(namespace, now) if parked else ():
            looked = session.status.decision is not None
            request = self._requests.of(session, now) if looked else None
            if request is not None:
                waiting.append(request)
        left = parking.uncovered(coming, waiting, now=now)
        return parking.to_start(parked, left, now=now)

    # --- age -----------------------------------------------------------------------------

    async def _retire(self, worker: Worker, why: str, now: datetime) -> bool:
        """Drain a worker that is too old, without ending sessions; return False if not now."""
        if self.context.settings.paused(refs.pool_of(worker)) is not None:
            return False
        if worker.spec.drain is not None or worker.deleting:
            return False
        pool = refs.pool_of(worker)
        others = (
            () if pool is None else self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        )
        if any(_aging(each) for each in others):
            return False
        limit = 14_400 if worker.spec.machine is None else worker.spec.machine.limits.drain
        drain = Drain(
            deadline=now + timedelta(seconds=limit), reason=f"max age: {why}", requested_by=ACTOR
        )
        metadata = msgspec.structs.replace(
            worker.metadata, generation=worker.metadata.generation + 1
        )
        spec = msgspec.structs.replace(worker.spec, drain=drain)
        new = msgspec.structs.replace(worker, metadata=metadata, spec=spec)
        guard = self._unpaused(worker)
        await self.context.write(new, actor=ACTOR, reason=f"draining: {why}", preconditions=guard)
        return True

    async def _aged(self, worker: Worker, settings: Idle) -> Again:
        """Stop a drained old worker once nothing runs on it, ours or not."""
        if worker.status.phase is WorkerPhase.FAILED:
            await self._let_go(worker)
            return Again(EVERY)
        if worker.status.phase is not WorkerPhase.DRAINING:
            return Again(EVERY)
        await self._caught_up()
        guard = self._guard(worker)
        if self.context.settings.paused(refs.pool_of(worker)) is not None:
            return Again(EVERY)
        verdict = await self._second_look(worker, settings)
        if not idle.unused(verdict) or worker.status.effect is not None:
            return Again(EVERY)
        spec = msgspec.structs.replace(worker.spec, drain=None)
        empty = msgspec.structs.replace(worker, spec=spec)
        now = self.context.clock.now()
        await self._ask(empty, now, "max_age", "stopped: it ran for too long", guard)
        return Again(EVERY)


def _rows(worker: Worker) -> tuple[str, ...]:
    """Return a stop's ledger rows: the worker's, and its pool's, which scaling uses too."""
    own, pool = ledger_rows.of(worker.key), refs.pool_of(worker)
    return (own,) if pool is None else (own, ledger_rows.of(pool.key))


def _aging(worker: Worker) -> bool:
    drain = worker.spec.drain
    return drain is not None and drain.requested_by == ACTOR


def _news(known: IdleStatus, verdict: idle.IdleVerdict) -> bool:
    """Tell whether to write a verdict: it, its reasons or the last use changed."""
    if (known.verdict, known.signals) != (verdict.verdict, verdict.kept_by):
        return True
    if known.snoozed_until != verdict.snoozed_until:
        return True
    if (known.since is None) != (verdict.since is None):
        return True
    before, last = known.last_activity_at, verdict.last_activity_at
    return last is not None and (before is None or last - before > MOVED)


def _told(known: IdleStatus, verdict: idle.IdleVerdict, now: datetime) -> IdleStatus:
    return msgspec.structs.replace(
        known,
        verdict=verdict.verdict,
        signals=verdict.kept_by,
        evidence=tuple(each for each in verdict.signals if each.name in KEPT),
        checked_at=now,
        recent=verdict.recent,
        since=verdict.since,
        last_activity_at=verdict.last_activity_at,
        snoozed_until=verdict.snoozed_until,
    )


def _pause(
    verdict: idle.IdleVerdict, warned: datetime | None, settings: Idle, now: datetime
) -> float:
    """Return seconds to the next check: the interval, or sooner when something is due."""
    due = [] if verdict.stop_at is None else [verdict.stop_at]
    if verdict.stop_at is not None:
        due.append(verdict.stop_at - timedelta(minutes=settings.warn_minutes))
    if warned is not None:
        due.append(warned + timedelta(minutes=settings.warn_minutes))
    ahead = [(each - now).total_seconds() for each in due if each > now]
    return max(SOONEST, min([float(settings.check_interval_seconds), *ahead]))


def _as_ready(worker: Worker, context: Context) -> placement.Candidate:
    """Return a worker without a pool as placement will see it once it is ready."""
    return placement.Candidate(
        name=worker.name,
        track=worker.spec.track,
        closed="Cordoned" if worker.spec.cordoned and not parking.cordoned(worker) else None,
        licensed=True,
        product=worker.status.licence.product,
        capacity=worker.status.capacity,
        reservations=held(context.cache, worker),
    )
