"""Figures of webhooks."""

from __future__ import annotations

from types import SimpleNamespace

from labfleet.app.metrics import Metrics
from labfleet.app.webhook_gauges import add_webhook_gauges
from labfleet.resources.meta import Metadata
from labfleet.resources.webhook import Webhook, WebhookSpec, WebhookStatus


def test_what_arrived_what_was_given_up_and_what_fails_are_three_numbers() -> None:
    """Of each webhook by its name; whose it is, is no label."""
    status = WebhookStatus(delivered=7, dropped=2, failures=3)
    spec = WebhookSpec(url="https://hooks.example.com/", owner="ann")
    hook = Webhook(metadata=Metadata(name="h", namespace="exam"), spec=spec, status=status)
    metrics = Metrics()
    add_webhook_gauges(metrics, SimpleNamespace(all=lambda _: (hook,)))  # type: ignore[arg-type]
    said = metrics.text()[0].decode()
    where = 'namespace="exam"'
    assert f'labfleet_webhook_events_total{{{where},outcome="delivered",webhook="h"}} 7.0' in said
    assert f'labfleet_webhook_events_total{{{where},outcome="dropped",webhook="h"}} 2.0' in said
    assert f'labfleet_webhook_failures{{{where},webhook="h"}} 3.0' in said
    assert "ann" not in said
