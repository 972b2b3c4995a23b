"""The clouds that the Compute suite runs against: the world, its XML face, and moto's EC2."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from labfleet.adapters.aws.clients import Clients, Credentials, Deadlines
from labfleet.adapters.aws.compute import Ec2
from labfleet.adapters.aws.runner import ThreadRunner
from labfleet.adapters.static.compute import StaticCompute
from labfleet.adapters.static.sites import Power, Server
from labfleet.interfaces.compute import Compute, LaunchRequest, Leftover, MetricPoint
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng, VirtualClock
from labfleet.rehearsal.worlds import cml, ec2, ec2_client, ec2_wire
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.machine import MachineState, ScheduledEvent
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.static import StaticSettings

REGION = "us-east-1"
OWNER = "conformance"
SETTLED = 900.0
"""Simulated seconds in which every slow state of either cloud is over."""


class Place(Protocol):
    """A cloud with two installations in it, and the hands that make its weather."""

    compute: Compute
    stranger: Compute
    subnets: tuple[str, str]
    image: str

    async def pass_by(self, seconds: float) -> None:
        """Let simulated time pass."""
        ...

    def no_stock(self, subnet: str) -> None:
        """Let a zone run out of machines."""
        ...

    def no_quota(self) -> None:
        """Let the account be at its limit."""
        ...

    def hide_new(self, seconds: float) -> None:
        """Let what is launched from now stay out of sight for so long."""
        ...

    async def by_hand(self) -> str:
        """Launch a machine of the place's image from the console; return its id."""
        ...

    def impair(self, instance_id: str) -> None:
        """Let a machine fail its instance check."""
        ...

    def retire(self, instance_id: str) -> None:
        """Let the provider announce the machine's retirement."""
        ...

    async def spare(self, owner: str) -> str:
        """Make a volume with an owner tag that is attached to nothing; return its id."""
        ...

    def networks(self) -> tuple[str, str, str, str]:
        """Return a VPC with a security group of it, and a subnet and a group of another VPC."""
        ...

    def measured(self, instance_id: str) -> MetricPoint:
        """Let CloudWatch have one point of a machine, and return it."""
        ...


def request(
    place: Place,
    worker: str = "w-1",
    *,
    kind: str = "m5zn.metal",
    subnet: str = "",
    **changes: Any,
) -> LaunchRequest:
    """Return a launch request that fits a place."""
    if isinstance(place, Servers):
        settings: ProviderSettings = StaticSettings(site="lab-a")
        choice = {"machine": subnet or place.subnets[0]}
    else:
        settings = AwsSettings()
        choice = {"image": place.image, "type": kind, "subnet": subnet or place.subnets[0]}
    made = LaunchRequest(
        region=getattr(place, "region", REGION),
        token=f"token-{worker}",
        worker=worker,
        worker_uid=f"uid-{worker}",
        attempt=1,
        choice=choice,
        settings=settings,
        pool="pool-a",
    )
    return replace(made, **changes)


Story = Callable[[Place], Awaitable[None]]


