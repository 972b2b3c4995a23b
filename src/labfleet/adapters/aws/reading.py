"""From EC2's replies to the interface's records. A missing list is an error, never empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from labfleet.interfaces.compute import Checks, Image, Instance, Leftover
from labfleet.kernel.errors import Protocol
from labfleet.resources.machine import MachineState, ScheduledEvent

STATES: Mapping[str, MachineState] = {
    "pending": "booting",
    "running": "running",
    "stopping": "stopping",
    "stopped": "stopped",
    "shutting-down": "ending",
    "terminated": "gone",
}
"""EC2's words for an instance's state -> ours."""
Data = Mapping[str, Any]
_INSTANT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


def rows(reply: Data, key: str) -> list[dict[str, Any]]:
    """Return a list of the reply; Protocol when it is not there (facts/aws-bugs.md#case-11)."""
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
        state=STATES[state],
        instance_type=item.get("InstanceType"),
        image_id=item.get("ImageId"),
        zone=item.get("Placement", {}).get("AvailabilityZone"),
        public_ip=item.get("PublicIpAddress") or None,
        private_ip=item.get("PrivateIpAddress") or None,
        launch_time=_moment(launched),
        root_volume_id=_root_volume(item),
        client_token=item.get("ClientToken") or None,
        state_reason=item.get("StateReason", {}).get("Message") or None,
        tags=_tags(item),
        stopped_at=stopped_at(item.get("StateTransitionReason", "")),
    )


def stopped_at(reason: str) -> datetime | None:
    """Return the instant that EC2 puts into the reason of a change of state; None without one.

    It is when somebody asked for the stop or the end, which is when the machine leaves off running.
    """
    found = _INSTANT.search(reason)
    if found is None:
        return None
    try:
        return datetime.strptime(found.group(1), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


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


def checks(item: Data) -> Checks:
    """Return one machine's status checks; Protocol when it has no id."""
    if "InstanceId" not in item:
        raise Protocol("EC2 told the checks of no instance")
    return Checks(
        instance_id=item["InstanceId"],
        system=item.get("SystemStatus", {}).get("Status"),
        instance=item.get("InstanceStatus", {}).get("Status"),
        events=tuple(_event(each) for each in item.get("Events", []) if _open(each)),
    )


def _event(item: Data) -> ScheduledEvent:
    return ScheduledEvent(
        code=item.get("Code", ""),
        not_before=_moment(item.get("NotBefore")),
        description=item.get("Description", ""),
    )


def _open(item: Data) -> bool:
    """Tell whether an event is open: EC2 keeps a closed one for a week, marked in its text."""
    return not str(item.get("Description", "")).startswith(("[Completed]", "[Canceled]"))


def flat(reply: Data, name: str) -> str:
    """Return why an instance type cannot run KVM; empty when it can."""
    for item in rows(reply, "InstanceTypes"):
        if item.get("InstanceType") == name:
            if item.get("BareMetal"):
                return f"{name} is bare metal: it takes no nested virtualisation"
            features = item.get("ProcessorInfo", {}).get("SupportedFeatures", [])
            return "" if "nested-virtualization" in features else f"{name} cannot nest, EC2 says"
    raise Protocol(f"EC2's reply about {name} is about something else")


def volume(item: Data, region: str) -> Leftover:
    """Return a volume that is attached to nothing."""
    created = _moment(item.get("CreateTime"))
    return Leftover("volume", region, item["VolumeId"], created, _tags(item))


def address(item: Data, region: str) -> Leftover:
    """Return an address; EC2 does not say when it was made."""
    return Leftover("address", region, item["AllocationId"], None, _tags(item))


def _moment(value: object) -> datetime | None:
    return value.astimezone(UTC) if isinstance(value, datetime) else None


def _tags(item: Data) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
