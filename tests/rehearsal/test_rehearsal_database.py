"""The shared database of a rehearsal: real SQL, several processes, bad days, dead sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng, VirtualClock
from labfleet.rehearsal.worlds.database import (
    DatabaseSession,
    PatientStore,
    SerialRunner,
    SharedDatabase,
)
from labfleet.resources.meta import Key

CAUSE = stores.Cause("test", EPOCH)


def put(name: str) -> stores.Commit:
    """A commit of one object."""
    return stores.Commit(CAUSE, (stores.Put(Key("Session", "default", name), "u", b"{}"),))


class Room:
    """One database with any number of processes at it."""

    def __init__(self, loop: loops.Loop, plan: FaultPlan | None = None) -> None:
        self.loop = loop
        self.injector = FaultInjector(plan or FaultPlan(), SeededRng("luck"))
        self.shared = SharedDatabase(loop, self.injector, SeededRng("database"), epoch="e")

    def process(self, name: str) -> tuple[loops.Process, stores.Store]:
        """A process and its store."""
        process = loops.Process(name)
        lane = SerialRunner(self.loop, SeededRng(name), process)
        session = DatabaseSession(self.shared, process)
        return process, PatientStore(session, lane, VirtualClock(), head=self.shared.head())


def play(story: Callable[[Room], Awaitable[None]], plan: FaultPlan | None = None) -> None:
    """Run a story."""

    async def main(loop: loops.Loop) -> None:
        await story(Room(loop, plan))

    loops.run(1, main)


def test_one_process_reads_what_another_wrote() -> None:
    """There is one database, and its sessions wake each other."""

    async def story(room: Room) -> None:
        (_, one), (_, two) = room.process("one"), room.process("two")
        waiting = asyncio.get_running_loop().create_task(two.changed(0, seconds=1.0))
        await one.commit(put("a"))
        before = room.loop.time()
        await waiting
        assert room.loop.time() - before < 0.1
        assert await two.get(Key("Session", "default", "a")) is not None

    play(story)


def test_a_killed_processs_finally_writes_nothing() -> None:
    """What its `finally` would have written never reaches the store, not even at the end."""

    async def story(room: Room) -> None:
        process, store = room.process("victim")
        _, other = room.process("other")

        async def life() -> None:
            await store.commit(put("before"))
            try:
                await asyncio.sleep(100)
            finally:
                await store.commit(put("after"))

        room.loop.spawn(process, life())
        await asyncio.sleep(1)
        room.loop.kill(process)
        await asyncio.sleep(500)
        assert await other.get(Key("Session", "default", "before")) is not None
        assert await other.get(Key("Session", "default", "after")) is None
        with pytest.raises(errors.Unreachable):
            await store.head()

    play(story)


def test_a_full_disk_refuses_and_changes_nothing() -> None:
    """Commits and leases are refused while it lasts; reads go on."""

    async def story(room: Room) -> None:
        _, store = room.process("p")
        close = room.injector.begin("disk_full", None)
        with pytest.raises(errors.OutOfCapacity):
            await store.commit(put("a"))
        with pytest.raises(errors.OutOfCapacity):
            await store.acquire("lease", "p", seen=None)
        assert await store.get(Key("Session", "default", "a")) is None
        close()
        await store.commit(put("a"))

    play(story)


def test_a_lost_reply_leaves_the_write() -> None:
    """An Ambiguous commit may have happened: this one has."""

    async def story(room: Room) -> None:
        _, store = room.process("p")
        with pytest.raises(errors.Ambiguous):
            await store.commit(put("a"))
        assert await store.get(Key("Session", "default", "a")) is not None

    play(story, FaultPlan(rates={"write_lost_reply": 1.0}))


def test_a_lost_wake_up_costs_one_poll_at_most() -> None:
    """The reader finds the news a second later."""

    async def story(room: Room) -> None:
        _, store = room.process("p")
        waiting = asyncio.get_running_loop().create_task(store.changed(0, seconds=1.0))
        _, other = room.process("q")
        await other.commit(put("a"))
        await waiting
        assert room.loop.time() < 1.2

    play(story, FaultPlan(rates={"wake_lost": 1.0}))
