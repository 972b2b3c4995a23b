"""How a store runs blocking work: in threads in production, in place in a rehearsal.

The composition root chooses; a store knows two lanes. The write lane does one work at a time in the order
of asking; the read lane does up to `readers` at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Runner(Protocol):
    """Runs blocking work and returns a future of the running loop."""

    readers: int

    def write(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run in the write lane."""
        ...

    def read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run in the read lane; with no readers, in the write lane."""
        ...

    def close(self) -> None:
        """Finish accepted work and end the threads."""
        ...


class Inline:
    """Runs everything at once in the calling thread: no threads, the same order each time."""

    readers = 0

    def write(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits, as a thread would
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return self.write(work)

    def close(self) -> None:
        """Nothing to end."""


class Threads:
    """One writing thread and a few reading ones."""

    def __init__(self, readers: int = 3) -> None:
        self.readers = readers
        self._write = ThreadPoolExecutor(1, thread_name_prefix="store-write")
        self._read = ThreadPoolExecutor(readers, thread_name_prefix="store-read")

    def write(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._write, work)

    def read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._read, work)

    def close(self) -> None:
        self._write.shutdown()
        self._read.shutdown()
