"""The plan of a what-if: fleet, pools, labs, demand and the variants to compare.

Reads YAML (docs/how-to/ask-what-if.md) and refuses unknown keys with their line; it does not play
the plan. Spans are in the unit of their name; a plan has exactly one demand. A value that is
invalid by itself is refused here; one that conflicts with others, by `planned_fleet` and
`feasibility`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from labfleet.kernel import errors
from labfleet.rehearsal.plans import plan_words
from labfleet.rehearsal.plans.plan_words import Source, Wrong
from labfleet.resources import amounts, documents
from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record
from labfleet.resources.pool import Scaling
from labfleet.resources.strategy import Strategy

LIMIT = 4 * 2**20
LONGEST_HOURS = 366 * 24
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Hour = Annotated[float, msgspec.Meta(ge=0, le=24)]
Minutes = Annotated[int, msgspec.Meta(ge=1, le=1440)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Range = tuple[Amount, Amount]
_FRIENDLY = {"capacity": True, "resources": False}


def _from_to(name: str, pair: Range | None) -> None:
    if pair is not None and pair[0] > pair[1]:
        raise ValueError(f"{name}: from {pair[0]:g} to {pair[1]:g} runs backwards")


def _utc(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)


class TemplatePlan(Record, frozen=True, kw_only=True):
    """A machine type for workers; what is not given comes from the price file.

    `hourly_price_usd` None is the list price, 0 is free.
    """

    name: Name
    instance_type: str = "m5zn.metal"
    hourly_price_usd: Amount | None = None
    capacity: Amounts | None = None
    max_nodes: Annotated[int, msgspec.Meta(ge=5, le=4096)] = 200


class PoolPlan(Record, frozen=True, kw_only=True):
    """A pool as `kind: Pool` has it."""

    name: Name
    template: Name
    track: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] = "default"
    scaling: Scaling = Scaling()
    strategy: Strategy | None = None


class Lab(Record, frozen=True, kw_only=True):
    """A lab definition: nodes by their node definition's name, a topology file, or just amounts.

    `max_minutes` None is 480, or a fifth more than `minutes` when that is longer: as long as
    slots of this lab are drawn.
    """

    name: Name
    nodes: tuple[str, ...] = ()
    topology_file: str | None = None
    resources: Amounts | None = None
    minutes: Minutes = 60
    max_minutes: Annotated[int, msgspec.Meta(ge=1, le=10080)] | None = None
    grace_minutes: Minutes = 30
    track: str | None = None

    def __post_init__(self) -> None:
        if self.nodes and self.topology_file is not None:
            raise ValueError("topologyFile: give nodes or topologyFile, not both")
        if self.max_minutes is not None and self.max_minutes < self.minutes:
            raise ValueError("maxMinutes: must not be less than minutes")


class Exam(Record, frozen=True, kw_only=True):
    """Many sessions of one lab in one slot, on some days (0 is the first) or on every day."""

    definition: Name
    sessions: Annotated[int, msgspec.Meta(ge=1, le=5000)]
    hour: Annotated[float, msgspec.Meta(ge=0, lt=24)] = 9.0
    minutes: Annotated[int, msgspec.Meta(ge=5, le=1440)] = 120
    days: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()
    booked_hours_before: Amount = 4.0

    def __post_init__(self) -> None:
        if len(set(self.days)) < len(self.days):
            raise ValueError("days: a day stands there twice")


class Generated(Record, frozen=True, kw_only=True):
    """Demand drawn from the seed: people who want a lab at once, people with slots, exams.

    `hours` is when people come or their slots begin; 20 to 8 means overnight.
    """

    on_demand_per_day: Amount = 0.0
    slots_per_day: Amount = 0.0
    exams: tuple[Exam, ...] = ()
    hours: tuple[Hour, Hour] = (0.0, 24.0)
    definitions: dict[str, Amount] = {}
    cancel_share: Share = 0.0
    extend_share: Share = 0.0

    def __post_init__(self) -> None:
        if self.hours[0] == self.hours[1]:
            raise ValueError("hours: from and to are the same hour")
        if self.cancel_share + self.extend_share > 1:
            raise ValueError("extendShare: cancelShare and extendShare are more than 1 together")


class Recorded(Record, frozen=True, kw_only=True, rename={"begin": "from"}):
    """A period of a real server, from its event log; without bounds all of it.

    An instant without a zone is UTC. Only what lies in `namespace` counts.
    """

    store: str
    namespace: Name = DEFAULT_NAMESPACE
    begin: datetime | None = None
    to: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("begin", "to"):
            msgspec.structs.force_setattr(self, name, _utc(getattr(self, name)))
        if self.begin is not None and self.to is not None and self.begin >= self.to:
            raise ValueError(
                f"to: {self.to.isoformat()} is not after from, {self.begin.isoformat()}"
            )


class Demand(Record, frozen=True, kw_only=True):
    """Who asks for what and when; exactly one of the three."""

    generated: Generated | None = None
    file: str | None = None
    recorded: Recorded | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.generated, self.file, self.recorded)) != 1:
            raise ValueError("give exactly one of generated, file and recorded")


class Fidelity(Record, frozen=True, kw_only=True):
    """How exactly it is played. `telemetry_minutes` 0 polls as often as a server does.

    `clock_factor` is the clock of the recorded server when that ran faster than real time.
    `call_seconds` is what a call costs, from and to, and `store_seconds` the slowest write.
    """

    telemetry_minutes: Amount = 10.0
    faults: Literal["none", "mild", "harsh"] = "none"
    clock_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 1.0
    call_seconds: Range | None = None
    store_seconds: Amount = 0.03

    def __post_init__(self) -> None:
        _from_to("callSeconds", self.call_seconds)


class Timings(Record, frozen=True, kw_only=True):
    """How long machines take, from and to, in seconds (defaults: facts/aws.md#metal-times)."""

    launch_seconds: Range = (10.0, 90.0)
    boot_seconds: Range = (120.0, 420.0)
    stop_seconds: Range = (20.0, 180.0)

    def __post_init__(self) -> None:
        _from_to("launchSeconds", self.launch_seconds)
        _from_to("bootSeconds", self.boot_seconds)
        _from_to("stopSeconds", self.stop_seconds)


class Variant(Record, frozen=True, kw_only=True):
    """One column of the answer: what differs from the plan's pools."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=24)]
    pools: tuple[Name, ...] = ()
    scaling: dict[str, Any] = {}
    template: Name | None = None
    strategy: Strategy | None = None


class Best(Record, frozen=True, kw_only=True):
    """Which variants are good enough; the cheapest of them is the best."""

    max_unserved_share: Share = 0.01
    max_wait_p95_minutes: Amount = 15.0


class WhatIfPlan(Record, frozen=True, kw_only=True):
    """The whole question. `source` is where its keys stand, never a key itself."""

    name: str = "what-if"
    days: Amount = 0.0
    hours: Amount = 0.0
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    seeds: str | tuple[Annotated[int, msgspec.Meta(ge=0)], ...] | None = None
    start: datetime | None = None
    warmup_minutes: Annotated[float, msgspec.Meta(ge=0, le=31 * 1440)] = 0.0
    manifests: tuple[str, ...] = ()
    templates: tuple[TemplatePlan, ...] = ()
    pools: tuple[PoolPlan, ...] = ()
    definitions: tuple[Lab, ...] = ()
    demand: Demand
    variants: tuple[Variant, ...] = ()
    sweep: dict[str, tuple[Annotated[int, msgspec.Meta(ge=0)], ...]] = {}
    fidelity: Fidelity = Fidelity()
    timings: Timings = Timings()
    best: Best = Best()
    source: Source | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "start", _utc(self.start))
        if self.span > LONGEST_HOURS * 3600:
            raise ValueError(f"days: a plan is at most {LONGEST_HOURS // 24} days long")
        if self.demand.recorded is not None and self.span:
            word = "days" if self.days else "hours"
            raise ValueError(f"{word}: a recorded period has its own length; write from and to")
        if self.demand.file is None and self.start is not None:
            raise ValueError("start: only demand from a file has instants to count from it")

    @property
    def span(self) -> float:
        """Return the asked span in seconds; 0 when the plan leaves it to the demand."""
        return (self.days * 24 + self.hours) * 3600

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Raise each Wrong of the block as Invalid with its file and line."""
        try:
            yield
        except Wrong as problem:
            if self.source is None:
                raise
            raise self.source.located(problem) from None


def load(path: Path) -> WhatIfPlan:
    """Read a plan file; errors.Invalid names the line and what is wrong there."""
    text = read_text(path)
    found = documents.read(text, name=str(path))
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise errors.Invalid(f"{path}: a plan is one YAML document with keys", reason="BadPlan")
    source = Source(path, found[0])
    try:
        made = msgspec.convert(_expanded(found[0].value), WhatIfPlan)
    except msgspec.ValidationError as problem:
        raise source.located(plan_words.explained(str(problem), TYPES)) from None
    except Wrong as problem:
        raise source.located(problem) from None
    return msgspec.structs.replace(made, source=source)


TYPES: dict[str, type[msgspec.Struct]] = {
    "": WhatIfPlan, "templates": TemplatePlan, "pools": PoolPlan, "scaling": Scaling, "definitions": Lab,
    "demand": Demand, "generated": Generated, "exams": Exam, "recorded": Recorded,
    "variants": Variant, "fidelity": Fidelity, "timings": Timings, "best": Best,
    "capacity": Amounts, "resources": Amounts,
}  # fmt: skip
"""The key of a block -> what may stand in it."""


def _expanded(value: Any, steps: documents.Path = ()) -> Any:
    """Return the plan with cpu, memory and storage turned into base units."""
    if steps == ("source",):
        raise Wrong("unknown key", *steps)
    if isinstance(value, float) and not math.isfinite(value):
        raise Wrong("too large a number", *steps)
    if isinstance(value, list):
        return [_expanded(each, (*steps, number)) for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, each in value.items():
        if key in _FRIENDLY and isinstance(each, dict):
            made[key] = _amounts(each, (*steps, key), supply=_FRIENDLY[key])
        else:
            made[key] = _expanded(each, (*steps, key))
    return made


def _amounts(value: dict[str, Any], steps: documents.Path, *, supply: bool) -> dict[str, Any]:
    for key, each in value.items():
        try:
            amounts.expand({key: each}, supply=supply)
        except ValueError as problem:
            raise Wrong(str(problem), *steps, key) from None
    try:
        return amounts.expand(value, supply=supply)
    except ValueError as problem:
        raise Wrong(str(problem), *steps) from None


def read_text(path: Path) -> str:
    """Return a bounded text file; Invalid when there is none or it is huge."""
    try:
        if path.stat().st_size > LIMIT:
            raise errors.Invalid(f"{path} is larger than {LIMIT} bytes", reason="NoSuchFile")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        told = f"cannot read {path}, line {line}: it is not UTF-8; save it as UTF-8 text"
    except FileNotFoundError:
        told = f"cannot read {path}: there is no such file"
    except OSError as problem:
        told = f"cannot read {path}: {problem.strerror}"
    raise errors.Invalid(told, reason="NoSuchFile") from None


def instant(text: str) -> datetime:
    """Return an ISO instant; without a zone it is UTC. ValueError when it is none."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
