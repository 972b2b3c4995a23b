"""What can be set on the simulator, with defaults that behave like an unloaded, healthy EC2.

All faults, request buckets and quotas are off until somebody asks for them. Durations are
simulated seconds unless a name says otherwise.
"""

import dataclasses
from typing import Any

TAG_WORKER = "labfleet:worker-uid"
TAG_OWNER = "labfleet:owner"
STATES_THAT_STICK = ("pending", "stopping", "shutting-down")


@dataclasses.dataclass(frozen=True)
class Times:
    """How long each slow state lasts; source: facts/aws.md#metal-times."""

    pending: float = 30.0
    stopping: float = 60.0
    terminating: float = 45.0
    status: float = 60.0


METAL = Times(pending=480.0, stopping=300.0, terminating=300.0, status=240.0)


def default_times() -> dict[str, Times]:
    """Return the presets: `metal` for every type with `.metal`, `default` for the rest."""
    return {"default": Times(), "metal": METAL}


@dataclasses.dataclass(frozen=True)
class Lags:
    """Eventual consistency by kind: how long a fresh truth stays out of sight.

    `actions` overrides `instance` for one action (CreateTags may lag longer than Describe);
    `fields` holds seconds after launch during which a field of a description is missing; `flap` is
    the share of instances that a page leaves out although they exist.
    """

    instance: float = 0.0
    tags: float = 0.0
    addresses: float = 0.0
    state: float = 0.0
    actions: dict[str, float] = dataclasses.field(default_factory=dict)
    fields: dict[str, float] = dataclasses.field(default_factory=dict)
    flap: float = 0.0


@dataclasses.dataclass(frozen=True)
class Metrics:
    """What is wrong with CloudWatch: shares are 0 to 1, `late` and `unaligned` are seconds.

    `absent` lists instance ids without datapoints (`*` is all); `page` is results per page;
    `partial` splits each answer into a PartialData page and the rest.
    """

    absent: tuple[str, ...] = ()
    late: float = 0.0
    gaps: float = 0.0
    unaligned: float = 0.0
    page: int = 500
    partial: bool = False


@dataclasses.dataclass
class Config:
    """The whole configuration; `/_control/config` reads and merges it."""

    times: dict[str, Times] = dataclasses.field(default_factory=default_times)
    jitter: float = 0.0
    lags: Lags = Lags()
    stuck_stopping: bool = False
    stuck: list[str] = dataclasses.field(default_factory=list)
    terminated_visible: float = 3600.0
    buckets: str = "off"
    bucket_limits: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    vcpu_limit: int | None = None
    spot_limit: int | None = None
    stock: dict[str, int] = dataclasses.field(default_factory=dict)
    free_addresses: dict[str, int] = dataclasses.field(default_factory=dict)
    zones_down: list[str] = dataclasses.field(default_factory=list)
    regions_disabled: list[str] = dataclasses.field(default_factory=list)
    clock_offset: float = 0.0
    credentials: dict[str, float] = dataclasses.field(default_factory=dict)
    shuffled: bool = False
    own_writer: bool = True
    cloudwatch: Metrics = Metrics()
    worker_tag: str = TAG_WORKER
    owner_tag: str = TAG_OWNER
    cml_server: dict[str, Any] = dataclasses.field(default_factory=lambda: {"boot_seconds": 240})

    def times_for(self, instance_type: str) -> Times:
        """Return the times of a type: its own entry, else the metal preset, else the default."""
        if instance_type in self.times:
            return self.times[instance_type]
        return self.times["metal" if ".metal" in instance_type else "default"]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return dataclasses.asdict(self)

    def merge(self, change: dict[str, Any]) -> None:
        """Apply a partial change; raises ValueError on an unknown key or a wrong type."""
        known = {field.name for field in dataclasses.fields(self)}
        unknown = sorted(set(change) - known)
        if unknown:
            raise ValueError(f"unknown settings: {', '.join(unknown)}")
        prepared: dict[str, Any] = {}
        for key, value in change.items():
            try:
                prepared[key] = self._parsed(key, value)
            except (TypeError, AttributeError) as error:
                raise ValueError(f"{key}: {error}") from error
        for key, value in prepared.items():
            setattr(self, key, value)

    def _parsed(self, key: str, value: Any) -> Any:
        if key == "times":
            merged = dict(self.times)
            for name, entry in value.items():
                base = merged.get(name, METAL if ".metal" in name else Times())
                merged[name] = dataclasses.replace(base, **entry)
            return merged
        if key == "lags":
            return dataclasses.replace(self.lags, **value)
        if key == "cloudwatch":
            changed = dataclasses.replace(self.cloudwatch, **value)
            return dataclasses.replace(changed, absent=tuple(changed.absent))
        if key == "buckets" and value not in ("off", "aws", "tenth"):
            raise ValueError("buckets: one of off, aws, tenth")
        if key == "stuck" and not set(value) <= set(STATES_THAT_STICK):
            raise ValueError(f"stuck: some of {', '.join(STATES_THAT_STICK)}")
        return value
