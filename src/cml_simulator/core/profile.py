"""The differences between servers: simulated release, size, and answers to open questions.

Releases: each row of facts/cml.md#releases is a field of `Profile` (or, for whole paths, the
`first`/`last` of a route in the route table).

What nobody could prove (facts/cml.md#open-questions), and the field of `Rules` that switches it:

 1 refusal of deleting or wiping too early   refusal_status (400)
 2 connectors and switches count             vmless_licensed, vmless_running (False)
 3 status words; licence refusal's status    words ({}), over_licence_status (400)
 4 units of node figures                     cpu_usage ("core"), usage_unit ("MiB")
 5 session length                            session_seconds (86 400)
 6 a power cycle's nodes and tokens          power_off_nodes ("stopped"), tokens_survive (False)
 7 boot durations                            boot_factor (1.0), boot_seconds ({definition: s})
 8 GET of a missing node                     missing_node_status (404)
 9 a start over the licence                  over_licence ("queue" | "refuse" | "leave")
10 who wins a port claimed twice at once     patty_ties ("node_id" | "started" | "last")
11 an element type in events of a whole lab  lab_event_element ("lab" | "none")
12 when a staged start's next stage begins   staging ("booted" | "started")

Bugs of old servers in facts/cml-issues.md are rules too: converged_early (facts/cml-issues.md#f1),
lab_state_lag (facts/cml-issues.md#f23), yaml_error_status (facts/cml-issues.md#f31), silent
(facts/cml-issues.md#f32).
"""

from dataclasses import dataclass, field
from typing import Literal

RELEASES = {7: "2.7.2+build.26", 8: "2.8.1+build.14", 9: "2.9.1+build.7", 10: "2.10.0+build.5"}
"""Minor release -> the version text its profile shows."""

_SCHEMAS = (
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
    "0.3.1",
)
_LAST_SCHEMA = {7: "0.2.2", 8: "0.3.0", 9: "0.3.0", 10: "0.3.1"}


@dataclass(frozen=True, slots=True)
class Profile:
    """One release train; everything else follows from the version text's minor number."""

    version: str = RELEASES[9]

    @property
    def minor(self) -> int:
        """7 to 10: the nearest release that is known; an odd version text counts as 2.9."""
        parts = self.version.split("+")[0].split(".")
        if len(parts) < 2 or parts[0] != "2" or not (parts[1].isascii() and parts[1].isdigit()):
            return 9
        return min(max(int(parts[1]), 7), 10)

    @property
    def schema(self) -> str:
        """The schema version of what it writes."""
        return _LAST_SCHEMA[self.minor]

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schema versions its importer takes."""
        return _SCHEMAS[: _SCHEMAS.index(self.schema) + 1]

    @property
    def trailing_slashes(self) -> bool:
        return self.minor <= 8

    @property
    def licensing_bodies(self) -> bool:
        return self.minor >= 10

    @property
    def smart_annotations(self) -> bool:
        return self.minor >= 8

    @property
    def docker(self) -> bool:
        return self.minor >= 9

    @property
    def named_files_only(self) -> bool:
        """Whether a configuration is always the list of named files."""
        return self.minor >= 10

    @property
    def deployed_on_top(self) -> bool:
        """Whether compute_id, vnc_key and the like also stand beside `operational`."""
        return self.minor <= 9

    @property
    def starting_state(self) -> bool:
        return self.minor >= 10

    @property
    def lab_extras(self) -> bool:
        """Autostart, node staging, node priority, pyats."""
        return self.minor >= 10

    @property
    def group_lists(self) -> bool:
        """Whether a lab body has the deprecated `groups`."""
        return self.minor <= 9

    @property
    def associations(self) -> bool:
        return self.minor >= 8

    @property
    def opt_in(self) -> Literal["bool", "null", "word"]:
        return "bool" if self.minor <= 8 else "null" if self.minor == 9 else "word"

    @property
    def event_words(self) -> bool:
        """Whether events say CREATED of a Node, where older ones say ADD of a NODE."""
        return self.minor >= 10

    @property
    def compute_nodes(self) -> bool:
        """Whether a compute host lists its nodes."""
        return self.minor <= 9

    @property
    def compute_counts(self) -> bool:
        """Whether a compute host counts its nodes (virl2_client 2.8 crashes on that key)."""
        return self.minor >= 9

    @property
    def wrapped_yaml(self) -> bool:
        """Whether a node definition's YAML comes as a JSON string, which virl2_client 2.8 reads."""
        return self.minor <= 8

    @property
    def hyperthreading(self) -> bool:
        """Whether system_stats says if the host has it: cml-mcp needs to be told."""
        return self.minor >= 9

    @property
    def long_information(self) -> bool:
        return self.minor >= 10

    @property
    def whole_links(self) -> bool:
        """Whether making a link returns all of it, with the link id as capture key."""
        return self.minor >= 10

    @property
    def overload_flags(self) -> bool:
        return self.minor >= 10


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware: vCPUs, bytes, and how long its boot takes (simulated seconds).

    In the first `silent_seconds` of a boot the machine has no network yet: nobody answers at all.
    """

    cpus: int = 48
    memory_bytes: int = 202_422_902_784
    disk_bytes: int = 266_206_101_504
    boot_seconds: float = 0.0
    silent_seconds: float = 0.0
    kvm: bool = True
    model: str = "Intel(R) Xeon(R) Platinum 8252C CPU @ 3.80GHz"


@dataclass(frozen=True, slots=True)
class Rules:
    """Answers to questions that the facts leave open, and durations (simulated seconds)."""

    over_licence: Literal["queue", "refuse", "leave"] = "queue"
    over_licence_status: Literal[400, 403] = 400
    unknown_definition: Literal["refuse", "warn"] = "refuse"
    refusal_status: Literal[400, 403, 409] = 400
    missing_node_status: Literal[400, 404] = 404
    vmless_licensed: bool = False
    vmless_running: bool = False
    words: dict[str, str] = field(default_factory=dict)
    cpu_usage: Literal["core", "share"] = "core"
    usage_unit: Literal["MiB", "bytes"] = "MiB"
    power_off_nodes: Literal["stopped", "running"] = "stopped"
    tokens_survive: bool = False
    patty_ties: Literal["node_id", "started", "last"] = "node_id"
    converged_early: bool = False
    lab_state_lag: float = 0.0
    yaml_error_status: Literal[400, 500] = 400
    silent: tuple[str, ...] = ()
    disk_watermark: float = 0.95
    stop_seconds: float = 2.0
    session_seconds: int = 86_400
    registration_seconds: float = 8.0
    authorization_seconds: float = 4.0
    patty_poll: float = 5.0
    patty_first: int = 2000
    patty_last: int = 7999
    boot_factor: float = 1.0
    boot_seconds: dict[str, float] = field(default_factory=dict)
    starting_seconds: float = 1.0
    staging: Literal["booted", "started"] = "booted"
    lab_event_element: Literal["lab", "none"] = "lab"
    telemetry_stamp: Literal["offset", "zulu", "plain", "seconds"] = "offset"


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


def release(text: str) -> Profile:
    """Return the profile of `2.8`, or of a whole version text."""
    short = {f"2.{minor}": version for minor, version in RELEASES.items()}
    return Profile(short.get(text, text))
