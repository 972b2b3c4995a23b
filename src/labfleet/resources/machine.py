"""What a worker is made of: the block that templates and workers share, and what is seen of it.

A worker carries its own copy, taken from the template when it was made, so that editing a
template never changes a machine that already runs. Field names and defaults follow
facts/upstream.md#worker-phases and #templates-and-placement; secrets are references; time limits
are the defaults of facts/aws.md#metal-times.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Record, SecretRef, Text
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.aws import AwsSettings

Positive = Annotated[int, msgspec.Meta(gt=0)]
MachineState = Literal["booting", "running", "stopping", "stopped", "ending", "gone"]
"""A machine's life as every provider tells it; `ending` and `gone` have no way back."""


class TlsSettings(Record, frozen=True, kw_only=True):
    """How a CML server's certificate is judged: verify, pin to a fingerprint, or off.

    `pin` trusts exactly one SHA-256 `fingerprint` (hex); with none given, the first one seen
    after a boot is kept for that boot. `off` is an explicit choice, never a default.
    """

    mode: Literal["verify", "pin", "off"] = "pin"
    fingerprint: str | None = None
    ca_file: str | None = None


class CmlSettings(Record, frozen=True, kw_only=True):
    """How the CML server on the machine is reached and used.

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
    """Everything needed to make one worker; `provider` says where the machine comes from, and how."""

    provider: ProviderSettings = AwsSettings()
    cml: CmlSettings
    licence: LicenceSettings = LicenceSettings()
    auto_license: bool = True
    capacity: Amounts = Amounts(
        cpu_milli=48000, memory_mib=188 * 1024, storage_mib=400 * 1024, labs=20, ports=6000
    )
    limits: TimeLimits = TimeLimits()
    hourly_price_usd: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class ScheduledEvent(Record, frozen=True, kw_only=True):
    """Something that the provider will do to the machine, such as instance-retirement."""

    code: str
    not_before: datetime | None = None
    description: str = ""


class MachineStatus(Record, frozen=True, kw_only=True):
    """The machine as last seen; None means not seen, never a guess.

    `id` is the provider's name for it. `host_check` and `machine_check` are the provider's own
    checks. `absent_since` holds the patience of facts/aws.md#absence: a machine is gone only after
    two complete looks a minute apart say so. `tags` are the keys of `spec.tags` that we set,
    `tags_seen` all that the provider shows, at most 50; null where machines have none (static).
    """

    id: str | None = None
    state: MachineState | None = None
    type: str | None = None
    image: str | None = None
    zone: str | None = None
    public_address: str | None = None
    private_address: str | None = None
    launched: datetime | None = None
    volume: str | None = None
    absent_since: datetime | None = None
    host_check: str | None = None
    machine_check: str | None = None
    events: tuple[ScheduledEvent, ...] = ()
    state_reason: str | None = None
    tags: tuple[str, ...] = ()
    tags_seen: dict[str, str] | None = None
