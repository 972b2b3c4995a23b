"""The plan of a what-if: fleet, pools, labs, demand and the variants to compare.

Reads YAML (docs/how-to/ask-what-if.md), refuses unknown keys with their line, and says nothing
of how it is played. Spans are in the unit of their name; a plan has exactly one demand.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from labfleet.kernel import errors
from labfleet.resources import amounts, documents, manifests, prices
from labfleet.resources.amounts import Amounts
from labfleet.resources.meta import Record, Resource
from labfleet.resources.pool import Scaling

LIMIT = 4 * 2**20
REAL_MEMORY = 0.98
"""Share of the nominal memory that CML has to give (aws.md 5, case 43: 188.5 of 192 GiB)."""

LABS, PORTS, STORAGE_MIB = 20, 6000, 400 * 1024
"""What a worker has besides CPU and memory when a plan does not say (resources.machine)."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
Range = tuple[Amount, Amount]
_FRIENDLY = {"capacity": True, "resources": False}


class Shape(Record, frozen=True, kw_only=True):
    """A machine to make workers of; what is not given comes from the price file."""

    name: Name
    instance_type: str = "m5zn.metal"
    hourly_price_usd: Amount = 0.0
    capacity: Amounts | None = None
    max_nodes: Annotated[int, msgspec.Meta(ge=5, le=4096)] = 200


class PoolPlan(Record, frozen=True, kw_only=True):
    """A pool as `kind: Pool` has it."""

    name: Name
    template: Name
    track: str = "default"
    scaling: Scaling = Scaling()


class Lab(Record, frozen=True, kw_only=True):
    """A lab definition: its nodes by definition name, or a topology file; or just amounts."""

    name: Name
    nodes: tuple[str, ...] = ()
    topology_file: str | None = None
    resources: Amounts | None = None
    minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 60
    grace_minutes: Annotated[int, msgspec.Meta(ge=1, le=1440)] = 30
    track: str | None = None


class Exam(Record, frozen=True, kw_only=True):
    """Many sessions of one lab in one slot, on some days (0 is the first) or on every day."""

    definition: Name
    sessions: Annotated[int, msgspec.Meta(ge=1, le=5000)]
    hour: Annotated[float, msgspec.Meta(ge=0, lt=24)] = 9.0
    minutes: Annotated[int, msgspec.Meta(ge=5, le=1440)] = 120
    days: tuple[int, ...] = ()
    booked_hours_before: Amount = 4.0


class Generated(Record, frozen=True, kw_only=True):
    """Demand drawn from the seed: people who come now, people with slots, exams."""

    on_demand_per_day: Amount = 0.0
    slots_per_day: Amount = 0.0
    exams: tuple[Exam, ...] = ()
    hours: tuple[Amount, Amount] = (0.0, 24.0)
    definitions: dict[str, Amount] = {}
    cancel_share: Share = 0.0
    extend_share: Share = 0.0


class Recorded(Record, frozen=True, kw_only=True, rename={"begin": "from"}):
    """A period of a real server, from its event log; without bounds all of it."""

    store: str
    begin: datetime | None = None
    to: datetime | None = None


class Demand(Record, frozen=True, kw_only=True):
    """Who asks for what and when; exactly one of the three."""

    generated: Generated | None = None
    file: str | None = None
    recorded: Recorded | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.generated, self.file, self.recorded)) != 1:
            raise ValueError("give exactly one of generated, file and recorded")


class Fidelity(Record, frozen=True, kw_only=True):
    """How closely it is played. `telemetry_minutes` 0 looks as often as a server does.

    `clock_factor` is the clock of the recorded server when that ran faster than real time.
    `call_seconds` is what a call costs, from and to, and `store_seconds` the slowest write.
    """

    telemetry_minutes: Amount = 10.0
    faults: Literal["none", "mild", "harsh"] = "none"
    clock_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 1.0
    call_seconds: Range | None = None
    store_seconds: Amount = 0.03


