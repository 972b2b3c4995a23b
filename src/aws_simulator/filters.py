"""The filters of DescribeInstances and DescribeInstanceStatus, with EC2's wildcards.

Values are case-sensitive; `*` and `?` are wildcards and a backslash takes that away. Values of one
filter are alternatives, filters add up. An unknown name is InvalidParameterValue, as on EC2.
"""

import functools
import re
from collections.abc import Callable, Iterable

from aws_simulator.calls import Refusal
from aws_simulator.clock import naive
from aws_simulator.seen import ShownInstance

VALUES_LIMIT = 200
LENGTH_LIMIT = 255
Reader = Callable[[ShownInstance], Iterable[str]]
Filter = tuple[Reader, Callable[[str], bool]]


def flag(value: object) -> str:
    """Return a boolean as EC2 writes it."""
    return "true" if str(value).lower() == "true" else "false"


def _one(name: str) -> Reader:
    return lambda seen: (str(getattr(seen.instance, name) or ""),)


def _of(found: Callable[[ShownInstance], object]) -> Reader:
    return lambda seen: (str(found(seen) or ""),)


def _devices(found: Callable[[str, object], object]) -> Reader:
    return lambda seen: [
        str(found(name, device))
        for name, device in ([] if seen.gone else seen.instance.get_block_device_mapping)
    ]


def _nics(found: Callable[..., object]) -> Reader:
    return lambda seen: [str(value) for nic in seen.nics if (value := found(nic)) is not None]


def _groups(name: str) -> Reader:
    return lambda seen: [str(getattr(group, name)) for nic in seen.nics for group in nic.group_set]


def _options(name: str) -> Reader:
    return lambda seen: (str(getattr(seen.instance.metadata_options, name)),)


