"""Ec2: one call to EC2 per verb plus the reads that make it safe; `paced` makes it Compute.

It holds no state but clients and root device names, logs nothing and reads no clock: the
controllers wait, decide and repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from labfleet.adapters.aws import launches, network, points, reading
from labfleet.adapters.aws.calls import PAGE, Calls, filters
from labfleet.adapters.aws.clients import (
    RETRIES,
    BeforeSend,
    Clients,
    Credentials,
    Deadlines,
    Policy,
)
from labfleet.adapters.aws.lookups import Lookups
from labfleet.adapters.aws.paced import Ec2Calls
from labfleet.adapters.aws.runner import READERS, Runner, ThreadRunner
from labfleet.interfaces.compute import (
    Checks,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
)
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings
from labfleet.resources.providers.aws_words import WORDS
from labfleet.resources.providers.words import Planned

CONSOLE_LIMIT = 16 * 1024
NOT_TERMINATED = ("pending", "running", "shutting-down", "stopping", "stopped")
ALWAYS = datetime.min.replace(tzinfo=UTC)
NOT_OK = ["impaired", "insufficient-data", "initializing"]
NETWORKS_KEPT = 1000
EVENTS = sorted(code for code, what in WORDS.events.items() if what is not Planned.RECLAIM)
FILTER_VALUES = 200
"""Most values of one filter (facts/aws.md#call-limits)."""


def connect(
    *,
    owner: str,
    credentials: Credentials | None,
    endpoint_url: str | None = None,
    before_send: BeforeSend | None = None,
    deadlines: Deadlines | None = None,
    runner: Runner | None = None,
    retries: Mapping[Policy, tuple[str, int]] = RETRIES,
) -> Ec2:
    """Return an Ec2 for the installation `owner` (its UUID); threads of its own by default."""
    clients = Clients(
        credentials=credentials,
        endpoint_url=endpoint_url,
        before_send=before_send,
        deadlines=deadlines,
        retries=retries,
        connections=READERS,
    )
    return Ec2(owner=owner, clients=clients, runner=runner or ThreadRunner())


class Ec2(Ec2Calls):
    """EC2 as one installation sees it; only instances with its owner tag are ever touched."""

    def __init__(self, *, owner: str, clients: Clients, runner: Runner) -> None:
        self._owner = owner
        self._clients = clients
        self._calls = Calls(clients, runner)
        self._lookups = Lookups(self._calls)
        self._root_devices: dict[tuple[str, str], str] = {}
        self._nests: dict[tuple[str, str], str] = {}
        self._sound: set[tuple[str, ...]] = set()

    async def find_image(self, region: str, settings: AwsSettings) -> Image:
        """Return the image by id, or the newest by creation date whose name matches."""
        wanted: dict[str, Any]
        if settings.ami_id is not None:
            wanted = {"ImageIds": [settings.ami_id]}
        elif settings.ami_name_pattern is not None and settings.ami_owners:
            wanted = {
                "Owners": list(settings.ami_owners),
                "Filters": filters(name=[settings.ami_name_pattern], state=["available"]),
            }
        else:
            raise errors.Invalid("a template names amiId, or amiNamePattern with amiOwners")
        found = await self._images(region, wanted)
        if not found:
            named = (
                settings.ami_id
                or f"{settings.ami_name_pattern} of {', '.join(settings.ami_owners)}"
            )
            raise errors.Invalid(f"no image {named} in {region}", reason="NoImage")
        return max(found, key=_newest)

    async def check_network(self, region: str, settings: AwsSettings) -> None:
        """Compare the VPC of subnets and groups with the one that is named, if one is.

        A subnet or group never moves, so what was sound is not asked again.
        """
        if settings.vpc_id is None:
            return
        subnets, groups = settings.subnet_ids, settings.security_group_ids
        key = (region, settings.vpc_id, *subnets, *groups)
        if key in self._sound:
            return
        found = []
        for method, rows, name, ids in (
            ("describe_subnets", "Subnets", "SubnetId", subnets),
            ("describe_security_groups", "SecurityGroups", "GroupId", groups),
        ):
            # By filter: an unknown id is then missing in the answer, and not an error of it all.
            word = "subnet-id" if name == "SubnetId" else "group-id"
            query = {"Filters": filters(**{word: list(ids)})}
            pages = await self._calls.pages(region, method, query) if ids else []
            found.append({row[name]: row["VpcId"] for p in pages for row in reading.rows(p, rows)})
        wrong = network.mismatch(settings, *found)
        if wrong is not None:
            raise wrong
        if len(self._sound) >= NETWORKS_KEPT:
            self._sound.clear()
        self._sound.add(key)

    async def launch(self, request: LaunchRequest) -> Instance:
        """Start one machine; the same request again gives the same machine."""
        key = (request.region, request.choice["image"])
        if key not in self._root_devices:
            await self._images(request.region, {"ImageIds": [request.choice["image"]]})
        root = self._root_devices.get(key)
        if root is None:
            raise errors.Invalid(f"no image {request.choice['image']} in {request.region}")
        if launches.own(request.settings).nested_virtualization:
            await self._refuse_flat(request.region, request.choice["type"])
        wanted = launches.parameters(request, owner=self._owner, root_device=root)
        reply = await self._calls.ask(request.region, "change", "run_instances", wanted)
        try:
            (started,) = map(reading.instance, reading.rows(reply, "Instances"))
        except (errors.Protocol, ValueError) as error:
            message = "RunInstances answered without an instance; it may have launched"
            raise errors.Ambiguous(message) from error
        return started

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Search by tags and by client token, because either may lag behind."""
        by_tags = {
            f"tag:{launches.OWNER}": [self._owner],
            f"tag:{launches.WORKER_UID}": [request.worker_uid],
            f"tag:{launches.ATTEMPT}": [str(request.attempt)],
        }
        by_token = {"client-token": [request.token]}
        found: dict[str, Instance] = {}
        for wanted in (by_tags, by_token):
            for item in await self._instances(request.region, wanted):
                found[item.id] = item
        return tuple(found[name] for name in sorted(found))

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine as it is now; None only when EC2 says NotFound."""
        return await self._lookups.find(region, instance_id)

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return all our machines that are not terminated; a failed page fails the list."""
        return tuple(await self._instances(region, {f"tag:{launches.OWNER}": [self._owner]}))

    async def start(self, region: str, instance_id: str) -> None:
        """Start a stopped machine; nothing is sent when it already starts or runs."""
        item = await self._ours(region, instance_id)
        if item.state in ("booting", "running"):
            return
        _refuse_ended(item)
        await self._calls.ask(region, "change", "start_instances", {"InstanceIds": [instance_id]})

    async def stop(self, region: str, instance_id: str) -> None:
        """Stop a running machine; nothing is sent when it already stops or is stopped."""
        item = await self._ours(region, instance_id)
        if item.state in ("stopping", "stopped"):
            return
        _refuse_ended(item)
        await self._calls.ask(region, "change", "stop_instances", {"InstanceIds": [instance_id]})

    async def terminate(self, region: str, instance_id: str) -> None:
        """End a machine; nothing is sent when it already ended, ends or is not there."""
        try:
            item = await self._ours(region, instance_id)
            if item.state in ("ending", "gone"):
                return
            await self._calls.ask(
                region, "change", "terminate_instances", {"InstanceIds": [instance_id]}
            )
        except errors.Gone:
            return

    async def console_output(self, region: str, instance_id: str) -> str:
        """Return the end of the console text; empty when there is none yet."""
        wanted = {"InstanceId": instance_id}
        reply = await self._calls.ask(region, "read", "get_console_output", wanted)
        return str(reply.get("Output") or "")[-CONSOLE_LIMIT:]

    async def checks(self, region: str) -> Mapping[str, Checks]:
        """Send three filtered lists: instance check not ok, system check not ok, with events.

        Source: facts/aws.md#status-checks.
        """
        found: dict[str, Checks] = {}
        for name, values in (
            ("instance-status.status", NOT_OK),
            ("system-status.status", NOT_OK),
            ("event.code", EVENTS),
        ):
            query = {"Filters": filters(**{name: values}), "MaxResults": PAGE}
            for page in await self._calls.pages(region, "describe_instance_status", query):
                for row in reading.rows(page, "InstanceStatuses"):
                    item = reading.checks(row)
                    known = found.get(item.instance_id, item)
                    found[item.instance_id] = replace(item, events=item.events or known.events)
        return found

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        """Return available images by name pattern, newest first; Invalid without owners."""
        if not owners:
            raise errors.Invalid("images are only looked for with owners", reason="NoOwners")
        named = filters(name=[pattern], state=["available"])
        found = await self._images(region, {"Owners": list(owners), "Filters": named})
        return tuple(sorted(found, key=_newest, reverse=True))

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return the machines of these images; ids in chunks of what a filter takes."""
        names = list(dict.fromkeys(image_ids))
        found: dict[str, Instance] = {}
        for first in range(0, len(names), FILTER_VALUES):
            chunk = names[first : first + FILTER_VALUES]
            for item in await self._instances(region, {"image-id": chunk}):
                found[item.id] = item
        return tuple(found[name] for name in sorted(found))

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        """Tag a machine as ours, and look again whether somebody else did so meanwhile."""
        item = await self.describe(region, instance_id)
        if item is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        _refuse_ended(item)
        self._refuse_others(item)
        tags = launches.claim_tags(self._owner, worker, worker_uid)
        await self._calls.ask(region, "change", "create_tags", _tagging(instance_id, tags))
        again = await self.describe(region, instance_id)
        if again is not None:
            self._refuse_others(again)

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on a machine that carries our owner tag."""
        _refuse_protected(tags)
        _refuse_ended(await self._ours(region, instance_id))
        if tags:
            await self._calls.ask(region, "change", "create_tags", _tagging(instance_id, tags))

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        """Remove tags, whatever their values, from a machine that carries our owner tag."""
        _refuse_protected(keys)
        _refuse_ended(await self._ours(region, instance_id))
        if keys:
            wanted = {"Resources": [instance_id], "Tags": [{"Key": key} for key in keys]}
            await self._calls.ask(region, "change", "delete_tags", wanted)

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        """Return volumes in state available, and addresses without association."""
        ours = {f"tag:{launches.OWNER}": [self._owner]}
        query = {"Filters": filters(**ours, status=["available"]), "MaxResults": PAGE}
        pages = await self._calls.pages(region, "describe_volumes", query)
        found = [
            reading.volume(row, region) for page in pages for row in reading.rows(page, "Volumes")
        ]
        reply = await self._calls.ask(
            region, "read", "describe_addresses", {"Filters": filters(**ours)}
        )
        found += [
            reading.address(row, region)
            for row in reading.rows(reply, "Addresses")
            if not row.get("AssociationId") and not row.get("InstanceId")
        ]
        return tuple(found)

    async def remove(self, leftover: Leftover) -> None:
        """Delete or release; Conflict when it is in use by now, Denied when not ours."""
        region, volume = leftover.region, leftover.kind == "volume"
        asked = {"VolumeIds" if volume else "AllocationIds": [leftover.id]}
        method = "describe_volumes" if volume else "describe_addresses"
        try:
            reply = await self._calls.ask(region, "read", method, asked)
            for row in reading.rows(reply, "Volumes" if volume else "Addresses"):
                used = row.get("Attachments") or row.get("AssociationId")
                self._refuse_kept(leftover, row, used=bool(used))
            if volume:
                await self._calls.ask(region, "change", "delete_volume", {"VolumeId": leftover.id})
            else:
                gone = {"AllocationId": leftover.id}
                await self._calls.ask(region, "change", "release_address", gone)
        except errors.Gone:
            return

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        """Return CPU and network points, in requests of at most 500 metrics."""
        found: points.Values = {}
        for wanted in points.batches(instance_ids, start, end, period):
            asked = points.names(wanted)
            pages = await self._calls.pages(region, "get_metric_data", wanted, service="cloudwatch")
            for page in pages:
                points.collect(found, page, asked)
        return points.points(found)

    def sent(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests this process sent, by region and action."""
        return self._clients.sent()

    async def close(self) -> None:
        """Close connections and let the threads go."""
        self._calls.close()

    async def _ours(self, region: str, instance_id: str) -> Instance:
        """Return a fresh look at a machine that carries our owner tag; Gone when not there."""
        item = await self.describe(region, instance_id)
        if item is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        if launches.OWNER not in item.tags and item.state != "gone":
            message = f"{instance_id} shows no owner tag (not visible yet, or taken away)"
            raise errors.Temporary(message, reason="OwnerUnknown")
        self._refuse_others(item)
        return item

    def _refuse_others(self, item: Instance) -> None:
        if item.tags.get(launches.OWNER) not in (None, self._owner):
            raise errors.Denied(f"{item.id} belongs to another owner", reason="NotOurs")

    def _refuse_kept(self, leftover: Leftover, row: dict[str, Any], *, used: bool) -> None:
        tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}
        if tags.get(launches.OWNER) != self._owner:
            message = f"{leftover.kind} {leftover.id} does not carry our owner tag"
            raise errors.Denied(message, reason="NotOurs")
        if used:
            message = f"{leftover.kind} {leftover.id} is in use again"
            raise errors.Conflict(message, reason="InUse")

    async def _refuse_flat(self, region: str, name: str) -> None:
        """Raise Invalid for a type without nested virtualization, by EC2's own description.

        Source: facts/aws.md#nested-virtualization.
        """
        key = (region, name)
        if key not in self._nests:
            asked = {"InstanceTypes": [name]}
            reply = await self._calls.ask(region, "read", "describe_instance_types", asked)
            self._nests[key] = reading.flat(reply, name)
        if self._nests[key]:
            field = ("aws.nestedVirtualization", self._nests[key])
            raise errors.Invalid(self._nests[key], reason="NestedUnsupported", problems=(field,))

    async def _images(self, region: str, wanted: dict[str, Any]) -> list[Image]:
        try:
            reply = await self._calls.ask(region, "read", "describe_images", wanted)
        except errors.Invalid as error:
            if error.reason.startswith("InvalidAMIID"):
                return []
            raise
        found = reading.rows(reply, "Images")
        for item in found:
            self._root_devices[region, item["ImageId"]] = item.get("RootDeviceName", "/dev/sda1")
        return [reading.image(item) for item in found]

    async def _instances(self, region: str, wanted: dict[str, list[str]]) -> list[Instance]:
        """Return all pages, or an error: never a part."""
        asked = filters(**wanted, **{"instance-state-name": list(NOT_TERMINATED)})
        query = {"Filters": asked, "MaxResults": PAGE}
        pages = await self._calls.pages(region, "describe_instances", query)
        return [item for page in pages for item in reading.instances(page)]


def _newest(image: Image) -> tuple[datetime, str]:
    return (image.created or ALWAYS, image.id)


def _tagging(instance_id: str, tags: Mapping[str, str]) -> dict[str, Any]:
    rows = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    return {"Resources": [instance_id], "Tags": rows}


def _refuse_ended(item: Instance) -> None:
    if item.state in ("ending", "gone"):
        raise errors.Gone(f"{item.id} is {item.state}", reason="Terminated")


def _refuse_protected(keys: Iterable[str]) -> None:
    for key in keys:
        if key in launches.PROTECTED:
            raise errors.Denied(f"the tag {key} says whose the machine is", reason="TagProtected")
