"""The work queue of a controller: which object is reconciled next.

It holds keys, never payloads: whoever takes a key reads the newest state. A key is in it at
most once, with the highest priority and the earliest due time of all its `add` calls, and is
never handed out to two workers at once. Due times are fleet seconds (`clock.monotonic`).

It is bounded. A full queue refuses new keys (`add` returns False and `depth` counts them);
nothing is lost by that, because the controller's resync adds every key again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from labfleet.engine.wakeup import Wakeup
from labfleet.kernel import backoff
from labfleet.kernel.clock import Clock
from labfleet.kernel.rng import Rng
from labfleet.resources.meta import Key

USER = 2
EVENT = 1
RESYNC = 0

# Least machine seconds between two tries of one key: in a demo, whose fleet time runs many
# times faster, a one-second back-off must not become a busy loop.
FLOOR_SECONDS = 0.01


class _Entry(NamedTuple):
    due: float
    priority: int
    order: int


@dataclass(frozen=True, slots=True)
class Depth:
    """How full the queue is, in keys; `lateness` is fleet seconds of the longest overdue key.

    `again` are keys that were added while being processed; `refused` counts since the start.
    """

    ready: int
    delayed: int
    active: int
    again: int
    refused: int
    lateness: float


class KeyQueue:
    """A de-duplicating, delaying, prioritised queue of keys, for any number of workers.

    Give each queue its own `rng` stream, or two queues back off in step.
    """

    def __init__(self, clock: Clock, rng: Rng, *, limit: int = 100_000) -> None:
        self._clock = clock
        self._rng = rng.stream("back-off")
        self._limit = limit
        self._waiting: dict[Key, _Entry] = {}
        self._active: dict[Key, _Entry | None] = {}
        self._failures: dict[Key, int] = {}
        self._delayed: list[tuple[float, int, Key, _Entry]] = []
        self._ready: list[tuple[int, float, int, Key, _Entry]] = []
        self._order = 0
        self._refused = 0
        self._wakeup = Wakeup()
        self._watched = False
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return how many keys wait, ready or not yet due, without those being processed."""
        return len(self._waiting)

    def add(self, key: Key, *, after: float = 0.0, priority: int = 0) -> bool:
        """Add a key, due in `after` fleet seconds; return False when the queue is full.

        Merges with an entry that waits: highest priority, earliest due. While the key is
        being processed, the new entry is kept aside until `done`.
        """
        now = self._clock.monotonic()
        self._order += 1
        wish = _Entry(now + max(after, 0.0), priority, self._order)
        if key in self._active:
            self._active[key] = _merged(self._active[key], wish)
            return True
        if key not in self._waiting and len(self._waiting) + len(self._active) >= self._limit:
            self._refused += 1
            return False
        self._put(key, wish, now)
        return True

    async def get(self) -> Key:
        """Wait for the next due key and take it; call `done` with it afterwards.

        Of the due keys the highest priority goes first, then the earliest due, then the one
        added first.
        """
        while True:
            key = self._take()
            if key is not None:
                # A worker that takes a key while none watches the time wakes the next one.
                # Otherwise further due keys would wait while idle workers sleep.
                if not self._watched:
                    self._pass_on()
                return key
            # One idle worker watches the time for all, so that not all wake for every key.
            if self._watched:
                await self._turn()
            else:
                self._watched = True
                try:
                    await self._wakeup.sleep(self._next_due(), self._clock.sleep)
                finally:
                    self._watched = False
                    self._pass_on()

    async def _turn(self) -> None:
        """Wait until this worker may try to take a key or watch the time."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # this worker got the turn but ends: pass it on
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Let the next idle worker take a key or watch the time."""
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _take(self) -> Key | None:
        """Take the next due key, or None when none is due."""
        self._ripen(self._clock.monotonic())
        if not self._ready:
            return None
        key = heapq.heappop(self._ready)[3]
        del self._waiting[key]
        self._active[key] = None
        self._trim()
        return key

    def _next_due(self) -> float | None:
        """Return fleet seconds until a key is due; None when none waits."""
        if not self._delayed:
            return None
        # At least a millisecond: a clock that wakes slightly early must not cause a busy loop.
        return max(self._delayed[0][0] - self._clock.monotonic(), 0.001)

    def done(self, key: Key) -> None:
        """Mark a key from `get` as processed; if it was added meanwhile, it waits again now.

        The failure count of a key that was not added again is dropped.
        """
        wish = self._active.pop(key)
        if wish is None:
            self._failures.pop(key, None)
        else:
            self._put(key, wish, self._clock.monotonic())

    def failed(
        self, key: Key, *, base: float = 1.0, limit: float = 60.0, at_least: float = 0.0
    ) -> float:
        """Count one more failure of a key and add it again; return its back-off in fleet seconds.

        `base`, `limit` and `at_least` are fleet seconds. Call it before `done`. Retries have
        priority EVENT, so that a resync does not starve them.
        """
        count = self._failures.get(key, 0) + 1
        self._failures[key] = count
        wait = backoff.delay(count, self._rng.random(), base=base, limit=limit)
        wait = max(wait, at_least, FLOOR_SECONDS * self._clock.rate)
        self.add(key, after=wait, priority=EVENT)
        return wait

    def forget(self, key: Key) -> None:
        """Reset the failure count: the next failure backs off like a first one."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """Return how many failures in a row the key has."""
        return self._failures.get(key, 0)

    def depth(self) -> Depth:
        """Return how full the queue is now."""
        now = self._clock.monotonic()
        self._ripen(now)
        ready = [entry.due for entry in self._waiting.values() if entry.due <= now]
        return Depth(
            ready=len(ready),
            delayed=len(self._waiting) - len(ready),
            active=len(self._active),
            again=sum(wish is not None for wish in self._active.values()),
            refused=self._refused,
            lateness=now - min(ready, default=now),
        )

    def _put(self, key: Key, wish: _Entry, now: float) -> None:
        old = self._waiting.get(key)
        entry = _merged(old, wish)
        if entry == old:
            return
        earliest = self._delayed[0][0] if self._delayed else None
        self._waiting[key] = entry
        if entry.due <= now:
            heapq.heappush(self._ready, (-entry.priority, entry.due, entry.order, key, entry))
            self._wakeup.wake()
        else:
            heapq.heappush(self._delayed, (entry.due, entry.order, key, entry))
            if earliest is None or entry.due < earliest:
                self._wakeup.wake()
        if len(self._ready) + len(self._delayed) > 2 * len(self._waiting) + 64:
            self._rebuild(now)

    def _ripen(self, now: float) -> None:
        """Move what has become due to the ready heap and drop outdated heap rows."""
        while self._delayed:
            due, _, key, entry = self._delayed[0]
            current = self._waiting.get(key) is entry
            if current and due > now:
                break
            heapq.heappop(self._delayed)
            if current:
                heapq.heappush(self._ready, (-entry.priority, due, entry.order, key, entry))
        self._trim()

    def _trim(self) -> None:
        while self._ready and self._waiting.get(self._ready[0][3]) is not self._ready[0][4]:
            heapq.heappop(self._ready)

    def _rebuild(self, now: float) -> None:
        """Drop every outdated heap row, so that endless merging does not grow the heaps."""
        self._ready.clear()
        self._delayed.clear()
        for key, entry in self._waiting.items():
            if entry.due <= now:
                self._ready.append((-entry.priority, entry.due, entry.order, key, entry))
            else:
                self._delayed.append((entry.due, entry.order, key, entry))
        heapq.heapify(self._ready)
        heapq.heapify(self._delayed)


def _merged(old: _Entry | None, new: _Entry) -> _Entry:
    if old is None:
        return new
    return _Entry(min(old.due, new.due), max(old.priority, new.priority), old.order)
