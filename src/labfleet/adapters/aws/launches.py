"""From a launch request to RunInstances' parameters: a pure function, the same every time.

It must be deterministic: a repeat with the same token and other parameters is refused by EC2.
Tags keep to the charset that instance metadata allows, and the budget of ten
(facts/aws-bugs.md#case-40).
"""

from __future__ import annotations

import re
from typing import Any

from labfleet.interfaces.compute import LaunchRequest
from labfleet.kernel.errors import Invalid
from labfleet.resources.providers import ProviderSettings, aws_limits
from labfleet.resources.providers.aws import AwsSettings

PREFIX = "labfleet:"
OWNER = "labfleet:owner"
WORKER = "labfleet:worker"
WORKER_UID = "labfleet:worker-uid"
ATTEMPT = "labfleet:attempt"
POOL = "labfleet:pool"
CREATED_BY = "labfleet:created-by"
# The tags that say who owns a machine: neither people nor templates may set or remove these.
PROTECTED = frozenset({OWNER, WORKER, WORKER_UID, ATTEMPT, POOL, CREATED_BY})
TAGGED = ("instance", "volume", "network-interface")
TOKEN_LIMIT = 64
_SAFE_VALUE = re.compile(r"[A-Za-z0-9+=,.@:_ -]{0,256}")


def parameters(request: LaunchRequest, *, owner: str, root_device: str) -> dict[str, Any]:
    """Return what RunInstances is called with; Invalid when EC2 would refuse it anyway."""
    _check(request, owner)
    aws = own(request.settings)
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": aws.assign_public_ip,
        "DeleteOnTermination": True,
    }
    if request.choice.get("subnet") is not None:
        interface["SubnetId"] = request.choice.get("subnet")
    if aws.security_group_ids:
        interface["Groups"] = list(aws.security_group_ids)
    tags = [{"Key": key, "Value": value} for key, value in tags_of(request, owner).items()]
    wanted: dict[str, Any] = {
        "ClientToken": request.token,
        "ImageId": request.choice["image"],
        "InstanceType": request.choice["type"],
        "MinCount": 1,
        "MaxCount": 1,
        "NetworkInterfaces": [interface],
        "BlockDeviceMappings": [{"DeviceName": root_device, "Ebs": _volume(request)}],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in TAGGED],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            # Set explicitly: an account may switch it on by default, and then keys with `/` fail.
            "InstanceMetadataTags": "disabled",
        },
        "InstanceInitiatedShutdownBehavior": "stop",
    }
    if aws.key_name is not None:
        wanted["KeyName"] = aws.key_name
    if aws.iam_instance_profile is not None:
        kind = "Arn" if aws.iam_instance_profile.startswith("arn:") else "Name"
        wanted["IamInstanceProfile"] = {kind: aws.iam_instance_profile}
    if aws.user_data is not None:
        wanted["UserData"] = aws.user_data
    if aws.nested_virtualization:
        wanted["CpuOptions"] = {"NestedVirtualization": "enabled"}
    return wanted


def own(settings: ProviderSettings) -> AwsSettings:
    """Return settings as EC2's: calls come here by their region, which is one of EC2's."""
    assert isinstance(settings, AwsSettings)  # noqa: S101 - see above
    return settings


def tags_of(request: LaunchRequest, owner: str) -> dict[str, str]:
    """Return the tags of a launch: the template's, then ours, which nobody may override."""
    ours = {
        "Name": named(request.worker),
        OWNER: owner,
        WORKER: named(request.worker),
        WORKER_UID: request.worker_uid,
        ATTEMPT: str(request.attempt),
        CREATED_BY: "labfleet",
    }
    if request.pool is not None:
        ours[POOL] = named(request.pool)
    return {**request.settings.tags, **ours}


def claim_tags(owner: str, worker: str, worker_uid: str) -> dict[str, str]:
    """Return the tags that make a machine that somebody else launched ours."""
    return {OWNER: owner, WORKER: named(worker), WORKER_UID: worker_uid}


def named(label: str) -> str:
    """Return the tag of a name: `namespace:name`, for instance metadata takes no slash."""
    return label.replace("/", ":")


def _volume(request: LaunchRequest) -> dict[str, Any]:
    """Return the root volume; it ends with its instance (facts/aws-bugs.md#case-45)."""
    aws = own(request.settings)
    volume: dict[str, Any] = {
        "VolumeSize": aws.volume_size_gib,
        "VolumeType": aws.volume_type,
        "Iops": aws.volume_iops,
        "DeleteOnTermination": True,
    }
    if aws.volume_throughput_mibps is not None:
        volume["Throughput"] = aws.volume_throughput_mibps
    return volume


def _check(request: LaunchRequest, owner: str) -> None:
    aws = own(request.settings)
    problems: list[tuple[str, str]] = []
    if not 1 <= len(request.token) <= TOKEN_LIMIT or not request.token.isascii():
        problems.append(("token", f"1 to {TOKEN_LIMIT} ASCII characters"))
    problems += [(f"aws.{field}", what) for field, what in aws_limits.problems(aws)]
    for key, value in tags_of(request, owner).items():
        if key.startswith(PREFIX) and not _SAFE_VALUE.fullmatch(value):
            problems.append((key, "a tag value with letters, digits and +=,.@:_- only"))
    if problems:
        told = "; ".join(f"{field}: {what}" for field, what in problems[:5])
        raise Invalid(f"EC2 would refuse the launch: {told}", problems=tuple(problems))
