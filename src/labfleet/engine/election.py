"""Leader election: one leader at a time, with a fencing token for everything it writes.

Time here is machine time (`machine`, by default the running loop's). A candidate takes over a
lease when it has itself seen the lease's row unchanged for the lease's length; wall clocks of
two hosts are never compared. A leader counts the lease's time from before the renewing call, so
it stops acting before any other may start, even while the store hangs. The remaining cases are
covered by the fencing token, which the writing transaction checks.

`holder` must be unique: a restarted process needs another one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from labfleet.engine.wakeup import Pause, Wakeup
from labfleet.interfaces import store as stores
from labfleet.kernel import errors

T = TypeVar("T")
Watch = Callable[[stores.Lease, float, float], Awaitable[tuple[int, float]]]
"""How a candidate waits: the row it saw, since when it saw that, the lease's machine seconds. Returns
the version that it saw last, and since when; then the row is read again."""

# The part of the lease that its holder uses; the rest allows for clocks that run unevenly.
TRUST = 0.9
# Of a lease of 15 s: renewed each 3.75 s, so that a call of 8 s fits until the next renewal and a
# slow answer of the store costs no lead; looked at each second by those who stand by.
RENEWALS = 4
LOOKS = 15
RELEASE_SECONDS = 2.0


class Leadership(Protocol):
    """Whether this process leads, and for how long that is certain."""

    @property
    def held(self) -> bool:
        """Tell whether this process leads now."""
        ...

    @property
    def fence(self) -> stores.Fence | None:
        """Return the fencing token for a leader's writes; None when it does not lead."""
        ...

    @property
    def vacant(self) -> float:
        """Return for how many machine seconds this process saw that nobody led before its term.

        0 when it saw none: what was before it looked is not known to it.
        """
        ...

    def remaining(self) -> float:
        """Return for how many machine seconds leadership is certain; 0 when it does not lead."""
        ...

    async def wait_held(self) -> None:
        """Return once this process leads."""
        ...

    async def wait_lost(self) -> None:
        """Return once this process does not lead (any more)."""
        ...


class ElectionObserver(Protocol):
    """Is told when this process begins and ceases to lead. Must not raise."""

    def lead_taken(self, name: str, token: int) -> None:
        """Note that it leads, under this fencing token."""
        ...

    def lead_lost(self, name: str, token: int) -> None:
        """Note that the lead under this token is lost: no error, another process goes on."""
        ...


