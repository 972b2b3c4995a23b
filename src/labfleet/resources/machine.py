"""What a worker is made of: the block that templates and workers share.

A worker carries its own copy, taken from the template when it was made, so that editing a
template never changes a machine that already runs. Field names and defaults follow
facts/upstream.md#worker-phases and #templates-and-placement; secrets are references; time limits
are the defaults of facts/aws.md#metal-times.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Record, SecretRef

Positive = Annotated[int, msgspec.Meta(gt=0)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class AwsSettings(Record, frozen=True, kw_only=True):
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


class TlsSettings(Record, frozen=True, kw_only=True):
    """How a CML server's certificate is judged: verify, pin to a fingerprint, or off.

    `pin` trusts exactly one SHA-256 `fingerprint` (hex); with none given, the first one seen
    after a boot is kept for that boot. `off` is an explicit choice, never a default.
    """

    mode: Literal["verify", "pin", "off"] = "pin"
    fingerprint: str | None = None
    ca_file: str | None = None


class CmlSettings(Record, frozen=True, kw_only=True):
    """How the CML server on the instance is reached and used.

    `starts_at_once` labs boot at a time; the rest wait their turn (facts/cml-issues.md#f36).
    `enable_telemetry` opts in to CML's own product telemetry, once per boot.
    """

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 443
    admin_username: Text = "admin"
    admin_password: SecretRef
    api_base_url: str | None = None
    max_nodes_unlicensed: Annotated[int, msgspec.Meta(ge=1, le=5)] = 5
    max_nodes_licensed: Annotated[int, msgspec.Meta(ge=5, le=4096)] = 200
    enable_telemetry: bool = False
    starts_at_once: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    tls: TlsSettings = TlsSettings()


class LicenceSettings(Record, frozen=True, kw_only=True):
    """Which Smart Licence a worker registers; no token means it stays unlicensed."""

    product: Annotated[str, msgspec.Meta(pattern=r"^\w{1,20}$")] = "CML_Enterprise"
    token: SecretRef | None = None
    on_stop: Literal["keep", "return"] = "keep"


class TimeLimits(Record, frozen=True, kw_only=True):
    """Seconds of fleet time each stage may take before it is called late.

    Late is alert first: the worker says so in a condition; only `launch`, `boot` and
    `licence` end in FAILED. Drain forces after `drain` seconds when asked to.
    """

    launch: Positive = 1800
    boot: Positive = 1500
    licence: Positive = 600
    unlicense: Positive = 600
    stop: Positive = 1800
    terminate: Positive = 1800
    drain: Positive = 14400


class Machine(Record, frozen=True, kw_only=True):
    """Everything needed to make one worker."""

    aws: AwsSettings = AwsSettings()
    cml: CmlSettings
    licence: LicenceSettings = LicenceSettings()
    auto_license: bool = True
    capacity: Amounts = Amounts(
        cpu_milli=48000, memory_mib=188 * 1024, storage_mib=400 * 1024, labs=20, ports=6000
    )
    limits: TimeLimits = TimeLimits()
    hourly_price_usd: Annotated[float, msgspec.Meta(ge=0)] = 0.0
