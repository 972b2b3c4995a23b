"""Gauge of past runs: how many the history has, asked of the store now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.wakeup import Pause
from labfleet.interfaces.store import HistoryStore
from labfleet.kernel import errors

EVERY_SECONDS = 30.0
ANSWER_SECONDS = 5.0


class HistoryRows:
    """Asks the store how many past runs it has; `rows` is None while that is not known."""

    def __init__(self, store: HistoryStore, pause: Pause = asyncio.sleep) -> None:
        self._store = store
        self._pause = pause
        self.rows: int | None = None

    async def run(self) -> None:
        """Ask every half minute until cancelled."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self.rows = (await self._store.history_size()).rows
            except (errors.LabfleetError, TimeoutError):
                self.rows = None
            await self._pause(EVERY_SECONDS)


def add_history(metrics: Metrics, history: HistoryRows) -> None:
    """Add the gauge; it is absent while the number is not known."""

    def rows() -> Iterable[Sample]:
        if history.rows is not None:
            yield (), float(history.rows)

    metrics.gauge("labfleet_history_rows", "Past runs that are kept and learned from.", (), rows)
