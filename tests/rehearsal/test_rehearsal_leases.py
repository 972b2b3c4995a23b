"""Looks at a lease that find nothing are not played, and nobody leads sooner or later for that."""

from __future__ import annotations

import asyncio

import pytest

from labfleet.engine.election import Election
from labfleet.interfaces import store as stores
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.replicas.leases import CutLeases
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SeededRng, VirtualClock
from labfleet.rehearsal.worlds.database import (
    DatabaseSession,
    PatientStore,
    SerialRunner,
    SharedDatabase,
)


class NoDelay(SeededRng):
    """Random numbers with which every statement is carried out at once."""

    def random(self) -> float:
        """Return 0."""
        return 0.0


class Room:
    """A database, and processes that want to lead; `quiet` leaves out looks without news."""

    def __init__(self, loop: loops.Loop, *, quiet: bool) -> None:
        self.loop, self.quiet = loop, quiet
        self.injector = FaultInjector(FaultPlan(), SeededRng("luck"))
        self.shared = SharedDatabase(loop, self.injector, SeededRng("database"), epoch="e")
        self.looks = 0

    def candidate(self, name: str) -> tuple[loops.Process, Election, asyncio.Task[None]]:
        """Begin to compete in a process of its own."""
        process = loops.Process(name)
        lane = SerialRunner(self.loop, NoDelay(name), process)
        session = DatabaseSession(self.shared, process)
        store = PatientStore(session, lane, VirtualClock(), head=self.shared.head())
        leases = CutLeases(store, self.injector, process)
        read = self.shared.inner.sql["lease"]
        rows = session.rows

        def counted(statement: str, parameters: tuple[object, ...] = ()) -> object:
            self.looks += statement == read
            return rows(statement, parameters)

        session.rows = counted  # type: ignore[method-assign, assignment]
        election = Election(
            leases, "role", name, machine=self.loop.time, pause=self.loop.sleep,
            watch=self.shared.lease_news.watch if self.quiet else None,
        )  # fmt: skip
        return process, election, self.loop.spawn(process, election.run())


async def _disturbed(room: Room, how: str, two: loops.Process) -> None:
    """Pause the candidate for a while, as its host may be."""
    if how == "candidate paused":
        room.loop.pause(two)
        await asyncio.sleep(7.3)
        room.loop.resume(two)
        await asyncio.sleep(2.1)


async def _ended(room: Room, how: str, one: loops.Process, task: asyncio.Task[None]) -> None:
    """End the first leader, or only cut it off from its lease."""
    if how == "killed":
        room.loop.kill(one)
    elif how == "stopped":
        task.cancel()
    elif how == "paused":
        room.loop.pause(one)
    elif how == "candidate paused":
        room.loop.kill(one)
    else:
        room.injector.begin("lead_lost", one)


def taken_over(how: str, at: float, *, quiet: bool) -> tuple[float, stores.Fence | None, int]:
    """Return when the second candidate leads, its fence, and how many looks there were."""

    async def main(loop: loops.Loop) -> tuple[float, stores.Fence | None, int]:
        room = Room(loop, quiet=quiet)
        one, first, task = room.candidate("one")
        await first.leadership.wait_held()
        await asyncio.sleep(0.3)
        two, second, _ = room.candidate("two")
        await asyncio.sleep(at)
        await _disturbed(room, how, two)
        await _ended(room, how, one, task)
        await second.leadership.wait_held()
        return loop.time(), second.leadership.fence, room.looks

    return loops.run(1, main)


@pytest.mark.parametrize("how", ["killed", "stopped", "paused", "cut off", "candidate paused"])
@pytest.mark.parametrize("at", [0.0, 0.5, 3.5, 4.1, 14.0, 15.2, 16.3, 47.0, 61.7])
def test_looks_left_out_change_no_takeover(how: str, at: float) -> None:
    """Who competes leads at the very instant at which one that looks each second would."""
    loud, quiet = taken_over(how, at, quiet=False), taken_over(how, at, quiet=True)
    assert quiet[:2] == pytest.approx(loud[:2])
    assert quiet[2] <= loud[2]


def test_looks_without_news_are_left_out() -> None:
    """Beside a leader that goes on renewing, a candidate looks when it begins and when it acts."""
    loud, quiet = (
        taken_over("killed", 600, quiet=False)[2],
        taken_over("killed", 600, quiet=True)[2],
    )
    assert 600 < loud < 620
    assert quiet < 10


def test_a_change_between_a_look_and_the_wait_is_news() -> None:
    """A row that was written after the look that showed it is looked at at the next interval."""

    async def main(loop: loops.Loop) -> float:
        room = Room(loop, quiet=True)
        _, first, _ = room.candidate("one")
        await first.leadership.wait_held()
        await asyncio.sleep(60)
        old = stores.Lease("role", "one", 1, 1)
        before = loop.time()
        await room.shared.lease_news.watch(old, before, 15.0)
        return loop.time() - before

    assert loops.run(1, main) == pytest.approx(1.0)
