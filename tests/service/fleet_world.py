"""A small installation in memory for tests of service and api: SQLite, cache, people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hand_clock import START, HandClock

from labfleet.engine.cache import Cache
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.resources.kinds import KINDS
from labfleet.resources.simulation import Simulation
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.verbs import objects
from labfleet.service.verbs.deciding import Decider
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Inline, Threads

__all__ = ["START"]
TOPOLOGY = """
lab: {title: two, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, tags: ["serial:1"], interfaces: []}
- {id: n1, label: r2, node_definition: iosv, x: 9, y: 0, tags: ["serial:2"], interfaces: []}
links: []
"""
MACHINE: dict[str, Any] = {
    "provider": {"kind": "aws", "amiId": "ami-1"},
    "cml": {"adminPassword": {"env": "CML_PASSWORD"}},
}


@dataclass
class CountingIds:
    """Ids in order; tokens are long and all different."""

    count: int = 0

    def uid(self) -> str:
        self.count += 1
        return f"{self.count:08x}-{self.count:04x}-4000-8000-{self.count:012x}"

    def token(self) -> str:
        self.count += 1
        return f"secret{self.count:037d}"


def who(role: str = "admin", owner: str = "") -> Caller:
    """Return a caller of a role."""
    return Caller(Principal(id=f"token-{role}-{owner}", role=Role(role), owner=owner), "req-1")


ADMIN = who("admin", "ada")


MEMORY = "sqlite://:memory:"


@dataclass
class World:
    """The parts, the clock behind them, and short ways to make things."""

    services: ServiceContext
    store: stores.Store
    clock: HandClock
    ids: CountingIds
    listeners: list[asyncio.Task[None]] = field(default_factory=list)
    decides: asyncio.Event = field(default_factory=asyncio.Event)

    def follow(self, listener: Any) -> None:
        """Run a feed for one more listener."""
        feed = Feed(self.store, listener, self.clock)
        self.listeners.append(asyncio.get_running_loop().create_task(feed.run()))

    async def make(
        self, kind: str, name: str | None, spec: Any = None, caller: Caller = ADMIN, **meta: Any
    ) -> Any:
        """Create an object from a body."""
        body = {"metadata": {**({"name": name} if name else {}), **meta}, "spec": spec or {}}
        return await objects.create(self.services, caller, KINDS[kind], body)

    async def definition(self, name: str = "two", **spec: Any) -> Any:
        """Create a definition of two nodes."""
        return await self.make("Definition", name, {"topology": TOPOLOGY, **spec})

    async def session(self, name: str | None = "s1", caller: Caller = ADMIN, **spec: Any) -> Any:
        """Create a session of the definition `two`."""
        return await self.make("Session", name, {"definition": "two", **spec}, caller)

    async def template(self, name: str = "metal") -> Any:
        """Create a template."""
        return await self.make("Template", name, {"machine": MACHINE})

    async def status(self, obj: Any, **changes: Any) -> Any:
        """Write status fields, as a controller does."""
        fresh = await self.services.objects.get(type(obj), obj.name, obj.namespace)
        status = msgspec.structs.replace(fresh.status, **changes)
        cause = stores.Cause("controller", self.clock.now(), reason="Observed")
        new = msgspec.structs.replace(fresh, status=status)
        _, stored = await self.services.objects.save(new, cause=cause)
        return stored[0]


async def deciding(world: World) -> None:
    """Decide on simulations as the leading process does, while `decides` is set; without a lease."""
    decider, wanted = Decider(world.services), asyncio.Event()
    world.services.asked.serve(wanted.set, lambda: True)
    world.services.cache.on_change(Simulation, lambda *_: wanted.set())
    while True:
        await wanted.wait()
        await world.decides.wait()
        wanted.clear()
        while await decider.round(None):
            pass


@asynccontextmanager
async def world(kind_of_cache: type[Cache] = Cache, *, url: str = MEMORY) -> AsyncIterator[World]:
    """Open an installation; its cache follows the log until the end."""
    clock, ids = HandClock(sleep_moves=True), CountingIds()
    runner = Inline() if url == MEMORY else Threads(readers=2)
    store = await open_store(url, runner=runner, ids=ids, clock=clock)
    cache = kind_of_cache(store)
    cache.declare(*indices.declared())
    made = World(
        ServiceContext(
            Objects(store),
            cache,
            clock,
            ids,
            log=store,
            replies=store,
            series=store,
            history=store,
            kept=store,
        ),
        store,
        clock,
        ids,
    )
    made.follow(cache)
    await cache.ready()
    made.listeners.append(asyncio.get_running_loop().create_task(deciding(made)))
    made.decides.set()
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        for task in made.listeners:
            task.cancel()
        await asyncio.gather(*made.listeners, return_exceptions=True)
        await store.close()
