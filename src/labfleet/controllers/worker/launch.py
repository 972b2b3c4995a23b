"""Launch one machine for a worker: save the intent, make the call, record the outcome.

The client token is a digest of installation, worker and attempt. The attempt number grows only
when the provider definitely refused (no capacity here), because a token is zonal: the same token
in another zone would make a second machine (facts/aws.md#client-token). What to ask for, when, and
what was refused lately is the provider's to know: `Compute.choose`, `turn` and `held`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker.observer import machine_status
from labfleet.engine.effects import OPERATION_SECONDS
from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors, ids
from labfleet.kernel.clock import utc_time
from labfleet.resources import conditions, refs
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

DEADLINE = OPERATION_SECONDS
VISIBILITY = timedelta(seconds=60)
MISMATCH, MISMATCH_PATIENCE = "mismatch", timedelta(minutes=10)
"""How long a machine is looked up whose token is bound to another request."""
HELD_SECONDS = 60.0
"""The longest time until a blocked worker is reconciled again, since its deadlines still run."""
ACTOR = "worker-controller"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Prepares, performs and settles launches."""

    context: Context

    async def held(self, worker: Worker, machine: Machine) -> float:
        """Return 0, or how many fleet seconds to wait because every option is blocked.

        A launch with unknown outcome never waits: the same request has to be sent again.
        """
        effect = worker.status.effect
        if effect is not None and not self.context.effects.known_not_done(effect):
            return 0.0
        problem = self.context.compute.held(machine.provider)
        if problem is None:
            return 0.0
        await self._say(worker, problem)
        return min(problem.retry_after or HELD_SECONDS, HELD_SECONDS)

    async def prepare(self, worker: Worker, machine: Machine) -> Effect:
        """Return the intent to commit: image, type, subnet and token.

        An intent that was settled as not done is opened again with the same parameters, so
        that a late first try and the second make one machine. It is replaced by a new one only
        if nothing can have happened under it and other workers found its place full.
        """
        before = worker.status.effect
        attempt = max(worker.status.attempt, 1)
        effects, compute = self.context.effects, self.context.compute
        if before is not None:
            free = compute.held(machine.provider, _choice(before)) is None
            if not effects.known_not_done(before) or free:
                if effects.fits(before, deadline=DEADLINE):
                    return before
                return effects.reopen(before, deadline=DEADLINE)
            attempt = max(attempt, int(before.parameters["attempt"])) + 1
        choice = await compute.choose(machine.provider, lambda: self._taken(worker))
        token = ids.digest(self.context.installation, worker.metadata.uid, str(attempt))
        parameters = {"attempt": str(attempt), "token": token, **choice}
        return effects.open("launch", deadline=DEADLINE, parameters=parameters)

    def request(self, worker: Worker, machine: Machine, effect: Effect) -> LaunchRequest:
        """Return the request that the intent stands for; always the same one."""
        pool = refs.pool_of(worker)
        return LaunchRequest(
            region=machine.provider.region,
            token=effect.parameters["token"],
            worker=worker.key.label,
            worker_uid=worker.metadata.uid,
            attempt=int(effect.parameters["attempt"]),
            choice=_choice(effect),
            settings=machine.provider,
            pool=None if pool is None else pool.key.label,
        )

    async def perform(self, worker: Worker, machine: Machine, effect: Effect) -> Worker:
        """Make the call and record its outcome; Ambiguous leaves the intent open."""
        request = self.request(worker, machine, effect)
        try:
            found = await self.context.effects.call(
                effect, lambda: self.context.compute.launch(request), deadline=DEADLINE
            )
        except (errors.OutOfCapacity, errors.QuotaExceeded) as problem:
            await self._refused_here(worker, effect, problem)
            raise
        except errors.Gone as problem:
            # The token's machine has ended (IdempotentInstanceTerminated): a new attempt.
            await self._refused_here(worker, effect, problem)
            raise errors.Temporary(problem.message, reason=problem.reason) from None
        except errors.Conflict as problem:
            # The token is in use with other parameters: its machine can be looked up.
            await self._mismatched(worker, effect)
            raise errors.Ambiguous(problem.message, reason=problem.reason) from None
        except errors.Invalid:
            await self._close(worker)
            raise
        return await self.adopt(worker, found)

    async def settle(self, worker: Worker, machine: Machine, effect: Effect) -> Worker | None:
        """Find out what an open launch did; None means: not known yet, ask again later.

        Returns the worker with its machine when one is found, else unchanged: the same
        request may then be sent again. "Not found" is final at once when this process knows
        that every call under the intent was refused, and otherwise only when the call's
        deadline and the provider's visibility lag have passed.
        """
        effects = self.context.effects
        if effects.known_not_done(effect) and MISMATCH not in effect.parameters:
            return worker
        # Computed before the look-up: a machine may appear during it.
        over = effects.overdue(effect) and self.context.clock.now() >= effect.begun + VISIBILITY
        found = await self.context.compute.find_launched(self.request(worker, machine, effect))
        if found:
            return await self.adopt(worker, min(found, key=_age))
        if over and MISMATCH in effect.parameters:
            # The same request would be refused for ever, so only waiting longer can settle it.
            if self.context.clock.now() < effect.begun + MISMATCH_PATIENCE:
                return None
            attempt = max(worker.status.attempt, int(effect.parameters["attempt"])) + 1
            status = msgspec.structs.replace(worker.status, effect=None, attempt=attempt)
            return msgspec.structs.replace(worker, status=status)
        return worker if over else None

    async def adopt(self, worker: Worker, found: Instance) -> Worker:
        """Record the machine as this worker's and close the intent."""
        effect = worker.status.effect
        attempt = worker.status.attempt
        if effect is not None:
            attempt = max(attempt, int(effect.parameters["attempt"]))
        status = msgspec.structs.replace(
            worker.status, machine=machine_status(found), effect=None, attempt=attempt
        )
        return await self.context.record(
            worker, status=status, actor=ACTOR, reason=f"instance {found.id} launched"
        )

    async def _refused_here(
        self, worker: Worker, effect: Effect, problem: errors.LabfleetError
    ) -> None:
        """Go on to the next type and zone: this one was definitely refused."""
        now = self.context.clock.now()
        kind = effect.parameters.get("type")
        told = problem.message if kind is None else f"{kind}: {problem.message}"
        facts = conditions.put(
            worker.status.conditions,
            WorkerCondition.MACHINE_PROVISIONED,
            "False",
            conditions.of_error(problem),
            told,
            now=now,
        )
        status = msgspec.structs.replace(
            worker.status,
            effect=None,
            attempt=int(effect.parameters["attempt"]) + 1,
            conditions=facts,
            message=told,
        )
        await self.context.record(worker, status=status, actor=ACTOR, reason=told)

    async def start_refused(
        self, worker: Worker, problem: errors.OutOfCapacity | errors.QuotaExceeded
    ) -> float:
        """Record that this worker's machine cannot start now; return when to try again.

        Another machine is never launched instead: this one has the worker's disk and licence
        (facts/aws-bugs.md#case-19, #case-22).
        """
        now, wait = self.context.clock.now(), problem.retry_after or HELD_SECONDS
        fresh = self._fresh(worker)
        again = now + timedelta(seconds=wait)
        told = f"{problem.message[:400]}; asked again at {utc_time(again)}"
        full = isinstance(problem, errors.OutOfCapacity)
        facts = conditions.put(
            fresh.status.conditions,
            WorkerCondition.MACHINE_STARTED,
            "False",
            WorkerReason.OUT_OF_CAPACITY if full else WorkerReason.QUOTA_EXCEEDED,
            told,
            now=now,
        )
        status = msgspec.structs.replace(fresh.status, conditions=facts, message=told)
        await self.context.record(fresh, status=status, actor=ACTOR, reason=told)
        return min(wait, HELD_SECONDS)

    def started(self, worker: Worker) -> Worker:
        """Return the worker after an accepted start: the boot's time limit counts from here."""
        if conditions.find(worker.status.conditions, WorkerCondition.MACHINE_STARTED) is None:
            return worker
        status = msgspec.structs.replace(
            worker.status,
            conditions=conditions.drop(worker.status.conditions, WorkerCondition.MACHINE_STARTED),
            phase_since=self.context.clock.now(),
        )
        return msgspec.structs.replace(worker, status=status)

    def _taken(self, worker: Worker) -> set[str]:
        """Return the machines that other workers have or are about to have."""
        found = set()
        for each in self.context.cache.all(Worker):
            if each.key == worker.key or each.status.phase is WorkerPhase.TERMINATED:
                continue
            effect = each.status.effect
            promised = "" if effect is None else effect.parameters.get("machine", "")
            found |= {each.status.machine.id or "", promised}
        return found - {""}

    async def _say(self, worker: Worker, problem: errors.Temporary) -> None:
        """Record why nothing is launched; the same text is written once."""
        fresh = self._fresh(worker)
        facts = conditions.put(
            fresh.status.conditions,
            WorkerCondition.MACHINE_PROVISIONED,
            "False",
            conditions.of_error(problem),
            problem.message,
            now=self.context.clock.now(),
        )
        status = msgspec.structs.replace(fresh.status, conditions=facts, message=problem.message)
        await self.context.record(fresh, status=status, actor=ACTOR, reason=problem.message)

    def _fresh(self, worker: Worker) -> Worker:
        return self.context.cache.get(Worker, worker.name, worker.metadata.namespace) or worker

    async def _mismatched(self, worker: Worker, effect: Effect) -> None:
        """Remember that the token is bound to another request."""
        marked = msgspec.structs.replace(effect, parameters={**effect.parameters, MISMATCH: "yes"})
        status = msgspec.structs.replace(worker.status, effect=marked)
        await self.context.record(worker, status=status, actor=ACTOR, reason="token mismatch")

    async def _close(self, worker: Worker) -> None:
        status = msgspec.structs.replace(worker.status, effect=None)
        await self.context.record(worker, status=status, actor=ACTOR, reason="launch refused")


def _choice(effect: Effect) -> dict[str, str]:
    """Return what the provider chose for this launch: all parameters but ours."""
    ours = {"attempt", "token", MISMATCH}
    return {key: value for key, value in effect.parameters.items() if key not in ours}


def _age(found: Instance) -> tuple[str, str]:
    return (str(found.launch_time), found.id)