def stamp(at: object) -> str:
    """Return a time as EC2 writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z") if hasattr(at, "strftime") else ""


INSTANCES: dict[str, Reader] = {
    "architecture": _one("architecture"),
    "availability-zone": _one("availability_zone"),
    "block-device-mapping.attach-time": _devices(lambda _, d: stamp(vars(d)["attach_time"])),
    "block-device-mapping.delete-on-termination": _devices(
        lambda _, d: flag(vars(d)["delete_on_termination"])
    ),
    "block-device-mapping.device-name": _devices(lambda name, _: name),
    "block-device-mapping.status": _devices(lambda _, __: "attached"),
    "block-device-mapping.volume-id": _devices(lambda _, d: vars(d)["volume_id"]),
    "client-token": _of(lambda seen: seen.token),
    "dns-name": lambda seen: (str(seen.instance.public_dns_name or ""),) if seen.public_ip else (),
    "group-id": _groups("id"),
    "group-name": _groups("name"),
    "hibernation-options.configured": _of(
        lambda seen: flag((seen.instance.hibernation_options or {}).get("Configured"))
    ),
    "host-id": _of(lambda seen: seen.instance.placement.host_id),
    "hypervisor": _one("hypervisor"),
    "iam-instance-profile.arn": lambda seen: [seen.profile["Arn"]] if seen.profile else [],
    "iam-instance-profile.id": lambda seen: [seen.profile["Id"]] if seen.profile else [],
    "image-id": _one("image_id"),
    "instance-id": _one("id"),
    "instance-lifecycle": lambda seen: [seen.instance.lifecycle] if seen.instance.lifecycle else [],
    "instance-state-code": lambda seen: (str(seen.code),),
    "instance-state-name": lambda seen: (seen.state,),
    "instance-type": _one("instance_type"),
    "instance.group-id": _groups("id"),
    "instance.group-name": _groups("name"),
    "ip-address": lambda seen: [seen.public_ip] if seen.public_ip else [],
    "kernel-id": _one("kernel"),
    "key-name": _one("key_name"),
    "launch-index": lambda seen: (str(seen.instance.ami_launch_index),),
    "launch-time": lambda seen: (stamp(seen.instance.launch_time),),
    "metadata-options.http-endpoint": _options("http_endpoint"),
    "metadata-options.http-protocol-ipv6": _options("http_protocol_ipv6"),
    "metadata-options.http-put-response-hop-limit": _options("http_put_response_hop_limit"),
    "metadata-options.http-tokens": _options("http_tokens"),
    "metadata-options.instance-metadata-tags": _options("instance_metadata_tags"),
    "metadata-options.state": _options("state"),
    "monitoring-state": _one("monitoring_state"),
    "network-interface.addresses.association.public-ip": _nics(lambda nic: nic.public_ip),
    "network-interface.addresses.association.ip-owner-id": _nics(
        lambda nic: nic.owner_id if nic.public_ip else None
    ),
    "network-interface.addresses.primary": _nics(lambda _: "true"),
    "network-interface.addresses.private-ip-address": _nics(lambda nic: nic.private_ip_address),
    "network-interface.association.ip-owner-id": _nics(
        lambda nic: nic.owner_id if nic.public_ip else None
    ),
    "network-interface.association.public-ip": _nics(lambda nic: nic.public_ip),
    "network-interface.attachment.attachment-id": _nics(lambda nic: nic.attachment_id),
    "network-interface.attachment.delete-on-termination": _nics(
        lambda nic: flag(nic.delete_on_termination)
    ),
    "network-interface.attachment.device-index": _nics(lambda nic: nic.device_index),
    "network-interface.availability-zone": _nics(lambda nic: nic.availability_zone),
    "network-interface.description": _nics(lambda nic: nic.description),
    "network-interface.group-id": _groups("id"),
    "network-interface.group-name": _groups("name"),
    "network-interface.mac-address": _nics(lambda nic: nic.mac_address),
    "network-interface.network-interface-id": _nics(lambda nic: nic.id),
    "network-interface.owner-id": _nics(lambda nic: nic.owner_id),
    "network-interface.status": _nics(lambda nic: nic.status),
    "network-interface.subnet-id": _nics(lambda nic: nic.subnet_id),
    "network-interface.vpc-id": _nics(lambda nic: nic.vpc_id),
    "owner-id": _one("owner_id"),
    "placement-group-name": _of(lambda seen: seen.instance.placement.group_name),
    "platform": lambda seen: [seen.instance.platform] if seen.instance.platform else [],
    "private-dns-name": lambda seen: [seen.instance.private_dns_name] if seen.private_ip else [],
    "private-ip-address": lambda seen: [seen.private_ip] if seen.private_ip else [],
    "reason": _one("state_transition_reason"),
    "reservation-id": _of(lambda seen: seen.reservation),
    "root-device-name": _one("root_device_name"),
    "root-device-type": _one("root_device_type"),
    "source-dest-check": lambda seen: (flag(seen.instance.source_dest_check),),
    "spot-instance-request-id": lambda seen: (
        str(getattr(seen.instance, "spot_instance_request_id", "")),
    ),
    "state-reason-code": _of(lambda seen: seen.instance.state_reason.code),
    "state-reason-message": _of(lambda seen: seen.instance.state_reason.message),
    "subnet-id": lambda seen: [] if seen.gone else [str(seen.instance.subnet_id)],
    "tag-key": lambda seen: list(seen.tags),
    "tag-value": lambda seen: list(seen.tags.values()),
    "tenancy": _of(lambda seen: seen.instance.placement.tenancy),
    "virtualization-type": _one("virtualization_type"),
    "vpc-id": lambda seen: [] if seen.gone else [str(seen.instance.vpc_id)],
}


def _check(which: str) -> Reader:
    return lambda seen: (seen.checks[which],)


def _reachability(which: str) -> Reader:
    words = {"ok": "passed", "impaired": "failed"}
    return lambda seen: (words.get(seen.checks[which], seen.checks[which]),)


def _events(found: Callable[..., str]) -> Reader:
    return lambda seen: [found(event) for event in seen.machine.events if not event.done]


STATUSES: dict[str, Reader] = {
    "attached-ebs-status.status": _check("ebs"),
    "availability-zone": INSTANCES["availability-zone"],
    "event.code": _events(lambda event: event.code),
    "event.description": _events(lambda event: event.description),
    "event.instance-event-id": _events(lambda event: event.id),
    "event.not-after": _events(lambda event: stamp(naive(event.not_after))),
    "event.not-before": _events(lambda event: stamp(naive(event.not_before))),
    "instance-state-code": INSTANCES["instance-state-code"],
    "instance-state-name": INSTANCES["instance-state-name"],
    "instance-status.reachability": _reachability("instance"),
    "instance-status.status": _check("instance"),
    "system-status.reachability": _reachability("system"),
    "system-status.status": _check("system"),
}


def parse(form: dict[str, str], known: dict[str, Reader]) -> list[Filter]:
    """Return the filters of a request; Refusal for a name or a size EC2 refuses."""
    names: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for key, value in form.items():
        parts = key.split(".")
        if parts[0] != "Filter" or len(parts) < 3:
            continue
        if parts[2] == "Name":
            names[parts[1]] = value
        elif parts[2] == "Value":
            values.setdefault(parts[1], []).append(value)
    return [_parsed(name, values.get(number, []), known) for number, name in names.items()]


def _parsed(name: str, values: list[str], known: dict[str, Reader]) -> Filter:
    if len(values) > VALUES_LIMIT:
        raise Refusal(400, "FilterLimitExceeded", f"The filter '{name}' has over 200 values")
    if any(len(value) > LENGTH_LIMIT for value in values):
        raise Refusal(400, "InvalidParameterValue", f"A value of filter '{name}' is too long")
    reader = known.get(name)
    if name.startswith("tag:") and "tag-key" in known:
        key = name.removeprefix("tag:")
        return (lambda seen: [seen.tags[key]] if key in seen.tags else []), matcher(values)
    if reader is None:
        raise Refusal(400, "InvalidParameterValue", f"The filter '{name}' is invalid")
    return reader, matcher(values)


def matcher(values: list[str]) -> Callable[[str], bool]:
    """Return a test that any of the values, with wildcards, passes."""
    exact = frozenset(value for value in values if not set(value) & {"*", "?", "\\"})
    patterns = [_pattern(value) for value in values if value not in exact]
    return lambda text: text in exact or any(each.fullmatch(text) for each in patterns)


@functools.lru_cache(maxsize=1024)
def _pattern(value: str) -> re.Pattern[str]:
    kept, rest = [], iter(value)
    for letter in rest:
        if letter == "\\":
            kept.append(re.escape(next(rest, "\\")))
        else:
            kept.append({"*": ".*", "?": "."}.get(letter) or re.escape(letter))
    return re.compile("".join(kept), re.DOTALL)


def passes(seen: ShownInstance, filters: list[Filter]) -> bool:
    """Tell whether an instance passes every filter."""
    return all(any(fits(text) for text in reader(seen)) for reader, fits in filters)
