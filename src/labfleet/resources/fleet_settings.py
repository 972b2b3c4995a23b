"""Settings that people change while the fleet runs: one object, `settings/fleet`.

Stored sparsely: a section holds only what somebody set. What holds is computed from three
layers, the last one that says something wins: the defaults below, the environment's aliases
(upstream 001 and 002, read by the composition root), the stored object (facts/upstream.md#discovery-settings).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from labfleet.kernel import ids
from labfleet.resources import patterns, providers, shape_words
from labfleet.resources.automation import Automation
from labfleet.resources.conditions import Condition
from labfleet.resources.kept_work import Keeping
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record, Ref, Resource
from labfleet.resources.scheduling import Scheduling
from labfleet.resources.settings_of_labs import Review
from labfleet.resources.settings_of_people import Access, Notices

NAME = "fleet"
Layer = Mapping[str, Mapping[str, Any]]
"""Section (camelCase) -> field (camelCase) -> value: one layer of settings."""
Source = Literal["settings", "environment", "default"]

Percent = Annotated[float, msgspec.Meta(gt=0, le=100)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Texts = Annotated[tuple[Text, ...], msgspec.Meta(max_length=100)]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
_PLAINLY = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
_OWNER = re.compile(r"[0-9]{12}|self|amazon|aws-marketplace|aws-backup-vault")
# What an AMI's name may hold, and the two wildcards of EC2's filters.
_AMI_NAME = re.compile(r"[A-Za-z0-9 ()\[\]./'@_*?-]{1,128}")


class Discovery(Record, frozen=True, kw_only=True):
    """Which instances of others become workers (upstream 002, facts/upstream.md#discovery-settings).

    Imported workers get the CML access of `template`, which lies in `namespace` like the workers.

    enabled: Whether the regions are scanned.
    regions: Regions that are scanned.
    ami_name_pattern: Pattern over names of images; instances of those that match are found.
    ami_owners: Accounts whose images count, always passed with the pattern.
    scan_interval_seconds: Time between two scans.
    template: Name of the template whose CML access imported workers get; null imports nothing.
    namespace: Namespace of that template and of imported workers.
    """

    enabled: bool = False
    regions: Texts = ("us-east-1",)
    ami_name_pattern: Text = "CML-*"
    ami_owners: Texts = ("self",)
    scan_interval_seconds: Annotated[int, msgspec.Meta(ge=60, le=3600)] = 300
    template: Text | None = None
    namespace: Text = DEFAULT_NAMESPACE

    def __post_init__(self) -> None:
        if not self.regions:
            raise ValueError("regions: name at least one, or unset it")
        for each in self.regions:
            if not providers.serves(each):
                raise ValueError(f"regions: {each!r} is no region, for example us-east-1")
        pattern = self.ami_name_pattern
        if not _AMI_NAME.fullmatch(pattern) or not re.search("[A-Za-z0-9]", pattern):
            what = "is no pattern of image names, for example CML-*"
            raise ValueError(f"amiNamePattern: {pattern!r} {what}")
        for each in self.ami_owners:
            if not _OWNER.fullmatch(each):
                raise ValueError(f"amiOwners: {each!r} is neither self nor an account of 12 digits")
        if self.template is not None and not ids.is_name(self.template):
            raise ValueError(f"template: {self.template!r} is no name of a template")
        if not ids.is_name(self.namespace):
            raise ValueError(f"namespace: {self.namespace!r} is no name of a namespace")


class Monitoring(Record, frozen=True, kw_only=True):
    """How often workers are measured, in fleet seconds, and what counts as a change.

    CloudWatch is off by default because it costs money per metric asked (facts/aws.md#cloudwatch).

    poll_interval_seconds: Time between two measurements of a worker.
    cloudwatch: Whether CloudWatch is asked too, which costs money.
    cloudwatch_interval_seconds: Time between two questions to CloudWatch.
    metrics_change_percent: By how much a number must move before the compatible stream tells it.
    instance_checks: Whether EC2's checks of instances are read.
    port_probe: When TCP ports of labs are tried from here: never, until READY, or while up too.
    port_probe_seconds: Time between two tries of the ports of a lab that is up.
    port_probes_per_minute: Connections to one worker in a minute for labs that are up.
    samples_days: Days after its end for which a run's or session's samples are kept.
    """

    poll_interval_seconds: Annotated[int, msgspec.Meta(ge=10, le=3600)] = 30
    cloudwatch: bool = False
    cloudwatch_interval_seconds: Annotated[int, msgspec.Meta(ge=60, le=3600)] = 300
    metrics_change_percent: Percent = 5.0
    instance_checks: bool = True
    port_probe: Literal["off", "start", "always"] = "always"
    port_probe_seconds: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 300
    port_probes_per_minute: Annotated[int, msgspec.Meta(ge=1, le=6000)] = 60
    samples_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 7


class Observation(Record, frozen=True, kw_only=True):
    """How labs are observed: while they run, at their end, and when somebody asks.

    CML does not say what 100 % of a node's CPU is; `share` reads it as all of its virtual CPUs.

    enabled: Whether labs are observed and measured at all.
    timeout_seconds: Time for one observation; what it did not see by then is a gap.
    sample_seconds: Time between two measurements of what a running lab uses.
    ports_seconds: Time between two looks at which ports the nodes of a running lab name.
    cpu_usage: Whether 100 % of a node's CPU is one core or all of its virtual CPUs.
    """

    enabled: bool = True
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=300)] = 30
    sample_seconds: Annotated[int, msgspec.Meta(ge=20, le=3600)] = 60
    ports_seconds: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 300
    cpu_usage: Literal["core", "share"] = "core"


class Idle(Record, frozen=True, kw_only=True):
    """When a worker counts as idle and is stopped (upstream 002, facts/upstream.md#idle).

    enabled: Whether workers are stopped when nobody uses them.
    timeout_minutes: How long there must be no sign of use.
    check_interval_seconds: Time between two checks of a worker.
    snooze_minutes: How long after a start nothing is judged.
    warn_minutes: How long before the stop an event announces it.
    soon_minutes: A session that begins within this time keeps its worker.
    activity_categories: Categories of CML's events that count as use.
    excluded_categories: Categories that do not count although they are among those.
    system_users: Pattern over users whose deeds do not count as use.
    max_age_hours: Age of a machine from which it is stopped when empty; null means no age.
    """

    enabled: bool = False
    timeout_minutes: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 60
    check_interval_seconds: Annotated[int, msgspec.Meta(ge=10, le=3600)] = 60
    snooze_minutes: Annotated[int, msgspec.Meta(ge=0, le=10_080)] = 60
    warn_minutes: Annotated[int, msgspec.Meta(ge=0, le=1440)] = 5
    soon_minutes: Annotated[int, msgspec.Meta(ge=0, le=1440)] = 35
    activity_categories: Texts = (
        "start_lab", "stop_lab", "wipe_lab", "import_lab", "export_lab", "create_lab",
        "delete_lab", "start_node", "stop_node", "queue_node", "boot_node", "user_activity",
    )  # fmt: skip
    excluded_categories: Texts = ()
    system_users: Annotated[str, msgspec.Meta(max_length=200)] = "^00000000-0000-"
    max_age_hours: Annotated[int, msgspec.Meta(ge=1, le=87_600)] | None = None

    def __post_init__(self) -> None:
        if not self.activity_categories:
            raise ValueError("activityCategories: name at least one, or unset it")
        problem = patterns.problem(self.system_users)
        if problem is not None:
            raise ValueError(f"systemUsers: {problem}")


class Thresholds(Record, frozen=True, kw_only=True):
    """From which value a condition is raised, and below which it is taken back (percent).

    cpu_percent: Use of CPU from which an alert is raised.
    cpu_eased_percent: Use of CPU below which it is taken back.
    memory_percent: Use of memory from which an alert is raised.
    memory_eased_percent: Use of memory below which it is taken back.
    disk_percent: Use of a disk from which an alert is raised and no new session is placed.
    disk_eased_percent: Use of a disk below which both are taken back.
    ports_percent: Share of a worker's ports that cannot be given out from which an alert is raised.
    ports_eased_percent: Share below which it is taken back.
    licence_days: Days before a licence's end at which an alert is raised and a renewal is asked
    for.
    silent_seconds: How long a server may give no answer before an alert is raised.
    no_capacity_seconds: How long there may be no room for a machine before an alert is raised.
    stuck_factor: Share of a stage's time limit after which the stage counts as late.
    """

    cpu_percent: Percent = 90.0
    cpu_eased_percent: Percent = 80.0
    memory_percent: Percent = 90.0
    memory_eased_percent: Percent = 80.0
    disk_percent: Percent = 90.0
    disk_eased_percent: Percent = 85.0
    ports_percent: Percent = 90.0
    ports_eased_percent: Percent = 85.0
    licence_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 14
    silent_seconds: Seconds = 300
    no_capacity_seconds: Seconds = 600
    stuck_factor: Annotated[float, msgspec.Meta(gt=0, le=10)] = 1.0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "disk", "ports"):
            if getattr(self, f"{name}_eased_percent") > getattr(self, f"{name}_percent"):
                raise ValueError(f"{name}EasedPercent: is greater than {name}Percent")


class Garbage(Record, frozen=True, kw_only=True):
    """How what is left behind is found and ended.

    Source: facts/upstream.md#orphans, facts/aws.md#two-phases.

    enabled: Whether what is left behind is looked for.
    dry_run: Whether it is only shown and never ended.
    interval_seconds: Time between two rounds.
    grace_seconds: How long something must have seemed left behind before it is ended.
    round_limit: Most ends of one round.
    keep_tag: Tag whose bearer is never ended.
    sweep_volumes: Whether disks are ended too.
    sweep_addresses: Whether addresses are given back too.
    retention_days: How long records of what is over are kept.
    """

    enabled: bool = True
    dry_run: bool = False
    interval_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 120
    grace_seconds: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = 300
    round_limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    keep_tag: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] = "keep"
    sweep_volumes: bool = True
    sweep_addresses: bool = True
    retention_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 30

    def __post_init__(self) -> None:
        if providers.reserved(self.keep_tag):
            shown = " or ".join(providers.RESERVED)
            raise ValueError(f"keepTag: must not begin with {shown}: all that is ours has those")
        if not self.keep_tag.isprintable() or self.keep_tag != self.keep_tag.strip():
            raise ValueError("keepTag: no tag of EC2 is spelled like that")


class Limits(Record, frozen=True, kw_only=True):
    """What one person or program may have, so that nobody hurts the others.

    open_sessions: Sessions of one owner in one namespace that have not ended, for callers of role
    user; seats of a group count for who booked it.
    promised_hours: Hours of slots of one owner in one namespace that have not ended, together, for
    callers of role user; seats count as above, and null leaves them to open_sessions.
    writes_per_minute: Writes of one token of role user or runner, with a sixth of it at once.
    controller_workers: Launched workers of one namespace outside every pool that have not ended,
    beyond which callers of role controller make no more.
    webhooks: Webhooks of one owner, for callers of role user; with 0 they make none.
    """

    open_sessions: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 50
    promised_hours: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 400
    writes_per_minute: Annotated[int, msgspec.Meta(ge=6, le=1_000_000)] = 240
    controller_workers: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 50
    webhooks: Annotated[int, msgspec.Meta(ge=0, le=20)] = 2


class Admission(Record, frozen=True, kw_only=True):
    """How long requests and approvals of simulations last (seconds), and whom they teach.

    answer_seconds: How long a caller waits for a decision before it is told to ask again.
    default_duration_seconds: How long a run may last of which nothing is known.
    grace_seconds: How long after its time a run may still report its end.
    take_up_seconds: How long an approval is kept for a caller that waited in a queue.
    longest_wait_seconds: How long a request waits in a queue at most.
    trust_reports: Whether what callers report of their runs teaches the runs of others too.
    """

    answer_seconds: Annotated[int, msgspec.Meta(ge=1, le=60)] = 5
    default_duration_seconds: Annotated[int, msgspec.Meta(ge=60, le=604_800)] = 3600
    grace_seconds: Annotated[int, msgspec.Meta(ge=30, le=86_400)] = 600
    take_up_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 300
    longest_wait_seconds: Annotated[int, msgspec.Meta(ge=60, le=31_536_000)] = 604_800
    trust_reports: bool = False


class FleetSettings(Record, frozen=True, kw_only=True):
    """What holds, every field filled."""

    discovery: Discovery = Discovery()
    monitoring: Monitoring = Monitoring()
    observation: Observation = Observation()
    keeping: Keeping = Keeping()
    idle: Idle = Idle()
    thresholds: Thresholds = Thresholds()
    garbage: Garbage = Garbage()
    limits: Limits = Limits()
    admission: Admission = Admission()
    scheduling: Scheduling = Scheduling()
    access: Access = Access()
    notices: Notices = Notices()
    review: Review = Review()
    automation: Automation = Automation()


SECTIONS: dict[str, type[Record]] = {
    "discovery": Discovery,
    "monitoring": Monitoring,
    "observation": Observation,
    "keeping": Keeping,
    "idle": Idle,
    "thresholds": Thresholds,
    "garbage": Garbage,
    "limits": Limits,
    "admission": Admission,
    "scheduling": Scheduling,
    "access": Access,
    "notices": Notices,
    "review": Review,
    "automation": Automation,
}


def section_problem(name: str, raw: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a section, its place first: `idle.timeoutMinutes: expected ...`."""
    known = [each.encode_name for each in msgspec.structs.fields(SECTIONS[name])]
    for key in raw:
        if key not in known:
            return f"{name}.{str(key)[:64]}: unknown key{_hint(str(key)[:64], known)}"
    try:
        msgspec.convert(dict(raw), SECTIONS[name])
    except msgspec.ValidationError as problem:
        what, _, place = str(problem).partition(" - at `$")
        at = place.rstrip("`").lstrip(".")
        if not at:
            return f"{name}.{what}"
        key, listed, _ = at.partition("[")
        shape = msgspec.inspect.type_info(SECTIONS[name])
        what = shape_words.plainly(what, shape, [key, 0] if listed else [key])
        return f"{name}.{at}: {what[:1].lower()}{what[1:]}"
    return None


def _hint(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


class SettingsSpec(Record, frozen=True, kw_only=True):
    """What people set; a field that is absent falls back to the environment, then the default.

    discovery: Which instances of others become workers.
    monitoring: How often workers are measured.
    observation: How labs are observed and measured.
    keeping: How labs are kept at their session's end.
    idle: When a worker counts as idle and is stopped.
    thresholds: From which values alerts are raised.
    garbage: How what is left behind is found and ended.
    limits: What one person or program may have.
    admission: How long requests and approvals of simulations last.
    scheduling: By what the worker of a session is chosen.
    access: How much of where a lab is reached callers of role user see.
    notices: What owners are told of their sessions.
    review: When what a definition asks for needs a review.
    automation: Whether every automatic action rests.
    """

    discovery: dict[str, Any] = {}
    monitoring: dict[str, Any] = {}
    observation: dict[str, Any] = {}
    keeping: dict[str, Any] = {}
    idle: dict[str, Any] = {}
    thresholds: dict[str, Any] = {}
    garbage: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    admission: dict[str, Any] = {}
    scheduling: dict[str, Any] = {}
    access: dict[str, Any] = {}
    notices: dict[str, Any] = {}
    review: dict[str, Any] = {}
    automation: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in SECTIONS:
            problem = section_problem(name, getattr(self, name))
            if problem is not None:
                raise ValueError(problem)


class SettingsStatus(Record, frozen=True, kw_only=True):
    """Nothing is observed of settings themselves.

    conditions: Facts about them, each with its reason.
    observed_generation: Generation of the spec that this status is about.
    """

    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class Settings(Resource, frozen=True, kw_only=True):
    """The fleet's settings; there is one object, named `fleet`."""

    spec: SettingsSpec = SettingsSpec()
    status: SettingsStatus = SettingsStatus()
    kind: str = "Settings"


REF = Ref(Settings, DEFAULT_NAMESPACE, NAME)
"""The one object of this kind: settings are the fleet's."""


def effective(stored: Settings | None, environment: Layer) -> FleetSettings:
    """Return what holds. A layer's section that contradicts itself is left out, never half taken.

    The environment was validated when it was read; together with what is stored it may still
    contradict (an eased threshold above the other), and then what is stored wins alone.
    """
    made: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        kept = {} if stored is None else getattr(stored.spec, name)
        try:
            made[name] = msgspec.convert({**environment.get(name, {}), **kept}, section)
        except msgspec.ValidationError:
            made[name] = msgspec.convert(kept, section)
    return FleetSettings(**made)


def sources(stored: Settings | None, environment: Layer) -> dict[str, Source]:
    """Return `section.field` -> which layer its value is from: settings, environment, default."""
    found: dict[str, Source] = {}
    for name, section in SECTIONS.items():
        kept = {} if stored is None else getattr(stored.spec, name)
        given = environment.get(name, {})
        for field in _fields(section):
            key = field.encode_name
            layer: Source = "default"
            if key in kept:
                layer = "settings"
            elif key in given:
                layer = "environment"
            found[f"{name}.{key}"] = layer
    return found


@cache
def settings_fields() -> tuple[tuple[str, str, msgspec.structs.FieldInfo], ...]:
    """Return (path, section, field) of everything that can be set, in the order of the sections."""
    return tuple(
        (f"{name}.{field.encode_name}", name, field)
        for name, section in SECTIONS.items()
        for field in _fields(section)
    )


@cache
def _fields(section: type[Record]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a section; working them out takes half a millisecond."""
    return msgspec.structs.fields(section)


def field_at(path: str) -> tuple[str, msgspec.structs.FieldInfo]:
    """Return section and field of `idle.timeoutMinutes`; ValueError with a hint when none."""
    found = {each: (section, field) for each, section, field in settings_fields()}
    if path not in found:
        raise ValueError(f"there is no setting {path[:80]!r}{_hint(path[:80], list(found))}")
    return found[path]


def from_text(path: str, text: str) -> Any:
    """Return the value that a text stands for, typed as its setting; ValueError when it is none.

    Lists are separated by commas. What a number must lie between is judged with its section.
    """
    section, field = field_at(path)
    given: object = text
    if isinstance(msgspec.inspect.type_info(field.type), msgspec.inspect.VarTupleType):
        given = [each.strip() for each in text.split(",") if each.strip()]
    try:
        value = msgspec.convert(given, field.type, strict=False)
    except msgspec.ValidationError as problem:
        told, _, trail = str(problem).partition(" - at ")
        shape = msgspec.inspect.type_info(field.type)
        what = shape_words.plainly(told, shape, [0] if trail else []).removesuffix(", got `str`")
        for word, plainly in _PLAINLY.items():
            what = what.replace(f"`{word}`", plainly)
        said = f"{path}: {what[:1].lower()}{what[1:]}"
        raise ValueError(said if ", not '" in said else f"{said}, not {text[:80]!r}") from None
    plain = msgspec.to_builtins(value)
    problem_ = section_problem(section, {field.encode_name: plain})
    # Two settings that contradict each other are judged when they stand together.
    if problem_ is not None and problem_.startswith(f"{path}: ") and "greater" not in problem_:
        raise ValueError(problem_)
    return plain


def value_at(settings: FleetSettings, path: str) -> Any:
    """Return a setting's value as JSON has it."""
    section, field = field_at(path)
    return msgspec.to_builtins(getattr(getattr(settings, section), field.name))
