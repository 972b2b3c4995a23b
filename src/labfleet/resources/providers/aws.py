"""The settings of machines on EC2; `aws_limits` beside it says which of them EC2 would refuse.

Only the adapter, these two modules and upstream's names (`api/compatible`) look into the fields;
everything else asks `providers`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from labfleet.resources.meta import Record, Text


class AwsSettings(Record, frozen=True, kw_only=True, tag_field="kind", tag="aws"):
    """How the EC2 instance is launched.

    Ranges that depend on each other are in `aws_limits`. `user_data` goes to the instance as it
    is: never put a secret there.

    kind: Always aws.
    region: Region in which the instance is launched.
    instance_types: Types that may be launched, in order of preference.
    ami_id: Image to start from; null means the newest one that the pattern matches.
    ami_name_pattern: Pattern over names of images, with * and ?.
    ami_owners: Accounts whose images may be taken, always passed with the pattern.
    vpc_id: Network in which subnets and security groups lie; null leaves it to EC2.
    subnet_ids: Subnets in order of preference, one per zone; empty means EC2 chooses.
    security_group_ids: Security groups of the instance; empty means the network's default group.
    key_name: Key pair for SSH; null means none.
    assign_public_ip: Whether the instance gets a public address.
    volume_size_gib: Size of the disk in GiB.
    volume_type: Type of the disk.
    volume_iops: Operations a second that the disk is bought with.
    volume_throughput_mibps: Throughput of a gp3 disk in MiB/s; null means EC2's default.
    iam_instance_profile: Name or ARN of the instance's profile; null means none.
    nested_virtualization: Whether virtual types that can run KVM may be launched too.
    user_data: Script or text that the instance gets at its first boot.
    tags: Further tags of everything that is launched.
    """

    region: Text = "us-east-1"
    instance_types: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=10)] = (
        "m5zn.metal",
    )
    ami_id: str | None = None
    ami_name_pattern: str | None = None
    ami_owners: tuple[str, ...] = ("self",)
    vpc_id: Text | None = None
    subnet_ids: Annotated[tuple[Text, ...], msgspec.Meta(max_length=16)] = ()
    security_group_ids: Annotated[tuple[Text, ...], msgspec.Meta(max_length=16)] = ()
    key_name: Text | None = None
    assign_public_ip: bool = True
    volume_size_gib: Annotated[int, msgspec.Meta(ge=8, le=65536)] = 500
    volume_type: Literal["io1", "io2", "gp3"] = "io1"
    volume_iops: Annotated[int, msgspec.Meta(ge=100, le=256000)] = 10000
    volume_throughput_mibps: Annotated[int, msgspec.Meta(ge=125, le=2000)] | None = None
    iam_instance_profile: Annotated[str, msgspec.Meta(min_length=1, max_length=2048)] | None = None
    nested_virtualization: bool = False
    user_data: str | None = None
    tags: Annotated[dict[str, str], msgspec.Meta(max_length=30)] = {}
