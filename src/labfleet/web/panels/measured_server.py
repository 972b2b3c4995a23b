"""The tab of a worker's CML server: what it says of itself, its computes' flags, its licence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from labfleet.resources.meta import Resource
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Room,
    Sample,
    SystemStats,
)
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import licences, telemetry
from labfleet.service.reads.licences import LicenceReading
from labfleet.service.reads.telemetry import Reading
from labfleet.web import sheet, values
from labfleet.web.sheet import Head, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_ILL = frozenset({"cpu_overload", "memory_overload", "disk_overload"})
"""Flags of a compute that are well when they are false."""
_NAMES = frozenset({"hostname", "is_controller", "admission_state"})
_COMPUTES = (
    Head("Compute", 3), Head("Controller", 1), Head("CPUs", 1), Head("CPU used", 1), Head("Model", 4),
    Head("Load 1, 5, 15 min", 2), Head("Memory used", 3), Head("Disk used", 3),
    Head("Given to nodes", 3), Head("Nodes", 2), Head("Orphans", 1),
)  # fmt: skip


async def make(services: ServiceContext, _caller: Caller, obj: Resource, _asked: Asked) -> Sheet:
    """Return the tab of a worker."""
    assert isinstance(obj, Worker)  # noqa: S101 - the table names this kind alone
    found = telemetry.of(services, obj)
    parts = [_server(services, obj, found)]
    sample = found.sample
    if sample is not None and sample.stats is not None:
        parts += [_use(sample.stats, found), _computes(sample.stats, found)]
    if sample is not None and sample.health is not None:
        parts += [_controller(sample.health.controller, found), _flags(sample, found)]
    parts.append(_licence(services, obj, licences.of(services, obj)))
    if sample is not None and sample.licence is not None:
        parts.append(_features(sample))
    if found.unknown:
        rows = tuple((Cell("text", path), Cell("text", why)) for path, why in found.unknown.items())
        parts.append(
            Part(
                "What is not told", heads=(Head("Value", 5), Head("Why", 5)), rows=rows,
                caption="Values that are unknown, and why",
            )
        )  # fmt: skip
    name = obj.key.argument
    return Sheet("CML", "", tuple(parts), commands=(f"labfleet top worker {name}",))


def _server(services: ServiceContext, worker: Worker, found: Reading) -> Part:
    cml, sample, now = worker.status.cml, found.sample, services.clock.now()
    told = "not seen yet"
    ready = cml.ready if sample is None or sample.ready is None else sample.ready
    facts: list[tuple[str, Cell]] = [
        ("Version", sheet.text(cml.version, why=told)),
        ("Ready", sheet.flag(ready, why=told)),
        ("Health", values.state("Health", str(found.health))),
        ("Reached as", sheet.text(cml.stage, why=told)),
        ("Address", _url(cml.url)),
        ("Host name", sheet.text(cml.hostname, why=told)),
        ("Product UUID", sheet.text(cml.product_uuid, why=told)),
        ("Certificate, SHA-256", sheet.text(cml.tls_fingerprint, why=told)),
        ("Labs", sheet.text(cml.labs, why=told)),
        ("Running nodes", sheet.text(cml.running_nodes, why=told)),
    ]
    if sample is not None:
        facts.append(("Maintenance", sheet.flag(sample.maintenance, good=False)))
        up = sample.uptime_seconds
        since = None if up is None else values.instant(sample.at - timedelta(seconds=up), now)
        facts.append(
            ("Up since", since or sheet.text(None, why="its machine's launch is not known"))
        )
    if found.at is not None:
        facts.append(("Measured", values.instant(found.at, now)))
    if not found.fresh:
        facts.append(("Numbers", Cell("unknown", "unknown", why=found.reason)))
    return Part("Server", facts=tuple(facts))


def _url(url: str | None) -> Cell:
    if url is None:
        return Cell("unknown", "unknown", why="it has no address yet")
    web = url.startswith(("https://", "http://"))
    return Cell("link", url, href=url) if web else Cell("text", url)


def _use(stats: SystemStats, found: Reading) -> Part:
    def gap(path: str) -> str:
        return found.unknown.get(f"stats.{path}", telemetry.NOT_TOLD)

    cpu = None if stats.cpu_percent is None else f"{values.number(stats.cpu_percent)} %"
    return Part(
        "Use of the host",
        facts=(
            ("CPUs", sheet.text(stats.cpu_count, why=gap("cpu_count"))),
            ("CPU used", sheet.text(cpu, why=gap("cpu_percent"))),
            ("Memory used", _room(stats.memory)),
            ("Memory free", sheet.of_bytes(stats.memory.free)),
            ("Disk used", _room(stats.disk)),
            ("Disk free", sheet.of_bytes(stats.disk.free)),
            ("Controller's disk used", _room(stats.controller_disk)),
            ("CPUs given to nodes", sheet.text(stats.allocated_cpus, why=gap("allocated_cpus"))),
            ("Memory given to nodes", sheet.gib(stats.allocated_memory_mib)),
            ("Nodes", sheet.text(stats.total_nodes, why=gap("total_nodes"))),
            ("Running nodes", sheet.text(stats.running_nodes, why=gap("running_nodes"))),
            ("Machines that CML does not know", sheet.text(stats.running_orphans)),
        ),
    )


def _room(room: Room) -> Cell:
    if room.used is None or not room.total:
        return Cell("unknown", "unknown", why=telemetry.NOT_TOLD)
    share = 100 * room.used / room.total
    said = f"{values.number(room.used / 2**30)} of {values.number(room.total / 2**30)} GiB"
    return Cell(
        "text", f"{said} ({values.number(share)} %)", exact=f"{room.used:,} of {room.total:,} bytes"
    )


def _computes(stats: SystemStats, found: Reading) -> Part:
    return Part(
        "Computes",
        heads=_COMPUTES,
        rows=tuple(_compute(name, each) for name, each in stats.computes.items()),
        empty=found.unknown.get("stats.computes", "CML names no compute."),
        caption="Each compute host: what it has and uses",
        whole=True,
    )


def _compute(name: str, each: ComputeStats) -> Row:
    given = None
    if each.allocated_cpus is not None and each.allocated_memory_mib is not None:
        memory = values.number(each.allocated_memory_mib / 1024)
        given = f"{each.allocated_cpus} CPUs, {memory} GiB"
    nodes = None
    if each.running_nodes is not None:
        nodes = (
            f"{each.running_nodes} of {'?' if each.total_nodes is None else each.total_nodes} run"
        )
    cpu = None if each.cpu_percent is None else f"{values.number(each.cpu_percent)} %"
    load = ", ".join(f"{one:.2f}" for one in each.load) or None
    return (
        Cell("text", each.hostname or name, exact=name),
        sheet.text(each.is_controller),
        sheet.text(each.cpu_count),
        sheet.text(cpu),
        sheet.text(each.cpu_model),
        sheet.text(load),
        _room(each.memory),
        _room(each.disk),
        sheet.text(given),
        sheet.text(nodes),
        sheet.text(each.running_orphans),
    )


def _controller(controller: ControllerHealth, found: Reading) -> Part:
    return Part("Controller", facts=tuple(_flags_of(controller, "health.controller", found)))


def _flags_of(record: ControllerHealth, path: str, found: Reading) -> Iterator[tuple[str, Cell]]:
    for name in record.__struct_fields__:
        why = found.unknown.get(f"{path}.{name}", telemetry.NOT_TOLD)
        yield _label(name), sheet.flag(getattr(record, name), why=why)


def _label(name: str) -> str:
    words = name.replace("_", " ").replace("cpus", "CPUs").replace("kvm vmx", "KVM VMX")
    words = words.replace("lld", "low-level driver").replace("cpu ", "CPU ")
    return words[:1].upper() + words[1:]


def _flags(sample: Sample, found: Reading) -> Part:
    """Return the flags of all computes: a row for each flag, a column for each compute."""
    health = sample.health
    computes = {} if health is None else health.computes
    names = [each for each in ComputeHealth.__struct_fields__ if each not in _NAMES]
    admission: Row = (
        Cell("text", "Admission"),
        *(sheet.text(each.admission_state) for each in computes.values()),
    )
    rows = [admission]
    for name in names:
        cells = tuple(
            sheet.flag(
                getattr(each, name),
                good=name not in _ILL,
                why=found.unknown.get(f"health.computes.{key}.{name}", telemetry.NOT_TOLD),
            )
            for key, each in computes.items()
        )
        rows.append((Cell("text", _label(name)), *cells))
    heads = [Head(each.hostname or key, 3) for key, each in computes.items()]
    return Part(
        "Health of the computes",
        heads=(Head("Flag", 4), *heads),
        rows=tuple(rows) if computes else (),
        empty="CML names no compute.",
        caption="Each health flag of each compute host",
    )


def _licence(services: ServiceContext, worker: Worker, found: LicenceReading) -> Part:
    now, told = services.clock.now(), "CML was not asked yet"
    unsaid = "CML does not say, or was not looked at lately"
    facts: list[tuple[str, Cell]] = [
        ("Licensed", sheet.flag(found.licensed, why=told)),
        ("Registration", sheet.text(found.registration, why=told)),
        ("Authorization", sheet.text(found.authorization, why=told)),
        ("Product", sheet.text(found.product, why=told)),
        ("Nodes allowed", sheet.text(found.node_capacity, why=told)),
        ("Nodes running", sheet.text(found.running_nodes, why=told)),
        ("Registration ends", sheet.text(found.registration_expires, why=unsaid)),
        ("Authorization ends", sheet.text(found.authorization_expires, why=unsaid)),
        ("Nearest end", sheet.text(worker.status.licence.expires, why=told)),
        ("Smart account", sheet.text(found.smart_account, why=unsaid)),
        ("Virtual account", sheet.text(found.virtual_account, why=unsaid)),
    ]
    if found.renewed_at is not None:
        facts.append(("Renewal asked", values.instant(found.renewed_at, now)))
    if found.leak:
        facts.append(("Could not be given back", Cell("text", found.leak)))
    order = found.order
    if order is not None:
        said = f"{order.verb} by {order.by or 'somebody'}: {order.state}"
        said += f" ({order.message})" if order.message else ""
        facts += [
            ("Last order", Cell("text", said)),
            ("Asked", values.instant(order.asked_at, now)),
        ]
    command = f"labfleet license status {worker.key.argument}"
    return Part("Licence", facts=tuple(facts), commands=(command,))


def _features(sample: Sample) -> Part:
    licence = sample.licence
    features = {} if licence is None else licence.features
    return Part(
        "Licensed features",
        heads=(Head("Feature", 5), Head("Asked for", 2), Head("At least"), Head("At most"), Head("State", 3)),
        rows=tuple(
            (
                Cell("text", each.name or key, exact=key),
                sheet.text(each.in_use),
                sheet.text(each.min),
                sheet.text(each.max),
                sheet.text(each.status),
            )
            for key, each in features.items()
        ),
        empty="CML names no feature.",
        caption="Licensed features: how many are asked for, and may be",
    )  # fmt: skip
