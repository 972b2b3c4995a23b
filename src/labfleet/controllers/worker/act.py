"""Carry out one decided action on a worker's machine or CML server.

All actions are safe to repeat. So when an outcome is unknown, the action is decided again from
a fresh observation once its deadline has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from labfleet.controllers.context import Context
from labfleet.controllers.worker import lab_calls, stray_labs
from labfleet.controllers.worker.address import address_of
from labfleet.controllers.worker.inventory import Inventory
from labfleet.controllers.worker.observer import EXPANDABLE
from labfleet.controllers.worker.tagger import Tagger
from labfleet.decisions import parking
from labfleet.decisions.lifecycle.worker import licence_orders
from labfleet.decisions.lifecycle.worker.calls import Answer
from labfleet.engine.effects import OPERATION_SECONDS
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.machine import Machine
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition

DEADLINE = OPERATION_SECONDS
GLANCE_SECONDS = 3.0
"""Machine seconds for the last check before a stop; EC2 needs most of the call's time."""
SILENCE = timedelta(minutes=10)
"""How long an idle stop waits for a server that no longer answers."""
INCLUDED_ENTERPRISE = 20


@dataclass(frozen=True, slots=True)
class Actions:
    """The calls that the worker controller makes."""

    context: Context
    inventory: Inventory
    tagger: Tagger

    async def perform(self, worker: Worker, machine: Machine, action: str) -> Answer:
        """Make the call under its open effect; raises Temporary errors, which cause a back-off."""
        table: dict[str, Callable[[Worker, Machine], Awaitable[Answer]]] = {
            "start": self._start,
            "stop": self._stop,
            "terminate": self._terminate,
            "register": self._register,
            "deregister": self._deregister,
            "stop_labs": self._stop_labs,
            "renew": self._renew,
            "telemetry": self._telemetry,
            "claim": self._claim,
            "tags": self._tags,
            "remove_lab": self._remove_lab,
            "operate_lab": self._operate_lab,
        }
        effect = worker.status.effect
        if effect is None:
            raise AssertionError(f"{action} without an open effect")
        try:
            return await self.context.effects.call(
                effect, lambda: table[action](worker, machine), deadline=DEADLINE
            )
        except errors.Conflict as problem:
            if action in {"register", "renew"}:
                return Answer(later=True)  # another licensing operation is under way: look at it
            if action == "deregister":
                return Answer(nodes_running=problem.reason == "NodesRunning")
            raise

    async def _start(self, worker: Worker, machine: Machine) -> Answer:
        await self.context.compute.start(machine.provider.region, _instance(worker))
        self.inventory.took(machine.provider.region, _instance(worker), "booting")
        return Answer()

    async def _stop(self, worker: Worker, machine: Machine) -> Answer:
        seen = ""
        if parking.auto_stopped(worker):
            await self._refuse_used(worker, machine)
        else:
            seen = await self._glance(worker, machine)
        await self.context.compute.stop(machine.provider.region, _instance(worker))
        self.inventory.took(machine.provider.region, _instance(worker), "stopping")
        return Answer(note=seen)

    async def _refuse_used(self, worker: Worker, machine: Machine) -> None:
        """Raise Temporary while something runs on a worker that no person asked to stop.

        The worker was unused when it was drained, but EC2 may accept its stop only minutes later
        (facts/aws.md#busy-check). A server that does not answer is waited for, within a limit.
        """
        try:
            stats = await self._host(worker, machine).system_stats()
        except errors.LabfleetError as problem:
            told = conditions.find(worker.status.conditions, WorkerCondition.HEALTH_CHECK_PASSED)
            silent = told is not None and told.status != "True"
            since = told.last_transition_time if told is not None and silent else None
            if since is None or self.context.clock.now() - since < SILENCE:
                message = f"the server does not say whether something runs: {problem.message}"
                raise errors.Temporary(message, reason="NotLooked") from None
            return
        if stats.running_nodes or stats.running_orphans:
            running = (stats.running_nodes or 0) + (stats.running_orphans or 0)
            runs = "runs" if running == 1 else "run"
            message = f"{count(running, 'node')} {runs} again: the idle stop waits"
            raise errors.Temporary(message, reason="NodesRunning")

    async def _glance(self, worker: Worker, machine: Machine) -> str:
        """Report what still runs when people asked for the stop; this does not delay the stop.

        EC2 may accept the stop minutes after the worker was seen empty (facts/aws.md#busy-check).
        What runs then is no session of ours, and the event says so.
        """
        try:
            async with asyncio.timeout(GLANCE_SECONDS):
                stats = await self._host(worker, machine).system_stats()
        except (errors.LabfleetError, TimeoutError):
            return ""
        nodes = stats.running_nodes
        are = "is" if nodes == 1 else "are"
        return f"{count(nodes, 'node')} ran that {are} no session's" if nodes else ""

    async def _terminate(self, worker: Worker, machine: Machine) -> Answer:
        await self.context.compute.terminate(machine.provider.region, _instance(worker))
        self.inventory.took(machine.provider.region, _instance(worker), "ending")
        return Answer()

    async def _claim(self, worker: Worker, machine: Machine) -> Answer:
        """Put our owner tags on the instance; from then on we may stop and terminate it."""
        region = machine.provider.region
        try:
            await self.context.compute.claim(
                region, _instance(worker), worker.key.label, worker.metadata.uid
            )
        except errors.Denied as problem:
            if problem.reason != "NotOurs":
                raise  # our credentials, not its owner
            return Answer(refused=problem.message)
        self.inventory.forget(region, _instance(worker))
        return Answer(claimed=True)

    async def _tags(self, worker: Worker, machine: Machine) -> Answer:
        return await self.tagger.apply(worker, machine.provider.region, _instance(worker))

    async def _register(self, worker: Worker, machine: Machine) -> Answer:
        licence = worker.spec.licensing or machine.licence
        if licence.token is None:
            return Answer(refused="the template names no licence token")
        extra = 0
        if licence.product in EXPANDABLE:
            extra = max(machine.cml.max_nodes_licensed - INCLUDED_ENTERPRISE, 0)
        try:
            token = self.context.secrets.resolve(licence.token)
        except errors.Denied as problem:
            return Answer(refused=problem.message)
        try:
            await self._host(worker, machine).register(
                licence.product, token, expansion_nodes=extra, again=licence_orders.anew(worker)
            )
        except errors.Invalid as problem:
            return Answer(refused=problem.message)
        return Answer()

    async def _deregister(self, worker: Worker, machine: Machine) -> Answer:
        done = await self._host(worker, machine).deregister()
        return Answer(cloud_told=done != "cloud_not_told", returned=done == "done")

    async def _renew(self, worker: Worker, machine: Machine) -> Answer:
        try:
            await self._host(worker, machine).renew_licence()
        except errors.Invalid as problem:
            # Of a renewal that nobody ordered the condition LicenceExpiring stays, and tomorrow
            # it is tried again.
            return Answer(refused=problem.message)
        return Answer()

    async def _telemetry(self, worker: Worker, machine: Machine) -> Answer:
        """Opt in or out of telemetry; a refusal is final for this boot: no lab depends on it."""
        wanted = machine.cml.enable_telemetry
        try:
            await self._host(worker, machine).set_telemetry(enabled=wanted)
        except (errors.Invalid, errors.Denied, errors.Gone) as problem:
            return Answer(telemetry=wanted, telemetry_refused=problem.message)
        return Answer(telemetry=wanted)

    async def _stop_labs(self, worker: Worker, machine: Machine) -> Answer:
        host = self._host(worker, machine)
        for lab in await host.labs():
            if lab.state == "STARTED":
                await host.stop(lab.id)
        return Answer()

    async def _remove_lab(self, worker: Worker, machine: Machine) -> Answer:
        await stray_labs.remove(self.context, worker, self._host(worker, machine))
        return Answer()

    async def _operate_lab(self, worker: Worker, machine: Machine) -> Answer:
        await lab_calls.operate(self._host(worker, machine), worker.status.effect)
        return Answer()

    def _host(self, worker: Worker, machine: Machine) -> LabHost:
        where = address_of(self.context, worker, machine, worker.status.machine)
        if where is None:
            raise errors.Unreachable("the worker has no address")
        return self.context.hosts.at(where)


def _instance(worker: Worker) -> str:
    if worker.status.machine.id is None:
        raise errors.Gone("the worker has no instance")
    return worker.status.machine.id
