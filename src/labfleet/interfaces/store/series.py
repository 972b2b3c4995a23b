"""Time series of objects, in rings of buckets. They append no event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from labfleet.resources.series import Owner

SERIES_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """One bucket of an object's numbers: of `step` seconds, from `at` on.

    `data` is the packed form of `resources.series`, whose tiers say how many are kept.
    """

    owner: Owner
    step: int
    at: datetime
    data: str


class SeriesStore(Protocol):
    """Keeps the buckets of each owner (kind and uid of an object) and step."""

    async def merge_series(self, rows: Sequence[SeriesRow]) -> None:
        """Merge buckets into the stored ones of the same instants, at most `SERIES_LIMIT`.

        A bucket written twice holds both measurements. A bucket replaces the one that is a
        whole ring older; if a newer one has its place already, it is silently dropped.
        """
        ...

    async def series(self, owner: Owner, step: int, since: datetime) -> tuple[SeriesRow, ...]:
        """Return an owner's buckets of this step that begin at `since` or later, oldest first."""
        ...

    async def series_at(
        self, owners: Sequence[Owner], step: int, instants: Sequence[datetime]
    ) -> tuple[SeriesRow, ...]:
        """Return these owners' buckets that begin at these instants, in no promised order.

        At most `SERIES_LIMIT` owners times instants; as many rows are looked up and no others.
        """
        ...

    async def series_owners(self) -> tuple[Owner, ...]:
        """Return the owners that have buckets, kind by kind."""
        ...

    async def drop_series(self, owners: Sequence[Owner]) -> int:
        """Drop all buckets of these owners; return how many rows went."""
        ...
