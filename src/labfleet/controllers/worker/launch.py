"""Launch one machine for a worker: the intent first, then the call, then the proof.

The client token is a digest of installation, worker and attempt. The attempt moves only when
the provider said a definite no (no capacity here), because a token is zonal: another zone with
the same token would be a second machine (aws.md 7.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker.look import ec2_status
from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors, ids
from labfleet.resources import conditions
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Worker

DEADLINE = 15.0
VISIBILITY = timedelta(seconds=60)
ROUND_LIMIT = 120.0
ACTOR = "worker-controller"
LAUNCHES_AT_ONCE, LAUNCHES_A_SECOND = 4, 1.6


@dataclass(slots=True)
class Turnstile:
    """Lets launches through at the pace that EC2 takes them.

    RunInstances has a bucket of 5 tokens and 2 more a second (aws.md 6.3); a pool that grows
    by two hundred at once would be throttled for minutes, and everybody else of the account
    with it. A part of the bucket is left to others. Seconds are the machine's.
    """

    level: float = float(LAUNCHES_AT_ONCE)
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Take a turn and return 0, or return how many seconds it is until there is one."""
        grown = self.level + max(0.0, now - self.at) * LAUNCHES_A_SECOND
        self.level, self.at = min(float(LAUNCHES_AT_ONCE), grown), now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / LAUNCHES_A_SECOND


@dataclass(frozen=True, slots=True)
class Launcher:
    """Prepares, performs and settles launches."""

    context: Context
    turnstile: Turnstile = field(default_factory=Turnstile)

    def turn(self) -> float:
        """Take a turn to launch and return 0, or the fleet seconds to wait for one."""
        clock = self.context.clock
        return self.turnstile.wait(clock.monotonic() / clock.rate) * clock.rate

    async def prepare(self, worker: Worker, machine: Machine) -> Effect:
        """Return the intent to commit: image, type, subnet and token.

        An intent that was settled as not done is opened again with the same parameters, so
        that a late first try and the second are one machine.
        """
        before = worker.status.effect
        if before is not None:
            if self.context.effects.fits(before, deadline=DEADLINE):
                return before
            return self.context.effects.reopen(before, deadline=DEADLINE)
        attempt = max(worker.status.attempt, 1)
        options = _options(machine)
        instance_type, subnet = options[(attempt - 1) % len(options)]
        image = await self.context.compute.find_image(machine.aws.region, machine.aws)
        token = ids.digest(self.context.installation, worker.metadata.uid, str(attempt))
        parameters = {
            "attempt": str(attempt),
            "image": image.id,
            "token": token,
            "type": instance_type,
        }
        if subnet is not None:
            parameters["subnet"] = subnet
        return self.context.effects.open("launch", deadline=DEADLINE, parameters=parameters)

    def pause(self, worker: Worker, machine: Machine) -> float:
        """Return how long to wait after a no for capacity (fleet seconds).

        What is full here need not be full there: only a whole round of noes is waited out,
        each round longer than the one before.
        """
        fresh = self.context.cache.get(Worker, worker.name, worker.metadata.namespace) or worker
        rounds, within = divmod(fresh.status.attempt - 1, len(_options(machine)))
        return 1.0 if within or not rounds else min(5.0 * 2 ** min(rounds, 10), ROUND_LIMIT)

    def request(self, worker: Worker, machine: Machine, effect: Effect) -> LaunchRequest:
        """Return the call that the intent stands for, the same each time."""
        return LaunchRequest(
            region=machine.aws.region,
            token=effect.parameters["token"],
            worker=worker.name,
            worker_uid=worker.metadata.uid,
            attempt=int(effect.parameters["attempt"]),
            image_id=effect.parameters["image"],
            instance_type=effect.parameters["type"],
            subnet_id=effect.parameters.get("subnet"),
            aws=machine.aws,
            pool=worker.spec.pool,
        )

    async def perform(self, worker: Worker, machine: Machine, effect: Effect) -> Worker:
        """Make the call and record what came of it; Ambiguous leaves the intent open."""
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
            raise errors.Ambiguous(problem.message, reason=problem.reason) from None
        except errors.Invalid:
            await self._close(worker)
            raise
        return await self.adopt(worker, found)

    async def settle(self, worker: Worker, machine: Machine, effect: Effect) -> Worker | None:
        """Find out what an open launch did; None means: not known yet, ask again later.

        Returns the worker with its machine when one is found, else unchanged: the same
        request may then be sent again. That is so at once when this process knows that every
        call under the intent was answered with a no, and otherwise only when the call's
        deadline and the provider's visibility lag have passed.
        """
        effects = self.context.effects
        if effects.mine(effect):
            return worker
        # Judged before the look: what begins to exist while we look is not "not there".
        over = effects.overdue(effect) and self.context.clock.now() >= effect.begun + VISIBILITY
        found = await self.context.compute.find_launched(self.request(worker, machine, effect))
        if found:
            return await self.adopt(worker, min(found, key=_age))
        return worker if over else None

    async def adopt(self, worker: Worker, found: Instance) -> Worker:
        """Record the machine as this worker's and close the intent."""
        status = msgspec.structs.replace(worker.status, ec2=ec2_status(found), effect=None)
        return await self.context.record(
            worker, status=status, actor=ACTOR, reason=f"instance {found.id} launched"
        )

    async def _refused_here(
        self, worker: Worker, effect: Effect, problem: errors.LabfleetError
    ) -> None:
        """Go to the next type and zone: this one said a definite no."""
        now = self.context.clock.now()
        told = f"{effect.parameters['type']}: {problem.message}"
        facts = conditions.put(
            worker.status.conditions, "EC2Provisioned", "False", problem.reason, told, now=now
        )
        status = msgspec.structs.replace(
            worker.status,
            effect=None,
            attempt=int(effect.parameters["attempt"]) + 1,
            conditions=facts,
            message=told,
        )
        await self.context.record(worker, status=status, actor=ACTOR, reason=told)

    async def _close(self, worker: Worker) -> None:
        status = msgspec.structs.replace(worker.status, effect=None)
        await self.context.record(worker, status=status, actor=ACTOR, reason="launch refused")


def _options(machine: Machine) -> list[tuple[str, str | None]]:
    """Return every type and subnet that may be asked for, in order of preference."""
    subnets = machine.aws.subnet_ids or (None,)
    return [(kind, subnet) for kind in machine.aws.instance_types for subnet in subnets]


def _age(found: Instance) -> tuple[str, str]:
    return (str(found.launch_time), found.id)
