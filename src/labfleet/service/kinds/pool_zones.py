"""The time zones that a pool's windows name, read once each; one that is not known is left out."""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Iterator

from labfleet.decisions.pools.windows import Zones
from labfleet.resources.pool import Scaling
from labfleet.resources.pool_windows import Window


def zones(scaling: Scaling) -> Zones:
    """Return the zones of a pool's windows by name."""
    return {name: found for name in _named(scaling) if (found := _zone(name)) is not None}


def unknown(scaling: Scaling) -> Iterator[tuple[str, str]]:
    """Yield the fields whose zone is none that is known, and what is wrong with it."""
    for field, windows in _windows(scaling):
        for place, each in enumerate(windows):
            if _zone(each.zone) is None:
                where = f"spec.scaling.{field}[{place}].zone"
                yield where, f"{each.zone[:64]!r} is no IANA time zone, such as Europe/Berlin"


def _windows(scaling: Scaling) -> tuple[tuple[str, tuple[Window, ...]], ...]:
    return (
        ("hours", scaling.hours),
        ("timetable", scaling.timetable),
        ("spareTimes", scaling.spare_times),
    )


def _named(scaling: Scaling) -> set[str]:
    return {each.zone for _, windows in _windows(scaling) for each in windows}


@functools.lru_cache(maxsize=256)
def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
