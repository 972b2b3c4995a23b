"""Losing every event costs latency and nothing else."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from engine_fakes import BadDays, HandClock, SeededRng, cause, cluster, key, memory_store, pump

from labfleet.engine.cache import Cache
from labfleet.engine.controller import Again, Controller, Done
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.engine.queue import EVENT, KeyQueue
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key


class Fleet:
    """One controller that copies `generation` into the status, over a cache and a feed."""

    def __init__(self, store: BadDays, clock: HandClock, *, limit: int = 100) -> None:
        self.store, self.clock = store, clock
        self.objects = Objects(store)
        self.cache = Cache(store, ["Cluster"])
        self.queue = KeyQueue(clock, SeededRng("0"), limit=limit)
        self.cache.on_change(
            Cluster, lambda old, new: self.queue.add((new or old).key, priority=EVENT)
        )
        self.feed = Feed(store, self.cache, clock, relist=60)
        self.controller = Controller("copy", self.reconcile, queue=self.queue, clock=clock)
        self.controller.resync(30, lambda: [obj.key for obj in self.cache.all(Cluster)])

    async def reconcile(self, name: Key) -> Done | Again:
        obj = self.cache.at(name)
        if obj is None or obj.status.observed_generation == obj.metadata.generation:
            return Done()
        status = msgspec.structs.replace(obj.status, observed_generation=obj.metadata.generation)
        await self.objects.save(msgspec.structs.replace(obj, status=status), cause=cause())
        return Done()

    async def converged(self, names: list[str]) -> bool:
        found = [await self.objects.get(Cluster, name, "default") for name in names]
        return all(obj is not None and obj.status.observed_generation == 1 for obj in found)


@pytest.mark.asyncio
@pytest.mark.parametrize(("deaf", "limit"), [(False, 100), (True, 100), (False, 3), (True, 3)])
async def test_fleet_converges_without_events(deaf: bool, limit: int) -> None:
    """With no event delivered, and with a queue far too small, every object is reconciled."""
    clock = HandClock()
    store = BadDays(await memory_store(clock), clock)
    fleet = Fleet(store, clock, limit=limit)
    tasks = [asyncio.create_task(each.run()) for each in (fleet.feed, fleet.controller)]
    await pump()
    store.deaf = deaf
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await fleet.objects.save(cluster(name), cause=cause())
    await clock.advance(5)
    assert await fleet.converged(names) is (not deaf and limit == 100)
    await clock.advance(400)
    assert await fleet.converged(names)
    assert fleet.cache.get(Cluster, "c0", "default") == await fleet.objects.get(
        Cluster, "c0", "default"
    )
    assert key("c0") in [obj.key for obj in fleet.cache.all(Cluster)]
    for task in tasks:
        task.cancel()
