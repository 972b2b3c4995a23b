"""Reconciles one worker: settle an open effect, observe, decide, record, act."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from labfleet.controllers.context import Context
from labfleet.controllers.worker import guards, leaks
from labfleet.controllers.worker.act import DEADLINE, ActionResult, Actions
from labfleet.controllers.worker.housekeeping import Housekeeping
from labfleet.controllers.worker.idle_findings import IdleFindings
from labfleet.controllers.worker.inventory import Inventory
from labfleet.controllers.worker.launch import ACTOR, Launcher
from labfleet.controllers.worker.observer import WorkerObserver
from labfleet.decisions.lifecycle.worker import decide as lifecycle
from labfleet.decisions.lifecycle.worker import idle_rule
from labfleet.decisions.lifecycle.worker.idle_finding import IdleFinding
from labfleet.engine.controller import Again, Done
from labfleet.interfaces.store import SeriesStore
from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect, Key
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


class WorkerController:
    """Reconciles workers; `inventory` is shared with the garbage controller."""

    def __init__(
        self, context: Context, inventory: Inventory, series: SeriesStore, idle: IdleFindings
    ) -> None:
        self.context = context
        self._idle = idle
        self._series = series
        self._launcher = Launcher(context)
        self._look = WorkerObserver(context, inventory)
        self._actions = Actions(context, inventory)
        self._housekeeping = Housekeeping(context, inventory)

    async def reconcile(self, key: Key) -> Done | Again:
        """Take one step for the worker of this key."""
        worker = self.context.cache.get(Worker, key.name, key.namespace)
        if worker is None:
            await self.context.hosts.forget(key.label)
            self.context.samples.forget(key)
            await self._series.drop_series([key.path])
            return Done()
        machine = worker.spec.machine
        effect = worker.status.effect
        if effect is not None and machine is not None:
            try:
                settled = await self._settle(worker, machine, effect)
            except errors.LabfleetError as problem:
                await self._trouble(worker, problem)
                raise
            if settled is None:
                return Again(5.0)
            worker = settled
        seen = await self._look.at(worker)
        return await self._step(worker, machine, seen)

    async def _step(
        self, worker: Worker, machine: Machine | None, seen: lifecycle.WorkerObservation
    ) -> Done | Again:
        # Taken after the look, which takes a while: nothing comes between it and the guard.
        finding = self._idle.take(worker.key)
        step = lifecycle.decide(worker, replace(seen, idle=finding), self.context.clock.now())
        if step.action is None or machine is None:
            worker = await self._judged(worker, step, finding)
            ended = worker.status.phase is WorkerPhase.TERMINATED
            if machine is not None and not ended:
                await self._housekeeping.do(worker, machine)
            return Done() if ended else Again(step.again)
        if step.action == "launch":
            return await self._launch(worker, machine, step)
        return await self._carry_out(worker, machine, step)

    async def _carry_out(
        self, worker: Worker, machine: Machine, step: lifecycle.Step
    ) -> Done | Again:
        """Commit the intent, act, and record what came of it."""
        action = step.action or ""
        region, name = machine.provider.region, worker.status.machine.id
        wait = self.context.compute.turn(action, region, name)
        if wait:
            await self._record(worker, step)
            return Again(wait)
        effect = self.context.effects.open(action, deadline=DEADLINE)
        worker = await self._record(worker, step, effect)
        try:
            outcome = await self._act(worker, machine, action)
        except (errors.OutOfCapacity, errors.QuotaExceeded) as problem:
            if action != "start":
                raise
            return Again(await self._launcher.start_refused(worker, problem))
        return await self._after(worker, machine, action, outcome)

    async def _launch(self, worker: Worker, machine: Machine, step: lifecycle.Step) -> Done | Again:
        """Enter PROVISIONING_EC2 first, then commit the intent, then call."""
        if worker.status.phase is not WorkerPhase.PROVISIONING_EC2:
            await self._record(worker, step)
            return Again(0.0)
        wait = await self._launcher.held(worker, machine)
        wait = wait or self.context.compute.turn("launch", machine.provider.region)
        if wait:
            return Again(wait)
        try:
            effect = await self._launcher.prepare(worker, machine)
            worker = await self._record(worker, step, effect)
            await self._launcher.perform(worker, machine, effect)
        except errors.Invalid as problem:
            await self._refuse(worker, problem)
        except (errors.OutOfCapacity, errors.QuotaExceeded):
            return Again(1.0)  # then try the next option, or wait and say why
        except errors.LabfleetError as problem:
            await self._trouble(worker, problem)
            raise
        return Again(1.0)

    async def _trouble(self, worker: Worker, problem: errors.LabfleetError) -> None:
        """Record why there is no instance yet; a repeated error is written once."""
        fresh = self.context.cache.get(Worker, worker.name, worker.metadata.namespace)
        ours = problem.reason in {"LeaseTooShort", "EffectExpired"}
        waits = fresh is not None and fresh.status.phase is WorkerPhase.PROVISIONING_EC2
        if fresh is None or not waits or ours or isinstance(problem, errors.Conflict):
            return
        facts = conditions.put(
            fresh.status.conditions,
            WorkerCondition.MACHINE_PROVISIONED,
            "False",
            conditions.of_error(problem),
            problem.message[:500],
            now=self.context.clock.now(),
        )
        status = msgspec.structs.replace(fresh.status, conditions=facts)
        await self.context.record(
            fresh, status=status, actor=ACTOR, reason=f"launching: {problem.reason}"
        )

    async def _refuse(self, worker: Worker, problem: errors.Invalid) -> None:
        """End in FAILED: the provider will never accept this template."""
        fresh = self.context.cache.get(Worker, worker.name, worker.metadata.namespace)
        if fresh is None or fresh.status.phase is not WorkerPhase.PROVISIONING_EC2:
            return
        seen = lifecycle.WorkerObservation(refused=problem.message)
        await self._record(fresh, lifecycle.decide(fresh, seen, self.context.clock.now()))

    async def _act(self, worker: Worker, machine: Machine, action: str) -> ActionResult:
        """Act, and on a definite failure close the effect so that the next try is a new one."""
        try:
            outcome = await self._actions.perform(worker, machine, action)
        except errors.Ambiguous:
            raise
        except errors.LabfleetError as problem:
            status = msgspec.structs.replace(
                worker.status, effect=None, message=f"{action}: {problem.message}"[:500]
            )
            await self.context.record(
                worker, status=status, actor=ACTOR, reason=f"{action} failed: {problem.reason}"
            )
            if isinstance(problem, errors.Gone):
                return ActionResult()  # the next observation shows the effect
            raise
        return outcome

    async def _after(
        self, worker: Worker, machine: Machine, action: str, outcome: ActionResult
    ) -> Done | Again:
        """Close the effect in the commit that records the next observation."""
        worker = _without_effect(worker)
        if action == "start":
            worker = self._launcher.started(worker)
        if outcome.returned:
            worker = _without_doubt(worker)
        if action == "renew":
            licence = msgspec.structs.replace(
                worker.status.licence, renewed_at=self.context.clock.now()
            )
            status = msgspec.structs.replace(worker.status, licence=licence)
            worker = msgspec.structs.replace(worker, status=status)
        if outcome.telemetry is not None:
            worker = self._opted(worker, outcome.telemetry, outcome.telemetry_refused)
        seen = await self._look.at(worker)
        seen = replace(
            seen,
            refused=outcome.refused,
            claimed=outcome.claimed,
            nodes_running=outcome.nodes_running,
            cloud_told=outcome.cloud_told,
        )
        step = lifecycle.decide(worker, seen, self.context.clock.now())
        if outcome.nodes_running and step.action == "stop_labs":
            # Only this step knows of the refusal, so it applies the consequences at once.
            return await self._carry_out(worker, machine, step)
        kept = self.context.cache.get(Worker, worker.name, worker.metadata.namespace)
        # The idle rule and people's requests write here while an action is under way.
        idle = (kept or worker).status.idle
        status = msgspec.structs.replace(step.status, effect=None, idle=idle)
        await self.context.record(
            kept or worker,
            status=status,
            finalizers=step.finalizers,
            actor=ACTOR,
            reason="; ".join(
                each for each in (step.status.message or step.status.phase, outcome.note) if each
            ),
            writes=leaks.writes(self.context, kept or worker, status),
        )
        return Again(step.again if step.action in {None, action} else 1.0)

    async def _settle(self, worker: Worker, machine: Machine, effect: Effect) -> Worker | None:
        """Return the worker without its open effect, or None while its outcome is unknown."""
        if effect.kind == "launch":
            return await self._launcher.settle(worker, machine, effect)
        effects = self.context.effects
        if not effects.known_not_done(effect) and not effects.overdue(effect):
            return None
        if effect.kind == "deregister" and not effects.known_not_done(effect):
            worker = self._doubt_licence(worker)
        return _without_effect(worker)

    def _opted(self, worker: Worker, value: bool, refused: str | None) -> Worker:  # noqa: FBT001
        """Remember what was set on this boot, or that CML refused it."""
        facts = conditions.put(
            worker.status.conditions,
            WorkerCondition.TELEMETRY_SET,
            "False" if refused else "True",
            WorkerReason.REFUSED if refused else WorkerReason.SET,
            refused or ("opted in" if value else "opted out"),
            now=self.context.clock.now(),
        )
        cml = msgspec.structs.replace(worker.status.cml, telemetry=value)
        status = msgspec.structs.replace(worker.status, conditions=facts, cml=cml)
        return msgspec.structs.replace(worker, status=status)

    def _doubt_licence(self, worker: Worker) -> Worker:
        """Record that it is unknown whether a deregistration reached the licence cloud."""
        facts = conditions.put(
            worker.status.conditions,
            WorkerCondition.LICENCE_LEAKED,
            "Unknown",
            WorkerReason.OUTCOME_LOST,
            "the controller stopped during deregistration; CML's answer was lost",
            now=self.context.clock.now(),
        )
        status = msgspec.structs.replace(worker.status, conditions=facts)
        return msgspec.structs.replace(worker, status=status)

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
        stored = self.context.cache.get(Worker, worker.name, worker.metadata.namespace) or worker
        if stored.revision != worker.revision:
            raise errors.Conflict("the worker changed while it was looked at")
        status = msgspec.structs.replace(step.status, effect=effect)
        reason = step.reason or status.message or status.phase
        kept = leaks.writes(self.context, stored, status)
        if step.changed is None:
            return await self.context.record(
                stored,
                status=status,
                finalizers=step.finalizers,
                actor=step.actor,
                reason=reason,
                writes=kept,
            )
        metadata = replace(step.changed.metadata, finalizers=step.finalizers)
        changed = replace(step.changed, metadata=metadata, status=status)
        asked = guards.of(self.context, stored, step.guard)
        return (
            await self.context.write(
                changed,
                actor=step.actor,
                reason=reason,
                writes=(*kept, *asked.writes),
                preconditions=asked.preconditions,
            )
        )[0]


def _without_effect(worker: Worker) -> Worker:
    return msgspec.structs.replace(
        worker, status=msgspec.structs.replace(worker.status, effect=None)
    )


def _without_doubt(worker: Worker) -> Worker:
    """Withdraw that a licence may have leaked: CML has now told the licence cloud."""
    found = conditions.find(worker.status.conditions, WorkerCondition.LICENCE_LEAKED)
    if found is None or found.status != "Unknown":
        return worker
    facts = conditions.drop(worker.status.conditions, WorkerCondition.LICENCE_LEAKED)
    return msgspec.structs.replace(
        worker, status=msgspec.structs.replace(worker.status, conditions=facts)
    )
