"""The rehearsal's EC2 for tests of controllers: nothing goes wrong unless a test says so.

The account is `rehearsal.worlds.ec2.Cloud` without chance: fixed times, no latency. What a test
adds is in the cloud's own words (`cloud.stock`, `cloud.quota`, `cloud.refusals`); here is only
what it wants to know afterwards: which changes were asked for, and whether each had its effect
in the store first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from labfleet.adapters.aws import launches
from labfleet.interfaces.compute import Instance, LaunchRequest, Leftover, MetricPoint
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.ec2 import Cloud, FakeInstance
from labfleet.rehearsal.worlds.ec2_client import Ec2
from labfleet.rehearsal.worlds.wire import CallProfile, Wire

Expect = Callable[[str, str], Awaitable[None]]
MACHINE_CPUS = 48
"""What each machine takes of the account's quota."""
ORPHAN = "orphan"
"""A machine with this tag belongs to no worker, so no worker's effect stands for its end."""

NO_ROOM = errors.OutOfCapacity("none", reason="InsufficientInstanceCapacity")


def quiet_cloud() -> Cloud:
    """Return an account where everything takes the same time each time."""
    loop: Any = asyncio.get_running_loop()
    rng = SeededRng("account")
    injector = FaultInjector(FaultPlan(), rng.stream("luck"))
    cml_servers = CmlServers(loop, rng.stream("racks"), injector)
    return Cloud(
        loop, rng.stream("cloud"), injector, cml_servers,
        launch_range=(30.0, 30.0), start_range=(30.0, 30.0), stop_range=(60.0, 60.0),
        shown_after=0.0,
    )  # fmt: skip


class ScriptedEc2(Ec2):
    """Compute over a quiet cloud; keeps the changes asked for and who launched twice."""

    def __init__(self, clock: Any, owner: str, expect: Expect) -> None:
        self.clock = clock
        self.cloud = quiet_cloud()
        self.expect = expect
        self.calls: list[str] = []
        self.twins: list[str] = []
        self.console = ""
        self.cloud.listeners.append(self._heard)
        manners = CallProfile("EC2", low=0.0, high=0.0, patience=12.0, trouble="ambiguous")
        loop, injector = self.cloud.loop, self.cloud.injector
        super().__init__(self.cloud, Wire(loop, SeededRng("wire"), injector, manners), owner)

    # --- what a test looks at and does ---------------------------------------------------

    @property
    def now(self) -> float:
        """Return fleet seconds."""
        return float(self.clock.monotonic())

    @property
    def machines(self) -> dict[str, FakeInstance]:
        """Return every instance ever launched, by id."""
        return self.cloud.vms

    def alive(self, worker: str | None = None) -> list[FakeInstance]:
        """Return the machines that have not ended, of one worker or all."""
        return [
            each
            for each in self.machines.values()
            if each.live and worker in {None, each.request.worker}
        ]

    def show_after(self, seconds: float) -> None:
        """Let each machine, also those that are there, show so long after its launch."""
        self.cloud.shown_after = seconds
        for each in self.machines.values():
            each.visible = each.launched + seconds

    def end(self, machine: FakeInstance, reason: str = "Server.SpotInstanceTermination") -> None:
        """End a machine behind everybody's back, at once."""
        self.cloud.begin_end(machine, "outside", reason)
        machine.turn += 1  # whatever was still to become of it does not
        machine.state = "gone"

    def stop_outside(self, machine: FakeInstance) -> None:
        """Stop a machine behind everybody's back."""
        self.cloud.begin_stop(machine, "outside")

    def _heard(self, what: str, machine: FakeInstance, who: str) -> None:
        del who
        if what == "launched":
            machine.console = self.console
            worker = machine.request.worker
            self.twins += [worker] * (len(self.alive(worker)) > 1)

    # --- changes, noted ------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> Instance:
        await self.expect(request.worker, "launch")
        self.calls.append(f"launch {request.choice['type']} {request.choice.get('subnet')}")
        return await super().launch(request)

    async def start(self, region: str, instance_id: str) -> None:
        await self._noted("start", instance_id)
        await super().start(region, instance_id)

    async def stop(self, region: str, instance_id: str) -> None:
        await self._noted("stop", instance_id)
        await super().stop(region, instance_id)

    async def terminate(self, region: str, instance_id: str) -> None:
        await self._noted("terminate", instance_id)
        await super().terminate(region, instance_id)

    async def _noted(self, verb: str, instance_id: str) -> None:
        machine = self.machines.get(instance_id)
        if machine is None:
            return
        self.calls.append(f"{verb} {machine.request.worker}")
        if ORPHAN not in machine.tags:
            await self.expect(machine.request.worker, verb)

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        await super().claim(region, instance_id, worker, worker_uid)
        self.calls.append(f"claim {instance_id}")
        machine = self.machines[instance_id]
        machine.request = replace(machine.request, worker=worker, worker_uid=worker_uid)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        await super().set_tags(region, instance_id, tags)
        self.calls.append(f"set_tags {' '.join(sorted(tags))}")

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        await super().remove_tags(region, instance_id, keys)
        self.calls.append(f"remove_tags {' '.join(sorted(keys))}")

    async def console_output(self, region: str, instance_id: str) -> str:
        self.calls.append("console_output")
        return await super().console_output(region, instance_id)

    async def remove(self, leftover: Leftover) -> None:
        self.calls.append(f"remove {leftover.id}")
        await super().remove(leftover)

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        self.calls.append(f"metrics {len(instance_ids)}")
        return await super().metrics(region, instance_ids, start, end, period)


def orphan(w: Any, name: str = "i-orphan", *, worker: str = "nobody", **tags: str) -> FakeInstance:
    """Put a machine there that carries our tags and belongs to nobody."""
    owned = {launches.OWNER: w.installation, launches.WORKER: worker, ORPHAN: "yes"}
    made: FakeInstance = w.cloud.foreign(tags={**owned, **tags})
    del w.cloud.vms[made.id]
    made.id = name
    w.cloud.vms[name] = made
    return made