class AlwaysLeader:
    """The leadership of a process that has no competitors, and of tests."""

    def __init__(self, fence: stores.Fence | None = None) -> None:
        self.held = True
        self.fence = fence
        self.vacant = 0.0

    def remaining(self) -> float:
        """Return infinity."""
        return math.inf

    async def wait_held(self) -> None:
        """Return at once."""

    async def wait_lost(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()


class Election:
    """Competes for one named lease and keeps it; `leadership` tells how it stands."""

    def __init__(
        self,
        store: stores.LeaseStore,
        name: str,
        holder: str,
        *,
        seconds: float = 15.0,
        machine: Callable[[], float] | None = None,
        pause: Pause = asyncio.sleep,
        observer: ElectionObserver | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._observer = observer
        self._watch = watch or self._soon
        self._told: stores.Fence | None = None
        self._store = store
        self._name = name
        self._holder = holder
        self._seconds = seconds
        self._machine = machine or _loop_time
        self._pause = pause
        self._watched: tuple[int, int] | None = None
        self._watched_since = 0.0
        self.leadership = _Term(self._machine, pause)

    async def run(self) -> None:
        """Acquire and renew the lease until cancelled, then release it."""
        lease: stores.Lease | None = None
        try:
            while True:
                try:
                    lease = await self._turn(lease)
                except errors.Conflict:  # Fenced too: somebody else has it
                    lease = None
                    self.leadership.end()
                except (errors.LabfleetError, TimeoutError):
                    lease = await self._after_trouble(lease)
                    self._tell()
                    await self._pause(self._seconds / LOOKS)
                self._tell()
        finally:
            self.leadership.end()
            if lease is not None:
                await self._release(lease)

    async def _turn(self, lease: stores.Lease | None) -> stores.Lease | None:
        """Do one step and return the lease if we hold it after that."""
        if lease is None:
            return await self._compete()
        await self._pause(self._seconds / RENEWALS)
        begun = self._machine()
        renewed = await self._bounded(self._store.renew(lease))
        if not self.leadership.held:
            # Renewed too late: work under this token was already told to stop. Start a new
            # term with a new token; the row is ours, so there is nothing to wait for.
            self.leadership.end()
            return None
        self.leadership.extend(begun + self._seconds * TRUST)
        return renewed

    async def _compete(self) -> stores.Lease | None:
        begun = self._machine()
        row = await self._bounded(self._store.lease(self._name))
        if row is not None and not self._free(row, begun):
            # Read again soon: the lease counts from when its last renewal is seen here. And when
            # it ends.
            version, since = await self._watch(row, self._watched_since, self._seconds)
            self._watched, self._watched_since = (row.token, version), since
            return None
        seen = None if row is None else row.version
        begun = self._machine()
        lease = await self._bounded(self._store.acquire(self._name, self._holder, seen=seen))
        vacant = 0.0 if row is None else max(0.0, self._machine() - self._free_since(row))
        self._watched = None
        fence = stores.Fence(self._name, lease.token)
        self.leadership.begin(fence, begun + self._seconds * TRUST, vacant)
        return lease

    async def _soon(self, row: stores.Lease, since: float, seconds: float) -> tuple[int, float]:
        left = since + seconds - self._machine()
        await self._pause(max(min(seconds / LOOKS, left), 0.001))
        return row.version, since

    def _free(self, row: stores.Lease, asked: float) -> bool:
        """Tell whether the lease may be taken; `asked` is when its row was asked for."""
        seen = self._watched == (row.token, row.version)
        if not seen:
            self._watched = (row.token, row.version)
            self._watched_since = self._machine()
        if row.holder in {"", self._holder}:
            return True
        return seen and asked - self._watched_since >= self._seconds

    def _free_since(self, row: stores.Lease) -> float:
        """Return when a lease that may be taken was first seen free, in machine time."""
        ours = row.holder in {"", self._holder}
        return self._watched_since + (0.0 if ours else self._seconds)

    async def _after_trouble(self, lease: stores.Lease | None) -> stores.Lease | None:
        """Return the lease to renew next: a renewal without answer may have changed its row."""
        if lease is None or not self.leadership.held:
            self.leadership.end()
            return None
        try:
            row = await self._bounded(self._store.lease(self._name))
        except (errors.LabfleetError, TimeoutError):
            return lease
        same = row is not None and (row.token, row.holder) == (lease.token, lease.holder)
        return row if same else lease

    def _tell(self) -> None:
        """Tell the observer of a term that began or ended since it was last told."""
        if self._observer is None:
            return
        fence = self.leadership.fence
        if fence == self._told:
            return
        before, self._told = self._told, fence
        if before is not None:
            self._observer.lead_lost(before.lease, before.token)
        if fence is not None:
            self._observer.lead_taken(fence.lease, fence.token)

    async def _bounded(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self._seconds / 3):
            return await call

    async def _release(self, lease: stores.Lease) -> None:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._store.release(lease)
        except (errors.LabfleetError, TimeoutError):
            return  # the successor then waits until the lease has run out


class _Term:
    """The leadership of one election; it ends at its own time even if everything else hangs."""

    def __init__(self, machine: Callable[[], float], pause: Pause) -> None:
        self._machine = machine
        self._pause = pause
        self._fence: stores.Fence | None = None
        self._until = -math.inf
        self._wakeup = Wakeup()
        self._watched = False
        self.vacant = 0.0

    @property
    def held(self) -> bool:
        return self._until > self._machine()

    @property
    def fence(self) -> stores.Fence | None:
        return self._fence if self._until > self._machine() else None

    def remaining(self) -> float:
        return max(0.0, self._until - self._machine())

    async def wait_held(self) -> None:
        while not self.held:
            await self._wakeup.sleep(None, self._pause)

    async def wait_lost(self) -> None:
        fence = self.fence
        while fence is not None and self.fence == fence:
            if self._watched:
                await self._wakeup.sleep(None, self._pause)
                continue
            # One waiter watches the time for all, and wakes the others at the end of the
            # term or when it is itself cancelled.
            self._watched = True
            try:
                while self.fence == fence:
                    # At least a millisecond: an early waking clock must not cause a busy loop.
                    await self._wakeup.sleep(max(self.remaining(), 0.001), self._pause)
            finally:
                self._watched = False
                self._wakeup.wake()

    def begin(self, fence: stores.Fence, until: float, vacant: float) -> None:
        self._fence, self._until, self.vacant = fence, until, vacant
        self._wakeup.wake()

    def extend(self, until: float) -> None:
        self._until = until

    def end(self) -> None:
        self._fence, self._until = None, -math.inf
        self._wakeup.wake()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
