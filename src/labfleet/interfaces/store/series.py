"""Time series of workers, in rings of buckets. They append no event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

SERIES_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One bucket of a worker's (`Key.path`) numbers: of `step` seconds, from `at` on.

    `data` is the packed form of `resources.series`, whose tiers say how many are kept.
    """

    worker: str
    step: int
    at: datetime
    data: str


class SeriesStore(Protocol):
    """Keeps the buckets of each worker and step."""

    async def merge_series(self, rows: Sequence[SeriesRow]) -> None:
        """Merge buckets into the stored ones of the same instants, at most `SERIES_LIMIT`.

        A bucket written twice holds both measurements. A bucket replaces the one that is a
        whole ring older; if a newer one has its place already, it is silently dropped.
        """
        ...

    async def series(self, worker: str, step: int, since: datetime) -> tuple[SeriesRow, ...]:
        """Return a worker's buckets of this step that begin at `since` or later, oldest first."""
        ...

    async def series_workers(self) -> tuple[str, ...]:
        """Return the workers that have series or a newest sample, each as `Key.path`."""
        ...

    async def drop_series(self, workers: Sequence[str]) -> int:
        """Drop all buckets and newest samples of these workers; return how many rows went."""
        ...
