"""Compares this process's clock with the fleet's log, and carries people's confirmation to it.

At the start, and every few seconds, so also before and when a replica takes the lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from labfleet.decisions import clock_trust
from labfleet.decisions.clock_trust import Heard
from labfleet.engine.wakeup import Pause
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text

# Machine seconds.
EVERY_SECONDS = 10.0


class JudgedClock(Protocol):
    """A clock that does not follow every jump of the host's."""

    @property
    def rate(self) -> float:
        """Return fleet seconds per machine second."""
        ...

    @property
    def apart(self) -> float:
        """Return by how many machine seconds the host's wall clock is ahead of what holds."""
        ...

    @property
    def apart_since(self) -> datetime | None:
        """Return since when the wall clock is not followed."""
        ...

    def now(self) -> datetime:
        """Return the instant that holds."""
        ...

    def host_now(self) -> datetime:
        """Return the instant of the host's wall clock."""
        ...

    def doubt(self, told: datetime) -> None:
        """Go on from the log's instant, when ours is ahead of it."""
        ...

    def confirm(self) -> None:
        """Follow the host's wall clock again."""
        ...


@dataclass(frozen=True, slots=True)
class ClockTrouble:
    """Why the clock cannot be trusted: a reason as a word and in words, since when."""

    reason: str
    words: str
    since: datetime
    apart: float


class ClockCheck:
    """What this process knows of its clock; `trouble` is None while nothing is odd."""

    def __init__(
        self,
        clock: JudgedClock,
        log: stores.EventLog,
        confirmation: Callable[[], datetime | None],
        *,
        told: Callable[[ClockTrouble | None], None] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Take the clock, the log, and what reads the newest confirmation by people."""
        self._clock = clock
        self._log = log
        self._confirmation = confirmation
        self._told = told
        self._pause = pause
        self._heard: Heard | None = None
        self._behind: ClockTrouble | None = None
        self._last: ClockTrouble | None = None
        self._excused = 0

    @property
    def trouble(self) -> ClockTrouble | None:
        """Return what is odd with the clock now."""
        since = self._clock.apart_since
        if since is None:
            return self._behind
        apart = self._clock.apart
        way = "ahead of" if apart > 0 else "behind"
        words = (
            f"this server's clock says {utc_text(self._clock.host_now())}, {_span(apart)} {way} "
            f"what it said before or what the fleet's log says; the fleet goes on at "
            f"{utc_text(self._clock.now())}, so that nothing ends before its time"
        )
        return ClockTrouble("ClockJumped", words, since, apart)

    def host_now(self) -> datetime:
        """Return the instant of the host's wall clock, for people to confirm."""
        return self._clock.host_now()

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            await self.look()
            await self._pause(EVERY_SECONDS)

    async def look(self) -> None:
        """Compare the clock with the log's newest commit, and take a confirmation."""
        confirmed = self._confirmation()
        limit = timedelta(seconds=clock_trust.LIMIT_SECONDS * self._clock.rate)
        believed = confirmed is not None and abs(self._clock.host_now() - confirmed) <= limit
        if believed:
            self._clock.confirm()
            self._behind = self._heard = None
        newest = await self._newest()
        if newest is not None and believed:
            self._excused = newest[0]
        elif newest is not None:
            self._compare(*newest)
        trouble = self.trouble
        if self._told is not None and (trouble is None) != (self._last is None):
            self._told(trouble)
        self._last = trouble

    async def _newest(self) -> tuple[int, datetime] | None:
        """Return the revision and instant of the newest commit, None when nothing tells it."""
        try:
            head = await self._log.head()
            before = stores.Cursor(head.epoch, max(0, head.revision - 1))
            page = await self._log.events(before, limit=1)
        except errors.LabfleetError:
            return None
        return (page.events[-1].revision, page.events[-1].at) if page.events else None

    def _compare(self, revision: int, committed: datetime) -> None:
        now, rate = self._clock.now(), self._clock.rate
        earlier, behind = clock_trust.told_by_log(
            self._heard, revision, committed.timestamp() / rate, now.timestamp() / rate
        )
        if earlier is not None:
            self._clock.doubt(committed)
            now = self._clock.now()
        self._heard = Heard(revision, now.timestamp() / rate)
        if behind <= clock_trust.LIMIT_SECONDS or revision <= self._excused:
            self._behind = None
        elif self._behind is None:
            words = (
                f"this server's clock says {utc_text(now)}, {_span(behind)} behind the newest "
                f"commit of the store ({utc_text(committed)}); nothing ends before its time by either"
            )
            self._behind = ClockTrouble("ClockBehind", words, now, -behind)


def _span(seconds: float) -> str:
    left = abs(seconds)
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left:.0f} s"
