"""Which time holds when the host's wall clock jumps: pure; the shell only reads clocks.

A wall clock one day ahead ends every session at once. So time goes on as the clock says that
counts since the machine's start, suspended time included (CLOCK_BOOTTIME), and the wall clock is
followed only while both agree. A laptop that slept and a paused process see both go on alike.
What ends people's work is thereby held until its own time, and nothing has to be held twice.

All numbers are seconds of the machine, never of a demo's faster time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LIMIT_SECONDS = 300.0
"""Corrections up to this are followed: NTP steps, leap seconds, a clock that drifts."""


class Trust(NamedTuple):
    """The time that holds: `time` was it when the steady clock showed `steady`.

    `apart` is how far the host's wall clock is ahead of it (negative: behind) while it is not
    followed, since `since` of the time that holds; 0 and None while both agree.
    """

    time: float
    steady: float
    apart: float = 0.0
    since: float | None = None

    def at(self, steady: float) -> float:
        """Return the time that holds at a reading of the steady clock."""
        return self.time + (steady - self.steady)


def judged(trust: Trust, wall: float, steady: float) -> Trust:
    """Return what holds after a reading of both clocks."""
    expected = trust.at(steady)
    apart = wall - expected
    if abs(apart) <= LIMIT_SECONDS:
        return Trust(wall, steady)
    since = expected if trust.since is None else trust.since
    return Trust(expected, steady, apart, since)


def doubted(trust: Trust, told: float, steady: float) -> Trust:
    """Return what holds when the fleet's log tells an earlier time than ours, just now.

    The earlier of two clocks ends nobody's work before its time.
    """
    now = trust.at(steady)
    if now - told <= LIMIT_SECONDS:
        return trust
    return Trust(told, steady, trust.apart + now - told, told)


def confirmed(wall: float, steady: float) -> Trust:
    """Return what holds once people said that the wall clock is right."""
    return Trust(wall, steady)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a process last read of the log's end: its revision, and the time that held then."""

    revision: int
    time: float


def told_by_log(
    before: Heard | None, revision: int, committed: float, now: float
) -> tuple[float | None, float]:
    """Return the log's time where ours is ahead of it, and by how much ours is behind.

    A commit since the last reading was made between then and now, so its time must lie between
    both. At the start nothing tells how long the store was idle: an old commit proves nothing,
    only one of the future does.
    """
    behind = max(0.0, committed - now)
    if before is None or revision == before.revision:
        return None, behind
    ahead = before.time - committed > LIMIT_SECONDS
    return (committed if ahead else None), behind
