"""Reconciles one worker: observe, decide, record once with the next call's intent, then call.

What a call answers is in memory until the next step, which follows at once, records it together
with whatever is to be done then (`calls`). `decisions` alone sets phases, conditions and messages.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.controllers.worker import guards, leaks
from labfleet.controllers.worker.act import Actions
from labfleet.controllers.worker.calls import Calls
from labfleet.controllers.worker.idle_findings import IdleFindings
from labfleet.controllers.worker.inventory import MAX_AGE, Inventory
from labfleet.controllers.worker.launch import Launcher
from labfleet.controllers.worker.observer import WorkerObserver
from labfleet.controllers.worker.stray_labs import StrayLabs
from labfleet.controllers.worker.tagger import Tagger
from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker.idle_finding import IdleFinding
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Effect, Key
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import paid_rows, past_runs

STEPS_AT_ONCE = 3
"""Steps of one reconcile: a call, another that its answer asks for, and the last answer."""


class WorkerController:
    """Reconciles workers; `inventory` is shared with the garbage controller."""

    def __init__(
        self,
        context: Context,
        inventory: Inventory,
        samples: stores.SampleStore,
        idle: IdleFindings,
    ) -> None:
        self.context = context
        self._idle = idle
        self._samples = samples
        self._looked: dict[Key, datetime] = {}
        launcher, tagger = Launcher(context), Tagger(context, inventory)
        self._calls = Calls(context, launcher, Actions(context, inventory, tagger))
        self._look = WorkerObserver(context, inventory, launcher, tagger, StrayLabs(context))

    async def reconcile(self, key: Key) -> Done | Again:
        """Take a step for the worker of this key, and further ones while calls are answered.

        A call's failure is raised once it is recorded, so that the queue backs off.
        """
        for _ in range(STEPS_AT_ONCE):
            worker = self.context.cache.get(Worker, key.name, key.namespace)
            if worker is None:
                await self._forget(key)
                return Done()
            result = await self._step(key, worker)
            if result is not None:
                return result
        return Again(0.0)

    async def _forget(self, key: Key) -> None:
        self._calls.forget(key)
        self._look.forget(key)
        self._looked.pop(key, None)
        await self.context.hosts.forget(key.label)
        self.context.samples.forget(key)
        await self._samples.drop_samples([key.path])  # its series are swept: they go by uid

    async def _step(self, key: Key, worker: Worker) -> Done | Again | None:
        """Observe, decide, record and perhaps call; None when a call was made."""
        machine, before = worker.spec.machine, worker.status.effect
        begun = self.context.clock.now()
        seen = await self._look.at(worker, await self._calls.known(worker, machine))
        # Taken after the look, which takes a while: nothing comes between it and the guard.
        finding = self._idle.take(key)
        step = lifecycle.decide(worker, replace(seen, idle=finding), self.context.clock.now())
        effect = wait = None
        if step.action is not None and machine is not None:
            region, name = machine.provider.region, worker.status.machine.id
            if step.action != "launch":
                wait = self.context.compute.turn(step.action, region, name)
            effect = None if wait else self._calls.intent(worker, step, seen)
        stored = await self._judged(worker, step, finding, effect)
        self._calls.recorded(key, before)
        if seen.machine is not None:
            self._looked[key] = begun - timedelta(seconds=MAX_AGE)  # of a list that old
        if effect is not None and machine is not None:
            await self._calls.make(stored, machine, effect)
            return None
        if step.problem is not None:
            raise step.problem
        ended = stored.status.phase is WorkerPhase.TERMINATED
        return Done() if ended else Again(wait or step.again)

    async def _judged(
        self,
        worker: Worker,
        step: lifecycle.Step,
        finding: IdleFinding | None,
        effect: Effect | None = None,
    ) -> Worker:
        """Record a step; a finding is used up by it, or void when its guard did not hold."""
        try:
            stored = await self._record(worker, step, effect)
        except errors.Conflict:
            if step.guard is not None:
                self._idle.drop(worker.key)  # the idle controller looks anew
            raise
        if finding is not None and idle_rule.judged(worker, step):
            self._idle.consumed(worker.key, finding)
        return stored

    async def _record(
        self, worker: Worker, step: lifecycle.Step, effect: Effect | None = None
    ) -> Worker:
        stored = self.context.cache.at(worker.key)
        if not isinstance(stored, Worker) or stored.revision != worker.revision:
            raise errors.Conflict("the worker changed while it was looked at")
        status = step.status
        if effect is not None:
            status = msgspec.structs.replace(status, effect=effect)
        now, looked = self.context.clock.now(), self._looked.get(worker.key)
        paid, over = paid_rows.of_worker(stored, status, self.context.prices, now, looked)
        status = msgspec.structs.replace(status, paid=paid)
        reason = step.reason or status.message or status.phase
        kept = leaks.writes(self.context, stored, status)
        kept += tuple(stores.Teach(each) for each in over)
        boot = past_runs.of_boot(stored, status, now)
        if boot is not None:
            kept += (stores.Teach(boot),)
        asked = guards.of(self.context, stored, step.guard)
        if step.changed is None:
            return await self.context.record(
                stored,
                status=status,
                finalizers=step.finalizers,
                actor=step.actor,
                reason=reason,
                writes=(*kept, *asked.writes),
                preconditions=asked.preconditions,
            )
        metadata = replace(step.changed.metadata, finalizers=step.finalizers)
        changed = replace(step.changed, metadata=metadata, status=status)
        return (
            await self.context.write(
                changed,
                actor=step.actor,
                reason=reason,
                writes=(*kept, *asked.writes),
                preconditions=asked.preconditions,
            )
        )[0]
