"""EC2 as one process of one installation talks to it, with the boto adapter's rules.

`ec2.Cloud` holds the state; here are only latency, loss and what the adapter refuses by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase

from labfleet.adapters.aws import launches, network, points
from labfleet.interfaces.compute import (
    Checks,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
)
from labfleet.kernel import errors
from labfleet.rehearsal.worlds.ec2 import CML_IMAGE, VPC, Cloud, FakeInstance
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.providers.aws import AwsSettings


class Ec2:
    """The calls of EC2, as one process of one installation sees the cloud (the boto adapter's rules)."""

    def __init__(self, cloud: Cloud, wire: Wire, owner: str) -> None:
        self._cloud = cloud
        self._wire = wire
        self._owner = owner

    @property
    def _down(self) -> bool:
        return self._cloud.injector.holds("ec2_down", None)

    async def find_image(self, region: str, aws: AwsSettings) -> Image:
        del region

        def effect() -> Image:
            self._cloud.spend("DescribeImages")
            if aws.ami_id is not None:
                return replace(CML_IMAGE, id=aws.ami_id)
            return max(self._cloud.images, key=_newest, default=CML_IMAGE)

        return await self._wire.ask("DescribeImages", effect, down=self._down)

    async def check_network(self, region: str, aws: AwsSettings) -> None:
        del region
        if aws.vpc_id is None:
            return

        def effect() -> errors.Invalid | None:
            self._cloud.spend("DescribeSubnets")
            places = self._cloud.places
            subnets, groups = (
                {each: places.get(each, VPC) for each in ids}
                for ids in (aws.subnet_ids, aws.security_group_ids)
            )
            return network.mismatch(aws, subnets, groups)

        wrong = await self._wire.ask("DescribeSubnets", effect, down=self._down)
        if wrong is not None:
            raise wrong

    async def launch(self, request: LaunchRequest) -> Instance:
        def effect() -> Instance:
            vm = self._cloud.launch(request, self._owner)
            return Instance(
                id=vm.id,
                state=vm.state,
                instance_type=request.choice["type"],
                image_id=request.choice["image"],
                zone=vm.zone,
                launch_time=self._cloud.launched_at(vm),
                client_token=request.token,
                tags=dict(vm.tags),
            )

        # The token makes a repeat safe, but without an answer the outcome is unknown.
        return await self._wire.ask("RunInstances", effect, repeat="once", down=self._down)

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        def wanted(vm: FakeInstance) -> bool:
            tags = vm.tags
            return (tags.get(launches.OWNER), tags.get(launches.WORKER_UID)) == (
                self._owner,
                request.worker_uid,
            ) and tags.get(launches.ATTEMPT) == str(request.attempt)

        return await self._listed(wanted, whole=False)

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        del region

        def effect() -> Instance | None:
            self._cloud.spend("DescribeInstances")
            vm = self._cloud.vms.get(instance_id)
            return None if vm is None else self._cloud.shown(vm)

        return await self._wire.ask("DescribeInstances", effect, down=self._down)

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        del region
        return await self._listed(lambda vm: vm.tags.get(launches.OWNER) == self._owner)

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        del region
        if not image_ids:
            return ()
        return await self._listed(lambda vm: vm.request.choice["image"] in image_ids)

    async def _listed(
        self, wanted: Callable[[FakeInstance], bool], *, whole: bool = True
    ) -> tuple[Instance, ...]:
        cloud = self._cloud

        def effect() -> tuple[Instance, ...]:
            self._cloud.spend("DescribeInstances")
            found = []
            for vm in self._cloud.vms.values():
                if vm.state == "gone" or not wanted(vm):
                    continue
                seen = self._cloud.shown(vm)
                if seen is not None and seen.state != "gone":
                    found.append(seen)
            # A list of one has no other page.
            short = whole and len(found) > 1 and cloud.injector.strikes("page_partial")
            return tuple(found[::2] if short else found)

        return await self._wire.ask("DescribeInstances", effect, down=self._down)

    async def _ours(self, instance_id: str) -> Instance:
        seen = await self.describe("", instance_id)
        if seen is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        if launches.OWNER not in seen.tags and seen.state != "gone":
            raise errors.Temporary(f"{instance_id} shows no owner tag", reason="OwnerUnknown")
        self._refuse_others(seen)
        return seen

    def _refuse_others(self, seen: Instance) -> None:
        if seen.tags.get(launches.OWNER) not in {None, self._owner}:
            raise errors.Denied(f"{seen.id} belongs to another owner", reason="NotOurs")

    async def start(self, region: str, instance_id: str) -> None:
        del region
        seen = await self._ours(instance_id)
        if seen.state in {"booting", "running"}:
            return
        _refuse_ended(seen)

        def effect() -> None:
            self._cloud.start(instance_id)

        await self._wire.ask("StartInstances", effect, repeat="safe", down=self._down)

    async def stop(self, region: str, instance_id: str) -> None:
        del region
        seen = await self._ours(instance_id)
        if seen.state in {"stopping", "stopped"}:
            return
        _refuse_ended(seen)

        def effect() -> None:
            self._cloud.stop(instance_id)

        await self._wire.ask("StopInstances", effect, repeat="safe", down=self._down)

    async def terminate(self, region: str, instance_id: str) -> None:
        del region
        try:
            seen = await self._ours(instance_id)
        except errors.Gone:
            return
        if seen.state in {"ending", "gone"}:
            return

        def effect() -> None:
            self._cloud.terminate(instance_id)

        await self._wire.ask("TerminateInstances", effect, repeat="safe", down=self._down)

    async def console_output(self, region: str, instance_id: str) -> str:
        del region

        def effect() -> str:
            self._cloud.spend("GetConsoleOutput")
            vm = self._cloud.vms.get(instance_id)
            if vm is None:
                raise errors.Gone(f"EC2 knows no instance {instance_id}")
            return vm.console

        return await self._wire.ask("GetConsoleOutput", effect, down=self._down)

    async def checks(self, region: str) -> Mapping[str, Checks]:
        del region

        def effect() -> dict[str, Checks]:
            for _ in range(3):
                self._cloud.spend("DescribeInstanceStatus")
            told = filter(None, map(self._cloud.checked, self._cloud.vms.values()))
            return {
                each.instance_id: each
                for each in told
                if {each.system, each.instance} != {"ok"} or each.events
            }

        return await self._wire.ask("DescribeInstanceStatus", effect, down=self._down)

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        del region
        if not owners:
            raise errors.Invalid("images are only looked for with owners", reason="NoOwners")

        def effect() -> tuple[Image, ...]:
            self._cloud.spend("DescribeImages")
            found = [each for each in self._cloud.images if fnmatchcase(each.name, pattern)]
            return tuple(sorted(found, key=_newest, reverse=True))

        return await self._wire.ask("DescribeImages", effect, down=self._down)

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        seen = await self.describe(region, instance_id)
        if seen is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        _refuse_ended(seen)
        self._refuse_others(seen)
        tags = launches.claim_tags(self._owner, worker, worker_uid)
        await self._tag(instance_id, tags)
        again = await self.describe(region, instance_id)
        if again is not None:
            self._refuse_others(again)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        del region
        _refuse_protected(tags)
        _refuse_ended(await self._ours(instance_id))
        if tags:
            await self._tag(instance_id, tags)

    async def _tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        def effect() -> None:
            self._cloud.tag(instance_id, tags)

        await self._wire.ask("CreateTags", effect, repeat="safe", down=self._down)

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        del region
        _refuse_protected(keys)
        _refuse_ended(await self._ours(instance_id))

        def effect() -> None:
            self._cloud.untag(instance_id, tuple(keys))

        if keys:
            await self._wire.ask("DeleteTags", effect, repeat="safe", down=self._down)

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        def effect() -> tuple[Leftover, ...]:
            self._cloud.spend("DescribeVolumes")
            self._cloud.spend("DescribeAddresses")
            return tuple(
                replace(each, region=region)
                for each in self._cloud.waste
                if each.tags.get(launches.OWNER) == self._owner
            )

        return await self._wire.ask("DescribeVolumes", effect, down=self._down)

    async def remove(self, leftover: Leftover) -> None:
        def look() -> Leftover | None:
            self._cloud.spend("DescribeVolumes")
            found = [each for each in self._cloud.waste if each.id == leftover.id]
            return found[0] if found else None

        seen = await self._wire.ask("DescribeVolumes", look, down=self._down)
        if seen is None:
            return
        if seen.tags.get(launches.OWNER) != self._owner:
            raise errors.Denied(f"{leftover.id} does not carry our owner tag", reason="NotOurs")

        def effect() -> None:
            self._cloud.discard(leftover.kind, leftover.id)

        try:
            await self._wire.ask("DeleteVolume", effect, repeat="safe", down=self._down)
        except errors.Gone:
            return

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        del region
        asked = list(points.batches(instance_ids, start, end, period))

        def effect() -> dict[str, tuple[MetricPoint, ...]]:
            for _ in asked:
                self._cloud.spend("GetMetricData")
            found = {
                name: tuple(at for at in self._cloud.points.get(name, ()) if start <= at.at < end)
                for name in instance_ids
            }
            return {name: rows for name, rows in found.items() if rows}

        return await self._wire.ask("GetMetricData", effect, down=self._down)

    async def close(self) -> None:
        """Nothing is held."""


def _refuse_ended(seen: Instance) -> None:
    if seen.state in {"ending", "gone"}:
        raise errors.Gone(f"{seen.id} is {seen.state}", reason="Terminated")


def _refuse_protected(keys: Iterable[str]) -> None:
    for key in keys:
        if key in launches.PROTECTED:
            raise errors.Denied(f"the tag {key} says whose the machine is", reason="TagProtected")


def _newest(image: Image) -> tuple[bool, str, str]:
    return (image.created is not None, str(image.created), image.id)
