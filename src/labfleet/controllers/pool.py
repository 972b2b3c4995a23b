"""The pool controller: keeps a pool at the size that `decisions.scaling` computes.

New workers and the counter for their names are written in one commit. The commit that retires a
worker fails when its ledger row changed since the snapshot, so a session placed meanwhile wins
(facts/fleet-bugs.md#t16).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from labfleet.controllers import requests
from labfleet.controllers.boots import Boots
from labfleet.controllers.context import Context
from labfleet.controllers.pool_budgets import PoolBudgets
from labfleet.controllers.promises_in_danger import DangerLook
from labfleet.controllers.requests import Requests
from labfleet.decisions import breaker, parking, pausing, pool_status, scaling
from labfleet.decisions.catalogues import Names
from labfleet.decisions.claims import growth, lead
from labfleet.decisions.claims.places import PoolClaims
from labfleet.decisions.costs import budgets
from labfleet.decisions.costs.budgets import Verdict
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources import meta, refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.meta import Key, Ref
from labfleet.resources.pool import (
    FINALIZER_WORKERS,
    PAUSED_MARK,
    Lead,
    Pool,
    PoolPhase,
)
from labfleet.resources.session import Session
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.service.core import ledger_rows
from labfleet.service.kinds import catalogues, indices, pool_zones
from labfleet.service.kinds.pool_claims import Claims

EVERY = 20.0
COUNTS_LAST, COUNTS_LOOK = 18.0, 9.0
"""Seconds for which counts of sessions must differ before that alone is recorded: a class is booked
one by one within seconds, and one that is asked for now is promised a place for the quarter of a
minute until it is put there. Meanwhile it is looked at again sooner."""
KEPT_LIMIT = 5000
ACTOR = "pool-controller"
CORDONED_BY = "labfleet.dev/cordoned-by-pool"
DRAINING = "pool is draining"
SURPLUS = frozenset({"Empty", "AboveMaximum", "NotNeeded", "SlotOver"})
MADE_FOR = "labfleet.dev/made-for"
"""Annotation of a worker: the word for what it was made for, such as Promised."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A worker as computed for the decision, and the inputs that it was computed from."""

    worker: Worker
    here: tuple[Session, ...]
    view: scaling.PoolWorker


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look found that is no decision: how many wait, the lead, when, and why it rests.

    `claims` are those within the lead; None while nobody knows what the pool can have. `budget` is
    what its budget says; None when it has none.
    """

    waiting: int
    lead: Lead
    claims: PoolClaims | None
    now: datetime
    paused: str | None
    budget: Verdict | None = None


class PoolController:
    """Reconciles pools."""

    def __init__(self, context: Context, history: stores.HistoryStore) -> None:
        self.context = context
        self._boots = Boots(history)
        self._budgets = PoolBudgets(context, history)
        self._requests = Requests(context)
        self._kept: dict[Key, _Kept] = {}
        self._guards: dict[Key, tuple[stores.Precondition, ...]] = {}
        self._differs: dict[Key, float] = {}
        self._danger = DangerLook(context)

    async def reconcile(self, key: Key) -> Done | Again:
        """Take one step for the pool of this key."""
        pool = self.context.cache.get(Pool, key.name, key.namespace)
        if pool is None:
            self._guards.pop(key, None)
            self._differs.pop(key, None)
            self._danger.forget(key)
            self._boots.forget(key)
            return Done()
        revision, now = self.context.cache.revision, self.context.clock.now()
        if await self._broke(pool, now):
            return Again(1.0)
        boots = await self._boot_times(pool, now)
        told = lead.lead(pool.spec.scaling, boots)
        claims = Claims(self.context.cache, now).of(pool, now, now + lead.early(told))
        view = replace(self._view(pool, told, claims, now), odds=boots.odds)
        paused = self.context.settings.paused(Ref(Pool, pool.namespace, pool.name))
        decision = pausing.held(
            scaling.decide_pool(view, now),
            paused,
            before=pool.status.phase,
            made=pool.status.created_workers,
        )
        verdict = await self._budgets.of(pool, now)
        decision = budgets.bounded(
            decision, verdict, before=pool.status.phase, made=pool.status.created_workers
        )
        self._guards[pool.key] = self._guard(pool, decision)
        # Retire first, so that the pool's event reports only what really happened.
        decision = await self._shrink(pool, decision, revision)
        decision = await self._wake(pool, decision)
        pool = self.context.cache.get(Pool, key.name, key.namespace) or pool
        await self._danger.move(pool, now)
        await self._danger.mark(pool, now)
        await self._grow(
            pool, decision, _Seen(len(view.waiting), told, claims, now, paused, verdict)
        )
        ended = decision.phase is PoolPhase.TERMINATED and not pool.deleting
        if ended:
            return Done()
        return Again(COUNTS_LOOK if pool.key in self._differs else EVERY)

    async def _broke(self, pool: Pool, now: datetime) -> bool:
        """Record lost workers; pause the pool when there are many. Return True when written."""
        workers = list(self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path))
        losses = breaker.noted(pool.status.losses, workers, now)
        asked = pool.deleting or pool.spec.desired != "Ready" or pool.spec.paused
        up = max(
            (
                each.status.ready_since
                for each in workers
                if each.status.phase in worker_phases.HOSTING and each.status.ready_since
            ),
            default=None,
        )
        trip = () if asked else breaker.trips(losses, pool.status.tripped_at, up)
        if losses == pool.status.losses and not trip:
            return False
        new = msgspec.structs.replace(
            pool, status=msgspec.structs.replace(pool.status, losses=losses)
        )
        told = f"{count(len(losses), 'worker')} lost lately"
        if trip:
            new = pool_status.tripped(new, trip, now, by=ACTOR)
            told = f"PoolPaused: {new.metadata.annotations[PAUSED_MARK].strip()}"
        await self.context.write(new, actor=ACTOR, reason=told)
        return True

    def _guard(self, pool: Pool, decision: scaling.PoolDecision) -> tuple[stores.Precondition, ...]:
        """Return the preconditions of an automatic action: it was not paused meanwhile."""
        if decision.phase in pausing.ASKED_FOR:
            return ()
        return (
            self.context.settings.unchanged(),
            stores.AtRevision(pool.key, pool.revision),
        )

    async def _boot_times(self, pool: Pool, now: datetime) -> lead.BootTimes:
        """Return how boots of such workers as the pool makes went up to now."""
        template = self.context.cache.find(refs.template_of(pool))
        workers = self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        return await self._boots.of(pool, template, workers, now)

    def _view(
        self, pool: Pool, told: Lead, claims: PoolClaims | None, now: datetime
    ) -> scaling.PoolView:
        early, promised = lead.early(told), growth.Promised()
        if claims is not None:
            promised = growth.promised(claims, now + early)
        template = self.context.cache.find(refs.template_of(pool))
        return scaling.PoolView(
            name=pool.name,
            spec=pool.spec,
            phase=pool.status.phase,
            workers=self._workers(pool),
            waiting=tuple(
                request
                for session in self._requests.due_in(pool, now)
                if (request := self._requests.of(session, now)) is not None
            ),
            shape=catalogues.shape_of(pool, template, self.context.cache),
            deleting=pool.deleting,
            taken=self.context.cache.names(Worker, pool.namespace),
            created_workers=pool.status.created_workers,
            last_scale_up=pool.status.last_scale_up,
            last_scale_down=pool.status.last_scale_down,
            promised=promised,
            lead=early,
            zones=pool_zones.zones(pool.spec.scaling),
        )

    def _workers(self, pool: Pool) -> tuple[scaling.PoolWorker, ...]:
        """Return the pool's workers; those unchanged since the last call come from a cache."""
        found, cache = [], self.context.cache
        for worker in cache.by(indices.WORKERS_OF_POOL, pool.key.path):
            here = cache.by(indices.SESSIONS_HERE, worker.key.path)
            kept, has = self._kept.get(worker.key), catalogues.of_worker(cache, worker)
            same = kept is not None and kept.worker is worker and kept.here is here
            if kept is None or not same or kept.view.has is not has:
                view = _of(worker, requests.reserved(here), has)
                kept = self._kept[worker.key] = _Kept(worker, here, view)
            found.append(kept.view)
        if len(self._kept) > KEPT_LIMIT:
            self._kept.clear()
        return tuple(found)

    async def _grow(
        self,
        pool: Pool,
        decision: scaling.PoolDecision,
        seen: _Seen,
    ) -> None:
        """Write the pool's status and its new workers in one commit."""
        now = seen.now
        template = self.context.cache.find(refs.template_of(pool))
        made = [
            self._made(pool, template, (name, decision.purpose), now)
            for name in decision.create
            if template
        ]
        workers = self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path)
        decision = replace(
            decision, message=decision.message + pool_status.without_machine(workers)
        )
        status = pool_status.after(pool.status, decision, seen.waiting, now)
        status = pool_status.with_pause(
            status, seen.paused, now, fleet=self.context.settings.now().automation.paused
        )
        danger = self._danger.seen(
            pool, seen.claims, now + lead.early(seen.lead), paused=seen.paused is not None
        )
        status = pool_status.with_promises(status, danger.why, danger.many, danger.told, now)
        status = msgspec.structs.replace(status, promised=danger.promised, lead=seen.lead)
        status = budgets.noted(status, seen.budget, now)
        metadata = meta.with_finalizer(pool.metadata, FINALIZER_WORKERS)
        if decision.phase is PoolPhase.TERMINATED:
            metadata = meta.without_finalizer(metadata, FINALIZER_WORKERS)
        told, alike = decision.message, not made and metadata == pool.metadata
        if alike and pool_status.counts_alone(pool.status, status):
            if not self._lasts(pool.key, differs=status != pool.status):
                return
            told = pool_status.counted(status)
        self._differs.pop(pool.key, None)
        status = msgspec.structs.replace(status, observed_generation=metadata.generation)
        new = msgspec.structs.replace(pool, metadata=metadata, status=status)
        objects: tuple[meta.Resource, ...] = (new, *made)
        await self.context.write(
            *objects,
            actor=ACTOR,
            reason=told,
            preconditions=self._guards.get(pool.key, ()) if made else (),
        )

    def _lasts(self, pool: Key, *, differs: bool) -> bool:
        """Tell whether counts have differed from what is recorded for long enough."""
        if not differs:
            self._differs.pop(pool, None)
            return False
        now = self.context.clock.monotonic()
        return now >= self._differs.setdefault(pool, now) + COUNTS_LAST

    def _made(
        self, pool: Pool, template: Template | None, made: tuple[str, str], now: datetime
    ) -> Worker:
        """Return a new worker; `made` is its name and what it is for."""
        if template is None:
            raise AssertionError("a worker was decided on without a template")
        name, purpose = made
        labels = {"labfleet.dev/pool": pool.name, "labfleet.dev/track": pool.spec.track}
        return Worker(
            metadata=meta.Metadata(
                name=name,
                namespace=pool.metadata.namespace,
                uid=self.context.ids.uid(),
                labels={**pool.spec.labels, **labels},
                annotations={**pool.spec.annotations, MADE_FOR: purpose},
                generation=1,
                creation_timestamp=now,
                owner_references=(
                    meta.OwnerReference(kind="Pool", name=pool.name, uid=pool.metadata.uid),
                ),
            ),
            spec=WorkerSpec(
                track=pool.spec.track,
                pool=pool.name,
                template=template.name,
                machine=template.spec.machine,
            ),
            status=WorkerStatus(phase_since=now),
        )

    async def _shrink(
        self, pool: Pool, decision: scaling.PoolDecision, revision: int
    ) -> scaling.PoolDecision:
        """Retire and drain; return the decision without workers that others changed first."""
        lost: set[str] = set()
        for retirement in decision.retire:
            worker = self.context.cache.get(Worker, retirement.name, pool.namespace)
            if worker is None:
                continue
            if not await self._retire(pool, worker, retirement.reason, revision):
                lost.add(retirement.name)
        for name in decision.drain:
            worker = self.context.cache.get(Worker, name, pool.namespace)
            if worker is not None and not worker.spec.cordoned:
                closed = msgspec.structs.replace(worker.spec, cordoned=True)
                await self._want(worker, closed, DRAINING, revision)
        if not decision.drain:
            await self._reopen(pool, decision, revision)
        kept = tuple(each for each in decision.events if each.worker not in lost)
        return replace(decision, events=kept)

    async def _wake(self, pool: Pool, decision: scaling.PoolDecision) -> scaling.PoolDecision:
        """Start parked workers; return the decision without workers that others changed first."""
        lost: set[str] = set()
        now = self.context.clock.now()
        for name in decision.start:
            worker = self.context.cache.get(Worker, name, pool.namespace)
            if worker is None or not parking.auto_stopped(worker):
                lost.add(name)
                continue
            again = parking.resumed(worker, now, auto=True)
            try:
                await self.context.write(
                    again,
                    actor=ACTOR,
                    reason="started: it was parked",
                    preconditions=self._guards.get(pool.key, ()),
                )
            except errors.Conflict as problem:
                if isinstance(problem, errors.Fenced):
                    raise
                lost.add(name)
        kept = tuple(each for each in decision.events if each.worker not in lost)
        return replace(decision, events=kept)

    async def _reopen(self, pool: Pool, decision: scaling.PoolDecision, revision: int) -> None:
        """Uncordon workers that the pool itself cordoned, once they shall be Ready again."""
        if decision.phase in {PoolPhase.DRAINING, PoolPhase.TERMINATING, PoolPhase.TERMINATED}:
            return
        for worker in self.context.cache.by(indices.WORKERS_OF_POOL, pool.key.path):
            if (
                worker.spec.cordoned
                and worker.metadata.annotations.get(CORDONED_BY) == pool.metadata.name
            ):
                opened = msgspec.structs.replace(worker.spec, cordoned=False)
                await self._want(worker, opened, "pool is ready again", revision)

    async def _retire(self, pool: Pool, worker: Worker, reason: str, revision: int) -> bool:
        """Delete a worker, or the record of an ended one; False when another write was first."""
        if worker.status.phase is WorkerPhase.TERMINATED:
            metadata = msgspec.structs.replace(
                worker.metadata, deletion_timestamp=self.context.clock.now(), finalizers=()
            )
            gone = msgspec.structs.replace(worker, metadata=metadata)
            await self.context.write(gone, actor=ACTOR, reason="terminated")
            return True
        if worker.spec.desired == "Terminated":
            return True
        wanted = msgspec.structs.replace(worker.spec, desired="Terminated", cordoned=True)
        told = f"retired: {reason}"
        guards = self._guards.get(pool.key, ())
        if reason in SURPLUS:
            # The idle rule takes workers of the same pool: one of the two writers must lose.
            beside = (ledger_rows.of(pool.key),)
            return await self._want(worker, wanted, told, revision, beside=beside, guards=guards)
        return await self._want(worker, wanted, told, revision, guards=guards)

    async def _want(
        self,
        worker: Worker,
        wanted: WorkerSpec,
        reason: str,
        revision: int,
        *,
        beside: tuple[str, ...] = (),
        guards: tuple[stores.Precondition, ...] = (),
    ) -> bool:
        """Change a worker's desired state if its ledger row is unchanged since the snapshot."""
        marks = dict(worker.metadata.annotations)
        marks.pop(CORDONED_BY, None)
        if reason == DRAINING and worker.spec.pool is not None:
            marks[CORDONED_BY] = worker.spec.pool
        metadata = msgspec.structs.replace(
            worker.metadata, generation=worker.metadata.generation + 1, annotations=marks
        )
        new = msgspec.structs.replace(worker, metadata=metadata, spec=wanted)
        rows = (ledger_rows.of(worker.key), *beside)
        try:
            await self.context.write(
                new,
                actor=ACTOR,
                reason=reason,
                preconditions=(
                    *(ledger_rows.untouched(row, revision) for row in rows),
                    *guards,
                ),
                writes=tuple(ledger_rows.touch(row) for row in rows),
            )
        except errors.Conflict as problem:
            if isinstance(problem, errors.Fenced):
                raise
            return False
        return True


def _of(worker: Worker, held: tuple[Reservation, ...], has: Names | None) -> scaling.PoolWorker:
    status, empty = worker.status, worker.status.empty_since
    promised = worker.metadata.annotations.get(MADE_FOR) == scaling.PROMISED
    hosted = status.ready_since is not None and (empty is None or empty > status.ready_since)
    return scaling.PoolWorker(
        name=worker.name,
        phase=status.phase,
        phase_since=status.phase_since,
        leaving=worker_phases.leaving(worker),
        parked=parking.auto_stopped(worker),
        # A cordon of the idle rule lasts only seconds; undo it for sessions that wait.
        cordoned=worker.spec.cordoned and not parking.cordoned(worker),
        capacity=status.capacity,
        reservations=held,
        empty_since=empty,
        in_use=bool(status.cml.running_nodes),
        unreachable=worker_phases.sick(worker) is not None,
        ill=worker_phases.host_ill(worker),
        retired=worker_phases.retired(worker),
        has=has,
        unlaunched=worker_phases.unlaunched(worker),
        boot_since=status.provisioning_started_at,
        for_promises=promised,
        unused=promised and not hosted,
    )
