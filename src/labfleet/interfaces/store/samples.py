"""The newest measurement of each worker, so that every process can show it. Appends no event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

SAMPLES_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class SampleTime:
    """When one part of a worker (`Key.path`) was last measured: a row without its data."""

    worker: str
    part: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What was last measured of one part of a worker (`Key.path`), as a JSON text."""

    worker: str
    part: str
    at: datetime
    data: str


class SampleStore(Protocol):
    """Keeps one row for each worker and part."""

    async def put_samples(self, rows: Sequence[SampleRow]) -> None:
        """Replace the rows of these workers and parts, at most `SAMPLES_LIMIT`, in one batch."""
        ...

    async def sample_times(self) -> tuple[SampleTime, ...]:
        """Return when each part of each worker was last measured, in the order of their names."""
        ...

    async def samples(self, workers: Sequence[str]) -> tuple[SampleRow, ...]:
        """Return the rows of these workers, in the order of their names."""
        ...

    async def drop_samples(self, workers: Sequence[str]) -> int:
        """Drop the rows of these workers; return how many went."""
        ...
