"""Corrections to moto's RunInstances: tokens, IOPS, roll-back, counts, profiles, quota, stock.

Each corrects a row of the table in facts/aws.md#moto. States are in `patches`.
"""

import collections
import hashlib
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import Instance

from aws_simulator import addresses, outside_acts, spot
from aws_simulator.active import ORIGINALS, world
from aws_simulator.seen import NO_TOKEN
from aws_simulator.world import Launch

IOPS_PER_GIB = {"io1": 50, "io2": 1000, "gp3": 500}
# Least and most of GiB and of IOPS by volume type: facts/aws.md#volumes.
VOLUMES = {
    "gp3": ((1, 65_536), (3_000, 80_000)),
    "io1": ((4, 16_384), (100, 64_000)),
    "io2": ((4, 65_536), (100, 256_000)),
}
ROOT_GIB = 32
# What the guest sees of nominal memory (192 GiB are 202422902784 B, facts/aws-bugs.md#case-43) and
# disk.
SEEN_MEMORY = 202_422_902_784 / (192 * 2**30)
SEEN_DISK = 0.99
LIVE = ("pending", "running")
UNHASHED = ("ClientToken", "Action", "Version")


def run_instances(
    self: Any,
    image_id: str,
    count: int,
    user_data: Any,
    security_group_names: list[str],
    **kwargs: Any,
) -> Any:
    """Launch once per client token, all or nothing; the drop-in for moto's method."""
    here = world()
    with here.lock:
        token = str(kwargs.get("client_token") or NO_TOKEN)
        zone = _zone(self, kwargs)
        key = (str(self.account_id), str(self.region_name), zone, token)
        digest = _digest(here.request.form)
        known = here.tokens.get(key) if token != NO_TOKEN else None
        if known is not None:
            return _replay(known, digest, token)
        _check_type(kwargs["instance_type"], str(self.region_name), zone)
        check_nesting(kwargs["instance_type"], here.request.form)
        number = _count(count, kwargs["instance_type"], zone or f"{self.region_name}a")
        _check_subnet(_subnet(kwargs), number)
        check_quota(
            self,
            [kwargs["instance_type"]] * number,
            spot=kwargs.get("instance_market_options") == "spot",
        )
        mappings = kwargs.get("block_device_mappings") or []
        here.request.mappings = {item["DeviceName"]: item.get("Ebs") or {} for item in mappings}
        _check_volumes(here.request.mappings)
        reservation = _launch(self, image_id, number, user_data, security_group_names, kwargs)
        if token != NO_TOKEN:
            here.tokens[key] = Launch(digest, reservation)
        here.note_doubles(tags_of)
        fated(reservation.instances)
        return reservation


def fated(instances: list[Any]) -> None:
    """Give instances the fate (how their start ends) that a rule sets for this request."""
    rule = world().request.rule
    if rule is not None and rule.fault == "fate":
        for instance in instances:
            code = rule.code if "." in rule.code else ""
            outside_acts.give_fate(world(), instance, rule.fate, code)


def _launch(  # noqa: PLR0917 - moto's own arguments
    self: Any, image: str, number: int, data: Any, groups: Any, kwargs: Any
) -> Any:
    before = set(self.reservations)
    eni_tags = dict(kwargs.get("tags", {}).get("network-interface", {}))
    explicit = any("DeleteOnTermination" in nic for nic in kwargs.get("nics", []))
    profile = kwargs.get("iam_instance_profile_name"), kwargs.get("iam_instance_profile_arn")
    try:
        reservation = ORIGINALS["run_instances"](self, image, number, data, groups, **kwargs)
        for index, instance in enumerate(reservation.instances):
            instance.launch_time = world().clock.utc()
            for nic in instance.nics.values():
                nic.delete_on_termination = nic.delete_on_termination or not explicit
                nic.add_tags(eni_tags)
                if world().cml is not None:
                    nic.public_ip = None
            _ensure_root(self, instance, kwargs)
            if index and any(profile):
                self.associate_iam_instance_profile(instance.id, *profile)
    except Exception:
        _roll_back(self, [name for name in self.reservations if name not in before])
        raise
    if kwargs.get("instance_market_options"):
        tags = dict(kwargs.get("tags", {}).get("spot-instances-request", {}))
        for instance in reservation.instances:
            spot.request_of(self, instance, tags)
    return reservation


def _roll_back(self: Any, names: list[str]) -> None:
    """Undo a failed launch entirely: moto would leave a running instance behind."""
    for name in names:
        for instance in self.reservations.pop(name).instances:
            for volume_id in [
                device.volume_id for device in instance.block_device_mapping.values()
            ]:
                self.volumes.pop(volume_id, None)
                self.tags.pop(volume_id, None)
            addresses.free(instance)
            for nic in instance.nics.values():
                self.enis.pop(nic.id, None)
                self.tags.pop(nic.id, None)
            self.tags.pop(instance.id, None)
            world().forget(instance.id)


