"""Launch one machine for a worker: save the intent, make the call, record the outcome.

The client token is a digest of installation, worker and attempt. The attempt number grows only
when the provider definitely refused (no capacity here), because a token is zonal: the same token
in another zone would make a second machine (facts/aws.md#client-token). `offers` remembers the
refusals for all workers of the process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker.observer import machine_status
from labfleet.controllers.worker.offers import Offers, Option
from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors, ids
from labfleet.kernel.clock import utc_time
from labfleet.resources import conditions, refs
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Worker

DEADLINE = 15.0
VISIBILITY = timedelta(seconds=60)
MISMATCH, MISMATCH_PATIENCE = "mismatch", timedelta(minutes=10)
"""How long a machine is looked up whose token EC2 has bound to another request."""
HELD_SECONDS = 60.0
"""The longest time until a blocked worker is reconciled again, since its deadlines still run."""
ACTOR = "worker-controller"
LEAST_SHARE = 1 / 64
NEARLY = 1 - 1e-6  # counts as 1: a remainder too small to wait for would never be reached
# Action -> (burst, per second): four fifths of EC2's buckets, the rest is left to others.
PACES = {"launch": (4, 1.6), "start": (4, 1.6), "stop": (40, 4.0), "terminate": (80, 4.0)}


@dataclass(slots=True)
class TokenBucket:
    """Limits calls of one action to the rate that EC2 accepts.

    RunInstances and StartInstances have a bucket of 5 tokens and 2 more a second
    (facts/aws.md#request-buckets); a pool that grows by two hundred at once would be throttled for
    minutes, and with it all other users of the account. Being throttled shows that others use the
    bucket too: then only `share` of the rate is used, and slowly more again. Seconds are machine
    time.
    """

    most: float
    rate: float
    level: float = field(init=False)
    at: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        self.level = self.most

    def wait(self, now: float) -> float:
        """Take a token and return 0, or return how many seconds it is until there is one."""
        rate = self.rate * self.share
        grown = self.level + max(0.0, now - self.at) * rate
        self.level, self.at = min(self.most, grown), now
        if self.level >= NEARLY:
            self.level = max(self.level - 1, 0.0)
            return 0.0
        return (1 - self.level) / rate

    def throttled(self) -> None:
        """Halve the rate from now on (facts/aws-bugs.md#case-14)."""
        self.level, self.share = 0.0, max(self.share / 2, LEAST_SHARE)

    def passed(self) -> None:
        """Raise the rate a little again."""
        self.share = min(self.share * 1.1, 1.0)


def token_buckets() -> dict[str, TokenBucket]:
    """Return a token bucket for each action that has a rate limit."""
    return {action: TokenBucket(most, rate) for action, (most, rate) in PACES.items()}


@dataclass(frozen=True, slots=True)
class Launcher:
    """Prepares, performs and settles launches."""

    context: Context
    paces: dict[str, TokenBucket] = field(default_factory=token_buckets)
    offers: Offers = field(default_factory=Offers)

    def turn(self, action: str) -> float:
        """Take a token and return 0, or the fleet seconds to wait for one."""
        clock, pace = self.context.clock, self.paces.get(action)
        return 0.0 if pace is None else pace.wait(clock.monotonic() / clock.rate) * clock.rate

    def answered(self, action: str, problem: errors.LabfleetError | None = None) -> None:
        """Adapt the rate to the outcome of a call that had a token."""
        pace = self.paces.get(action)
        if pace is not None and problem is None:
            pace.passed()
        elif pace is not None and isinstance(problem, errors.Throttled):
            pace.throttled()

    async def held(self, worker: Worker, machine: Machine) -> float:
        """Return 0, or how many fleet seconds to wait because every option is blocked.

        A launch with unknown outcome never waits: the same request has to be sent again.
        """
        effect = worker.status.effect
        if effect is not None and not self.context.effects.known_not_done(effect):
            return 0.0
        problem = self.offers.held(machine, self.context.clock.now())
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
        effects, now = self.context.effects, self.context.clock.now()
        if before is not None:
            if not effects.known_not_done(before) or self.offers.may(machine, _option(before), now):
                if effects.fits(before, deadline=DEADLINE):
                    return before
                return effects.reopen(before, deadline=DEADLINE)
            attempt = max(attempt, int(before.parameters["attempt"])) + 1
        image = await self.context.compute.find_image(machine.provider.region, machine.provider)
        instance_type, subnet = self.offers.choose(machine, self.context.clock.now())
        token = ids.digest(self.context.installation, worker.metadata.uid, str(attempt))
        parameters = {
            "attempt": str(attempt),
            "image": image.id,
            "token": token,
            "type": instance_type,
        }
        if subnet is not None:
            parameters["subnet"] = subnet
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
            image_id=effect.parameters["image"],
            instance_type=effect.parameters["type"],
            subnet_id=effect.parameters.get("subnet"),
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
            self.offers.refused(machine, _option(effect), problem, self.context.clock.now())
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
        except errors.Throttled as problem:
            self.answered("launch", problem)
            raise
        self.answered("launch")
        self.offers.worked(machine, _option(effect))
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
        told = f"{effect.parameters['type']}: {problem.message}"
        facts = conditions.put(
            worker.status.conditions, "MachineProvisioned", "False", problem.reason, told, now=now
        )
        status = msgspec.structs.replace(
            worker.status,
            effect=None,
            attempt=int(effect.parameters["attempt"]) + 1,
            conditions=facts,
            message=told,
        )
        await self.context.record(worker, status=status, actor=ACTOR, reason=told)

    def start_held(self, worker: Worker) -> float:
        """Return 0, or the fleet seconds until a refused start is tried again."""
        now = self.context.clock.now()
        at = self.offers.starts.opens(worker.metadata.uid, now)
        return 0.0 if at is None else min((at - now).total_seconds(), HELD_SECONDS)

    async def start_refused(
        self, worker: Worker, problem: errors.OutOfCapacity | errors.QuotaExceeded
    ) -> float:
        """Record that this worker's machine cannot start now; return when to try again.

        Another machine is never launched instead: this one has the worker's disk and licence
        (facts/aws-bugs.md#case-19, #case-22).
        """
        now = self.context.clock.now()
        block = self.offers.starts.refused(worker.metadata.uid, problem, now)
        fresh = self._fresh(worker)
        told = f"{problem.message[:400]}; asked again at {utc_time(block.until)}"
        full = isinstance(problem, errors.OutOfCapacity)
        facts = conditions.put(
            fresh.status.conditions,
            "MachineStarted",
            "False",
            "OutOfCapacity" if full else "QuotaExceeded",
            told,
            now=now,
        )
        status = msgspec.structs.replace(fresh.status, conditions=facts, message=told)
        await self.context.record(fresh, status=status, actor=ACTOR, reason=told)
        return self.start_held(worker)

    def started(self, worker: Worker) -> Worker:
        """Return the worker after an accepted start: the boot's time limit counts from here."""
        self.offers.starts.worked(worker.metadata.uid)
        if conditions.find(worker.status.conditions, "MachineStarted") is None:
            return worker
        status = msgspec.structs.replace(
            worker.status,
            conditions=conditions.drop(worker.status.conditions, "MachineStarted"),
            phase_since=self.context.clock.now(),
        )
        return msgspec.structs.replace(worker, status=status)

    async def _say(self, worker: Worker, problem: errors.Temporary) -> None:
        """Record why nothing is launched; the same text is written once."""
        fresh = self._fresh(worker)
        facts = conditions.put(
            fresh.status.conditions,
            "MachineProvisioned",
            "False",
            problem.reason,
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


def _option(effect: Effect) -> Option:
    return effect.parameters["type"], effect.parameters.get("subnet")


def _age(found: Instance) -> tuple[str, str]:
    return (str(found.launch_time), found.id)
