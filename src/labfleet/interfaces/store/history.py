"""The history of past runs: only appended to, by commits, and read along its places.

A row outlives the object that ran. It appends no event, and nothing ever changes it: what was
learned up to a place is learned again byte for byte from the rows up to that place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from labfleet.interfaces.store.log import PAGE_LIMIT
from labfleet.resources.history import KeptRun, Run, RunKind

RUN_BYTES = 65_536
"""The largest run in its serialised form: a page of them stays a moderate answer."""


@dataclass(frozen=True, slots=True)
class Teach:
    """Append a run to the history; a run whose kind and uid it has already changes nothing.

    The first one stays, whoever says something else later, for a row that changed would make
    what was learned from it impossible to repeat. Its age counts from the commit's instant.
    """

    run: Run


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How many runs the history has, and the last place it gave (0: none yet)."""

    rows: int
    place: int


class HistoryStore(Protocol):
    """Reads the history. Places are given in the order of commits, so none appears late."""

    async def history(
        self,
        after: int,
        *,
        kind: RunKind | None = None,
        family: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        limit: int = PAGE_LIMIT,
    ) -> tuple[KeptRun, ...]:
        """Return the runs at later places that pass every filter, in the order of their places.

        Fewer than `limit` is all there is. A reader that goes on from the last place it got meets
        every run once.
        """
        ...

    async def newest_runs(
        self,
        *,
        kind: RunKind | None = None,
        family: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        before: int | None = None,
        limit: int = PAGE_LIMIT,
    ) -> tuple[KeptRun, ...]:
        """Return runs before a place, the newest first, of those that pass every filter."""
        ...

    async def history_size(self) -> HistorySize:
        """Return how much the history holds; the work does not grow with it."""
        ...

    async def drop_history(self, before: datetime, *, limit: int) -> int:
        """Drop at most so many runs that were kept before an instant; return how many went.

        The oldest places go first; places are never given again.
        """
        ...
