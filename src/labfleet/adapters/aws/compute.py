"""Ec2: the Compute interface, one call to EC2 per verb plus the look that makes it safe.

It holds no state but clients and root device names, logs nothing, and takes time from nobody:
waiting, deciding and repeating are the controllers' work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from labfleet.adapters.aws import errors as translation
from labfleet.adapters.aws import launches, reading
from labfleet.adapters.aws.clients import (
    RETRIES,
    BeforeSend,
    Clients,
    Credentials,
    Deadlines,
    Policy,
)
from labfleet.adapters.aws.runner import WORKERS, Runner, ThreadRunner
from labfleet.interfaces.compute import Compute, Image, Instance, LaunchRequest
from labfleet.kernel import errors
from labfleet.resources.machine import AwsSettings

T = TypeVar("T")
PAGE = 200
PAGES = 100
CONSOLE_LIMIT = 16 * 1024
NOT_TERMINATED = ("pending", "running", "shutting-down", "stopping", "stopped")
ALWAYS = datetime.min.replace(tzinfo=UTC)
MUTATIONS: frozenset[Policy] = frozenset({"launch", "end"})


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
        connections=WORKERS,
    )
    return Ec2(owner=owner, clients=clients, runner=runner or ThreadRunner())


class Ec2(Compute):
    """EC2 as one installation sees it; only instances with its owner tag are ever touched."""

    def __init__(self, *, owner: str, clients: Clients, runner: Runner) -> None:
        self._owner = owner
        self._clients = clients
        self._runner = runner
        self._root_devices: dict[tuple[str, str], str] = {}

    async def find_image(self, region: str, aws: AwsSettings) -> Image:
        """Return the image by id, or the newest by creation date whose name matches."""
        wanted: dict[str, Any]
        if aws.ami_id is not None:
            wanted = {"ImageIds": [aws.ami_id]}
        elif aws.ami_name_pattern is not None and aws.ami_owners:
            wanted = {
                "Owners": list(aws.ami_owners),
                "Filters": _filters(name=[aws.ami_name_pattern], state=["available"]),
            }
        else:
            raise errors.Invalid("a template names amiId, or amiNamePattern with amiOwners")
        found = await self._images(region, wanted)
        if not found:
            named = aws.ami_id or f"{aws.ami_name_pattern} of {', '.join(aws.ami_owners)}"
            raise errors.Invalid(f"no image {named} in {region}", reason="NoImage")
        return max(found, key=lambda image: (image.created or ALWAYS, image.id))

    async def launch(self, request: LaunchRequest) -> Instance:
        """Start one machine; the same request again gives the same machine."""
        key = (request.region, request.image_id)
        if key not in self._root_devices:
            await self._images(request.region, {"ImageIds": [request.image_id]})
        root = self._root_devices.get(key)
        if root is None:
            raise errors.Invalid(f"no image {request.image_id} in {request.region}")
        wanted = launches.parameters(request, owner=self._owner, root_device=root)
        reply = await self._call(request.region, "launch", "run_instances", wanted)
        try:
            (started,) = map(reading.instance, reading.rows(reply, "Instances"))
        except (errors.Protocol, ValueError) as error:
            message = "RunInstances answered without an instance; it may have launched"
            raise errors.Ambiguous(message) from error
        return started

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Look by tags and by client token, because either may lag behind."""
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
        wanted = {"InstanceIds": [instance_id]}
        try:
            reply = await self._call(region, "read", "describe_instances", wanted)
        except errors.Gone:
            return None
        for item in reading.instances(reply):
            if item.id == instance_id:
                return item
        raise errors.Protocol(f"EC2's reply about {instance_id} is about something else")

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return all our machines that are not terminated; a failed page fails the list."""
        return tuple(await self._instances(region, {f"tag:{launches.OWNER}": [self._owner]}))

    async def start(self, region: str, instance_id: str) -> None:
        """Start a stopped machine; nothing is sent when it already starts or runs."""
        item = await self._ours(region, instance_id)
        if item.state in ("pending", "running"):
            return
        _refuse_ended(item)
        await self._call(region, "launch", "start_instances", {"InstanceIds": [instance_id]})

    async def stop(self, region: str, instance_id: str) -> None:
        """Stop a running machine; nothing is sent when it already stops or is stopped."""
        item = await self._ours(region, instance_id)
        if item.state in ("stopping", "stopped"):
            return
        _refuse_ended(item)
        await self._call(region, "end", "stop_instances", {"InstanceIds": [instance_id]})

    async def terminate(self, region: str, instance_id: str) -> None:
        """End a machine; nothing is sent when it already ended, ends or is not there."""
        try:
            item = await self._ours(region, instance_id)
            if item.state in ("shutting-down", "terminated"):
                return
            await self._call(region, "end", "terminate_instances", {"InstanceIds": [instance_id]})
        except errors.Gone:
            return

    async def console_output(self, region: str, instance_id: str) -> str:
        """Return the end of the console text; empty when there is none yet."""
        wanted = {"InstanceId": instance_id}
        reply = await self._call(region, "read", "get_console_output", wanted)
        return str(reply.get("Output") or "")[-CONSOLE_LIMIT:]

    async def close(self) -> None:
        """Close connections and let the threads go."""
        self._clients.close()
        self._runner.close()

    async def _ours(self, region: str, instance_id: str) -> Instance:
        """Return a fresh look at a machine that carries our owner tag; Gone when not there."""
        item = await self.describe(region, instance_id)
        if item is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        owner = item.tags.get(launches.OWNER)
        if owner is None and item.state != "terminated":
            message = f"{instance_id} shows no owner tag (not visible yet, or taken away)"
            raise errors.Temporary(message, reason="OwnerUnknown")
        if owner not in (None, self._owner):
            raise errors.Denied(f"{instance_id} belongs to another owner", reason="NotOurs")
        return item

    async def _images(self, region: str, wanted: dict[str, Any]) -> list[Image]:
        try:
            reply = await self._call(region, "read", "describe_images", wanted)
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
        filters = _filters(**wanted, **{"instance-state-name": list(NOT_TERMINATED)})
        query: dict[str, Any] = {"Filters": filters, "MaxResults": PAGE}
        found: list[Instance] = []
        for _ in range(PAGES):
            reply = await self._call(region, "read", "describe_instances", query)
            found += reading.instances(reply)
            token = reply.get("NextToken")
            if not token:
                return found
            query = {**query, "NextToken": token}
        raise errors.Protocol(f"EC2's list in {region} has more than {PAGES} pages")

    async def _call(
        self, region: str, policy: Policy, method: str, wanted: dict[str, Any]
    ) -> dict[str, Any]:
        def call() -> dict[str, Any]:
            client = self._clients.get(region, policy)
            reply: dict[str, Any] = getattr(client, method)(**wanted)
            return reply

        return await self._guarded(method, policy in MUTATIONS, call)

    async def _guarded(self, action: str, mutating: bool, call: Callable[[], T]) -> T:  # noqa: FBT001
        try:
            return await self._runner.run(call)
        except translation.OUTSIDE as error:
            raise translation.translate(error, action=action, mutating=mutating) from None


def _filters(**wanted: list[str]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": values} for name, values in wanted.items()]


def _refuse_ended(item: Instance) -> None:
    if item.state in ("shutting-down", "terminated"):
        raise errors.Gone(f"{item.id} is {item.state}", reason="Terminated")