def _replay(known: Launch, digest: str, token: str) -> Any:
    if known.digest != digest:
        raise EC2ClientError(
            "IdempotentParameterMismatch",
            f"The client token {token} was used with other parameters.",
        )
    states = [world().machines[item.id].state for item in known.reservation.instances]
    if all(state in ("shutting-down", "terminated") for state in states):
        raise EC2ClientError(
            "IdempotentInstanceTerminated",
            f"The instance that client token {token} launched is terminated.",
        )
    return known.reservation


def _digest(form: dict[str, str]) -> str:
    kept = sorted((key, value) for key, value in form.items() if key not in UNHASHED)
    return hashlib.sha256(repr(kept).encode()).hexdigest()


def _zone(self: Any, kwargs: dict[str, Any]) -> str:
    """Return the zone a token is scoped to: zonal when a subnet or zone is named, else regional."""
    named = _subnet(kwargs)
    if named:
        return str(self.get_subnet(named).availability_zone)
    return str(kwargs.get("placement") or "")


def _subnet(kwargs: dict[str, Any]) -> str | None:
    subnets = [kwargs.get("subnet_id"), *(nic.get("SubnetId") for nic in kwargs.get("nics", []))]
    return next((str(subnet) for subnet in subnets if subnet), None)


def _check_subnet(subnet: str | None, number: int) -> None:
    """Refuse when a subnet has fewer free addresses than were set for it."""
    here = world()
    limit = here.config.free_addresses.get(subnet or "")
    if limit is None:
        return
    used = sum(
        machine.state != "terminated" and here.instances[instance_id].subnet_id == subnet
        for instance_id, machine in here.machines.items()
    )
    if used + number > limit:
        raise EC2ClientError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet}'.",
        )


def check_nesting(instance_type: str, form: dict[str, str]) -> None:
    """Refuse nested virtualisation on a type that lacks the feature."""
    if form.get("CpuOptions.NestedVirtualization", form.get("NestedVirtualization")) != "enabled":
        return
    facts = INSTANCE_TYPES.get(instance_type, {}).get("ProcessorInfo", {})
    if "nested-virtualization" not in facts.get("SupportedFeatures", []):
        raise EC2ClientError(
            "UnsupportedOperation",
            f"The instance type {instance_type} does not support nested virtualization.",
        )


def _count(minimum: int, instance_type: str, zone: str) -> int:
    maximum = int(world().request.form.get("MaxCount", minimum))
    if minimum < 1 or maximum < minimum:
        raise EC2ClientError("InvalidParameterValue", "MinCount must be 1..MaxCount")
    left = _stock(instance_type, zone)
    if left is not None and left < minimum:
        raise no_capacity(instance_type, zone)
    return maximum if left is None else min(left, maximum)


def _stock(instance_type: str, zone: str) -> int | None:
    """Return how many more of a type fit a zone: the set stock minus what is live; None = no end."""
    here = world()
    limit: int | None = here.config.stock.get(
        f"{instance_type}/{zone}", here.config.stock.get(instance_type)
    )
    if limit is None:
        return None
    used: int = sum(
        here.machines[item.id].state in LIVE
        and item.instance_type == instance_type
        and item.availability_zone == zone
        for item in here.instances.values()
    )
    return max(0, limit - used)


def check_stock_to_start(waking: list[Any]) -> None:
    """Refuse a start for which the zone has no capacity left."""
    wanted = collections.Counter((item.instance_type, item.availability_zone) for item in waking)
    for (instance_type, zone), number in wanted.items():
        left = _stock(instance_type, zone)
        if left is not None and left < number:
            raise no_capacity(instance_type, zone)


def no_capacity(instance_type: str, zone: str) -> EC2ClientError:
    """Return the capacity error; its HTTP status 500 is what AWS sends."""
    return EC2ClientError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {instance_type} capacity in zone {zone}.",
    )


def check_quota(self: Any, wanted: list[str], *, spot: bool = False) -> None:
    """Refuse when the vCPU of pending and running instances would pass the account's limit.

    Spot instances are counted, in instances, against a limit of their own.
    """
    here = world()
    live = [
        item
        for item in here.instances.values()
        if here.machines[item.id].state in LIVE and item.ec2_backend is self
    ]
    if spot:
        taken = sum(item.lifecycle == "spot" for item in live) + len(wanted)
        if here.config.spot_limit is not None and taken > here.config.spot_limit:
            raise EC2ClientError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        return
    limit = here.config.vcpu_limit
    if limit is None or not wanted:
        return
    running = [item.instance_type for item in live if item.lifecycle != "spot"]
    if sum(map(vcpus, [*running, *wanted])) > limit:
        raise EC2ClientError(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows.",
        )


def vcpus(instance_type: str) -> int:
    """Return the vCPU of an instance type; 1 when moto's catalogue lacks it."""
    return int(INSTANCE_TYPES.get(instance_type, {}).get("VCpuInfo", {}).get("DefaultVCpus", 1))