class World:
    """The rehearsal's cloud; `wired` puts the real adapter before it."""

    image = "ami-1"
    subnets = ("subnet-a", "subnet-b")

    def __init__(self, loop: loops.Loop, *, wired: bool) -> None:
        injector = FaultInjector(FaultPlan(), SeededRng("luck"))
        self.injector = injector
        cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
        self.cloud = ec2.Cloud(loop, SeededRng("cloud"), injector, cml_servers, shown_after=0.0)
        self.compute: Compute
        self.stranger: Compute
        if wired:
            far = ec2_wire.Wires(loop, SeededRng("far"), injector, ec2_wire.XmlEndpoint(self.cloud))
            self.compute, self.stranger = far.compute(OWNER), far.compute("another")
        else:
            wire = Wire(loop, SeededRng("wire"), injector, ec2.CALL_PROFILE)
            self.compute = ec2_client.Ec2(self.cloud, wire, OWNER)
            self.stranger = ec2_client.Ec2(self.cloud, wire, "another")

    async def pass_by(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def no_stock(self, subnet: str) -> None:
        self.injector.begin("no_stock", subnet)

    def no_quota(self) -> None:
        self.injector.begin("quota_full", None)

    def hide_new(self, seconds: float) -> None:
        self.cloud.shown_after = seconds

    async def by_hand(self) -> str:
        return self.cloud.foreign(self.image).id

    def impair(self, instance_id: str) -> None:
        self.cloud.vms[instance_id].instance_check = "impaired"

    def retire(self, instance_id: str) -> None:
        event = ScheduledEvent(code="instance-retirement", description="The host is degraded")
        self.cloud.vms[instance_id].events = (event,)

    async def spare(self, owner: str) -> str:
        name = f"vol-{len(self.cloud.waste):08x}"
        tags = {"labfleet:owner": owner}
        self.cloud.waste.append(Leftover("volume", REGION, name, EPOCH, tags))
        return name

    def networks(self) -> tuple[str, str, str, str]:
        self.cloud.places |= {"subnet-z": "vpc-9", "sg-z": "vpc-9"}
        return ec2.VPC, "sg-a", "subnet-z", "sg-z"

    def measured(self, instance_id: str) -> MetricPoint:
        at = EPOCH + timedelta(minutes=5)
        point = MetricPoint(at, cpu_percent=12.5, network_in_bytes=2000.0, network_out_bytes=300.0)
        self.cloud.points[instance_id] = (point,)
        return point


class Simulator:
    """The AWS simulator in a process of its own, with the real adapter."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.url = ready["url"]
        self.image = ready["ami_id"]
        self.subnets = (ready["subnets"][0]["id"], ready["subnets"][1]["id"])

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """Call the control endpoint."""
        data = json.dumps(body).encode()
        call = urllib.request.Request(f"{self.url}/_fake/{path}", data=data, method="POST")
        with urllib.request.urlopen(call, timeout=10) as reply:
            return json.load(reply)

    async def pass_by(self, seconds: float) -> None:
        self.ask("clock", {"advance": seconds})

    def no_stock(self, subnet: str) -> None:
        match = {"*SubnetId": subnet}
        self.ask("rules", {"fault": "capacity", "action": "RunInstances", "match": match})

    def no_quota(self) -> None:
        self.ask("config", {"vcpu_limit": 0})

    def hide_new(self, seconds: float) -> None:
        self.ask("config", {"lags": {"instance": seconds}})

    @functools.cached_property
    def console(self) -> Any:
        """Somebody with a session of their own."""
        return clients_of(self.url).get(REGION, "read")

    async def by_hand(self) -> str:
        reply = self.console.run_instances(
            ImageId=self.image, InstanceType="m5zn.metal", MinCount=1, MaxCount=1,
            SubnetId=self.subnets[0],
        )  # fmt: skip
        return str(reply["Instances"][0]["InstanceId"])

    def impair(self, instance_id: str) -> None:
        self.ask("hand", {"verb": "impair", "ids": [instance_id]})

    def retire(self, instance_id: str) -> None:
        self.ask(
            "hand",
            {"verb": "schedule", "ids": [instance_id], "code": "instance-retirement"},
        )

    async def spare(self, owner: str) -> str:
        zone = self.console.describe_subnets(SubnetIds=[self.subnets[0]])["Subnets"][0]
        tags = [{"Key": "labfleet:owner", "Value": owner}]
        made = self.console.create_volume(
            Size=8,
            AvailabilityZone=zone["AvailabilityZone"],
            TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
        )
        return str(made["VolumeId"])

    def networks(self) -> tuple[str, str, str, str]:
        (own,) = self.console.describe_subnets(SubnetIds=[self.subnets[0]])["Subnets"]
        other = self.console.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        subnet = self.console.create_subnet(VpcId=other, CidrBlock="10.9.1.0/24")["Subnet"]
        groups = [
            self.console.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
            for vpc in (own["VpcId"], other)
        ]
        return own["VpcId"], groups[0], subnet["SubnetId"], groups[1]

    def measured(self, instance_id: str) -> MetricPoint:
        at = EPOCH + timedelta(minutes=5)
        names = [("CPUUtilization", 12.5), ("NetworkIn", 2000.0), ("NetworkOut", 300.0)]
        where = [{"Name": "InstanceId", "Value": instance_id}]
        clients_of(self.url).get(REGION, "change", "cloudwatch").put_metric_data(
            Namespace="AWS/EC2",
            MetricData=[
                {"MetricName": name, "Dimensions": where, "Timestamp": at, "Value": value}
                for name, value in names
            ],
        )
        return MetricPoint(at, cpu_percent=12.5, network_in_bytes=2000.0, network_out_bytes=300.0)

    async def play(self, story: Story) -> None:
        """Run a story with two installations."""
        clients = clients_of(self.url)
        runner = ThreadRunner(2)
        self.compute: Compute = Ec2(owner=OWNER, clients=clients, runner=runner)
        self.stranger: Compute = Ec2(owner="another", clients=clients, runner=runner)
        try:
            await story(self)
        finally:
            runner.close()


@functools.cache
def clients_of(url: str) -> Clients:
    """Return the SDK's clients for a simulator; making them takes a second."""
    return Clients(
        credentials=Credentials("any", "any"),
        endpoint_url=url,
        deadlines=Deadlines(connect=2, read=5),
    )


class Servers:
    """A site of two servers that are there already; switching one takes a minute."""

    image, subnets = "", ("cml-1", "cml-2")
    region = "static-lab-a"

    def __init__(self, loop: loops.Loop) -> None:
        self._loop = loop
        self._states: dict[str, tuple[MachineState, MachineState, float]] = {}
        power = Power(start=("/x",), stop=("/x",), status=("/x",))
        site = {name: Server("lab-a", name, f"{name}.example.org", power) for name in self.subnets}
        clock = VirtualClock(0.0, 1.0, loop.time)
        self.compute: Compute = StaticCompute({"lab-a": site}, self, OWNER, clock)
        self.stranger = self.compute

    async def pass_by(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def start(self, server: Server) -> None:
        self._states[server.name] = ("booting", "running", self._loop.time() + 60)

    async def stop(self, server: Server) -> None:
        self._states[server.name] = ("stopping", "stopped", self._loop.time() + 60)

    async def state(self, server: Server) -> MachineState:
        before, after, at = self._states.get(server.name, ("stopped", "stopped", 0.0))
        return after if self._loop.time() >= at else before


def in_a_site(story: Any) -> None:
    """Play a story of any provider with servers that are there already."""

    async def main(loop: loops.Loop) -> None:
        await story(Servers(loop))

    loops.run(1, main)


def start_simulator() -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a simulator on a free loopback port and return it with what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aws_simulator.main", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def in_the_world(story: Story, *, wired: bool) -> None:
    """Play a story in virtual time."""

    async def main(loop: loops.Loop) -> None:
        await story(World(loop, wired=wired))

    loops.run(1, main)
