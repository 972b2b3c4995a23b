"""Times of the week in a time zone, and thresholds of load: what a pool's scaling is set by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from labfleet.resources.meta import Record

Weekday = Literal["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
WEEKDAYS: tuple[Weekday, ...] = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
WINDOWS = 50
"""Windows that one list of a pool may have."""
WallTime = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
_Share = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Window(Record, frozen=True, kw_only=True):
    """A part of the day, such as 07:00 to 19:00 on weekdays in Europe/Berlin.

    It is of the wall clock: where a change of the clock skips its start, it begins at the first
    instant after that, and where an hour comes twice, it stays open over both. An end that is
    not after the start is one of the next day, so 00:00 to 00:00 is a whole day.

    start: Time of day at which it opens, HH:MM.
    end: Time of day at which it closes, HH:MM; not after the start, it is one of the next day.
    days: Days on which it opens; none means each day.
    zone: IANA name of the time zone.
    """

    start: WallTime
    end: WallTime
    days: tuple[Weekday, ...] = ()
    zone: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "UTC"


class WorkersWindow(Window, frozen=True, kw_only=True):
    """A number of workers in a part of the day.

    start: Time of day at which it opens, HH:MM.
    end: Time of day at which it closes, HH:MM; not after the start, it is one of the next day.
    days: Days on which it opens; none means each day.
    zone: IANA name of the time zone.
    workers: Number of workers while it is open.
    """

    workers: Annotated[int, msgspec.Meta(ge=0, le=1000)]


class Thresholds(Record, frozen=True, kw_only=True):
    """From which load on a pool grows and shrinks by CAPACITY_BASED, LAB_COUNT_BASED and HYBRID.

    Shares are of what the workers that serve or boot have, booked by sessions, in per cent. The
    defaults are upstream 001's (facts/upstream.md#pools).

    cpu_up_percent: Share of CPU above which it grows.
    cpu_down_percent: Share of CPU below which it may shrink.
    memory_up_percent: Share of memory above which it grows.
    memory_down_percent: Share of memory below which it may shrink.
    labs_up: Labs a worker above which it grows.
    labs_down: Labs a worker below which it may shrink.
    """

    cpu_up_percent: _Share = 75
    cpu_down_percent: _Share = 30
    memory_up_percent: _Share = 80
    memory_down_percent: _Share = 40
    labs_up: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 15
    labs_down: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3

    def crossed(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that are not below the ones that they must be below, and what is wrong."""
        pairs = (
            ("cpuDownPercent", self.cpu_down_percent, "cpuUpPercent", self.cpu_up_percent),
            ("memoryDownPercent", self.memory_down_percent, "memoryUpPercent", self.memory_up_percent),
            ("labsDown", self.labs_down, "labsUp", self.labs_up),
        )  # fmt: skip
        for low, down, high, up in pairs:
            if down >= up:
                yield low, f"{down} must be less than {high}, which is {up}"
