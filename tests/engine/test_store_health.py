"""What a process knows of its store: by the writes it refused, and by asking it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from engine_fakes import Ids
from hand_clock import HandClock, pump

from labfleet.engine.store_health import (
    BEHIND_SECONDS,
    CHECK_LEASE,
    SETTLED_SECONDS,
    TOLD_SECONDS,
    StoreCheck,
    StoreHealth,
    StoreState,
    StoreTrouble,
)
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline

FULL = errors.OutOfCapacity("cannot commit: /var/lib/secret-host is full")


@dataclass
class Told:
    """Remembers what was told."""

    troubles: list[tuple[StoreState, str]] = field(default_factory=list)
    well: list[StoreState] = field(default_factory=list)

    def store_trouble(self, trouble: StoreTrouble, detail: str) -> None:
        self.troubles.append((trouble.state, detail))

    def store_well(self, trouble: StoreTrouble) -> None:
        self.well.append(trouble.state)


@dataclass
class Machine:
    """Machine time, moved by hand."""

    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Log:
    """A log whose head is told, hangs or fails; counts how often it is asked."""

    revision: int = 5
    error: errors.LabfleetError | None = None
    hanging: asyncio.Event | None = None
    asked: int = 0

    async def head(self) -> stores.Cursor:
        self.asked += 1
        if self.hanging is not None:
            await self.hanging.wait()
        if self.error is not None:
            raise self.error
        return stores.Cursor("e", self.revision)


@dataclass
class Leases:
    """Leases of a store that takes writes or not, and tells its observer."""

    health: StoreHealth
    full: bool = True
    rows: dict[str, stores.Lease] = field(default_factory=dict)

    async def lease(self, name: str) -> stores.Lease | None:
        return self.rows.get(name)

    async def acquire(self, name: str, holder: str, *, seen: int | None) -> stores.Lease:
        if self.full:
            self.health.refused(FULL)
            raise FULL
        self.health.wrote()
        self.rows[name] = stores.Lease(name, holder, 1, 1 if seen is None else seen + 1)
        return self.rows[name]


class Kit:
    """A health, its check and everything around them."""

    def __init__(self) -> None:
        self.machine, self.told, self.log = Machine(), Told(), Log()
        self.clock = HandClock()
        self.health = StoreHealth(self.clock, watcher=self.told, machine=self.machine)
        self.leases = Leases(self.health)
        self.reached = 5
        self.check = StoreCheck(
            self.health, self.log, self.leases, lambda: self.reached,  # type: ignore[arg-type]
            answer=0.01, machine=self.machine, pause=self._pause,
        )  # fmt: skip
        self.passing = asyncio.Event()

    async def _pause(self, seconds: float) -> None:
        await self.passing.wait()
        self.passing.clear()
        self.machine.at += seconds

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the check; time passes only when the test says so."""
        task = asyncio.ensure_future(self.check.run())
        await pump()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def look(self) -> StoreState:
        self.machine.at += 2
        await self.check.look()
        return self.health.state


def test_a_refused_write_is_read_only_since_then_in_words_without_the_drivers():
    """The words name a cause and no path or address; the driver's text goes to the log only."""
    kit = Kit()
    since = kit.clock.now()
    kit.health.refused(FULL)
    kit.clock.forward(30)
    kit.health.refused(FULL)
    trouble = kit.health.trouble
    assert trouble is not None
    assert (trouble.state, trouble.since, trouble.count) == (StoreState.READ_ONLY, since, 2)
    assert "out of room" in trouble.words
    assert "secret-host" not in trouble.words
    assert kit.told.troubles == [(StoreState.READ_ONLY, FULL.message)]
    assert kit.health.refused_writes == {"OutOfCapacity": 2}


def test_a_lasting_trouble_is_told_once_a_minute():
    """A server that retries every second does not fill the log's disk too."""
    kit = Kit()
    for _ in range(150):
        kit.health.refused(FULL)
        kit.machine.at += 1
    assert len(kit.told.troubles) == 1 + 149 // int(TOLD_SECONDS)


def test_a_small_write_that_fits_does_not_end_the_trouble_at_once():
    """A full disk takes one write and refuses the next: the state does not flicker."""
    kit = Kit()
    kit.health.refused(FULL)
    kit.health.wrote()
    assert kit.health.state is StoreState.READ_ONLY
    kit.machine.at += SETTLED_SECONDS
    kit.health.wrote()
    assert kit.health.state is StoreState.OK
    assert kit.told.well == [StoreState.READ_ONLY]


@pytest.mark.asyncio
async def test_a_store_that_fails_or_hangs_is_unreadable_until_it_answers():
    """Both within the bound, and the hanging read is not heaped up with others."""
    kit = Kit()
    async with kit.running():
        assert await kit.look() is StoreState.OK
        kit.log.error = errors.Unreachable("10.1.2.3:5432 failed")
        assert await kit.look() is StoreState.UNREADABLE
        assert kit.health.trouble is not None
        assert "10.1.2.3" not in kit.health.trouble.words
        kit.log.error, kit.log.hanging, before = None, asyncio.Event(), kit.log.asked
        assert await kit.look() is StoreState.UNREADABLE
        assert await kit.look() is StoreState.UNREADABLE
        assert kit.log.asked == before + 1
        kit.log.hanging.set()
        assert await kit.look() is StoreState.OK


@pytest.mark.asyncio
async def test_however_many_ask_the_store_is_asked_once_a_second():
    """A probe storm is none for the database."""
    kit = Kit()
    async with kit.running():
        kit.machine.at += 2
        await asyncio.gather(*(kit.check.look() for _ in range(500)))
        await asyncio.gather(*(kit.check.look() for _ in range(500)))
        assert kit.log.asked == 2  # once at its start


@pytest.mark.asyncio
async def test_a_cache_that_does_not_follow_the_log_is_behind():
    """What the log held must be read in time; a moving cache is never behind."""
    kit = Kit()
    async with kit.running():
        kit.log.revision = 9
        assert await kit.look() is StoreState.OK
        kit.machine.at += BEHIND_SECONDS
        kit.reached = 9
        kit.log.revision = 12
        assert await kit.look() is StoreState.OK
        kit.machine.at += BEHIND_SECONDS
        assert await kit.look() is StoreState.BEHIND
        kit.reached = 12
        assert await kit.look() is StoreState.OK


@pytest.mark.asyncio
async def test_a_quiet_process_finds_out_by_itself_that_writes_work_again():
    """Nobody else may write in a process of the API alone, so the check does."""
    kit = Kit()
    kit.health.refused(FULL)
    kit.leases.full = False
    kit.machine.at += SETTLED_SECONDS
    async with kit.running():
        assert kit.health.state is StoreState.OK
    assert list(kit.leases.rows) == [CHECK_LEASE]


@pytest.mark.asyncio
async def test_the_real_store_tells_of_writes_and_not_of_conflicts():
    """A lost race is the caller's; only what the store cannot take counts."""
    clock = HandClock()
    health = StoreHealth(clock)
    store = await open_store(
        "sqlite://:memory:", runner=Inline(), ids=Ids(), clock=clock, observer=health
    )
    await store.acquire("x", "a", seen=None)
    with pytest.raises(errors.Conflict):
        await store.acquire("x", "b", seen=7)
    assert health.state is StoreState.OK
    # private _db, _writer: a store in memory cannot be made read-only from outside
    store._db._writer.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]
    with pytest.raises(errors.LabfleetError):
        await store.acquire("y", "a", seen=None)
    assert health.state is StoreState.READ_ONLY
    await store.close()
