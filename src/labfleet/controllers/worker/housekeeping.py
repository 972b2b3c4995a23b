"""Chores of a worker outside its life cycle: save a failed boot's console text, sync its tags.

Chores wait while an action is pending, and their errors never delay the worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.worker import console
from labfleet.controllers.worker.inventory import Inventory
from labfleet.decisions.lifecycle.worker import phases
from labfleet.engine.effects import CALL_SECONDS
from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.resources import conditions
from labfleet.resources.machine import Machine
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

DEADLINE = CALL_SECONDS
ACTOR = "worker-controller"
FAILED_BOOT = frozenset(
    {WorkerReason.BOOT_TIMEOUT, WorkerReason.LAUNCH_TIMEOUT, WorkerReason.NO_ADDRESS}
)
REFUSED_SECONDS = 900.0
"""How long to wait before trying again tags that EC2 refused permanently (fleet seconds)."""
REFUSED_KEPT = 10_000
TAGGABLE = frozenset({"booting", "running", "stopping", "stopped"})


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """The chores; each reconcile does those that are due, and a failed one stays due."""

    context: Context
    inventory: Inventory
    refused: dict[str, tuple[object, float]] = field(default_factory=dict)

    async def do(self, worker: Worker, machine: Machine) -> Worker:
        """Do what is due and return the stored worker; raises only Fenced or Conflict."""
        if worker.status.machine.id is None or phases.observed(worker):
            return worker
        for chore in (self._evidence, self._tags):
            try:
                worker = await chore(worker, machine)
            except errors.Conflict:
                raise
            except errors.LabfleetError:
                continue
        return worker

    async def _evidence(self, worker: Worker, machine: Machine) -> Worker:
        """Keep the console text of a boot that failed, once for each boot."""
        shown = worker.status.machine
        boot = f"[{shown.id}@{shown.launched} "
        if worker.status.console.startswith(boot) or not _failed(worker):
            return worker
        try:
            text = await self.context.compute.console_output(
                machine.provider.region, shown.id or ""
            )
        except (errors.Gone, errors.Invalid, errors.Denied) as problem:
            text = f"(not readable: {problem.message[:200]})"
        kept = f"{boot}read {format_instant(self.context.clock.now(), 'seconds')}]\n"
        kept += console.readable(text, self._secrets(machine))
        status = msgspec.structs.replace(worker.status, console=kept)
        return await self.context.record(
            worker, status=status, actor=ACTOR, reason="console text kept of a failed boot"
        )

    def _secrets(self, machine: Machine) -> list[str]:
        found = []
        for reference in (machine.cml.admin_password, machine.licence.token):
            try:
                if reference is not None:
                    found.append(self.context.secrets.resolve(reference))
            except errors.LabfleetError:
                continue
        return found

    async def _tags(self, worker: Worker, machine: Machine) -> Worker:
        """Set and remove tags until the instance lists those of `spec.tags`.

        The keys that we may remove later are stored before they are set. A key that is removed
        from the spec but is in the template gets the template's value again.
        """
        shown, wanted = worker.status.machine, worker.spec.tags
        if not (wanted or shown.tags) or shown.state not in TAGGABLE:
            return worker
        region, name = machine.provider.region, shown.id or ""
        found = await self.inventory.find(region, name)
        if found is None or found.state not in TAGGABLE:
            return worker
        dropped = [key for key in shown.tags if key not in wanted]
        given = machine.provider.tags
        back = {key: given[key] for key in dropped if key in given}
        put = {
            key: value for key, value in {**back, **wanted}.items() if found.tags.get(key) != value
        }
        # Remove them even if the list lacks them: it may be older than the call that set them.
        gone = [key for key in dropped if key not in given]
        if put or gone:
            asked = (put, gone)
            if self._refused_lately(name, asked):
                return worker
            worker = await self._noted(worker, tuple(sorted({*shown.tags, *wanted})))
            try:
                await self._changed(region, name, put, gone)
            except errors.Permanent as problem:
                self._refuse(name, asked)
                return await self._told(worker, f"{problem.reason}: {problem.message}"[:300])
        worker = await self._noted(worker, tuple(sorted(wanted)))
        return await self._told(worker, "")

    def _refused_lately(self, instance_id: str, asked: object) -> bool:
        before, at = self.refused.get(instance_id, (None, 0.0))
        return before == asked and self.context.clock.monotonic() - at < REFUSED_SECONDS

    def _refuse(self, instance_id: str, asked: object) -> None:
        self.refused.pop(instance_id, None)
        self.refused[instance_id] = (asked, self.context.clock.monotonic())
        while len(self.refused) > REFUSED_KEPT:
            del self.refused[next(iter(self.refused))]

    async def _changed(self, region: str, name: str, put: dict[str, str], gone: list[str]) -> None:
        """Make the calls while leadership is certain; both are safe to repeat."""
        compute = self.context.compute

        async def change() -> None:
            if put:
                await compute.set_tags(region, name, put)
            if gone:
                await compute.remove_tags(region, name, gone)

        effects = self.context.effects
        self.inventory.forget(region, name)
        await effects.call(effects.open("tags", deadline=DEADLINE), change, deadline=DEADLINE)
        self.inventory.forget(region, name)

    async def _noted(self, worker: Worker, keys: tuple[str, ...]) -> Worker:
        shown = msgspec.structs.replace(worker.status.machine, tags=keys)
        status = msgspec.structs.replace(worker.status, machine=shown)
        return await self.context.record(worker, status=status, actor=ACTOR, reason="tags")

    async def _told(self, worker: Worker, trouble: str) -> Worker:
        facts = worker.status.conditions
        if worker.spec.tags or trouble:
            facts = conditions.put(
                facts,
                WorkerCondition.TAGS_APPLIED,
                "False" if trouble else "True",
                WorkerReason.REFUSED if trouble else WorkerReason.APPLIED,
                trouble,
                now=self.context.clock.now(),
            )
        else:
            facts = conditions.drop(facts, WorkerCondition.TAGS_APPLIED)
        status = msgspec.structs.replace(worker.status, conditions=facts)
        return await self.context.record(worker, status=status, actor=ACTOR, reason="tags")


def _failed(worker: Worker) -> bool:
    """Tell whether the console text may help: after a failed boot or while a check fails."""
    shown = worker.status.machine
    if "impaired" in {shown.host_check, shown.machine_check} and shown.state == "running":
        return True
    found = conditions.find(worker.status.conditions, WorkerCondition.FAILED)
    if worker.status.phase is not WorkerPhase.FAILED or found is None:
        return False
    return found.reason in FAILED_BOOT
