"""Figures of webhooks: what arrived, what was given up, and which fail now."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.cache import Cache
from labfleet.resources.webhook import Webhook


def add_webhook_gauges(metrics: Metrics, cache: Cache) -> None:
    """Add what the webhooks' records say at each scrape; they are written once a minute at most."""

    def events() -> Iterable[Sample]:
        for hook in cache.all(Webhook):
            yield (hook.namespace, hook.name, "delivered"), float(hook.status.delivered)
            yield (hook.namespace, hook.name, "dropped"), float(hook.status.dropped)

    def failures() -> Iterable[Sample]:
        for hook in cache.all(Webhook):
            yield (hook.namespace, hook.name), float(hook.status.failures)

    metrics.counted(
        "labfleet_webhook_events",
        "Events and notices of a webhook that arrived, or were given up because they were a day old.",
        ("namespace", "webhook", "outcome"),
        events,
    )
    metrics.gauge(
        "labfleet_webhook_failures",
        "Deliveries of a webhook that failed in a row; 0 while its receiver takes them.",
        ("namespace", "webhook"),
        failures,
    )
