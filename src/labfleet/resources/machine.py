"""What a worker is made of: the block that templates and workers share, and what is seen of it.

A worker carries its own copy, taken from the template when it was made, so that editing a
template never changes a machine that already runs. Field names and defaults follow
facts/upstream.md#worker-phases and #templates-and-placement; secrets are references; time limits
are the defaults of facts/aws.md#metal-times.
"""

from __future__ import annotations

import re
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

    mode: Whether the certificate is verified, pinned to a fingerprint, or not judged at all.
    fingerprint: SHA-256 of the one certificate that is trusted, in hex; null keeps the first one
    of each boot.
    ca_file: File on the server with the certificate authority for verify; null means the system's.
    """

    mode: Literal["verify", "pin", "off"] = "pin"
    fingerprint: str | None = None
    ca_file: str | None = None


def plain_fingerprint(text: str) -> str | None:
    """Return a SHA-256 as plain lower-case hex, None when it is none; colons and spaces may stand."""
    plain = re.sub(r"[:\s]", "", text).lower()
    return plain if re.fullmatch(r"[0-9a-f]{64}", plain) else None


class CmlSettings(Record, frozen=True, kw_only=True):
    """How the CML server on the machine is reached and used.

    port: Port on which CML answers.
    admin_username: Name of CML's administrator.
    admin_password: Where the administrator's password is read.
    api_base_url: Address of CML when it is not that of the machine; null means the machine's.
    max_nodes_unlicensed: Nodes that a server without a licence is trusted to run.
    max_nodes_licensed: Nodes that a licensed server is trusted to run at most.
    enable_telemetry: Opt in to CML's own product telemetry, once per boot.
    starts_at_once: Labs that boot at a time; the rest wait their turn (facts/cml-issues.md#f36).
    tls: How the server's certificate is judged.
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


LicenceProduct = Annotated[str, msgspec.Meta(pattern=r"^\w{1,20}$")]


class LicenceSettings(Record, frozen=True, kw_only=True):
    """Which Smart Licence a worker registers; no token means it stays unlicensed.

    product: Product that is registered, in CML's word.
    token: Where the registration token is read; null leaves the worker unlicensed.
    on_stop: Whether a stopped worker keeps its licence or gives it back.
    """

    product: LicenceProduct = "CML_Enterprise"
    token: SecretRef | None = None
    on_stop: Literal["keep", "return"] = "keep"


class TimeLimits(Record, frozen=True, kw_only=True):
    """Seconds of fleet time each stage may take before it is called late.

    Late is alert first: the worker says so in a condition; only `launch`, `boot` and
    `licence` end in FAILED. Drain forces after `drain` seconds when asked to.

    launch: Seconds from the launch until the machine runs.
    boot: Seconds from a running machine until CML is ready.
    licence: Seconds for the registration of a licence.
    unlicense: Seconds for giving a licence back.
    stop: Seconds for the machine to stop.
    terminate: Seconds for the machine to end.
    drain: Seconds that sessions get to end when a worker is emptied.
    """

    launch: Positive = 1800
    boot: Positive = 1500
    licence: Positive = 600
    unlicense: Positive = 600
    stop: Positive = 1800
    terminate: Positive = 1800
    drain: Positive = 14400


class Machine(Record, frozen=True, kw_only=True):
    """Everything needed to make one worker; `provider` says where the machine comes from, and how.

    provider: Where the machine comes from, and how.
    cml: How the CML server on it is reached and used.
    licence: Which licence it registers.
    auto_license: Whether a licence is registered by itself.
    capacity: What the machine is taken to have until it was seen.
    limits: How long each stage may take.
    hourly_price_usd: Price of an hour in US dollars, for what-ifs, reports and the order of pools; 0 is not known.
    """

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
    """Something that the provider will do to the machine, such as instance-retirement.

    code: Code of the event, for example instance-retirement.
    not_before: Earliest instant at which it happens; null when the provider names none.
    description: The provider's own words.
    """

    code: str
    not_before: datetime | None = None
    description: str = ""


class MachineStatus(Record, frozen=True, kw_only=True):
    """The machine as last seen; None means not seen, never a guess.

    A machine is gone only after two complete looks a minute apart say so (facts/aws.md#absence).

    id: The provider's name for the machine.
    state: Where the machine is in its life.
    type: Type of the machine.
    image: Image that it was started from.
    zone: Availability zone.
    public_address: Address by which it is reached from outside; holds for one boot.
    private_address: Address in its own network.
    launched: When it was launched, or last started.
    stopped_at: When it last left off running, as the provider tells it; null when it does not.
    volume: The provider's name for its disk.
    absent_since: Since when the provider does not list it.
    host_check: The provider's check of the host under it.
    machine_check: The provider's check of the machine.
    events: What the provider will do to it.
    state_reason: The provider's reason for the state.
    tags: Keys of the worker's own tags that are set on the machine.
    tags_seen: All tags that the provider shows, at most 50; null where machines have none.
    """

    id: str | None = None
    state: MachineState | None = None
    type: str | None = None
    image: str | None = None
    zone: str | None = None
    public_address: str | None = None
    private_address: str | None = None
    launched: datetime | None = None
    stopped_at: datetime | None = None
    volume: str | None = None
    absent_since: datetime | None = None
    host_check: str | None = None
    machine_check: str | None = None
    events: tuple[ScheduledEvent, ...] = ()
    state_reason: str | None = None
    tags: tuple[str, ...] = ()
    tags_seen: dict[str, str] | None = None
