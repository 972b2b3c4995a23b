"""The rows of the ledger of paid time since the beginning of a month, each read from the store once.

A question reads what was written since the one before, so that many questions cost one reading.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.interfaces import store as stores
from labfleet.resources.history import Run, RunKind

LATE = timedelta(days=7)
"""How long after its end a row may be written: so long no controller may have run."""
MOST_PAGES = 50
"""Pages of rows of one kind that are kept at most; with more, the oldest are left out and it is said."""
MONTHS = 3
"""Of how many months rows are kept at a time."""


@dataclass(slots=True)
class _Kept:
    """The rows of one kind that ended after an instant, and the place up to which they were read."""

    rows: list[Run] = field(default_factory=list)
    place: int = 0
    left_out: bool = False


class PaidLedger:
    """Reads rows of paid time, and keeps those of the months that are asked about."""

    def __init__(self, history: stores.HistoryStore) -> None:
        self._history = history
        self._kept: dict[tuple[RunKind, datetime], _Kept] = {}
        self._lock = asyncio.Lock()

    async def rows(self, kind: RunKind, since: datetime) -> tuple[tuple[Run, ...], bool]:
        """Return the rows of a kind that ended after an instant, and whether there are more of them."""
        async with self._lock:
            kept = self._kept.pop((kind, since), None)
            if kept is None:
                kept = await self._first(kind, since)
            else:
                await self._newer(kind, since, kept)
            self._kept[kind, since] = kept
            while len(self._kept) > 2 * MONTHS:
                del self._kept[next(iter(self._kept))]
            return tuple(kept.rows), kept.left_out

    async def _first(self, kind: RunKind, since: datetime) -> _Kept:
        made = _Kept(place=(await self._history.history_size()).place)
        before = made.place + 1
        for _ in range(MOST_PAGES):
            page = await self._history.newest_runs(
                kind=kind, before=before, limit=stores.PAGE_LIMIT
            )
            made.rows += (each.run for each in page if each.run.ended_at > since)
            if len(page) < stores.PAGE_LIMIT or page[-1].run.ended_at < since - LATE:
                return made
            before = page[-1].place
        made.left_out = True
        return made

    async def _newer(self, kind: RunKind, since: datetime, kept: _Kept) -> None:
        while True:
            page = await self._history.history(kept.place, kind=kind, limit=stores.PAGE_LIMIT)
            kept.rows += (each.run for each in page if each.run.ended_at > since)
            if page:
                kept.place = page[-1].place
            if len(kept.rows) > MOST_PAGES * stores.PAGE_LIMIT:
                del kept.rows[: stores.PAGE_LIMIT]
                kept.left_out = True
            if len(page) < stores.PAGE_LIMIT:
                return