class Timings(Record, frozen=True, kw_only=True):
    """How long machines take, from and to, in seconds (defaults: metal, aws.md 6.6)."""

    launch_seconds: Range = (10.0, 90.0)
    boot_seconds: Range = (120.0, 420.0)
    stop_seconds: Range = (20.0, 180.0)


class Variant(Record, frozen=True, kw_only=True):
    """One column of the answer: what differs from the plan's pools."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=24)]
    pools: tuple[Name, ...] = ()
    scaling: dict[str, Any] = {}
    template: Name | None = None


class Best(Record, frozen=True, kw_only=True):
    """Which variants are good enough; the cheapest of them is the best."""

    max_unserved_share: Share = 0.01
    max_wait_p95_minutes: Amount = 15.0


class Plan(Record, frozen=True, kw_only=True):
    """The whole question."""

    name: str = "what-if"
    days: Amount = 0.0
    hours: Amount = 0.0
    seed: Annotated[int, msgspec.Meta(ge=0)] = 1
    start: datetime | None = None
    warmup_minutes: Amount = 0.0
    manifests: tuple[str, ...] = ()
    templates: tuple[Shape, ...] = ()
    pools: tuple[PoolPlan, ...] = ()
    definitions: tuple[Lab, ...] = ()
    demand: Demand
    variants: tuple[Variant, ...] = ()
    fidelity: Fidelity = Fidelity()
    timings: Timings = Timings()
    best: Best = Best()

    @property
    def span(self) -> float:
        """Return the asked span in seconds; 0 when the plan leaves it to the demand."""
        return (self.days * 24 + self.hours) * 3600


def load(path: Path) -> Plan:
    """Read a plan file; errors.Invalid names the line and what is wrong there."""
    text = read_text(path)
    found = documents.read(text, name=str(path))
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise errors.Invalid(f"{path}: a plan is one YAML document with keys")
    document = found[0]
    try:
        return msgspec.convert(_expanded(document.value), Plan)
    except msgspec.ValidationError as problem:
        told, _, where = str(problem).partition(" - at `")
        steps = _steps(where)
        line = document.line_of(steps)
        place = ".".join(str(step) for step in steps)
        told = f"{place}: {told}" if place else told
        raise errors.Invalid(f"{path}, line {line}: {told}", reason="BadPlan") from None
    except ValueError as problem:
        raise errors.Invalid(f"{path}: {problem}", reason="BadPlan") from None


def _steps(where: str) -> documents.Path:
    found = re.findall(r"\.(\w+)|\[(\d+)\]", where)
    return tuple(name or int(number) for name, number in found)


def _expanded(value: Any) -> Any:
    """Return the plan with cpu, memory and storage turned into base units."""
    if isinstance(value, list):
        return [_expanded(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for key, each in value.items():
        if key in _FRIENDLY and isinstance(each, dict):
            made[key] = amounts.expand(each, supply=_FRIENDLY[key])
        else:
            made[key] = _expanded(each)
    return made


def read_text(path: Path) -> str:
    """Return a bounded text file; Invalid when there is none or it is huge."""
    try:
        if path.stat().st_size > LIMIT:
            raise errors.Invalid(f"{path} is larger than {LIMIT} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.Invalid(f"cannot read {path}: {problem}", reason="NoSuchFile") from None


def bodies(plan: Plan, folder: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """Return (kind, name, spec) of everything the plan's fleet is made of, in order."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name in plan.manifests:
        text = read_text(folder / name)
        for each in manifests.load(text, name=name, topology_file=_fetcher(folder)):
            found[each.kind, each.object.name] = spec_of(each.object)
    for shape in plan.templates:
        found["Template", shape.name] = {"machine": _machine(shape)}
    for pool in plan.pools:
        found["Pool", pool.name] = {
            "template": pool.template,
            "track": pool.track,
            "namePrefix": _prefix(pool.name),
            "scaling": msgspec.to_builtins(pool.scaling),
        }
    for lab in plan.definitions:
        found["Definition", lab.name] = _definition(lab, folder)
    order = ("Template", "Pool", "Definition")
    return [(kind, name, found[kind, name]) for kind, name in sorted(
        (each for each in found if each[0] in order), key=lambda each: (order.index(each[0]), each)
    )]  # fmt: skip


