"""The one database of all processes: real SQL on SQLite in memory, with faults of its own.

`SharedDatabase` holds the database and reports every commit; `DatabaseSession` is one process's
connection to it (a `stores.database.Database`), `SerialRunner` the runner that gives statements a
latency. A statement that was sent is carried out even if its process died meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop, Process
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.lease_news import LeaseNews
from labfleet.stores import rules
from labfleet.stores.database import Database, Parameters, Rows, Run
from labfleet.stores.fleet_store import FleetStore
from labfleet.stores.sqlite import SqliteDatabase

T = TypeVar("T")
Heard = Callable[[list[store.Commit], list[rules.Outcome]], None]
POLL_SECONDS = 1.0
IDLE_SECONDS = 300.0
SLOWEST_SECONDS = 0.03


class SharedDatabase:
    """The database itself: a new one in memory, or `inner`, which whoever opened it closes."""

    def __init__(
        self,
        loop: Loop,
        injector: FaultInjector,
        rng: SeededRng,
        *,
        epoch: str,
        inner: Database | None = None,
    ) -> None:
        self.loop = loop
        self.injector = injector
        self.rng = rng
        self.inner = inner or SqliteDatabase(":memory:", epoch=epoch, readers=0)
        if inner is None:
            # Nothing closes a rehearsal's database: the connection closes with this object.
            weakref.finalize(self, self.inner.close)
        self.lease_news = LeaseNews(loop, self.inner.sql)
        self.heard: list[Heard] = []
        self.commits = 0
        self.failed_at = 0
        """The newest revision there was when a commit failed, or seemed to."""
        self.on_decided: Callable[[Process], None] | None = None
        """Called when what a leader wrote of simulations is durable, before anybody knows."""
        self._wakers: dict[DatabaseSession, Callable[[int], None]] = {}
        self._world = contextvars.Context()

    def head(self) -> int:
        """Return the newest revision."""
        _, revision, _ = self.inner.rows(self.inner.sql["head"])[0]
        return int(revision)

    def commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        """Commit a batch, or fail as databases do; notify of what was committed."""
        try:
            outcomes = self._commit(commits)
        except errors.LabfleetError:
            self.failed_at = self.head()
            raise
        if not all(isinstance(each, store.Committed) for each in outcomes):
            self.failed_at = self.head()
        return outcomes

    def _commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        injector = self.injector
        if injector.holds("disk_full", None):
            raise errors.OutOfCapacity("database or disk is full", reason="DiskFull")
        if injector.strikes("write_error"):
            raise errors.Temporary("database is locked", reason="StoreBusy")
        if injector.strikes("write_conflict"):
            raise errors.Conflict("somebody else was first")
        outcomes = self.inner.commit(commits)
        done = [
            (commit, outcome)
            for commit, outcome in zip(commits, outcomes, strict=True)
            if isinstance(outcome, store.Committed)
        ]
        if done:
            self.commits += len(done)
            for heard in self.heard:
                heard([commit for commit, _ in done], [outcome for _, outcome in done])
            self._wake(max(outcome.revision for _, outcome in done))
        if injector.strikes("write_lost_reply"):
            raise errors.Ambiguous("the database's answer was lost", reason="ReplyLost")
        return outcomes

    def write(self, work: Callable[[Run], T]) -> T:
        """Do other writes: leases, tokens, upkeep."""
        if self.injector.holds("disk_full", None):
            raise errors.OutOfCapacity("database or disk is full", reason="DiskFull")
        if self.injector.strikes("write_error"):
            raise errors.Temporary("database is locked", reason="StoreBusy")
        return self.inner.write(self.lease_news.noting(work))

    def listen(self, session: DatabaseSession, wake: Callable[[int], None]) -> None:
        """Wake a session at each commit of anybody."""
        self._wakers[session] = wake

    def mute(self, session: DatabaseSession) -> None:
        """Wake a session no more."""
        self._wakers.pop(session, None)

    def _wake(self, revision: int) -> None:
        for session, wake in list(self._wakers.items()):
            if not session.process.alive:
                del self._wakers[session]
                continue
            delay = 0.002
            if self.injector.holds("cache_stale", session.process):
                delay = self.rng.between(1.0, 30.0)
            elif self.injector.strikes("wake_lost"):
                # Lost: the reader finds out at its next poll. Polls that find nothing are not
                # played, because they change nothing.
                delay = self.rng.between(0.0, POLL_SECONDS)
            self.loop.call_later(delay, wake, revision, context=self._world)


class DatabaseSession:
    """One process's connection to the shared database."""

    poll: float | None = None
    shared = True
    durable: Callable[[list[rules.EventRow]], None] | None = None
    """Never called: here every reader of the log meets the faults of reading."""

    def __init__(self, shared: SharedDatabase, process: Process) -> None:
        self.process = process
        self.sql = shared.inner.sql
        self._shared = shared

    def _living(self) -> None:
        if not self.process.alive:
            raise errors.Unreachable("this process is dead", reason="ProcessDead")

    def rows(self, statement: str, parameters: Parameters = ()) -> Rows:
        self._living()
        return self._shared.inner.rows(statement, parameters)

    def write(self, work: Callable[[Run], T]) -> T:
        return self._shared.write(work)

    def commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        outcomes = self._shared.commit(commits)
        if self._shared.on_decided is not None and any(map(_decides, commits)):
            self._shared.on_decided(self.process)
        return outcomes

    def listed(self, values: tuple[str, ...]) -> Any:
        return self._shared.inner.listed(values)

    def backup(self, target: str) -> int:
        raise errors.Permanent(f"no backups in a rehearsal ({target})")

    def listen(self, wake: Callable[[int], None], spare: Callable[..., object]) -> None:
        del spare
        self._shared.listen(self, wake)

    def mute(self) -> None:
        self._shared.mute(self)

    def close(self) -> None:
        """Close nothing: the database outlives its sessions."""


