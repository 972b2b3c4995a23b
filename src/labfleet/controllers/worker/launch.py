"""Launch one machine for a worker: what to ask for, the call, and the look-up after it.

The client token is a digest of installation, worker and attempt. The attempt number grows only
when the provider definitely refused (no capacity here), because a token is zonal: the same token
in another zone would make a second machine (facts/aws.md#client-token). What to ask for, when, and
what was refused lately is the provider's to know: `Compute.choose`, `turn` and `held`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from labfleet.controllers.context import Context
from labfleet.controllers.worker.described import machine_status
from labfleet.decisions.lifecycle.worker.calls import MISMATCH, Answer, Call, Offer
from labfleet.engine.effects import OPERATION_SECONDS
from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors, ids
from labfleet.resources import refs
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Worker
from labfleet.service.kinds import indices

DEADLINE = OPERATION_SECONDS
VISIBILITY = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Launcher:
    """Chooses, makes and looks up launches; it decides and records nothing."""

    context: Context

    async def offer(self, worker: Worker, machine: Machine, call: Call | None) -> Offer:
        """Return what a launch would ask for now; never raises.

        A launch with unknown outcome never waits: the same request has to be sent again. One
        that surely was not made is sent again with the same parameters, unless its place is
        blocked by now: then nothing can have happened under it, and another is chosen.
        """
        before, compute = worker.status.effect, self.context.compute
        sure = before is None or call is None or call.state == "not_done"
        if sure:
            problem = compute.held(machine.provider)
            if problem is not None:
                return Offer(held=problem)
        wait = compute.turn("launch", machine.provider.region)
        if wait:
            return Offer(wait=wait)
        attempt = max(worker.status.attempt, 1)
        if before is not None:
            if not sure or compute.held(machine.provider, _choice(before)) is None:
                return Offer(parameters=before.parameters)
            attempt = max(attempt, int(before.parameters["attempt"])) + 1
        try:
            choice = await compute.choose(machine.provider, lambda: self._taken(worker))
        except errors.LabfleetError as problem:
            return Offer(problem=problem)
        token = ids.digest(self.context.installation, worker.metadata.uid, str(attempt))
        return Offer(parameters={"attempt": str(attempt), "token": token, **choice})

    def intent(self, worker: Worker, offer: Offer) -> Effect:
        """Return the intent of what is offered: the present one again when it asks for the same."""
        before, effects = worker.status.effect, self.context.effects
        parameters = dict(offer.parameters or {})
        if before is None or before.parameters != parameters:
            return effects.open("launch", deadline=DEADLINE, parameters=parameters)
        if effects.fits(before, deadline=DEADLINE):
            return before
        return effects.reopen(before, deadline=DEADLINE)

    async def perform(self, worker: Worker, machine: Machine, effect: Effect) -> Answer:
        """Make the call; a template that the provider will never accept is a refusal."""
        request = self.request(worker, machine, effect)
        try:
            found = await self.context.effects.call(
                effect, lambda: self.context.compute.launch(request), deadline=DEADLINE
            )
        except errors.Invalid as problem:
            return Answer(refused=problem.message)
        except errors.LabfleetError as problem:
            return Answer(problem=problem)
        return Answer(machine=machine_status(found))

    async def look_up(self, worker: Worker, machine: Machine, effect: Effect) -> Call:
        """Find out what an open launch did.

        "Not found" is final at once when this process knows that every call under the intent was
        refused, and otherwise only when the call's deadline and the provider's visibility lag
        have passed.
        """
        effects = self.context.effects
        if effects.known_not_done(effect) and MISMATCH not in effect.parameters:
            return Call("not_done")
        # Computed before the look-up: a machine may appear during it. The lag counts from when
        # the last call under the intent can have ended.
        over = effects.overdue(effect) and self.context.clock.now() >= effect.expires + VISIBILITY
        request = self.request(worker, machine, effect)
        try:
            found = await self.context.compute.find_launched(request)
        except errors.LabfleetError as problem:
            return Call("running", Answer(problem=problem))
        if found:
            return Call("answered", Answer(machine=machine_status(min(found, key=_age))))
        return Call("over" if over else "running")

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

    def _taken(self, worker: Worker) -> set[str]:
        """Return the machines that other workers have or are about to have."""
        cache, own = self.context.cache, worker.key
        return {
            name
            for name in cache.values(indices.WORKERS_OF_MACHINE)
            if any(each.key != own for each in cache.by(indices.WORKERS_OF_MACHINE, name))
        }


def _choice(effect: Effect) -> dict[str, str]:
    """Return what the provider chose for this launch: all parameters but ours."""
    ours = {"attempt", "token", MISMATCH}
    return {key: value for key, value in effect.parameters.items() if key not in ours}


def _age(found: Instance) -> tuple[str, str]:
    return (str(found.launch_time), found.id)
