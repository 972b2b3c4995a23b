"""Gauges of costs: what an hour of each pool costs as it stands, and what of it has no price."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cost_now


def add_cost_gauges(metrics: Metrics, services: ServiceContext) -> None:
    """Add what the workers' records and the price list say at each scrape."""

    def hour() -> Iterable[Sample]:
        now = services.clock.now()
        for (space, pool), rate in cost_now.rates(services.cache, services.prices, now).items():
            for kind, usd in rate.usd.items():
                yield (space, pool, kind), float(usd)

    def unpriced() -> Iterable[Sample]:
        now = services.clock.now()
        for key, rate in cost_now.rates(services.cache, services.prices, now).items():
            yield key, float(rate.unpriced)

    metrics.gauge(
        "labfleet_cost_per_hour",
        "US dollars that an hour of a pool costs as it stands, by kind of time.",
        ("namespace", "pool", "kind"),
        hour,
    )
    metrics.gauge(
        "labfleet_cost_unpriced_machines",
        "Machines of a pool that are paid and of whose hour or disk no price is known.",
        ("namespace", "pool"),
        unpriced,
    )
