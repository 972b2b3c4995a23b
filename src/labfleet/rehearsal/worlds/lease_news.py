"""How a candidate watches a lease: the looks after which it goes on waiting are not played.

These were more than half of a rehearsal's steps, and change nothing but since when the candidate
has seen the row as it is. That is kept here: each change counts from the look that would have
found it, at a whole number of intervals after the look before; in a paused process, from when
it goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from labfleet.engine.election import LOOKS
from labfleet.interfaces import store as stores
from labfleet.rehearsal.time.loop import Loop, current
from labfleet.stores.database import Parameters, Rows, Run

T = TypeVar("T")
LEAST_SECONDS = 0.001


class LeaseNews:
    """Hears of every write of a lease's row, and tells who watches it."""

    def __init__(self, loop: Loop, sql: dict[str, str]) -> None:
        self._loop = loop
        self._renew, self._put = sql["renew_lease"], sql["put_lease"]
        self._versions: dict[str, int] = {}
        self._watches: dict[str, list[_Watch]] = {}

    def noting(self, work: Callable[[Run], T]) -> Callable[[Run], T]:
        """Return work that does the same and tells of the leases it writes."""

        def heard(run: Run) -> T:
            def noted(statement: str, parameters: Parameters) -> Rows:
                rows = run(statement, parameters)
                if statement == self._renew and rows:
                    self._written(parameters[0], rows[0][0], renewed=True)
                elif statement == self._put:
                    self._written(parameters[0], parameters[3], renewed=False)
                return rows

            return work(noted)

        return heard

    def _written(self, name: str, version: int, *, renewed: bool) -> None:
        self._versions[name] = version
        for each in self._watches.get(name, ()):
            each.written(version, renewed=renewed)

    async def watch(self, row: stores.Lease, since: float, seconds: float) -> tuple[int, float]:
        """Wait until a look finds more than a renewed row (engine.election.Watch)."""
        watches = self._watches.setdefault(row.name, [])
        # A killed process runs no `finally`.
        watches[:] = [each for each in watches if each.process is None or each.process.alive]
        watch = _Watch(self._loop, row.version, since, seconds)
        known = self._versions.get(row.name)
        if known is not None and known != row.version:
            watch.written(known, renewed=False)  # between the look and this wait
        watches.append(watch)
        try:
            await watch.over
        finally:
            watches.remove(watch)
            watch.end.cancel()
        return watch.version, watch.since


class _Watch:
    """One candidate's watch. Its timers are its process's: killed and paused with that."""

    def __init__(self, loop: Loop, version: int, since: float, seconds: float) -> None:
        self.version = version
        self.since = since
        self.over = loop.create_future()
        self.process = current()
        self._loop = loop
        self._seconds = seconds
        self._every = seconds / LOOKS
        self._looked = loop.time()
        self._due = False
        self._newest, self._renewed = version, True
        self._context = contextvars.copy_context()
        self._set(max(since + seconds, self._looked + LEAST_SECONDS))

    def _set(self, at: float) -> None:
        self.end: asyncio.TimerHandle = self._loop.call_at(at, self._ended, context=self._context)

    def written(self, version: int, *, renewed: bool) -> None:
        """Hear that the row was written; it is seen at the next look."""
        if not self._due:
            self._due = self._renewed = True
            passed = (self._loop.time() - self._looked) // self._every
            at = self._looked + (passed + 1) * self._every
            self._loop.call_at(at, self._seen, context=self._context)
        self._newest = version
        self._renewed = self._renewed and renewed

    def _seen(self) -> None:
        self._due = False
        if not self._renewed:
            self._stop()
            return
        self.version = self._newest
        self.since = self._looked = self._loop.time()

    def _ended(self) -> None:
        at = self.since + self._seconds
        if at > self._loop.time():
            self._set(at)
        else:
            self._stop()

    def _stop(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
