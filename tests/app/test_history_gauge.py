"""The gauge of past runs."""

from __future__ import annotations

import asyncio

import pytest

from labfleet.app.history_gauge import HistoryRows, add_history
from labfleet.app.metrics import Metrics
from labfleet.interfaces.store import HistorySize
from labfleet.kernel import errors

NAMES = ("labfleet_history", "labfleet_store_bytes")


class Answers:
    """A history that answers as it is told to, in turn."""

    def __init__(self, *answers: int | errors.LabfleetError) -> None:
        self.answers = list(answers)

    async def history_size(self) -> HistorySize:
        """Return the next answer, or raise it."""
        found = self.answers.pop(0)
        if isinstance(found, errors.LabfleetError):
            raise found
        return HistorySize(found, 99)

    async def size(self) -> int:
        """Return a size that is known whenever the rows are."""
        return 8192


@pytest.mark.asyncio
async def test_the_number_is_absent_while_the_store_does_not_tell_it() -> None:
    """Never an old number: a store that is away makes it unknown, and not 0."""
    shown: list[list[str]] = []
    metrics = Metrics()

    async def pause(seconds: float) -> None:
        del seconds
        text = metrics.text()[0].decode()
        shown.append([line for line in text.splitlines() if line.startswith(NAMES)])
        if not store.answers:
            raise asyncio.CancelledError

    store = Answers(3, errors.Temporary("away"), 4)
    watch = HistoryRows(store, pause)  # type: ignore[arg-type]
    add_history(metrics, watch)
    with pytest.raises(asyncio.CancelledError):
        await watch.run()
    first = ["labfleet_store_bytes 8192.0", "labfleet_history_rows 3.0"]
    assert shown == [first, [], [first[0], "labfleet_history_rows 4.0"]]
