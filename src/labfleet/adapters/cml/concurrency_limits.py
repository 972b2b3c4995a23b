"""Limits concurrency: one mutation for each lab at a time, a bounded number of reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from labfleet.kernel import errors

T = TypeVar("T")


class ConcurrencyLimits:
    """A lock for each key, kept only while somebody holds or awaits it.

    CML answers 500 when a lab is stopped and deleted at once (facts/cml-issues.md#f21).
    """

    def __init__(self, *, patience: float) -> None:
        """Take how many machine seconds a caller waits for its turn."""
        self._patience = patience
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        """Count the keys in use."""
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Hold the key's lock; Temporary reason Busy when the turn does not come in time."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            try:
                async with asyncio.timeout(self._patience):
                    await lock.acquire()
            except TimeoutError:
                raise errors.Temporary(f"{key}: another change runs", reason="Busy") from None
            try:
                yield
            finally:
                lock.release()
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)


async def each(
    keys: Iterable[str], call: Callable[[str], Awaitable[T]], *, width: int
) -> dict[str, T | errors.LabfleetError]:
    """Return what the call gave for every key, or the error it raised; `width` at once.

    There is no time-out here. When the caller's own one ends this, results are lost; a caller
    that wants partial results collects them inside `call`.
    """
    waiting = iter(list(keys))
    results: dict[str, T | errors.LabfleetError] = {}

    async def work() -> None:
        for key in waiting:
            try:
                results[key] = await call(key)
            except errors.LabfleetError as error:
                results[key] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(width):
            group.create_task(work())
    return results