def _fetcher(folder: Path) -> manifests.Fetch:
    return lambda name: read_text(folder / name)


def _prefix(name: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", name)[:20].strip("-") or "w"


def spec_of(obj: Resource) -> dict[str, Any]:
    """Return an object's spec as a client would send it."""
    return dict(msgspec.to_builtins(obj.spec))


def _machine(shape: Shape) -> dict[str, Any]:
    size = shape.capacity or listed_capacity(shape.instance_type, shape.max_nodes)
    price = prices.hourly_usd(shape.instance_type, stated=shape.hourly_price_usd)
    return {
        "aws": {
            "amiId": "ami-1",
            "instanceTypes": [shape.instance_type],
            "subnetIds": ["subnet-a", "subnet-b", "subnet-c"],
            "volumeSizeGib": 500,
        },
        "cml": {
            "adminPassword": {"env": "CML_PASSWORD"},
            "tls": {"mode": "off"},
            "maxNodesLicensed": shape.max_nodes,
        },
        "licence": {"product": "CML_Enterprise", "token": {"env": "CML_TOKEN"}},
        "capacity": msgspec.to_builtins(size),
        "hourlyPriceUsd": price or 0.0,
    }


def listed_capacity(instance_type: str, nodes: int) -> Amounts:
    """Return what a listed type has for labs; Invalid when it is not in the price file."""
    known = prices.TYPES.get(instance_type)
    if known is None:
        raise errors.Invalid(f"{instance_type} is not in the price file: give its capacity")
    return Amounts(
        cpu_milli=known.vcpus * 1000,
        memory_mib=int(known.memory_gib * 1024 * REAL_MEMORY),
        storage_mib=STORAGE_MIB,
        nodes=nodes,
        labs=LABS,
        ports=PORTS,
    )


def _definition(lab: Lab, folder: Path) -> dict[str, Any]:
    text = topology(lab.name, lab.nodes or ("alpine",))
    if lab.topology_file is not None:
        text = read_text(folder / lab.topology_file)
    spec: dict[str, Any] = {
        "topology": text,
        "track": lab.track,
        "defaultDurationMinutes": lab.minutes,
        "graceMinutes": lab.grace_minutes,
    }
    if lab.resources is not None:
        spec["resources"] = msgspec.to_builtins(lab.resources)
    return spec


def topology(title: str, nodes: tuple[str, ...]) -> str:
    """Return a CML topology of these nodes, each with a serial console."""
    lines = [f"lab: {{title: {title}, version: 0.3.0, description: '', notes: ''}}", "nodes:"]
    lines += [
        f"- {{id: n{number}, label: N{number}, node_definition: {kind}, x: 0, y: 0, "
        'tags: ["serial:5001"], interfaces: [{id: i0, label: e0, slot: 0, type: physical}]}'
        for number, kind in enumerate(nodes)
    ]
    return "\n".join([*lines, "links: []"]) + "\n"


def changed(
    found: list[tuple[str, str, dict[str, Any]]], variant: Variant
) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the fleet as a variant has it; Invalid for a pool or setting nobody knows."""
    names = {name for kind, name, _ in found if kind == "Pool"}
    odd = sorted(set(variant.pools) - names)
    if odd:
        raise errors.Invalid(f"variant {variant.name}: no pool {odd[0]}; there are {sorted(names)}")
    made = []
    for kind, name, spec in found:
        new = spec
        if kind == "Pool" and (not variant.pools or name in variant.pools):
            scaling = {**spec.get("scaling", {}), **variant.scaling}
            try:
                msgspec.convert(scaling, Scaling)
            except (msgspec.ValidationError, ValueError) as problem:
                raise errors.Invalid(f"variant {variant.name}: scaling: {problem}") from None
            new = {**spec, "scaling": scaling, "template": variant.template or spec["template"]}
        made.append((kind, name, new))
    return made


def instant(text: str) -> datetime:
    """Return an ISO instant; without a zone it is UTC. ValueError when it is none."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
