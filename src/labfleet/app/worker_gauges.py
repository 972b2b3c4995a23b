"""Gauges of the workers' newest numbers, checks and alerts; an unknown value has no sample.

What is not measured again in time is unknown: then only its age is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from labfleet.app.metrics import Metrics, Sample
from labfleet.decisions import vitals
from labfleet.engine.cache import Cache
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel.clock import Clock
from labfleet.resources import alerts, telemetry
from labfleet.resources.amounts import Amounts
from labfleet.resources.worker import Allocation, Health, Worker
from labfleet.service.kinds import indices, worker_allocation

Read = Callable[[telemetry.Sample], Iterable[tuple[tuple[str, ...], float | None]]]
MIB = 2**20
RESOURCES = {
    "cpu": ("cpu_milli", 0.001),
    "memory": ("memory_mib", MIB),
    "storage": ("storage_mib", MIB),
    "nodes": ("nodes", 1),
    "labs": ("labs", 1),
    "ports": ("ports", 1),
    "network": ("network_kbps", 1000),
}
"""Label of a gauge -> the amount and what turns it into the unit of the gauge (bit/s for network)."""


CHECKED = {"ok": 1.0, "not-applicable": 1.0, "impaired": 0.0}
"""The gauge's value for each status word of the provider's checks; other words are unknown."""


def add_worker_gauges(
    metrics: Metrics, samples: Samples, clock: Clock, cache: Cache, life: Callable[[], timedelta]
) -> None:
    """Add what is read from the sample store and the cache at each scrape.

    `life` is how long a sample counts.
    """
    _add_provider_gauges(metrics, samples, clock)
    _add_alert_gauges(metrics, cache)
    _add_state_gauges(metrics, cache)
    _add_allocation_gauges(metrics, cache, clock)
    _add_port_gauges(metrics, cache)

    def fresh(sample: telemetry.Sample) -> bool:
        return clock.now() - sample.at <= life()

    def of_fresh(read: Read) -> Callable[[], Iterable[Sample]]:
        return _each(samples, lambda sample: read(sample) if fresh(sample) else ())

    _add_node_gauges(metrics, of_fresh)

    def age(sample: telemetry.Sample) -> Iterable[tuple[tuple[str, ...], float | None]]:
        yield (), max((clock.now() - sample.at).total_seconds(), 0.0)

    metrics.gauge(
        "labfleet_worker_sample_age_seconds",
        "Fleet seconds since a worker was last measured.",
        ("namespace", "worker"),
        _each(samples, age),
    )
    metrics.gauge(
        "labfleet_worker_cpu_count",
        "CPUs of a worker's computes.",
        ("namespace", "worker"),
        of_fresh(_cpus),
    )
    metrics.gauge(
        "labfleet_worker_cpu_percent",
        "CPU in use, 0-100.",
        ("namespace", "worker"),
        of_fresh(_percent),
    )
    metrics.gauge(
        "labfleet_worker_memory_bytes",
        "Memory by state.",
        ("namespace", "worker", "state"),
        of_fresh(_memory),
    )
    metrics.gauge(
        "labfleet_worker_disk_bytes",
        "Disk of all hosts or of the controller, by state.",
        ("namespace", "worker", "disk", "state"),
        of_fresh(_disk),
    )


def _each(samples: Samples, read: Read) -> Callable[[], Iterable[Sample]]:
    """Return a reader of every worker's newest sample."""

    def made() -> Iterable[Sample]:
        for key in sorted(samples.workers()):
            newest = samples.newest(key)
            if newest is None:
                continue
            for labels, value in read(newest):
                if value is not None:
                    yield (key.namespace, key.name, *labels), float(value)

    return made


def _add_node_gauges(
    metrics: Metrics, of_fresh: Callable[[Read], Callable[[], Iterable[Sample]]]
) -> None:
    """Add what runs on the workers' labs, and what the licence allows."""
    metrics.gauge(
        "labfleet_worker_nodes",
        "Nodes deployed, running, and machines that CML does not know.",
        ("namespace", "worker", "state"),
        of_fresh(_nodes),
    )
    metrics.gauge(
        "labfleet_worker_allocated_cpus",
        "vCPUs of running nodes.",
        ("namespace", "worker"),
        of_fresh(_allocated_cpus),
    )
    metrics.gauge(
        "labfleet_worker_allocated_memory_bytes",
        "Memory of running nodes.",
        ("namespace", "worker"),
        of_fresh(_allocated_memory),
    )
    metrics.gauge(
        "labfleet_worker_licence_nodes",
        "Nodes that the licence allows.",
        ("namespace", "worker"),
        of_fresh(_licence),
    )


