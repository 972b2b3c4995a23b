"""Gauges of past runs and of the database: how much there is, asked of the store now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.wakeup import Pause
from labfleet.interfaces.store import HistoryStore, OpenedStore
from labfleet.kernel import errors

EVERY_SECONDS = 30.0
ANSWER_SECONDS = 5.0


class KeptStore(HistoryStore, OpenedStore, Protocol):
    """What is asked for numbers of what is kept."""


class HistoryRows:
    """Asks the store how much it keeps; `rows` and `size` (bytes) are None while not known."""

    def __init__(self, store: KeptStore, pause: Pause = asyncio.sleep) -> None:
        self._store = store
        self._pause = pause
        self.rows: int | None = None
        self.size: int | None = None

    async def run(self) -> None:
        """Ask every half minute until cancelled."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self.rows = (await self._store.history_size()).rows
                    self.size = await self._store.size()
            except (errors.LabfleetError, TimeoutError):
                self.rows = self.size = None
            await self._pause(EVERY_SECONDS)


def add_history(metrics: Metrics, history: HistoryRows) -> None:
    """Add the gauge; it is absent while the number is not known."""

    def rows() -> Iterable[Sample]:
        if history.rows is not None:
            yield (), float(history.rows)

    def size() -> Iterable[Sample]:
        if history.size is not None:
            yield (), float(history.size)

    metrics.gauge("labfleet_store_bytes", "Size of the database on its disk.", (), size)
    metrics.gauge("labfleet_history_rows", "Past runs that are kept and learned from.", (), rows)
