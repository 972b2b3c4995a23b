"""The host's clock against the steady one, the log, and what people confirm."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from labfleet.app.system import SystemClock
from labfleet.engine.clock_check import ClockCheck
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key

START = 1_795_000_000.0
DAY = 86400.0


@dataclass
class Host:
    """A machine's two clocks."""

    wall: float = START
    steady: float = 77.0

    def run(self, seconds: float, jump: float = 0.0) -> None:
        self.wall += seconds + jump
        self.steady += seconds

    def clock(self, rate: float = 1.0) -> SystemClock:
        return SystemClock(START, rate, wall=lambda: self.wall, steady=lambda: self.steady)


@dataclass
class Log:
    """A log with one newest commit."""

    at: datetime | None = None
    revision: int = 0

    def commit(self, at: datetime) -> None:
        self.revision, self.at = self.revision + 1, at

    async def head(self) -> stores.Cursor:
        return stores.Cursor("e", self.revision)

    async def events(self, after: stores.Cursor, *, limit: int) -> stores.EventPage:
        assert (after.revision, limit) == (max(0, self.revision - 1), 1)
        if self.at is None:
            raise errors.TooOld("nothing is kept")
        event = stores.Event(
            self.revision, "ADDED", Key("Pool", "default", "p"), "u", b"", self.at, "", "", ""
        )
        return stores.EventPage((event,), stores.Cursor("e", self.revision))


class Kit:
    """A process on a host."""

    def __init__(self, rate: float = 1.0, log: Log | None = None) -> None:
        self.host, self.log = Host(), log or Log()
        self.clock = self.host.clock(rate)
        self.confirmed: datetime | None = None
        self.told: list[str | None] = []
        self.check = ClockCheck(
            self.clock, self.log, lambda: self.confirmed,  # type: ignore[arg-type]
            told=lambda found: self.told.append(found.reason if found else None),
        )  # fmt: skip

    async def look(self) -> str | None:
        await self.check.look()
        return None if self.check.trouble is None else self.check.trouble.reason


@pytest.mark.asyncio
@pytest.mark.parametrize("rate", [1.0, 500.0])
async def test_a_day_ahead_for_twelve_seconds_moves_the_fleet_by_twelve_seconds(rate: float):
    """Unscaled by a demo's rate: a jump is one of the host's seconds."""
    kit = Kit(rate)
    begun = kit.clock.now()
    kit.host.run(1, jump=DAY)
    assert await kit.look() == "ClockJumped"
    kit.host.run(11)
    assert (kit.clock.now() - begun).total_seconds() == pytest.approx(12 * rate)
    assert await kit.look() == "ClockJumped"
    kit.host.run(1, jump=-DAY)
    assert await kit.look() is None
    assert (kit.clock.now() - begun).total_seconds() == pytest.approx(13 * rate)
    assert kit.told == ["ClockJumped", None]


@pytest.mark.asyncio
async def test_people_confirm_a_jump_and_only_where_the_clock_shows_the_same():
    """A host that stands elsewhere is not meant."""
    kit = Kit()
    kit.host.run(1, jump=DAY)
    kit.confirmed = kit.clock.now()
    assert await kit.look() == "ClockJumped"
    kit.confirmed = kit.check.host_now()
    kit.host.run(20)
    assert await kit.look() is None
    assert kit.clock.now() == datetime.fromtimestamp(START + DAY + 21, UTC)
    kit.host.run(3600)
    assert await kit.look() is None


@pytest.mark.asyncio
async def test_a_laptop_that_slept_and_an_idle_store_hold_nothing():
    """Suspended time counts in both clocks; an old commit proves nothing."""
    kit = Kit()
    kit.log.commit(datetime.fromtimestamp(START - 7 * DAY, UTC))
    assert await kit.look() is None
    kit.host.run(9 * 3600)
    assert await kit.look() is None
    kit.log.commit(kit.clock.now())
    assert await kit.look() is None
    kit.host.run(10)
    assert await kit.look() is None
    assert kit.told == []


@pytest.mark.asyncio
async def test_a_replica_a_day_ahead_goes_on_by_the_log_before_it_leads():
    """What the leader commits tells the standby that its own clock is wrong."""
    kit = Kit()
    leader = datetime.fromtimestamp(START - DAY, UTC)
    kit.log.commit(leader)
    assert await kit.look() is None
    kit.host.run(10)
    kit.log.commit(leader + timedelta(seconds=9))
    assert await kit.look() == "ClockJumped"
    assert abs(kit.clock.now() - (leader + timedelta(seconds=10))) < timedelta(seconds=5)
    assert kit.clock.apart == pytest.approx(DAY, abs=5)


@pytest.mark.asyncio
async def test_a_clock_behind_the_newest_commit_is_told_until_it_passes_it_or_is_confirmed():
    """Its own time, the earlier one, holds: nothing ends before its time by either clock."""
    kit = Kit()
    kit.log.commit(datetime.fromtimestamp(START + 3600, UTC))
    assert await kit.look() == "ClockBehind"
    assert kit.clock.now() == datetime.fromtimestamp(START, UTC)
    kit.host.run(3400)
    assert await kit.look() is None
    again = Kit(log=kit.log)
    assert await again.look() == "ClockBehind"
    again.confirmed = again.check.host_now()
    assert await again.look() is None
    again.host.run(1000)
    assert await again.look() is None
