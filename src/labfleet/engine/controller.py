"""A controller: workers that take keys from a queue and reconcile them, one key at a time.

`reconcile(key)` reads the newest state, decides, acts and records. It returns `Done` (call me
again at the next event) or `Again(after)` (call me again later; this is no failure). The type of
an error decides what happens next, see `_policy`. An error of one object never affects others.

A `ReconcileObserver` is told what to log and count; this package writes no logs or metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from labfleet.engine import queue as queues
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.meta import Key

# Fleet seconds. A conflict means that another writer was first: decide again soon on fresh state.
CONFLICT_BASE = 0.1
CONFLICT_LIMIT = 5.0
# Machine seconds until a resync tries a full queue again.
FULL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until the object changes."""


@dataclass(frozen=True, slots=True)
class Again:
    """Reconcile again in `after` fleet seconds even without an event; not a failure."""

    after: float


Reconcile = Callable[[Key], Awaitable[Done | Again]]
Keys = Callable[[], Iterable[Key]]


class Outcome(StrEnum):
    """How one reconcile ended."""

    DONE = "done"
    AGAIN = "again"
    TEMPORARY = "temporary"
    CONFLICT = "conflict"
    AMBIGUOUS = "ambiguous"
    PERMANENT = "permanent"
    GONE = "gone"
    FENCED = "fenced"
    DEADLINE = "deadline"
    BUG = "bug"
    CANCELLED = "cancelled"


class ReconcileObserver(Protocol):
    """Is told of every reconcile; the composition root implements it with logs and metrics."""

    def reconciled(
        self,
        controller: str,
        key: Key,
        outcome: Outcome,
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Record one outcome; `seconds` is machine time. Must not block and must not raise."""
        ...


class Controller:
    """Drives one reconcile function over one queue.

    `deadline` is how many machine seconds one reconcile may take before it is cancelled and
    retried with back-off; it must be longer than the longest call inside.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        queue: queues.KeyQueue,
        clock: Clock,
        concurrency: int = 8,
        deadline: float = 120.0,
        observer: ReconcileObserver | None = None,
    ) -> None:
        self.name = name
        self.queue = queue
        self.reconcile = reconcile
        self._clock = clock
        self._concurrency = concurrency
        self._deadline = deadline
        self._observer = observer
        self._resyncs: list[tuple[float, Keys]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._idle: set[int] = set()
        self._background: list[asyncio.Task[None]] = []
        self._asked_to_stop = False
        self._stopping = False
        self._ending = asyncio.Event()

    def resync(self, every: float, keys: Keys) -> None:
        """Add all these keys when `run` starts and then at every `every` fleet seconds.

        Because of this, lost events and a full queue do no harm. Call it before `run`.
        """
        self._resyncs.append((every, keys))

    async def run(self) -> None:
        """Work until cancelled or stopped; raise Fenced when the leadership is lost."""
        if self._asked_to_stop:
            return
        self._stopping = False
        self._ending.clear()
        try:
            async with asyncio.TaskGroup() as group:
                self._background = [
                    group.create_task(self._bring_back(every, keys), name=f"{self.name}/resync")
                    for every, keys in self._resyncs
                ]
                self._workers = [
                    group.create_task(self._work(number), name=f"{self.name}/{number}")
                    for number in range(self._concurrency)
                ]
                try:
                    await self._ending.wait()
                finally:
                    # A worker is cancelled only once. Its reconcile may turn that into some
                    # error (a TaskGroup of Python 3.11 does); the worker still must not go on.
                    self._stopping = True
        except BaseExceptionGroup as group_error:
            raise single(group_error) from None

    def stop(self) -> None:
        """Make `run` finish the keys being processed, take no new ones, and return for good."""
        self._asked_to_stop = True
        self._halt()

    def _halt(self) -> None:
        self._stopping = True
        self._ending.set()
        for task in (*self._background, *(self._workers[number] for number in self._idle)):
            task.cancel()

    async def _bring_back(self, every: float, keys: Keys) -> None:
        while True:
            for key in list(keys()):
                # Wait for a full queue: going on would have the same last keys refused
                # in each round.
                while not self.queue.add(key, priority=queues.RESYNC):
                    await self._clock.sleep(FULL_SECONDS * self._clock.rate)
            await self._clock.sleep(every)

    async def _work(self, number: int) -> None:
        while not self._stopping:
            self._idle.add(number)
            try:
                key = await self.queue.get()
            finally:
                self._idle.discard(number)
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: Key) -> None:
        begun = _machine()
        outcome, error = Outcome.CANCELLED, None
        try:
            outcome, error = await self._attempt(key)
        except asyncio.CancelledError:
            # Cancelled perhaps between an intent and its call: reconcile again.
            self.queue.add(key, priority=queues.EVENT)
            raise
        finally:
            self._report(key, outcome, begun, error)
        if isinstance(error, errors.Fenced):
            # First stop the idle workers: one of them would take this same key again.
            self._halt()
            raise error

    async def _attempt(self, key: Key) -> tuple[Outcome, BaseException | None]:
        patience = asyncio.timeout(self._deadline)
        try:
            async with patience:
                result = await self.reconcile(key)
        except Exception as problem:  # noqa: BLE001 - the worker: nothing may stop the others
            error = single(problem)
            if isinstance(error, TimeoutError) and patience.expired():
                self.queue.failed(key)
                return Outcome.DEADLINE, error
            return self._policy(key, error), error
        self.queue.forget(key)
        if isinstance(result, Again):
            wait = max(result.after, queues.FLOOR_SECONDS * self._clock.rate)
            self.queue.add(key, after=wait, priority=queues.EVENT)
            return Outcome.AGAIN, None
        return Outcome.DONE, None

    def _policy(self, key: Key, error: BaseException) -> Outcome:
        """Requeue or forget the key as this type of error needs, and return the outcome."""
        match error:
            case errors.Fenced():
                self.queue.add(key, priority=queues.EVENT)
                return Outcome.FENCED
            case errors.Conflict():
                self.queue.failed(key, base=CONFLICT_BASE, limit=CONFLICT_LIMIT)
                return Outcome.CONFLICT
            case errors.Gone():
                self.queue.forget(key)
                return Outcome.GONE
            case errors.Permanent():
                self.queue.forget(key)
                return Outcome.PERMANENT
            case errors.Ambiguous():
                self.queue.failed(key)
                return Outcome.AMBIGUOUS
            case errors.LabfleetError():
                machine = error.retry_after or 0.0
                self.queue.failed(key, at_least=machine * self._clock.rate)
                return Outcome.TEMPORARY
            case _:
                self.queue.failed(key)
                return Outcome.BUG

    def _report(
        self, key: Key, outcome: Outcome, begun: float, error: BaseException | None
    ) -> None:
        if self._observer is not None:
            self._observer.reconciled(self.name, key, outcome, _machine() - begun, error)


def single(error: BaseException) -> BaseException:
    """Return the one error of a group that decides: lost leadership, or the only leaf.

    A reconcile that uses a TaskGroup raises groups, but the policy needs one error's type.
    """
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, errors.Fenced):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _machine() -> float:
    return asyncio.get_running_loop().time()
