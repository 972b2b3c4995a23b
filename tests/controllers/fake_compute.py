"""EC2 as it really is, small: tokens, zones and stock, lag, states that take their time.

Faults are not here but in the world's gate, before or after a call; what stands here is what
the provider itself would say no to.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from virtual_time import START

from labfleet.interfaces.compute import (
    Checks,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
)
from labfleet.kernel import errors
from labfleet.resources.machine import AwsSettings

Expect = Callable[[str, str], Awaitable[None]]


@dataclass
class Machine:
    """One instance: what it was made of and when it becomes what."""

    id: str
    request: LaunchRequest
    made: float
    plan: list[tuple[float, str]]
    launched: float
    address: str
    tags: dict[str, str] = field(default_factory=dict)
    reason: str | None = None

    def state(self, now: float) -> str:
        return [state for at, state in self.plan if at <= now][-1]


class FakeCompute:
    """The provider. Seconds are fleet time."""

    def __init__(self, clock: Any, expect: Expect) -> None:
        self.clock = clock
        self.expect = expect
        self.machines: dict[str, Machine] = {}
        self.tokens: dict[str, str] = {}
        self.known_images = {"ami-1"}
        self.stock: dict[tuple[str, str | None], int] = {}
        self.quota: int | None = None
        self.no_start: errors.LabfleetError | None = None
        self.invalid = ""
        self.lag = 0.0
        self.pending = 30.0
        self.stopping = 60.0
        self.ending = 90.0
        self.down: errors.LabfleetError | None = None
        self.calls: list[str] = []
        self.twins: list[str] = []
        self.console = ""
        self.shown_checks: dict[str, Checks] = {}
        self.shown_images: list[Image] = []
        self.waste: list[Leftover] = []
        self.points: dict[str, tuple[MetricPoint, ...]] = {}
        self._count = 0

    # --- the world's view ----------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def alive(self, worker: str | None = None) -> list[Machine]:
        """Return the machines that cost money."""
        return [
            each
            for each in self.machines.values()
            if each.state(self.now) != "terminated" and worker in {None, each.request.worker}
        ]

    def at(self, address: str) -> Machine | None:
        """Return the running machine that has this public address."""
        for each in self.machines.values():
            if each.address == address and each.state(self.now) == "running":
                return each
        return None

    def end(self, machine: Machine, reason: str = "Server.SpotInstanceTermination") -> None:
        """End a machine behind everybody's back."""
        machine.plan.append((self.now, "terminated"))
        machine.reason = reason

    def foreign(self, image_id: str = "ami-1", tags: Mapping[str, str] | None = None) -> Machine:
        """Return a machine that somebody launched without us; it becomes a candidate."""
        request = LaunchRequest(
            region="us-east-1", token=f"console-{self._count}", worker="", worker_uid="",
            attempt=0, image_id=image_id, instance_type="m5zn.metal", subnet_id=None,
            aws=AwsSettings(),
        )  # fmt: skip
        made = self._make(request)
        made.tags = {"Name": "by hand", **(tags or {})}
        return made

    def halt(self, machine: Machine) -> None:
        """Stop a machine behind everybody's back."""
        self._turn(machine, "stopping", "stopped", self.stopping)

    def running_since(self, machine: Machine) -> float | None:
        at, state = [row for row in machine.plan if row[0] <= self.now][-1]
        return at if state == "running" else None

    # --- interfaces.compute --------------------------------------------------------------

    async def find_image(self, region: str, aws: Any) -> Image:
        self._look("find_image")
        if aws.ami_id not in self.known_images:
            raise errors.Invalid(f"no image {aws.ami_id}", reason="NoImage")
        return Image(aws.ami_id, "cml", None)

    async def launch(self, request: LaunchRequest) -> Instance:
        await self.expect(request.worker, "launch")
        self.calls.append(f"launch {request.instance_type} {request.subnet_id}")
        if self.down is not None:
            raise self.down
        known = self.tokens.get(request.token)
        if known is not None:
            return self._known(self.machines[known], request)
        if self.invalid:
            raise errors.Invalid(self.invalid)
        if self.quota is not None and len(self.alive()) >= self.quota:
            raise errors.QuotaExceeded("your quota allows no more")
        place = (request.instance_type, request.subnet_id)
        if self.stock.get(place, 1) <= 0:
            raise errors.OutOfCapacity(f"no {request.instance_type} in {request.subnet_id}")
        if place in self.stock:
            self.stock[place] -= 1
        if self.alive(request.worker):
            self.twins.append(request.worker)
        return self._show(self._make(request))

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        self._look("find_launched")
        return tuple(
            self._show(each)
            for each in self._visible()
            if each.request.worker_uid == request.worker_uid
            and each.request.attempt == request.attempt
            and each.state(self.now) != "terminated"
        )

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        self._look("describe")
        found = self.machines.get(instance_id)
        return self._show(found) if found in self._visible() and found else None

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        self._look("list_owned")
        return tuple(
            self._show(each)
            for each in self._visible()
            if each.state(self.now) != "terminated" and "labfleet:worker" in each.tags
        )

    async def start(self, region: str, instance_id: str) -> None:
        machine = await self._mine(instance_id, "start")
        if self.no_start is not None:
            raise self.no_start
        state = machine.state(self.now)
        if state == "stopped":
            machine.launched = self.now
            machine.address = self._address()
            self._turn(machine, "pending", "running", self.pending)
        elif state not in {"pending", "running"}:
            raise errors.Conflict(f"instance is {state}", reason="IncorrectInstanceState")

    async def stop(self, region: str, instance_id: str) -> None:
        machine = await self._mine(instance_id, "stop")
        if machine.state(self.now) in {"running", "pending"}:
            self._turn(machine, "stopping", "stopped", self.stopping)

    async def terminate(self, region: str, instance_id: str) -> None:
        if instance_id not in self.machines:
            return
        machine = await self._mine(instance_id, "terminate")
        if machine.state(self.now) not in {"shutting-down", "terminated"}:
            self._turn(machine, "shutting-down", "terminated", self.ending)

    async def console_output(self, region: str, instance_id: str) -> str:
        self._look("console_output")
        self.calls.append("console_output")
        return self.console

    async def checks(self, region: str) -> Mapping[str, Checks]:
        self._look("checks")
        return dict(self.shown_checks)

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        self._look("images")
        if not owners:
            raise errors.Invalid("images are only looked for with owners", reason="NoOwners")
        return tuple(each for each in self.shown_images if fnmatch.fnmatchcase(each.name, pattern))

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        self._look("candidates")
        return tuple(
            self._show(each)
            for each in self._visible()
            if each.request.image_id in image_ids and each.state(self.now) != "terminated"
        )

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        machine = self._there(instance_id)
        if machine.tags.get("labfleet:owner", "us") != "us":
            raise errors.Denied(f"{instance_id} belongs to another owner", reason="NotOurs")
        self.calls.append(f"claim {instance_id}")
        machine.tags |= {"labfleet:owner": "us", "labfleet:worker": worker_uid}
        machine.request = replace(machine.request, worker=worker, worker_uid=worker_uid)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        machine = self._ours(instance_id, tags)
        self.calls.append(f"set_tags {' '.join(sorted(tags))}")
        machine.tags |= tags

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        machine = self._ours(instance_id, keys)
        self.calls.append(f"remove_tags {' '.join(sorted(keys))}")
        for key in keys:
            machine.tags.pop(key, None)

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        self._look("leftovers")
        return tuple(each for each in self.waste if each.region == region)

    async def remove(self, leftover: Leftover) -> None:
        self._look("remove")
        self.calls.append(f"remove {leftover.id}")
        self.waste = [each for each in self.waste if each.id != leftover.id]

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        self._look("metrics")
        self.calls.append(f"metrics {len(instance_ids)}")
        found = {
            name: tuple(each for each in self.points.get(name, ()) if start <= each.at < end)
            for name in instance_ids
        }
        return {name: points for name, points in found.items() if points}

    async def close(self) -> None:
        return

    # --- inside --------------------------------------------------------------------------

    def _look(self, name: str) -> None:
        if self.down is not None:
            raise self.down

    def _there(self, instance_id: str) -> Machine:
        machine = self.machines.get(instance_id)
        if self.down is not None:
            raise self.down
        if machine is None or machine.state(self.now) == "terminated":
            raise errors.Gone(f"no instance {instance_id}")
        return machine

    def _ours(self, instance_id: str, keys: Mapping[str, str] | Sequence[str]) -> Machine:
        if {"labfleet:owner", "labfleet:worker"} & set(keys):
            raise errors.Denied("a tag that says whose it is", reason="TagProtected")
        machine = self._there(instance_id)
        if "labfleet:worker" not in machine.tags:
            raise errors.Denied(f"{instance_id} is not ours", reason="NotOurs")
        return machine

    async def _mine(self, instance_id: str, kind: str) -> Machine:
        machine = self.machines.get(instance_id)
        if self.down is not None:
            raise self.down
        if machine is None:
            raise errors.Gone(f"no instance {instance_id}")
        self.calls.append(f"{kind} {machine.request.worker}")
        if "orphan" not in machine.tags:
            await self.expect(machine.request.worker, kind)
        return machine

    def _known(self, machine: Machine, request: LaunchRequest) -> Instance:
        if machine.state(self.now) in {"terminated", "shutting-down"}:
            raise errors.Gone("the token's instance ended", reason="IdempotentInstanceTerminated")
        if replace(request, token="") != replace(machine.request, token=""):
            raise errors.Conflict("token used with other parameters", reason="IdempotentMismatch")
        return self._show(machine)

    def _make(self, request: LaunchRequest) -> Machine:
        self._count += 1
        made = Machine(
            id=f"i-{self._count:08x}",
            request=request,
            made=self.now,
            plan=[(self.now, "pending"), (self.now + self.pending, "running")],
            launched=self.now,
            address=self._address(),
            tags={"labfleet:worker": request.worker_uid},
        )
        self.machines[made.id] = made
        self.tokens[request.token] = made.id
        return made

    def _address(self) -> str:
        self._count += 1
        return f"127.9.{self._count // 250}.{self._count % 250 + 1}"

    def _turn(self, machine: Machine, first: str, then: str, after: float) -> None:
        machine.plan = [row for row in machine.plan if row[0] <= self.now]
        machine.plan += [(self.now, first), (self.now + after, then)]

    def _visible(self) -> list[Machine]:
        return [each for each in self.machines.values() if self.now >= each.made + self.lag]

    def _show(self, machine: Machine) -> Instance:
        state = machine.state(self.now)
        return Instance(
            id=machine.id,
            state=state,  # type: ignore[arg-type]
            instance_type=machine.request.instance_type,
            image_id=machine.request.image_id,
            zone="a",
            public_ip=machine.address if state in {"pending", "running"} else None,
            private_ip="10.0.0.1" if state == "running" else None,
            launch_time=START + timedelta(seconds=machine.launched - 1000),
            tags=dict(machine.tags),
            state_reason=machine.reason,
        )