def _add_provider_gauges(metrics: Metrics, samples: Samples, clock: Clock) -> None:
    """Add CloudWatch's numbers; none while it is switched off."""

    def late(point: telemetry.ProviderPoint) -> bool:
        return clock.now() - point.at > vitals.point_life(point)

    def newest(
        read: Callable[[telemetry.ProviderPoint], Iterable[tuple[tuple[str, ...], float | None]]],
        *,
        always: bool = False,
    ) -> Callable[[], Iterable[Sample]]:
        def made() -> Iterable[Sample]:
            for key in sorted(samples.workers()):
                points = samples.points(key)
                if not points or (late(points[-1]) and not always):
                    continue
                for labels, value in read(points[-1]):
                    if value is not None:
                        yield (key.namespace, key.name, *labels), float(value)

        return made

    def network(point: telemetry.ProviderPoint) -> Found:
        yield ("in",), point.network_in_bytes_per_second
        yield ("out",), point.network_out_bytes_per_second

    def age(point: telemetry.ProviderPoint) -> Found:
        yield (), max((clock.now() - point.at).total_seconds() - point.seconds, 0.0)

    def cpu(point: telemetry.ProviderPoint) -> Found:
        yield (), point.cpu_percent

    metrics.gauge(
        "labfleet_worker_cloudwatch_cpu_percent",
        "CPU in use by CloudWatch, 0-100: the second opinion.",
        ("namespace", "worker"),
        newest(cpu),
    )
    metrics.gauge(
        "labfleet_worker_cloudwatch_network_bytes_per_second",
        "Network by CloudWatch and direction.",
        ("namespace", "worker", "direction"),
        newest(network),
    )
    metrics.gauge(
        "labfleet_worker_cloudwatch_age_seconds",
        "Fleet seconds since the end of CloudWatch's newest point.",
        ("namespace", "worker"),
        newest(age, always=True),
    )


def _add_alert_gauges(metrics: Metrics, cache: Cache) -> None:
    """Add what the records say: the provider's checks, and which alerts are raised."""

    def living() -> Iterable[Worker]:
        return cache.by(indices.WORKERS_LIVING, True)

    def checks() -> Iterable[Sample]:
        for each in living():
            shown = each.status.machine
            for name, word in (("system", shown.host_check), ("instance", shown.machine_check)):
                if word in CHECKED:
                    yield (each.namespace, each.name, name), CHECKED[word or ""]

    def raised() -> Iterable[Sample]:
        for each in living():
            for row in alerts.raised(each.key, each.status.conditions):
                yield (each.namespace, each.name, row.condition, row.severity), 1.0

    metrics.gauge(
        "labfleet_worker_ec2_check",
        "The provider's checks: 1 passed, 0 impaired; absent while unknown.",
        ("namespace", "worker", "check"),
        checks,
    )
    metrics.gauge(
        "labfleet_worker_alert",
        "1 for each alert that is raised; absent while it is not.",
        ("namespace", "worker", "condition", "severity"),
        raised,
    )


def _add_state_gauges(metrics: Metrics, cache: Cache) -> None:
    """Add what the records of living workers say of their health and licence."""

    def living() -> Iterable[Worker]:
        return cache.by(indices.WORKERS_LIVING, True)

    def well() -> Iterable[Sample]:
        for each in living():
            if each.status.health is not Health.UNKNOWN:
                yield (each.namespace, each.name), float(each.status.health is Health.HEALTHY)

    def licensed() -> Iterable[Sample]:
        for each in living():
            if each.status.licence.licensed is not None:
                yield (each.namespace, each.name), float(each.status.licence.licensed)

    metrics.gauge(
        "labfleet_worker_healthy",
        "1 for a healthy worker, 0 for another; absent while unknown and once it has ended.",
        ("namespace", "worker"),
        well,
    )
    metrics.gauge(
        "labfleet_worker_licensed",
        "1 for a licensed worker, 0 for another; absent while unknown and once it has ended.",
        ("namespace", "worker"),
        licensed,
    )


