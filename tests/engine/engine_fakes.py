"""Ids, observers and stores with bad days; the clock moved by hand and dice are passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hand_clock import START, HandClock, pump

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.meta import Key, Metadata
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline

__all__ = ["HandClock", "SeededRng", "pump"]
OPENED: list[Any] = []


@dataclass
class Ids:
    """Ids that count up."""

    count: int = 0

    def uid(self) -> str:
        self.count += 1
        return f"{self.count:08x}-0000-4000-8000-000000000000"

    def token(self) -> str:
        return "t" * 43


@dataclass
class Reconciled:
    """Remembers every outcome."""

    seen: list[tuple[str, str]] = field(default_factory=list)
    errors: list[BaseException | None] = field(default_factory=list)

    def reconciled(
        self, controller: str, key: Key, outcome: str, seconds: float, error: BaseException | None
    ) -> None:
        assert seconds >= 0
        self.seen.append((key.name, str(outcome)))
        self.errors.append(error)


async def memory_store(clock: HandClock, ids: Ids | None = None) -> stores.Store:
    """The real SQLite store in memory, without threads; closed after the test."""
    store = await open_store("sqlite://:memory:", runner=Inline(), ids=ids or Ids(), clock=clock)
    OPENED.append(store)
    return store


class MemoryLeases:
    """A `LeaseStore` of rows in memory; the conformance suite runs against it too."""

    def __init__(self) -> None:
        self.rows: dict[str, stores.Lease] = {}

    async def acquire(self, name: str, holder: str, *, seen: int | None) -> stores.Lease:
        row = self.rows.get(name)
        there = None if row is None else row.version
        if there != seen and (row is None or row.holder or seen is not None):
            owner = "nobody" if row is None else row.holder
            told = f"held by {owner}: expected version {seen}, found {there}"
            raise errors.Conflict(told)
        token, version = (row.token, row.version) if row else (0, 0)
        self.rows[name] = taken = stores.Lease(name, holder, token + 1, version + 1)
        return taken

    async def renew(self, lease: stores.Lease) -> stores.Lease:
        row = self.rows.get(lease.name)
        if row is None or (row.holder, row.token) != (lease.holder, lease.token):
            raise errors.Fenced(f"{lease.name} is lost")
        self.rows[lease.name] = moved = replace(row, version=row.version + 1)
        return moved

    async def release(self, lease: stores.Lease) -> None:
        row = self.rows.get(lease.name)
        if row is not None and (row.holder, row.token) == (lease.holder, lease.token):
            self.rows[lease.name] = replace(row, holder="", version=row.version + 1)

    async def lease(self, name: str) -> stores.Lease | None:
        return self.rows.get(name)


class BadDays:
    """In front of a store, or of a part of one: can hang, fail, or lose every event."""

    def __init__(self, store: Any, clock: HandClock) -> None:
        self._store = store
        self._clock = clock
        self.hang: set[str] = set()
        self.fail: dict[str, errors.LabfleetError] = {}
        self.after: dict[str, Callable[[], Awaitable[object]]] = {}
        self.deaf = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name in self.hang:
                await asyncio.Event().wait()
            if name in self.fail:
                raise self.fail[name]
            answer = await real(*args, **kwargs)
            if name in self.after:
                await self.after.pop(name)()
            return answer

        return call

    async def changed(self, after: int, *, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def events(self, after: stores.Cursor, *, limit: int = 1000) -> stores.EventPage:
        if "events" in self.fail:
            raise self.fail["events"]
        page = await self._store.events(after, limit=limit)
        return stores.EventPage((), page.cursor) if self.deaf else page


def cluster(name: str, *, label: str = "a", cpu: int = 1000) -> Cluster:
    """A small object of a small kind."""
    metadata = Metadata(name=name, uid=f"uid-{name}", labels={"track": label}, generation=1)
    return Cluster(metadata=metadata, spec=ClusterSpec(capacity=Amounts(cpu_milli=cpu)))


def cause() -> stores.Cause:
    return stores.Cause("tester", START, "req-1", "because")


def key(name: str) -> Key:
    return Key("Cluster", "default", name)
