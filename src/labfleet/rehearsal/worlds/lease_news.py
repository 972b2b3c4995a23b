"""When a candidate looks at a lease again: looks that would find the row unchanged are not played.

These were more than half of a rehearsal's steps, and change nothing: a candidate does something
only when it finds the row changed, or unchanged for the lease's whole length. The look that finds
a change comes when it would have come, at a whole number of intervals after the look before.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from labfleet.interfaces import store as stores
from labfleet.rehearsal.time.loop import Loop
from labfleet.stores.database import Parameters, Rows, Run

T = TypeVar("T")
LEAST_SECONDS = 0.001


class LeaseNews:
    """Hears of every write of a lease's row, and wakes who waits for one."""

    def __init__(self, loop: Loop, sql: dict[str, str]) -> None:
        self._loop = loop
        self._renew, self._put = sql["renew_lease"], sql["put_lease"]
        self._versions: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def noting(self, work: Callable[[Run], T]) -> Callable[[Run], T]:
        """Return work that does the same and tells of the leases it writes."""

        def heard(run: Run) -> T:
            def noted(statement: str, parameters: Parameters) -> Rows:
                rows = run(statement, parameters)
                if statement == self._renew and rows:
                    self._written(parameters[0], rows[0][0])
                elif statement == self._put:
                    self._written(parameters[0], parameters[3])
                return rows

            return work(noted)

        return heard

    def _written(self, name: str, version: int) -> None:
        self._versions[name] = version
        for wake in self._waiting.pop(name, ()):
            wake()

    async def wait(self, row: stores.Lease, every: float, left: float) -> None:
        """Wait as a candidate does that has just seen this row, and looks again and again.

        It looks each `every` seconds, and when `left` seconds have passed.
        """
        loop, begun = self._loop, self._loop.time()
        left = max(left, LEAST_SECONDS)
        if left <= every or self._versions.get(row.name, row.version) != row.version:
            await loop.sleep(min(every, left))
            return
        # The timers are the waiting process's: when that is killed or paused, they are too.
        look, context = loop.create_future(), contextvars.copy_context()
        end = loop.call_later(left, _done, look, context=context)

        def news() -> None:
            since = loop.time() - begun
            due = (since // every + 1) * every
            if due < left:
                loop.call_later(due - since, _done, look, context=context)

        self._waiting.setdefault(row.name, []).append(news)
        try:
            await look
        finally:
            end.cancel()


def _done(look: asyncio.Future[None]) -> None:
    if not look.done():
        look.set_result(None)
