"""Checks a machine's settings for what EC2 would refuse, before anything is launched. Pure.

Numbers are those of facts/aws.md#call-limits, #nested-virtualization, #volumes; a problem names its
field as manifests spell it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from labfleet.resources.providers.aws import AwsSettings

Problems = tuple[tuple[str, str], ...]
# Volume type -> (least GiB, most GiB, least IOPS, most IOPS, most IOPS for each GiB).
VOLUMES = {
    "io1": (4, 16384, 100, 64000, 50),
    "io2": (4, 65536, 100, 256000, 1000),
    "gp3": (1, 65536, 3000, 80000, 500),
}
IOPS_PER_MIBPS = 4
"""gp3 moves at most a quarter MiB/s for each of its IOPS."""
USER_DATA_BYTES = 16 * 1024
TAGS = 30
TAG_KEY, TAG_VALUE = 128, 256
_TAG_TEXT = re.compile(r"[\w .:/=+\-@]*")
RESERVED = ("aws:", "labfleet:")
REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-[0-9]{1,2}")
NESTED_FAMILIES = frozenset(
    {
        "c7i", "c7i-flex", "c8i", "c8i-flex", "c8id", "i7i", "i7ie", "m7i", "m7i-flex", "m8i",
        "m8i-flex", "m8id", "r7i", "r7iz", "r8i", "r8i-flex", "r8id", "x8i",
    }
)  # fmt: skip
OLD_FAMILIES = re.compile(r"[a-z]+[1-6][a-z]*")
"""Families before the seventh generation: none of them nests.

Source: facts/aws.md#nested-virtualization.
"""


def template_problems(aws: AwsSettings) -> Problems:
    """Return what is wrong with settings that people wrote: an image must be named, too."""
    if aws.ami_id is None and aws.ami_name_pattern is None:
        return (("", "give amiId or amiNamePattern"),)
    return problems(aws)


def problems(aws: AwsSettings) -> Problems:
    """Return (field, what is wrong) of settings to launch with; empty when nothing is."""
    return (*_volume(aws), *_nesting(aws), *_places(aws), *_data(aws), *tags(aws.tags))


def tags(given: Mapping[str, str], where: str = "tags") -> Problems:
    """Return what is wrong with tags that people wrote."""
    found = []
    if len(given) > TAGS:
        found.append((where, f"at most {TAGS} tags: EC2 takes 50, and some are ours"))
    for key, value in given.items():
        field = f"{where}.{key[:TAG_KEY]}"
        if key.lower().startswith(RESERVED):
            found.append((field, f"keys must not begin with {' or '.join(RESERVED)}"))
        elif key == "Name":
            found.append((field, "Name is the worker's name"))
        elif not 1 <= len(key) <= TAG_KEY or len(value) > TAG_VALUE:
            found.append((field, f"1 to {TAG_KEY} characters, with at most {TAG_VALUE} as value"))
        elif not _TAG_TEXT.fullmatch(key) or not _TAG_TEXT.fullmatch(value):
            found.append((field, "letters, digits, spaces and . : / = + - @ _ only"))
    return tuple(found)


def _volume(aws: AwsSettings) -> Problems:
    found = []
    least, most, slowest, fastest, each = VOLUMES[aws.volume_type]
    kind, size, iops, rate = (
        aws.volume_type,
        aws.volume_size_gib,
        aws.volume_iops,
        aws.volume_throughput_mibps,
    )
    if not least <= size <= most:
        found.append(("volumeSizeGib", f"{least} to {most} GiB for {kind}"))
    if not slowest <= iops <= fastest:
        found.append(("volumeIops", f"{slowest} to {fastest} for {kind}"))
    elif iops > max(each * size, slowest if kind == "gp3" else 0):
        what = f"at most {each * size} for {size} GiB of {kind} ({each} for each GiB)"
        found.append(("volumeIops", what))
    if rate is not None and kind != "gp3":
        found.append(("volumeThroughputMibps", f"only gp3 takes it; {kind} has its own"))
    elif rate is not None and rate * IOPS_PER_MIBPS > iops:
        what = f"at most {iops // IOPS_PER_MIBPS} for {iops} IOPS"
        found.append(("volumeThroughputMibps", what))
    return tuple(found)


def _nesting(aws: AwsSettings) -> Problems:
    """Refuse what surely cannot nest; the last word on a virtual type has EC2 at the launch."""
    if not aws.nested_virtualization:
        return ()
    found = []
    for name in aws.instance_types:
        family, _, size = name.partition(".")
        if size.startswith("metal"):
            found.append(f"{name} is bare metal: it has KVM without it")
        elif family not in NESTED_FAMILIES and OLD_FAMILIES.fullmatch(family):
            found.append(f"{name} cannot")
    return (("nestedVirtualization", "; ".join(found)),) if found else ()


def _places(aws: AwsSettings) -> Problems:
    if not REGION.fullmatch(aws.region):
        # One that is never listed would hold garbage collection in all of them.
        return (("region", "is no region, for example us-east-1"),)
    if aws.ami_id is None and aws.ami_name_pattern is not None and not aws.ami_owners:
        return (("amiOwners", "say whose images may match: anybody can publish one by any name"),)
    if aws.vpc_id is not None and not aws.subnet_ids:
        return (("subnetIds", "name subnets of the VPC: EC2 launches by subnet, not by VPC"),)
    return ()


def _data(aws: AwsSettings) -> Problems:
    size = 0 if aws.user_data is None else len(aws.user_data.encode())
    if size > USER_DATA_BYTES:
        return (("userData", f"{size} bytes; EC2 takes {USER_DATA_BYTES}"),)
    return ()
