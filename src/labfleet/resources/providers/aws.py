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

    `instance_types` in order of preference. Either `ami_id` or `ami_name_pattern` with
    `ami_owners`. `subnet_ids` in order of preference, one per zone; empty means EC2 chooses.
    `volume_throughput_mibps` is for gp3. `nested_virtualization` lets virtual types that can
    run KVM. `user_data` is given to the instance as it is; never put a secret there. Ranges
    that depend on each other are in `aws_limits`.
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