def _check_type(instance_type: str, region: str, zone: str) -> None:
    """Refuse an unknown type (moto matches by substring) and one its zone does not offer."""
    if instance_type not in INSTANCE_TYPES:
        message = f"Invalid value '{instance_type}' for InstanceType."
        raise EC2ClientError("InvalidParameterValue", message)
    offers = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    offered = any(
        offer["InstanceType"] == instance_type and offer["Location"] == zone for offer in offers
    )
    if zone and not offered:
        message = f"Your requested instance type ({instance_type}) is not supported in {zone}."
        raise EC2ClientError("Unsupported", message)


def sizes(instance: Any) -> dict[str, Any]:
    """Return what a CML server on the instance has: sizes in bytes, and whether KVM works."""
    facts = INSTANCE_TYPES.get(instance.instance_type, {})
    mebibytes = facts.get("MemoryInfo", {}).get("SizeInMiB", 1024)
    nested = bool(world().machines[instance.id].nested)
    gibibytes = max((device.size for device in instance.block_device_mapping.values()), default=8)
    return {
        "cpus": vcpus(instance.instance_type),
        "memory_bytes": int(mebibytes * 2**20 * SEEN_MEMORY),
        "disk_bytes": int(gibibytes * 2**30 * SEEN_DISK),
        "kvm": bool(facts.get("BareMetal")) or nested,
    }


def _check_volumes(mappings: dict[str, dict[str, Any]]) -> None:
    for ebs in mappings.values():
        kind, iops, size = str(ebs.get("VolumeType")), ebs.get("Iops"), ebs.get("VolumeSize")
        if kind in ("io1", "io2") and not iops:
            raise EC2ClientError("MissingParameter", f"{kind} volumes need the parameter iops")
        if kind not in VOLUMES:
            continue
        for what, value, (least, most) in zip(
            ("size", "iops"), (size, iops), VOLUMES[kind], strict=True
        ):
            if value and not least <= int(value) <= most:
                raise EC2ClientError(
                    "InvalidParameterValue",
                    f"Volume {what} of {value} is invalid for {kind}: {least} to {most}",
                )
        ratio = IOPS_PER_GIB[kind]
        if iops and size and int(iops) > ratio * int(size):
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Iops to volume size ratio is too high; maximum is {ratio}",
            )


def add_block_device(  # noqa: PLR0917 - moto's own signature
    self: Instance,
    size: int,
    device_path: str,
    snapshot_id: str | None,
    encrypted: bool,  # noqa: FBT001 - moto's own signature
    delete_on_termination: bool,  # noqa: FBT001
    kms_key_id: str | None,
    volume_type: str | None,
) -> None:
    """Create and attach a volume with the IOPS that were asked for; moto drops them."""
    ebs = world().request.mappings.get(device_path, {})
    volume = self.ec2_backend.create_volume(
        size=size,
        zone_name=self._placement.zone,
        snapshot_id=snapshot_id,
        encrypted=encrypted,
        kms_key_id=kms_key_id,
        volume_type=volume_type,
        iops=ebs.get("Iops"),
    )
    self.ec2_backend.attach_volume(volume.id, self.id, device_path, delete_on_termination)


def _ensure_root(self: Any, instance: Any, kwargs: dict[str, Any]) -> None:
    """Give an instance its image's root volume when the mappings did not name the root device."""
    if "block_device_mappings" not in kwargs or instance.root_device_name in (
        instance.block_device_mapping
    ):
        return
    volume = self.create_volume(size=ROOT_GIB, zone_name=instance._placement.zone)
    self.attach_volume(volume.id, instance.id, instance.root_device_name, True)
    volume.add_tags(kwargs.get("tags", {}).get("volume", {}))


def find_profile(account_id: str, **kwargs: Any) -> Any:
    """Find an instance profile; an unknown one is InvalidParameterValue, as on EC2."""
    try:
        found = ORIGINALS["filter_iam_instance_profiles"](account_id, **kwargs)
    except Exception as error:
        if "NoSuchEntity" not in (getattr(error, "code", ""), getattr(error, "error_type", "")):
            raise
        found = None
    if found is None:
        raise EC2ClientError("InvalidParameterValue", "Invalid IAM Instance Profile name")
    return found


def associate_profile(
    self: Any,
    instance_id: str,
    iam_instance_profile_name: str | None = None,
    iam_instance_profile_arn: str | None = None,
) -> Any:
    """Associate a profile; a replayed launch finds its own association in place."""
    known = self.iam_instance_profile_associations.get(instance_id)
    if known is not None and world().request.action == "RunInstances":
        return known
    return ORIGINALS["associate_iam_instance_profile"](
        self, instance_id, iam_instance_profile_name, iam_instance_profile_arn
    )


def tags_of(instance: Any) -> dict[str, str]:
    """Return an instance's real tags, whatever a Describe may show."""
    return dict(instance.ec2_backend.tags.get(instance.id, {}))
