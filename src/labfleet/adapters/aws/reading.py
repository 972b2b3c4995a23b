"""From EC2's replies to the interface's records. A missing list is an error, never empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from labfleet.interfaces.compute import Image, Instance, InstanceState
from labfleet.kernel.errors import Protocol

STATES: tuple[InstanceState, ...] = get_args(InstanceState)
Data = Mapping[str, Any]


def rows(reply: Data, key: str) -> list[dict[str, Any]]:
    """Return a list of the reply; Protocol when it is not there (aws.md 5 case 11)."""
    found = reply.get(key)
    if not isinstance(found, list):
        raise Protocol(f"EC2's reply has no {key}")
    return found


def instances(reply: Data) -> list[Instance]:
    """Return all instances of all reservations of one page."""
    return [
        instance(item)
        for reservation in rows(reply, "Reservations")
        for item in rows(reservation, "Instances")
    ]


def instance(item: Data) -> Instance:
    """Return one instance; absent fields are None, an unknown state is Protocol."""
    state = item.get("State", {}).get("Name")
    if "InstanceId" not in item or state not in STATES:
        raise Protocol(f"EC2 described an instance in the unknown state {state!r}")
    launched = item.get("LaunchTime")
    return Instance(
        id=item["InstanceId"],
        state=state,
        instance_type=item.get("InstanceType"),
        image_id=item.get("ImageId"),
        zone=item.get("Placement", {}).get("AvailabilityZone"),
        public_ip=item.get("PublicIpAddress") or None,
        private_ip=item.get("PrivateIpAddress") or None,
        launch_time=launched.astimezone(UTC) if isinstance(launched, datetime) else None,
        root_volume_id=_root_volume(item),
        client_token=item.get("ClientToken") or None,
        state_reason=item.get("StateReason", {}).get("Message") or None,
        tags={tag["Key"]: tag["Value"] for tag in item.get("Tags", [])},
    )


def _root_volume(item: Data) -> str | None:
    for mapping in item.get("BlockDeviceMappings", []):
        if mapping.get("DeviceName") == item.get("RootDeviceName"):
            volume: str | None = mapping.get("Ebs", {}).get("VolumeId")
            return volume
    return None


def image(item: Data) -> Image:
    """Return one image; `created` is None when EC2 does not say."""
    text = item.get("CreationDate")
    return Image(
        id=item["ImageId"],
        name=item.get("Name", ""),
        created=datetime.fromisoformat(text).astimezone(UTC) if text else None,
    )
