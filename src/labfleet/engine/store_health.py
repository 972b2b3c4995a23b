"""Whether the store of this process can be read and written, since when not, and why.

The store tells of each write (`StoreObserver`); reading is tried here. Everybody who shows it,
`/readyz`, alerts, metrics and the log, asks `StoreHealth.state`.

The words that are shown name a cause from a closed list: what a driver says may hold addresses,
and `/readyz` is public. The driver's own text goes to the observer, which logs it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from labfleet.engine.wakeup import Pause, Wakeup
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock

# Machine seconds.
ANSWER_SECONDS = 1.5
"""How long a read may take before the store counts as unreadable."""
LOOK_SECONDS = 1.0
"""The store is asked at most this often, however many ask."""
EVERY_SECONDS = 5.0
"""The store is asked this often when nobody asks."""
BEHIND_SECONDS = 15.0
"""How long the cache may need for what the log held when it was asked."""
SETTLED_SECONDS = 10.0
"""Writes count as refused until this long after the last refusal: a full disk still takes small
writes now and then."""
TOLD_SECONDS = 60.0
"""A trouble that lasts is told again after this long."""

CHECK_LEASE = "store-check"
_CHECKER = "health"


class StoreState(StrEnum):
    """What the store can do for this process; only the first two answer `/readyz` with 200."""

    OK = "ok"
    READ_ONLY = "read-only"
    UNREADABLE = "unreadable"
    BEHIND = "behind"


SERVES = frozenset({StoreState.OK, StoreState.READ_ONLY})


@dataclass(frozen=True, slots=True)
class StoreTrouble:
    """What the store cannot do: since when, the reason as a word and in words, how often seen."""

    state: StoreState
    since: datetime
    reason: str
    words: str
    count: int = 1


class StoreWatcher(Protocol):
    """Is told of a trouble's begin, each minute of it, and its end. Must not raise."""

    def store_trouble(self, trouble: StoreTrouble, detail: str) -> None:
        """Record a trouble that began or lasts; `detail` has the driver's own text."""
        ...

    def store_well(self, trouble: StoreTrouble) -> None:
        """Record that this trouble is over."""
        ...