def _decides(commit: store.Commit) -> bool:
    """Tell whether a commit is of a leader and about a simulation."""
    return commit.fence is not None and any(
        isinstance(each, store.Put) and each.key.kind == "Simulation" for each in commit.writes
    )


class PatientStore(FleetStore):
    """The real store without the polls that find nothing: these change nothing and cost most.

    A lost wake-up is delivered at the time of the poll that would find it (`SharedDatabase._wake`).
    """

    async def changed(self, after: int, *, seconds: float) -> None:
        await super().changed(after, seconds=max(seconds, IDLE_SECONDS))


class SerialRunner:
    """A runner in virtual time: one lane, in order, each statement with some latency."""

    readers = 0

    def __init__(self, loop: Loop, rng: SeededRng, process: Process, rate: float = 1.0) -> None:
        self._loop = loop
        self._rng = rng
        self._process = process
        self._rate = rate
        self._free = 0.0
        self.slowest = SLOWEST_SECONDS
        self._world = contextvars.Context()

    def write(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._process.alive:
            future.set_exception(errors.Unreachable("this process is dead", reason="ProcessDead"))
            return future
        now, draw = self._loop.time(), self._rng.random()
        if draw < 0.6 and self._free <= now:
            _do(work, future)
            return future
        self._free = max(self._free, now) + (0.001 + self.slowest * draw * draw) * self._rate
        self._loop.call_at(self._free, _do, work, future, context=self._world)
        return future

    def read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return self.write(work)

    def close(self) -> None:
        """Nothing to end."""


def _do(work: Callable[[], T], future: asyncio.Future[T]) -> None:
    try:
        result = work()
    except errors.LabfleetError as problem:
        if not future.done():
            future.set_exception(problem)
            # A process that is killed in this instant asks for it no more: no bug of the product.
            future.exception()
        return
    if not future.done():
        future.set_result(result)
