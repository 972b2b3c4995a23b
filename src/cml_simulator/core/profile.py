"""What differs between servers: the release they play, their size, and open questions' answers.

Only the 2.9 profile exists; the rows of `facts/cml-api.md` section 4 hang on `Profile` later.
"""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Profile:
    """One release train: the version text and the schema versions its importer takes."""

    version: str = "2.9.1+build.7"
    schema: str = "0.3.0"
    schemas: tuple[str, ...] = (
        "0.0.1",
        "0.0.2",
        "0.0.3",
        "0.0.4",
        "0.0.5",
        "0.1.0",
        "0.2.0",
        "0.2.1",
        "0.2.2",
        "0.3.0",
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware: vCPUs, bytes, and how long its boot takes (simulated seconds)."""

    cpus: int = 48
    memory_bytes: int = 202_422_902_784
    disk_bytes: int = 266_206_101_504
    boot_seconds: float = 0.0
    kvm: bool = True
    model: str = "Intel(R) Xeon(R) Platinum 8252C CPU @ 3.80GHz"


@dataclass(frozen=True, slots=True)
class Rules:
    """Answers to what the facts leave open, and the times of slow things (simulated seconds)."""

    over_licence: Literal["queue", "refuse"] = "queue"
    unknown_definition: Literal["refuse", "warn"] = "refuse"
    stop_seconds: float = 2.0
    session_seconds: int = 86_400
    registration_seconds: float = 8.0
    authorization_seconds: float = 4.0
    patty_poll: float = 5.0
    patty_first: int = 2000
    patty_last: int = 7999
    boot_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a server is: it keeps this over stop and boot (a licence belongs to product_uuid)."""

    id: str
    product_uuid: str
    compute_id: str
    hostname: str = "cml-controller"


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that is decided when a server is created."""

    identity: Identity
    machine: Machine = field(default_factory=Machine)
    rules: Rules = field(default_factory=Rules)
    profile: Profile = field(default_factory=Profile)
