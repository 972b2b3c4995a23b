"""Where blocking SDK calls run: a few threads of our own, or inline in a rehearsal.

boto3 parses EC2's XML at half a millisecond of CPU per instance; in threads the event loop
stays alive meanwhile (aws.md 2). The pool is small and dedicated, so nothing else waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
WORKERS = 8


class Runner(Protocol):
    """Runs a blocking call and gives back what it returns or raises."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run the call to its end."""
        ...

    def close(self) -> None:
        """Let go of threads, without waiting for calls that are under way."""
        ...


class ThreadRunner:
    """Runs calls in threads of its own; more calls than threads wait in line."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="ec2")

    async def run(self, call: Callable[[], T]) -> T:
        """Run in the pool. A cancelled caller leaves the call running: outcome unknown."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Drop what waits in line; calls under way end by their own deadlines."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class InlineRunner:
    """Runs calls where it stands, for a rehearsal whose `before_send` answers at once."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run it now."""
        return call()

    def close(self) -> None:
        """Nothing to let go of."""
