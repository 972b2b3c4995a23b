"""Metrics of clusters and of decisions on simulations (upstream 004's own metrics and more)."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Histogram

from labfleet.app.metrics import Metrics, Sample
from labfleet.decisions.admission.targets import targets
from labfleet.engine.cache import Cache
from labfleet.resources.cluster import Cluster, as_seen, capacity_of
from labfleet.resources.decision import Decision
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.cluster_mode import mode_of

RESOURCES = {"cpu": ("cpu_milli", 1000.0), "memory": ("memory_mib", 1024.0**-2),
             "network": ("network_kbps", 1e-3)}  # fmt: skip
"""Resource -> dimension and what its amount is divided by: CPUs, bytes, bit/s."""
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 5.0)


def add_decisions(metrics: Metrics, services: ServiceContext) -> None:
    """Count the decisions that this process makes."""
    counts: dict[tuple[str, ...], float] = {}
    seconds = Histogram(
        "labfleet_decision_seconds",
        "Machine seconds from a request for a simulation to its durable decision.",
        buckets=BUCKETS,
        registry=metrics.registry,
    )

    def decided(decision: Decision, took: float) -> None:
        labels = (decision.outcome, decision.reason)
        counts[labels] = counts.get(labels, 0.0) + 1
        seconds.observe(took)

    services.asked.observer = decided
    metrics.counted(
        "labfleet_decisions",
        "Decisions on simulations that this process made, by outcome and reason.",
        ("outcome", "reason"),
        counts.items,
    )


def add_cluster_gauges(metrics: Metrics, services: ServiceContext) -> None:
    """Add what clusters hold, may hold and make wait."""
    cache = services.cache

    def held() -> Iterable[Sample]:
        for path, each in _clusters(cache):
            runs = cache.by(indices.SIMULATIONS_HOLDING, path)
            for name, (dimension, unit) in RESOURCES.items():
                total = sum(
                    getattr(run.status.reservation.amounts, dimension)
                    for run in runs
                    if run.status.reservation is not None
                )
                yield (each.namespace, each.name, name), total / unit

    def target() -> Iterable[Sample]:
        for _, each in _clusters(cache):
            may = targets(as_seen(each))
            for name, (dimension, unit) in RESOURCES.items():
                if getattr(capacity_of(each), dimension):  # else nobody knows what it has
                    yield (each.namespace, each.name, name), getattr(may, dimension) / unit

    def waiting() -> Iterable[Sample]:
        for path, each in _clusters(cache):
            count = cache.count(indices.SIMULATIONS_QUEUED, path)
            yield (each.namespace, each.name), float(count)

    metrics.gauge(
        "labfleet_cluster_predicted_load",
        "Sum of what a cluster's live runs use at most, by bounds: CPUs, bytes, bit/s.",
        ("namespace", "cluster", "resource"),
        held,
    )
    metrics.gauge(
        "labfleet_cluster_target",
        "How far a cluster may be filled: CPUs, bytes, bit/s.",
        ("namespace", "cluster", "resource"),
        target,
    )
    metrics.gauge(
        "labfleet_cluster_waiting_simulations",
        "Simulations that wait for a decision or for room.",
        ("namespace", "cluster"),
        waiting,
    )


def add_promises(metrics: Metrics, services: ServiceContext) -> None:
    """Add how often targets may be exceeded, and how often they were."""
    cache = services.cache

    def epsilon() -> Iterable[Sample]:
        for _, each in _clusters(cache):
            yield (each.namespace, each.name), each.spec.overload_percent / 100

    def realised() -> Iterable[Sample]:
        for _, each in _clusters(cache):
            share = each.status.overload.realised
            if share is not None:
                yield (each.namespace, each.name), share

    metrics.gauge(
        "labfleet_cluster_overload_allowed",
        "Share of time that a cluster's load may exceed a target.",
        ("namespace", "cluster"),
        epsilon,
    )
    metrics.gauge(
        "labfleet_cluster_overload_realised",
        "Share of time that a cluster's load was above a target; absent before it is measured.",
        ("namespace", "cluster"),
        realised,
    )


def add_freshness(metrics: Metrics, services: ServiceContext) -> None:
    """Add how far the figures of clusters are known."""

    def safe() -> Iterable[Sample]:
        for _, each in _clusters(services.cache):
            if each.spec.metrics:
                yield (each.namespace, each.name), float(mode_of(each) == "safe")

    def age() -> Iterable[Sample]:
        now = services.clock.monotonic()
        for _, each in _clusters(services.cache):
            for part, heard in services.watch.parts(each.metadata.uid, now).items():
                if heard.age is not None:
                    yield (each.namespace, each.name, part.lower()), heard.age

    metrics.gauge(
        "labfleet_cluster_safe_mode",
        "1 while a cluster's figures are unknown, so that it is in safe mode, else 0.",
        ("namespace", "cluster"),
        safe,
    )
    metrics.gauge(
        "labfleet_cluster_figures_age_seconds",
        "Fleet seconds since this process last heard a part of a cluster; absent where it never did.",
        ("namespace", "cluster", "part"),
        age,
    )


def add_coverage(metrics: Metrics, services: ServiceContext) -> None:
    """Add how well predictions hold, as far as this process has learned."""

    def coverage() -> Iterable[Sample]:
        learner = services.learning.known
        learned = () if learner is None else learner.achieved()
        for each in (*learned, *services.starts.achieved()):
            name = each.resource.rpartition("_")[0] or each.resource
            yield (str(each.kind), name, f"{each.stated:g}"), each.share

    metrics.gauge(
        "labfleet_prediction_coverage",
        "Share of runs within the bound of this stated coverage, of sessions' starts within their range;"
        " absent before any.",
        ("kind", "resource", "stated"),
        coverage,
    )

    def judged() -> Iterable[Sample]:
        for each in services.starts.achieved():
            yield (f"{each.stated:g}",), float(each.runs)

    metrics.gauge(
        "labfleet_start_ranges_judged",
        "Start ranges of sessions that were judged by their start; of many, earlier ones count half.",
        ("stated",),
        judged,
    )


def _clusters(cache: Cache) -> Iterable[tuple[str, Cluster]]:
    return ((each.key.path, each) for each in cache.all(Cluster))