def _add_allocation_gauges(metrics: Metrics, cache: Cache, clock: Clock) -> None:
    """Add what living workers have, what of it is promised, and what is left."""

    def amounts(read: Callable[[Worker, Allocation], Amounts | None]) -> Callable[[], list[Sample]]:
        def made() -> list[Sample]:
            now, found = clock.now(), list[Sample]()
            for each in cache.by(indices.WORKERS_LIVING, True):
                told = read(each, worker_allocation.of(cache, each, now))
                for name, (field, scale) in RESOURCES.items() if told is not None else ():
                    value = getattr(told, field) * scale
                    found.append(((each.namespace, each.name, name), value))
            return found

        return made

    def shares() -> Iterable[Sample]:
        now = clock.now()
        for each in cache.by(indices.WORKERS_LIVING, True):
            percent = worker_allocation.of(cache, each, now).percent
            for name in RESOURCES:
                value = getattr(percent, name)
                if value is not None:
                    yield (each.namespace, each.name, name), value

    for name, text, read in (
        ("capacity", "What a worker has, once seen", lambda each, _: each.status.capacity),
        (
            "reserved",
            "What sessions were promised, the most from now on",
            lambda _, told: told.reserved,
        ),
        ("available", "What no session was promised", lambda _, told: told.available),
    ):
        metrics.gauge(
            f"labfleet_worker_{name}",
            f"{text}: CPUs, bytes of memory and storage, numbers of the rest.",
            ("namespace", "worker", "resource"),
            amounts(read),
        )
    metrics.gauge(
        "labfleet_worker_reserved_percent",
        "Percent of a worker's capacity that sessions were promised.",
        ("namespace", "worker", "resource"),
        shares,
    )


def _add_port_gauges(metrics: Metrics, cache: Cache) -> None:
    """Add how the ports of living workers are used."""

    def counts() -> Iterable[Sample]:
        for each in cache.by(indices.WORKERS_LIVING, True):
            use = worker_allocation.port_use(cache, each)
            for transport, told in () if use is None else (("tcp", use.tcp), ("udp", use.udp)):
                for state in ("used", "held", "free"):
                    labels = (each.namespace, each.name, transport, state)
                    yield labels, float(getattr(told, state))

    metrics.gauge(
        "labfleet_worker_ports",
        "Ports of a worker by state: used by sessions, held by what may still be there, free.",
        ("namespace", "worker", "transport", "state"),
        counts,
    )


Found = Iterable[tuple[tuple[str, ...], float | None]]


def _cpus(sample: telemetry.Sample) -> Found:
    yield (), None if sample.stats is None else sample.stats.cpu_count


def _percent(sample: telemetry.Sample) -> Found:
    yield (), None if sample.stats is None else sample.stats.cpu_percent


def _allocated_cpus(sample: telemetry.Sample) -> Found:
    yield (), None if sample.stats is None else sample.stats.allocated_cpus


def _allocated_memory(sample: telemetry.Sample) -> Found:
    mib = None if sample.stats is None else sample.stats.allocated_memory_mib
    yield (), None if mib is None else mib * MIB


def _licence(sample: telemetry.Sample) -> Found:
    yield (), None if sample.licence is None else sample.licence.node_capacity


def _memory(sample: telemetry.Sample) -> Found:
    if sample.stats is not None:
        yield from _room(sample.stats.memory)


def _disk(sample: telemetry.Sample) -> Found:
    if sample.stats is not None:
        for name, room in (
            ("all", sample.stats.disk),
            ("controller", sample.stats.controller_disk),
        ):
            for labels, value in _room(room):
                yield (name, *labels), value


def _room(room: telemetry.Room) -> Found:
    for name in ("total", "free", "used"):
        yield (name,), getattr(room, name)


def _nodes(sample: telemetry.Sample) -> Found:
    if sample.stats is not None:
        yield ("total",), sample.stats.total_nodes
        yield ("running",), sample.stats.running_nodes
        yield ("orphans",), sample.stats.running_orphans
