"""Gathers waiting commits into batches: while one batch is made durable, the next one queues.

Knows nothing of databases: it is given a function that starts a batch and returns its future.
It has no task of its own; a batch's end starts the next one. A caller that is cancelled while
it waits does not take its commit back: whether it happened is then for the caller to look up.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.stores import rules

QUEUE_LIMIT = 10_000
BATCH_LIMIT = 512

Start = Callable[[list[store.Commit]], asyncio.Future[list[rules.Outcome]]]


class GroupCommit:
    """The queue in front of the one writer."""

    def __init__(
        self, start: Start, *, queue_limit: int = QUEUE_LIMIT, batch_limit: int = BATCH_LIMIT
    ) -> None:
        self._start_batch = start
        self._queue: deque[tuple[store.Commit, asyncio.Future[store.Committed]]] = deque()
        self._running: list[asyncio.Future[store.Committed]] = []
        self._busy = False
        self._closed = False
        self._idle: asyncio.Future[None] | None = None
        self._queue_limit = queue_limit
        self._batch_limit = batch_limit

    def submit(self, commit: store.Commit) -> asyncio.Future[store.Committed]:
        """Queue a commit; the future is its own outcome. Throttled when the queue is full."""
        if self._closed:
            raise errors.Temporary("the store is closed", reason="StoreClosed")
        if len(self._queue) >= self._queue_limit:
            message = f"{len(self._queue)} commits are waiting already; try again"
            raise errors.Throttled(message, retry_after=1.0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[store.Committed] = loop.create_future()
        self._queue.append((commit, future))
        if not self._busy:
            # Not at once, so that callers in the same iteration of the loop join this batch.
            self._busy = True
            loop.call_soon(self._start)
        return future

    async def close(self) -> None:
        """Refuse new commits and wait until the accepted ones are done."""
        self._closed = True
        if self._busy:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _start(self) -> None:
        queue = self._queue
        if not queue:
            self._busy = False
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            return
        size = min(len(queue), self._batch_limit)
        taken = [queue.popleft() for _ in range(size)]
        self._running = [future for _, future in taken]
        self._start_batch([commit for commit, _ in taken]).add_done_callback(self._finish)

    def _finish(self, batch: asyncio.Future[list[rules.Outcome]]) -> None:
        waiting, self._running = self._running, []
        failure = errors.Temporary("the store was closed", reason="StoreClosed")
        error = failure if batch.cancelled() else batch.exception()
        if error is not None:
            for future in waiting:
                if not future.done():
                    # One exception object raised in many tasks would collect all their tracebacks.
                    future.set_exception(copy.copy(error))
        else:
            for future, outcome in zip(waiting, batch.result(), strict=True):
                if future.done():
                    continue
                if isinstance(outcome, store.Committed):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)
        # After the woken callers have run, so that their next commits join the next batch.
        asyncio.get_running_loop().call_soon(self._start)


def commit_each(
    run: Callable[[list[store.Commit]], list[rules.Outcome]], commits: list[store.Commit]
) -> list[rules.Outcome]:
    """Run a batch; when it fails as a whole, run each commit alone, so only the bad one fails.

    Not after Ambiguous (it may have happened) nor when the database is busy or away, where
    trying each of hundreds would only take hundreds of time-outs.
    """
    try:
        return run(commits)
    except errors.LabfleetError as error:
        hopeless = isinstance(error, errors.Ambiguous | errors.Unreachable)
        if hopeless or error.reason == "StoreBusy" or len(commits) == 1:
            raise
    outcomes: list[rules.Outcome] = []
    for commit in commits:
        try:
            outcomes += run([commit])
        except errors.LabfleetError as error:
            outcomes.append(error)
    return outcomes
