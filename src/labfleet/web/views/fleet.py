"""The page `/fleet`: all living workers as a map of cells by pool or region, or as a table.

A cell shows phase, health, sessions as parts of what is reserved, and what is used beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labfleet.kernel.quantity import count
from labfleet.resources.amounts import Amounts
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import telemetry
from labfleet.service.reads.telemetry import Vitals
from labfleet.web import sheet, values
from labfleet.web.sheet import Choice, Head, Part, Row
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/fleet"
LARGE = 80
"""Up to so many workers each cell has bars and words; beyond that a cell is its state's shape."""
PARTS = 60
"""How many sessions of a worker are drawn one by one; the rest is one part."""
WIDE = 1000.0
"""How wide a bar is in its own units."""
_HEADS = (
    Head("Worker", 3), Head("State", 3), Head("Health"), Head("Pool", 3), Head("Region"),
    Head("Sessions", 1), Head("Memory reserved", 3), Head("Memory used", 3), Head("CPU reserved", 3),
    Head("CPU used", 3), Head("Alerts", 4),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a bar is of: its title, its field in amounts, and how many of that are one of its sign."""

    title: str
    name: str
    unit: float
    sign: str


MEMORY = Dimension("Memory", "memory_mib", 1024.0, "GiB")
PROCESSORS = Dimension("CPU", "cpu_milli", 1000.0, "CPU")


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of WIDE units: parts that are reserved (from where, how wide), and what is used.

    `short` is what is reserved of how much; `told` says all its numbers.
    """

    title: str
    short: str
    parts: tuple[tuple[float, float], ...]
    used: float | None
    told: str


@dataclass(frozen=True, slots=True)
class Place:
    """One worker on the map; `title` has all its numbers, for hover and screen readers."""

    name: str
    href: str
    state: Cell
    health: Cell
    sessions: int
    alerts: int
    bars: tuple[Bar, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Group:
    """The workers of one pool or region."""

    name: str
    href: str
    places: tuple[Place, ...]
    told: str


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The page: a map of groups, or a table (then there are no groups)."""

    groups: tuple[Group, ...]
    table: Part | None
    total: int
    left_out: int
    small: bool
    choices: tuple[Choice, ...]
    title: str = "Fleet"

    @property
    def follows(self) -> str:
        """Return at whose change the page is fetched again: a large map not with each measurement."""
        return "Worker,Pool,alerts" if self.small else "Worker,Pool,alerts,Session,samples"


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> FleetPage:
    """Return the page; Denied for who may not read workers."""
    found, left_out = await telemetry.all_vitals(services, caller)
    by = "region" if asked.last("by") == "region" else "pool"
    flat = asked.last("view") == "table"
    rows = sorted(found, key=lambda each: (each.worker, each.namespace))
    return FleetPage(
        groups=() if flat else _groups(services, rows, by),
        table=_table(services, rows, asked.last("page")) if flat else None,
        total=len(found),
        left_out=left_out,
        small=len(found) > LARGE,
        choices=(
            Choice("by pool", "" if by == "pool" and not flat else ROOT),
            Choice("by region", "" if by == "region" and not flat else f"{ROOT}?by=region"),
            Choice("as a table", "" if flat else f"{ROOT}?view=table"),
        ),
    )


def _groups(services: ServiceContext, rows: list[Vitals], by: str) -> tuple[Group, ...]:
    found: dict[tuple[str, str], list[Place]] = {}
    for each in rows:
        worker = services.cache.get(Worker, each.worker, each.namespace)
        if worker is None:
            continue
        name = _region(worker) if by == "region" else (worker.spec.pool or "")
        space = "" if by == "region" else worker.namespace
        found.setdefault((name, space), []).append(_place(services, worker, each))
    return tuple(_group(name, space, places, by) for (name, space), places in sorted(found.items()))


def _group(name: str, space: str, places: list[Place], by: str) -> Group:
    if by == "region":
        title, href = name or "no region", ""
    elif name:
        title, href = name, values.address("pools", name, space)
    else:
        title, href = "no pool", ""
    if space not in {"", "default"}:
        title = f"{space}/{title}"
    states: dict[str, int] = {}
    for each in places:
        states[each.state.text] = states.get(each.state.text, 0) + 1
    told = ", ".join(f"{many} {state}" for state, many in sorted(states.items()))
    return Group(title, href, tuple(places), f"{count(len(places), 'worker')}: {told}")


def _region(worker: Worker) -> str:
    machine, origin = worker.spec.machine, worker.spec.origin
    if machine is not None:
        return machine.provider.region
    return "" if origin is None else origin.region or ""


def _place(services: ServiceContext, worker: Worker, seen: Vitals) -> Place:
    memory, processors = _bars(services, worker, seen)
    state = values.state("Worker", str(seen.phase))
    health = values.state("Health", str(seen.health))
    said = [seen.worker, str(seen.phase), f"health {seen.health}", count(seen.sessions, "session")]
    said += [f"{bar.title}: {bar.told}" for bar in (memory, processors)]
    if seen.alerts:
        said.append(f"alerts: {', '.join(seen.alerts)}")
    return Place(
        name=worker.key.label,
        href=values.address("workers", worker.name, worker.namespace),
        state=state,
        health=health,
        sessions=seen.sessions,
        alerts=len(seen.alerts),
        bars=(memory, processors),
        title="; ".join(said),
    )


def _bars(services: ServiceContext, worker: Worker, seen: Vitals) -> tuple[Bar, Bar]:
    here = services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    held = [each.status.reservation.amounts for each in here if each.status.reservation is not None]
    capacity = worker.status.capacity
    memory, processors = _in_use(services, worker, seen)
    return (
        _bar(MEMORY, held, capacity, seen, memory),
        _bar(PROCESSORS, held, capacity, seen, processors),
    )


def _in_use(
    services: ServiceContext, worker: Worker, seen: Vitals
) -> tuple[float | None, float | None]:
    """Return what the host uses in MiB and thousandths of a CPU; None where only a share is known."""
    sample = services.samples.newest(worker.key)
    stats = None if sample is None else sample.stats
    if sample is None or stats is None:
        return None, None
    memory, cpu = seen.numbers["memory"], seen.numbers["cpu"]
    of_memory = stats.memory.used if memory.value is not None and memory.at == sample.at else None
    of_cpu = stats.cpu_count if cpu.value is not None and cpu.at == sample.at else None
    return (
        None if of_memory is None else of_memory / 2**20,
        None if of_cpu is None or cpu.value is None else of_cpu * cpu.value * 10,
    )


def _bar(
    kind: Dimension,
    held: list[Amounts],
    capacity: Amounts | None,
    seen: Vitals,
    used_now: float | None,
) -> Bar:
    number, unit = seen.numbers[kind.title.lower()], kind.unit
    whole = 0.0 if capacity is None else float(getattr(capacity, kind.name))
    if not whole:
        return Bar(kind.title, "unknown", (), None, "unknown: its capacity was not seen yet")
    reserved = getattr(seen.allocation.reserved, kind.name)
    parts = tuple(_cut([getattr(each, kind.name) for each in held], whole))
    free = max(0.0, whole - reserved)
    short = f"{values.number(reserved / unit)} of {values.number(whole / unit)} {kind.sign}"
    told = f"{short} reserved, {values.number(free / unit)} free"
    if number.value is None:
        return Bar(kind.title, short, parts, None, f"{told}; use unknown: {number.reason}")
    old = "" if number.age_seconds is None else f", {values.relative(-number.age_seconds)}"
    amount = "" if used_now is None else f"{values.number(used_now / unit)} {kind.sign}, "
    told += f"; used {amount}{values.number(number.value)} % of the host ({number.source}{old})"
    wide = number.value / 100 if used_now is None else used_now / whole
    return Bar(kind.title, short, parts, round(min(WIDE, wide * WIDE), 1), told)


def _cut(amounts: list[int], whole: float) -> Iterator[tuple[float, float]]:
    """Yield where the part of each session begins, and how wide it is; nothing beyond the bar."""
    at = 0.0
    ordered = sorted(amounts, reverse=True)
    tail = sum(ordered[PARTS:])
    for amount in (*ordered[:PARTS], *([tail] if tail else [])):
        wide = min(amount / whole * WIDE, WIDE - at)
        if wide <= 0:
            return
        yield round(at, 1), round(max(wide - 4, 1), 1)
        at += wide


def _table(services: ServiceContext, rows: list[Vitals], page: str) -> Part:
    made = [cells for each in rows if (cells := _row(services, each))]
    shown, more, further = sheet.paged(made, page, f"{ROOT}?view=table")
    return Part(
        "Workers", heads=_HEADS, rows=shown, more=more, further=further, empty="No workers.",
        caption="Living workers by name: state, health, what is reserved and used",
    )  # fmt: skip


def _row(services: ServiceContext, seen: Vitals) -> Row:
    worker = services.cache.get(Worker, seen.worker, seen.namespace)
    if worker is None:
        return ()
    capacity, reserved = worker.status.capacity, seen.allocation.reserved
    pool = worker.spec.pool
    link = Cell("absent", "none")
    if pool is not None:
        link = Cell("link", pool, href=values.address("pools", pool, worker.namespace))
    return (
        Cell(
            "link", worker.key.label,
            href=values.address("workers", worker.name, worker.namespace),
        ),
        values.state("Worker", str(seen.phase)),
        values.state("Health", str(seen.health)),
        link,
        sheet.text(_region(worker)),
        Cell("text", str(seen.sessions)),
        _reserved(MEMORY, reserved, capacity),
        used(seen, "memory"),
        _reserved(PROCESSORS, reserved, capacity),
        used(seen, "cpu"),
        sheet.text(", ".join(seen.alerts)),
    )  # fmt: skip


def _reserved(kind: Dimension, reserved: Amounts, capacity: Amounts | None) -> Cell:
    have = getattr(reserved, kind.name)
    whole = 0 if capacity is None else getattr(capacity, kind.name)
    if not whole:
        return Cell("unknown", "unknown", why="not seen yet")
    said = f"{values.number(have / kind.unit)} of {values.number(whole / kind.unit)} {kind.sign}"
    return Cell("text", said, exact=f"{have} of {whole}")


def used(seen: Vitals, name: str) -> Cell:
    """Return a measured share with its source and age; unknown with the reason."""
    number = seen.numbers[name]
    if number.value is None:
        return Cell("unknown", "unknown", why=number.reason)
    old = "" if number.age_seconds is None else f", {values.relative(-number.age_seconds)}"
    return Cell("text", f"{values.number(number.value)} % ({number.source}{old})")
