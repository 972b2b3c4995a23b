"""Places where stores lie, for tests of any room: what to open, how, and small commits."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also in a process of its own
from hand_clock import START, HandClock

from labfleet.interfaces import store as s
from labfleet.resources.meta import Key
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline, Threads


@dataclass
class CountedIds:
    """Ids that count up."""

    count: int = 0

    def uid(self) -> str:
        self.count += 1
        return f"{self.count:08x}-0000-4000-8000-000000000000"

    def token(self) -> str:
        return "t" * 43


def set_clock() -> HandClock:
    """Return a clock that stands until it is set, or somebody sleeps."""
    return HandClock(sleep_moves=True)


@dataclass
class Place:
    """Where a store lies, how to open it again, and the clock it lives by."""

    flavour: str
    url: str
    folder: Path
    empty: Callable[[], str]
    clock: HandClock = field(default_factory=set_clock)
    ids: CountedIds = field(default_factory=CountedIds)

    async def open(self, url: str | None = None) -> s.Store:
        runner = Inline() if self.flavour == "memory" else Threads(readers=3)
        return await open_store(
            self.url if url is None else url, runner=runner, ids=self.ids, clock=self.clock
        )

    @asynccontextmanager
    async def opened(self, url: str | None = None) -> AsyncIterator[s.Store]:
        store = await self.open(url)
        try:
            yield store
        finally:
            await store.close()


def key(name: str, kind: str = "Worker", namespace: str = "default") -> Key:
    return Key(kind, namespace, name)


def put(name: str, doc: bytes = b"{}", *, kind: str = "Worker", **labels: str) -> s.Put:
    return s.Put(key(name, kind), f"uid-{name}", doc, labels)


def commit(
    *writes: s.Write,
    when: tuple[s.Precondition, ...] = (),
    fence: s.Fence | None = None,
    at: datetime = START,
) -> s.Commit:
    return s.Commit(s.Cause("tester", at, "req-1", "because"), writes, when, fence)
