"""Checks that EC2 makes and moto does not: ids that are malformed, unknown, or in a failed zone.

Each check raises Refusal. Instance ids that exist but are not visible yet count as unknown.
"""

import re
from typing import Any

from aws_simulator.calls import Call, Refusal
from aws_simulator.world import World

HEX = r"(?:[0-9a-f]{8}|[0-9a-f]{17})"
MALFORMED = {
    "i-": "InvalidInstanceID.Malformed",
    "vol-": "InvalidParameterValue",
    "ami-": "InvalidAMIID.Malformed",
    "sg-": "InvalidGroupId.Malformed",
}
KINDS = {
    "InstanceId": "i-",
    "VolumeId": "vol-",
    "ImageId": "ami-",
    "SecurityGroupId": "sg-",
}
MISSING = {
    "vol-": "InvalidVolume.NotFound",
    "eni-": "InvalidNetworkInterfaceID.NotFound",
    "eipalloc-": "InvalidAllocationID.NotFound",
    "ami-": "InvalidAMIID.NotFound",
    "sg-": "InvalidGroup.NotFound",
    "subnet-": "InvalidSubnetID.NotFound",
    "vpc-": "InvalidVpcID.NotFound",
}


def check(world: World, call: Call, backend: Any) -> None:
    """Refuse a call whose ids are malformed, in a zone that is down, or unknown to tagging."""
    for key, value in call.form.items():
        prefix = KINDS.get(_kind(key))
        if prefix and not re.fullmatch(re.escape(prefix) + HEX, value):
            raise Refusal(400, MALFORMED[prefix], f'Invalid id: "{value}"')
    _zones(world, call, backend)
    if call.action == "RunInstances":
        _groups(call, backend)
        _key(call, backend)
    if call.action in ("CreateTags", "DeleteTags"):
        for resource in call.ids:
            _exists(world, call, backend, resource)
    if call.action == "ReleaseAddress":
        _released(call, backend)


def _kind(key: str) -> str:
    """Return the parameter's name without its numbers, of a nested one the last name."""
    names = [part for part in key.split(".") if not part.isdecimal()]
    return names[-1] if names else key


def _zones(world: World, call: Call, backend: Any) -> None:
    """Fail a call that names something in a zone that is down; unnamed lists go on [D]."""
    down = world.config.zones_down
    if not down:
        return
    named = [zone_of(world, backend, resource) for resource in call.ids]
    if call.action == "RunInstances":
        places = {
            name: subnet.availability_zone
            for subnets in backend.subnets.values()
            for name, subnet in subnets.items()
        }
        named.append(call.form.get("Placement.AvailabilityZone", ""))
        named += [
            str(places.get(value)) for key, value in call.form.items() if _kind(key) == "SubnetId"
        ]
    for zone in named:
        if zone in down:
            raise Refusal(503, "Unavailable", "The Availability Zone is impaired. Try again later.")


def zone_of(world: World, backend: Any, resource: str) -> str:
    """Return the zone of an instance or a volume; empty when it is unknown."""
    instance = world.instances.get(resource)
    if instance is not None:
        return str(instance.availability_zone)
    volume = backend.volumes.get(resource)
    if volume is None:
        return ""
    return str(getattr(volume.zone, "name", volume.zone))


def _groups(call: Call, backend: Any) -> None:
    known = {group for groups in backend.groups.values() for group in groups}
    for key, value in call.form.items():
        if _kind(key) == "SecurityGroupId" and value not in known:
            raise Refusal(
                400, "InvalidGroup.NotFound", f"The security group '{value}' does not exist"
            )


def _key(call: Call, backend: Any) -> None:
    name = call.form.get("KeyName")
    if name is not None and name not in backend.key_pairs:
        raise Refusal(400, "InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist")


def _exists(world: World, call: Call, backend: Any, resource: str) -> None:
    if resource.startswith("i-"):
        machine = world.machines.get(resource)
        now = world.clock.now()
        if machine is None or not world.visible(machine, call.action, now):
            text = f"The instance ID '{resource}' does not exist"
            raise Refusal(400, "InvalidInstanceID.NotFound", text)
        return
    prefix = resource[: resource.find("-") + 1]
    known = {
        "vol-": backend.volumes,
        "eni-": backend.enis,
        "ami-": backend.amis,
        "eipalloc-": {address.allocation_id for address in backend.addresses},
        "sg-": {group for groups in backend.groups.values() for group in groups},
    }.get(prefix)
    if known is not None and resource not in known:
        raise Refusal(400, MISSING[prefix], f"The ID '{resource}' does not exist")


def _released(call: Call, backend: Any) -> None:
    wanted = (call.form.get("AllocationId"), call.form.get("PublicIp"))
    for address in backend.addresses:
        if {address.allocation_id, address.public_ip} & set(wanted) and address.eni is not None:
            raise Refusal(400, "InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")


def owner_of(world: World, backend: Any, resource: str) -> str:
    """Return a resource's real owner tag, without lags; empty when untagged or unknown."""
    return str(backend.tags.get(resource, {}).get(world.config.owner_tag, ""))
