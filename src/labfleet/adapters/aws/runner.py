"""Where blocking SDK calls run: a few threads of our own, or inline in a rehearsal.

boto3 parses EC2's XML at half a millisecond of CPU per instance; in threads the event loop
stays alive meanwhile (facts/aws.md#client-speed). Reads and changes have a pool each, so that slow
lists never keep a stop waiting. Queues are bounded: a full one raises an error at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from labfleet.kernel import errors

T = TypeVar("T")
READERS, CHANGERS = 8, 4
# How many calls may wait in the queue: about ten for each thread of a pool.
LINE = 10
READ_SECONDS = 60.0


class Runner(Protocol):
    """Runs a blocking call and gives back what it returns or raises."""

    async def run(self, call: Callable[[], T], *, change: bool = False) -> T:
        """Run the call to its end; `change` tells that it changes something outside.

        Throttled (QueueFull) when too many wait already: then it was not run.
        """
        ...

    def close(self) -> None:
        """Let go of threads, without waiting for calls that are under way."""
        ...


class _Pool:
    """Some threads and a bounded queue."""

    def __init__(self, name: str, threads: int, line: int) -> None:
        self.name = name
        self.most = threads + line
        self.inside = 0
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix=f"aws-{name}")


class ThreadRunner:
    """Runs calls in threads of its own, reads and changes apart."""

    def __init__(
        self,
        readers: int = READERS,
        changers: int = CHANGERS,
        *,
        line: int = LINE,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """`line` is how many calls per thread may wait.

        `read_seconds` bounds a read, line and SDK repeats included. A change is bounded by
        its caller, who has the intent.
        """
        self._reads = _Pool("reads", readers, readers * line)
        self._changes = _Pool("changes", changers, changers * line)
        self._read_seconds = read_seconds

    async def run(self, call: Callable[[], T], *, change: bool = False) -> T:
        """Run in the pool.

        When the caller is cancelled, a call that has begun goes on: its outcome is unknown and its
        result is dropped. A call that still waits in the queue is never sent.
        """
        pool = self._changes if change else self._reads
        if pool.inside >= pool.most:
            message = f"{pool.inside} {pool.name} of the AWS API are waiting in this process"
            raise errors.Throttled(message, reason="QueueFull")
        pool.inside += 1
        # Counted until the thread is free again, not until the caller has gone.
        work = pool.threads.submit(call)
        loop = asyncio.get_running_loop()
        work.add_done_callback(lambda _: _tell(loop, pool))
        waiting = asyncio.wrap_future(work, loop=loop)
        if change:
            return await waiting
        try:
            async with asyncio.timeout(self._read_seconds):
                return await waiting
        except TimeoutError:
            message = f"AWS gave no answer within {self._read_seconds:g} s"
            raise errors.Unreachable(message, reason="TimedOut") from None

    def close(self) -> None:
        """Drop what waits in line; calls under way end by their own deadlines."""
        for pool in (self._reads, self._changes):
            pool.threads.shutdown(wait=False, cancel_futures=True)


def _tell(loop: asyncio.AbstractEventLoop, pool: _Pool) -> None:
    """Free a thread's place, on the loop's thread; do nothing when the loop has ended."""

    def leave() -> None:
        pool.inside -= 1

    if not loop.is_closed():
        loop.call_soon_threadsafe(leave)


class InlineRunner:
    """Runs calls in the caller's thread, for a rehearsal whose `before_send` answers at once."""

    async def run(self, call: Callable[[], T], *, change: bool = False) -> T:
        """Run it now."""
        del change
        return call()

    def close(self) -> None:
        """Nothing to let go of."""
