"""Gauges of regions and leaks: one line each, nothing for what never happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labfleet.app.metrics import Metrics
from labfleet.app.region_gauges import add_region_gauges
from labfleet.resources.leak import Leak, LeakSpec
from labfleet.resources.meta import Metadata
from labfleet.resources.region import Region, RegionStatus, Scan, Suspect

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)


class Still:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


class Kept:
    """A cache of a scanned region, a new one and a leak."""

    def all(self, kind: Any) -> list[Any]:
        if kind is Leak:
            spec = LeakSpec(worker="w", since=NOW)
            return [Leak(metadata=Metadata(name="l"), spec=spec)]
        scan = Scan(
            runs=2, discovered=3, imported=2, last_run_at=NOW - timedelta(seconds=9), last_error="x"
        )
        status = RegionStatus(
            scan=scan, suspects=(Suspect(kind="volume", id="v", since=NOW),), ended=4, waits="x"
        )
        made = Region(metadata=Metadata(name="eu"), status=status)
        return [made, Region(metadata=Metadata(name="us"))]

    def by(self, index: Any, value: Any) -> tuple[()]:
        """No worker is missing."""
        return ()


def test_regions_and_leaks_are_gauges() -> None:
    """Sums and last values of a scanned region; a region without a scan has no age."""
    metrics = Metrics()
    add_region_gauges(metrics, Kept(), Still())  # type: ignore[arg-type]
    lines = set(metrics.text()[0].decode().splitlines())
    assert {
        "labfleet_licence_leaks 1.0",
        'labfleet_garbage_suspects{kind="volume",region="eu"} 1.0',
        'labfleet_garbage_suspects{kind="instance",region="us"} 0.0',
        'labfleet_garbage_suspects{kind="worker",region="eu"} 0.0',
        'labfleet_garbage_ended{region="eu"} 4.0',
        'labfleet_garbage_ended_outside{region="eu"} 0.0',
        'labfleet_garbage_held{region="eu"} 1.0',
        'labfleet_discovery_age_seconds{region="eu"} 9.0',
        'labfleet_discovery_failed{region="eu"} 1.0',
        'labfleet_discovery_found{region="eu"} 3.0',
        'labfleet_discovery_imported{region="eu"} 2.0',
    } <= lines
    assert not any(line.startswith('labfleet_discovery_age_seconds{region="us"') for line in lines)
