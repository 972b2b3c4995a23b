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
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
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
        self.role_restarts = Counter(
            "labfleet_role_restarts",
            "Restarts of a role after a crash.",
            ("role",),
            registry=self.registry,
        )

    def gauge(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]
    ) -> None:
        """Add a gauge whose samples are read at each scrape."""
        self.registry.register(_Read(name, text, labels, read))

    def text(self) -> tuple[bytes, str]:
        """Return the exposition and its media type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _Read(Collector):
    """A gauge that asks for its samples."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]
    ) -> None:
        self._name, self._text, self._labels, self._read = name, text, labels, read

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._read():
            family.add_metric(labels, value)
        yield family
