"""Gauges of the workers' newest samples; what is unknown has no sample, never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.interfaces.telemetry import Samples
from labfleet.kernel.clock import Clock
from labfleet.resources import telemetry

Read = Callable[[telemetry.Sample], Iterable[tuple[tuple[str, ...], float | None]]]
MIB = 2**20


def add_worker_gauges(metrics: Metrics, samples: Samples, clock: Clock) -> None:
    """Add what is read from the sample store at each scrape."""

    def each(read: Read) -> Callable[[], Iterable[Sample]]:
        def made() -> Iterable[Sample]:
            for name in sorted(samples.workers()):
                newest = samples.newest(name)
                if newest is None:
                    continue
                for labels, value in read(newest):
                    if value is not None:
                        yield (name, *labels), float(value)

        return made

    def age(sample: telemetry.Sample) -> Iterable[tuple[tuple[str, ...], float | None]]:
        yield (), max((clock.now() - sample.at).total_seconds(), 0.0)

    metrics.gauge(
        "labfleet_worker_sample_age_seconds",
        "Fleet seconds since a worker was last measured.",
        ("worker",),
        each(age),
    )
    metrics.gauge(
        "labfleet_worker_cpu_count", "CPUs of a worker's computes.", ("worker",), each(_cpus)
    )
    metrics.gauge("labfleet_worker_cpu_percent", "CPU in use, 0-100.", ("worker",), each(_percent))
    metrics.gauge(
        "labfleet_worker_memory_bytes", "Memory by state.", ("worker", "state"), each(_memory)
    )
    metrics.gauge(
        "labfleet_worker_disk_bytes",
        "Disk of all hosts or of the controller, by state.",
        ("worker", "disk", "state"),
        each(_disk),
    )
    metrics.gauge(
        "labfleet_worker_nodes",
        "Nodes deployed, running, and machines that CML does not know.",
        ("worker", "state"),
        each(_nodes),
    )
    metrics.gauge(
        "labfleet_worker_allocated_cpus",
        "vCPUs of running nodes.",
        ("worker",),
        each(_allocated_cpus),
    )
    metrics.gauge(
        "labfleet_worker_allocated_memory_bytes",
        "Memory of running nodes.",
        ("worker",),
        each(_allocated_memory),
    )
    metrics.gauge(
        "labfleet_worker_licence_nodes",
        "Nodes that the licence allows.",
        ("worker",),
        each(_licence),
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
