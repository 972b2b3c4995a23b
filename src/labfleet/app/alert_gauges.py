"""Gauges of what is raised, on every kind and on the server: as `labfleet alerts` lists it."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import raised


def add_alert_gauges(metrics: Metrics, services: ServiceContext) -> None:
    """Add which alerts are raised, and the numbers behind them."""

    def standing() -> Iterable[Sample]:
        for each in raised.standing(services):
            yield (each.namespace, each.object, each.condition, each.severity), 1.0

    def measured() -> Iterable[Sample]:
        for each in raised.standing(services):
            if each.measured is not None:
                unit = each.measured.unit
                yield (each.namespace, each.object, each.condition, unit), each.measured.value

    metrics.gauge(
        "labfleet_alert",
        "1 for each alert that is raised on any object; absent while it is not.",
        ("namespace", "object", "condition", "severity"),
        standing,
    )
    metrics.gauge(
        "labfleet_alert_value",
        "The number behind a raised alert, in its unit.",
        ("namespace", "object", "condition", "unit"),
        measured,
    )
