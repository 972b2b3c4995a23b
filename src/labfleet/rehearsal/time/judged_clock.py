"""A virtual clock whose host's wall clock may jump; the product's own rule says which time holds.

What `app.system.SystemClock` is on a real machine: the wall clock is followed while it agrees with
the clock since the machine's start (`decisions.clock_trust`). Here that second clock is the loop's
time, which a paused process sees go on, as a suspended machine does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from labfleet.decisions import clock_trust
from labfleet.rehearsal.time.virtual_host import EPOCH, VirtualClock


class JudgedClock(VirtualClock):
    """Fleet time of one process; `jump` is how far its host's wall clock was set wrong."""

    def __init__(self, skew: float, rate: float, time: Callable[[], float]) -> None:
        super().__init__(skew, rate, time)
        self.jump = 0.0
        self._trust = clock_trust.Trust(self._wall() / rate, time() / rate)
        self._read = (0.0, 0.0)
        self._held: datetime | None = None

    def now(self) -> datetime:
        """Return the instant that holds."""
        read = (self.monotonic(), self._wall())
        if self._held is None or read != self._read:
            self._read = read
            trust = self._judged()
            at = read[1] if trust.since is None else trust.time * self.rate
            self._held = EPOCH + timedelta(seconds=at)
        return self._held

    def host_now(self) -> datetime:
        """Return the instant of the host's wall clock, also while it is not followed."""
        return EPOCH + timedelta(seconds=self._wall())

    @property
    def apart(self) -> float:
        """Return by how many machine seconds the wall clock is ahead of what holds."""
        return self._judged().apart

    @property
    def apart_since(self) -> datetime | None:
        """Return since when the wall clock is not followed, None while it is."""
        since = self._judged().since
        return None if since is None else EPOCH + timedelta(seconds=since * self.rate)

    def doubt(self, told: datetime) -> None:
        """Go on from the instant that the fleet's log tells just now, when ours is ahead."""
        real = (told - EPOCH).total_seconds() / self.rate
        self._trust = clock_trust.doubted(self._judged(), real, self._steady())
        self._held = None

    def confirm(self) -> None:
        """Follow the host's wall clock again."""
        self._trust = clock_trust.confirmed(self._wall() / self.rate, self._steady())
        self._held = None

    def _wall(self) -> float:
        return self.monotonic() + self.skew + self.jump

    def _steady(self) -> float:
        return self.monotonic() / self.rate

    def _judged(self) -> clock_trust.Trust:
        self._trust = clock_trust.judged(self._trust, self._wall() / self.rate, self._steady())
        return self._trust
