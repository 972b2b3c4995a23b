"""Metrics: every name in one place, read at /metrics, documented in docs/reference/metrics.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
PLACED_IN = (0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0)
AMONG = (0, 1, 10, 100, 1_000, 10_000, 100_000)
Sample = tuple[tuple[str, ...], float]


class Metrics:
    """The process's counters and the gauges that are read when asked."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "labfleet_reconciles",
            "Reconciles by controller and outcome.",
            ("controller", "outcome"),
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "labfleet_reconcile_seconds",
            "Machine seconds of one reconcile.",
            ("controller",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.placement_decisions = Counter(
            "labfleet_placement_decisions",
            "Decisions on waiting sessions by outcome, reason and the strategy that chose.",
            ("outcome", "reason", "strategy"),
            registry=self.registry,
        )
        self.placement_seconds = Histogram(
            "labfleet_placement_seconds",
            "Machine seconds of one decision on a waiting session.",
            buckets=PLACED_IN,
            registry=self.registry,
        )
        self.placement_candidates = Histogram(
            "labfleet_placement_candidates",
            "Workers that one decision on a waiting session was made among.",
            buckets=AMONG,
            registry=self.registry,
        )
        self.role_restarts = Counter(
            "labfleet_role_restarts",
            "Restarts of a role after a crash.",
            ("role",),
            registry=self.registry,
        )

        self.leads_lost = Counter(
            "labfleet_leads_lost",
            "How often this process lost the lead of the role.",
            ("role",),
            registry=self.registry,
        )

    def gauge(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]
    ) -> None:
        """Add a gauge whose samples are read at each scrape."""
        self.registry.register(_Read(GaugeMetricFamily(name, text, labels=labels), read))

    def counted(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]
    ) -> None:
        """Add a counter that is counted elsewhere; the exposition adds `_total` to its name."""
        self.registry.register(_Read(CounterMetricFamily(name, text, labels=labels), read))

    def text(self) -> tuple[bytes, str]:
        """Return the exposition and its media type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _Read(Collector):
    """A family that asks for its samples."""

    def __init__(
        self, family: GaugeMetricFamily | CounterMetricFamily, read: Callable[[], Iterable[Sample]]
    ) -> None:
        self._family, self._read = family, read

    def collect(self) -> Iterator[Metric]:
        self._family.samples.clear()
        for labels, value in self._read():
            self._family.add_metric(labels, value)
        yield self._family
