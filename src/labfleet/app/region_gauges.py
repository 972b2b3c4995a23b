"""Gauges of regions and leaks: discovery, suspects of garbage collection, leaked licences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import get_args

from labfleet.app.metrics import Metrics, Sample
from labfleet.decisions.lifecycle.worker import phases
from labfleet.engine.cache import Cache
from labfleet.kernel.clock import Clock
from labfleet.resources import conditions
from labfleet.resources.leak import Leak
from labfleet.resources.region import LeftKind, Region, RegionCondition
from labfleet.service.kinds import indices, left_behind


def add_region_gauges(metrics: Metrics, cache: Cache, clock: Clock) -> None:
    """Add what is read from the cache at each scrape."""
    _add_garbage(metrics, cache, clock)
    _add_discovery(metrics, cache, clock)
    _add_answers(metrics, cache)


def _add_answers(metrics: Metrics, cache: Cache) -> None:
    def answers() -> Iterable[Sample]:
        down = {
            each.spec.machine.provider.region
            for each in cache.by(indices.WORKERS_LIVING, True)
            if each.spec.machine is not None and phases.provider_trouble(each)
        }
        for region in cache.all(Region):
            fact = conditions.find(region.status.conditions, RegionCondition.PROVIDER_ANSWERS)
            if fact is not None and fact.status == "False":
                down.add(region.name)
        for name in sorted({each.name for each in cache.all(Region)} | down):
            yield (name,), float(name not in down)

    metrics.gauge(
        "labfleet_provider_answers",
        "0 while a region's provider does not do what it is asked, for minutes.",
        ("region",),
        answers,
    )


Read = Callable[[Region], float | None]


def _each(cache: Cache, read: Read) -> Callable[[], Iterable[Sample]]:
    """Return the samples of a gauge: one for each region of which the value is known."""

    def made() -> Iterable[Sample]:
        for region in cache.all(Region):
            value = read(region)
            if value is not None:
                yield (region.name,), float(value)

    return made


def _add_garbage(metrics: Metrics, cache: Cache, clock: Clock) -> None:
    def suspects() -> Iterable[Sample]:
        counted = Counter(
            (each.region, str(each.suspect.kind))
            for each in left_behind.suspects(cache, clock.now())
        )
        regions = {each.name for each in cache.all(Region)} | {region for region, _ in counted}
        for region in sorted(regions):
            for kind in get_args(LeftKind):
                yield (region, kind), float(counted[region, kind])

    def leaks() -> Iterable[Sample]:
        yield (), float(len(cache.all(Leak)))

    metrics.gauge("labfleet_licence_leaks", "Licences that a person must free at Cisco.", (), leaks)
    metrics.gauge(
        "labfleet_garbage_suspects",
        "What seems to belong to nobody: machines, volumes, addresses, labs, and records of workers "
        "whose machine is not shown.",
        ("region", "kind"),
        suspects,
    )
    metrics.gauge(
        "labfleet_garbage_ended",
        "How much garbage collection has asked to end, since the region is known.",
        ("region",),
        _each(cache, _ended),
    )
    metrics.gauge(
        "labfleet_garbage_ended_outside",
        "Machines of workers that others ended, since the region is known.",
        ("region",),
        _each(cache, _ended_outside),
    )
    metrics.gauge(
        "labfleet_garbage_held",
        "1 while a region's list fails, so that nothing is judged there.",
        ("region",),
        _each(cache, _held),
    )


def _add_discovery(metrics: Metrics, cache: Cache, clock: Clock) -> None:
    def age(region: Region) -> float | None:
        at = region.status.scan.last_run_at
        return None if at is None else max((clock.now() - at).total_seconds(), 0.0)

    def failed(region: Region) -> float | None:
        scan = region.status.scan
        return float(bool(scan.last_error)) if scan.runs else None

    metrics.gauge(
        "labfleet_discovery_age_seconds",
        "Fleet seconds since a region was last scanned.",
        ("region",),
        _each(cache, age),
    )
    metrics.gauge(
        "labfleet_discovery_failed",
        "1 when a region's last scan failed.",
        ("region",),
        _each(cache, failed),
    )
    metrics.gauge(
        "labfleet_discovery_found",
        "Instances of known images that a region's last scan found.",
        ("region",),
        _each(cache, _found),
    )
    metrics.gauge(
        "labfleet_discovery_imported",
        "Workers that discovery has made, since the region is known.",
        ("region",),
        _each(cache, _imported),
    )


def _ended(region: Region) -> float | None:
    return region.status.ended


def _ended_outside(region: Region) -> float | None:
    return region.status.ended_outside


def _held(region: Region) -> float | None:
    return float(bool(region.status.waits))


def _found(region: Region) -> float | None:
    return region.status.scan.discovered if region.status.scan.runs else None


def _imported(region: Region) -> float | None:
    return region.status.scan.imported
