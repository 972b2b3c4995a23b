"""A worker's calls to the outside: the intent before, the call, and its answer afterwards.

An answer is this process's memory until the next step records what it means. Losing it, with the
process or at once, loses nothing: the intent is stored, and what it did is looked up or waited for
(engine/effects.py).
"""

from __future__ import annotations

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker.act import DEADLINE, Actions
from labfleet.controllers.worker.launch import Launcher
from labfleet.decisions import stray_labs
from labfleet.decisions.lifecycle.worker import lab_orders
from labfleet.decisions.lifecycle.worker.calls import Answer, Call
from labfleet.decisions.lifecycle.worker.draft import Step, WorkerObservation
from labfleet.kernel import errors
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Effect, Key
from labfleet.resources.worker import Worker


class Calls:
    """Opens, makes and looks up the calls of all workers, at most one per worker."""

    def __init__(self, context: Context, launcher: Launcher, actions: Actions) -> None:
        self._context = context
        self._launcher = launcher
        self._actions = actions
        self._answers: dict[Key, tuple[Effect, Answer]] = {}

    async def known(self, worker: Worker, machine: Machine | None) -> Call | None:
        """Return what is known of the worker's open call; None when none is open."""
        effect, effects = worker.status.effect, self._context.effects
        if effect is None or machine is None:
            return None
        asked, answer = self._answers.get(worker.key, (None, Answer()))
        if asked == effect:
            return Call("answered", answer)
        if effect.kind == "launch":
            return await self._launcher.look_up(worker, machine, effect)
        if effects.known_not_done(effect):
            return Call("not_done")
        return Call("over" if effects.overdue(effect) else "running")

    def intent(self, worker: Worker, step: Step, seen: WorkerObservation) -> Effect | None:
        """Return what to store before the step's call; None when there is none to make."""
        if step.action == "launch" and seen.offer is not None:
            before = msgspec.structs.replace(worker, status=step.status)
            return self._launcher.intent(before, seen.offer)
        if step.action is None:
            return None
        named: dict[str, str] = {}
        if step.action == "remove_lab":
            named = stray_labs.parameters(step.status.stray_labs)
        elif step.action == lab_orders.OPERATE:
            named = lab_orders.parameters(worker.spec.lab_order, step.status.lab_order)
        return self._context.effects.open(step.action, deadline=DEADLINE, parameters=named)

    async def make(self, worker: Worker, machine: Machine, effect: Effect) -> None:
        """Make the call whose intent is stored, and keep its answer for the next step.

        Raises Ambiguous when its outcome is unknown: the intent stays open.
        """
        if effect.kind == "launch":
            answer = await self._launcher.perform(worker, machine, effect)
        else:
            answer = await self._other(worker, machine, effect)
        self._answers[worker.key] = (effect, answer)

    async def _other(self, worker: Worker, machine: Machine, effect: Effect) -> Answer:
        try:
            return await self._actions.perform(worker, machine, effect.kind)
        except errors.Ambiguous:
            raise
        except errors.LabfleetError as problem:
            return Answer(problem=problem)

    def recorded(self, key: Key, effect: Effect | None) -> None:
        """Forget the answer to a call: what it means is stored now."""
        asked, _ = self._answers.get(key, (None, None))
        if effect is not None and asked == effect:
            del self._answers[key]

    def forget(self, key: Key) -> None:
        """Forget a worker that is gone."""
        self._answers.pop(key, None)
