"""Gauges of pools: their workers by stage, what waits, whether demand is met."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.cache import Cache
from labfleet.resources import conditions
from labfleet.resources.pool import Pool
from labfleet.resources.pool_conditions import PoolCondition

STAGES = ("ready", "booting", "draining", "failed", "stopped")


def add_pool_gauges(metrics: Metrics, cache: Cache) -> None:
    """Add what the pools' records say at each scrape."""

    def workers() -> Iterable[Sample]:
        for pool in cache.all(Pool):
            for stage in STAGES:
                yield (pool.namespace, pool.name, stage), float(getattr(pool.status, stage))

    def waiting() -> Iterable[Sample]:
        for pool in cache.all(Pool):
            yield (pool.namespace, pool.name), float(pool.status.waiting_sessions)

    def unmet() -> Iterable[Sample]:
        for pool in cache.all(Pool):
            told = conditions.find(pool.status.conditions, PoolCondition.DEMAND_MET)
            yield (pool.namespace, pool.name), float(told is not None and told.status == "False")

    def since() -> Iterable[Sample]:
        for pool in cache.all(Pool):
            if pool.status.phase_since is not None:
                labels = (pool.namespace, pool.name, str(pool.status.phase))
                yield labels, pool.status.phase_since.timestamp()

    metrics.gauge(
        "labfleet_pool_workers",
        "A pool's workers by stage; stopped ones take no place and cost their disks.",
        ("namespace", "pool", "stage"),
        workers,
    )
    metrics.gauge(
        "labfleet_pool_waiting_sessions",
        "Sessions that wait for a pool's capacity.",
        ("namespace", "pool"),
        waiting,
    )
    metrics.gauge(
        "labfleet_pool_demand_unmet",
        "1 while a pool lacks workers and may not add one.",
        ("namespace", "pool"),
        unmet,
    )
    metrics.gauge(
        "labfleet_pool_phase_since_seconds",
        "Unix time (fleet) since which a pool is in its phase.",
        ("namespace", "pool", "phase"),
        since,
    )
    _add_promise_gauges(metrics, cache)


def _add_promise_gauges(metrics: Metrics, cache: Cache) -> None:
    def lead() -> Iterable[Sample]:
        for pool in cache.all(Pool):
            told = pool.status.lead
            if told is not None:
                yield (pool.namespace, pool.name, str(told.source)), float(told.seconds)

    metrics.gauge(
        "labfleet_pool_lead_seconds",
        "Fleet seconds before what is promised begins at which a pool makes workers, by what it rests on.",
        ("namespace", "pool", "source"),
        lead,
    )
    metrics.gauge(
        "labfleet_pool_promised_sessions",
        "Sessions to which a pool has promised a place and that no worker hosts yet.",
        ("namespace", "pool"),
        lambda: [
            ((each.namespace, each.name), float(each.status.promised)) for each in cache.all(Pool)
        ],
    )
    metrics.gauge(
        "labfleet_pool_endangered_sessions",
        "Sessions whose promise is in danger.",
        ("namespace", "pool"),
        lambda: [
            ((each.namespace, each.name), float(each.status.endangered)) for each in cache.all(Pool)
        ],
    )