class StoreHealth:
    """The health of one process's store; its `StoreObserver`."""

    def __init__(
        self,
        clock: Clock,
        *,
        watcher: StoreWatcher | None = None,
        machine: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self.watcher = watcher
        self._machine = machine or _loop_time
        self._troubles: dict[StoreState, StoreTrouble] = {}
        self._refused_at = 0.0
        self._told: dict[StoreState, float] = {}
        self.refused_writes: Counter[str] = Counter()

    @property
    def state(self) -> StoreState:
        """Return what the store can do now."""
        trouble = self.trouble
        return StoreState.OK if trouble is None else trouble.state

    @property
    def trouble(self) -> StoreTrouble | None:
        """Return the gravest trouble, or None when there is none."""
        for state in (StoreState.UNREADABLE, StoreState.BEHIND, StoreState.READ_ONLY):
            if state in self._troubles:
                return self._troubles[state]
        return None

    def wrote(self) -> None:
        """Note a write that the store took."""
        if StoreState.READ_ONLY in self._troubles and (
            self._machine() - self._refused_at >= SETTLED_SECONDS
        ):
            self.over(StoreState.READ_ONLY)

    def refused(self, error: errors.LabfleetError) -> None:
        """Note a write that the store could not take."""
        self._refused_at = self._machine()
        reason, words = _cause(error)
        self.refused_writes[reason] += 1
        self.begin(StoreState.READ_ONLY, reason, words, str(error))

    def begin(self, state: StoreState, reason: str, words: str, detail: str = "") -> None:
        """Note a trouble that began or goes on."""
        old = self._troubles.get(state)
        self._troubles[state] = new = StoreTrouble(
            state=state,
            since=self._clock.now() if old is None else old.since,
            reason=reason,
            words=words,
            count=1 if old is None else old.count + 1,
        )
        now = self._machine()
        if self.watcher is not None and now - self._told.get(state, -TOLD_SECONDS) >= TOLD_SECONDS:
            self._told[state] = now
            self.watcher.store_trouble(new, detail or words)

    def over(self, state: StoreState) -> None:
        """Note that a trouble is over, if there was any."""
        old = self._troubles.pop(state, None)
        # `_told` stays: a trouble that comes and goes is still told once a minute.
        if old is not None and self.watcher is not None:
            self.watcher.store_well(old)


class StoreCheck:
    """Asks the store whether it can be read and written."""

    def __init__(
        self,
        health: StoreHealth,
        log: stores.EventLog,
        leases: stores.LeaseStore,
        revision: Callable[[], int],
        *,
        answer: float = ANSWER_SECONDS,
        machine: Callable[[], float] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take what to ask, and how far this process's cache has read the log."""
        self._health = health
        self._log = log
        self._leases = leases
        self._revision = revision
        self._answer = answer
        self._machine = machine or _loop_time
        self._pause = pause
        self._asking: asyncio.Task[int | errors.LabfleetError] | None = None
        self._looked = -LOOK_SECONDS
        self._wanted = False
        self._begin, self._done = Wakeup(), Wakeup()
        self._awaited: tuple[int, float] | None = None

    async def run(self) -> None:
        """Ask every few seconds, or when somebody wants to know, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wanted = False
                await self._read(group)
                self._looked = self._machine()
                self._done.wake()
                await self._try_to_write()
                if not self._wanted:
                    await self._begin.sleep(EVERY_SECONDS, self._pause)

    async def look(self) -> None:
        """Return once the store was asked, now or within the last second.

        Nothing is asked while `run` does not run; what was last known then stays.
        """
        if self._machine() - self._looked < LOOK_SECONDS:
            return
        self._wanted = True
        self._begin.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._answer):
                await self._done.sleep(None, self._pause)

    async def _read(self, group: asyncio.TaskGroup) -> None:
        # A read that does not end is not given up: it holds a connection, and asking again each
        # second would heap up more of them.
        if self._asking is None:
            self._asking = group.create_task(self._head())
        asking = self._asking
        try:
            async with asyncio.timeout(self._answer):
                head = await asyncio.shield(asking)
        except TimeoutError:
            words = f"it does not answer within {self._answer:g} s"
            self._health.begin(StoreState.UNREADABLE, "Silent", words)
            return
        self._asking = None
        if isinstance(head, errors.LabfleetError):
            self._health.begin(StoreState.UNREADABLE, *_cause(head), str(head))
            return
        self._health.over(StoreState.UNREADABLE)
        self._compare(head)

    async def _head(self) -> int | errors.LabfleetError:
        try:
            return (await self._log.head()).revision
        except errors.LabfleetError as error:
            return error

    def _compare(self, head: int) -> None:
        """Note whether the cache follows the log."""
        reached, now = self._revision(), self._machine()
        if self._awaited is not None and reached < self._awaited[0]:
            if now - self._awaited[1] >= BEHIND_SECONDS:
                words = f"this process has read the log to {reached} of {head}"
                self._health.begin(StoreState.BEHIND, "CacheBehind", words)
            return
        self._health.over(StoreState.BEHIND)
        self._awaited = (head, now) if reached < head else None

    async def _try_to_write(self) -> None:
        """Write something small while writes are refused: in a quiet process nobody else does."""
        if self._health.state is not StoreState.READ_ONLY:
            return
        # The store tells `refused` of an error; after a Conflict another process wrote.
        with suppress(errors.LabfleetError, TimeoutError):
            async with asyncio.timeout(self._answer):
                row = await self._leases.lease(CHECK_LEASE)
                seen = None if row is None else row.version
                await self._leases.acquire(CHECK_LEASE, _CHECKER, seen=seen)


_WORDS = {
    "OutOfCapacity": "it is out of room: its disk is full, or it takes no more connections",
    "StoreNotWritable": "it may not be written: a read-only file system, database or permission",
    "StoreBusy": "it stays locked by another writer",
    "DiskFailed": "its disk fails",
    "StoreCorrupt": "its file is damaged",
    "Unreachable": "it does not answer",
    "Denied": "it refuses our credentials",
    "NoSuchDatabase": "its database does not exist",
    "Ambiguous": "the connection broke, or its disk failed, in the middle of a write",
}


def _cause(error: errors.LabfleetError) -> tuple[str, str]:
    return error.reason, _WORDS.get(error.reason, "it fails; the server's log says how")


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
