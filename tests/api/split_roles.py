"""A process that measures, beside the one whose API is asked: two stores over one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fleet_world import World

from labfleet.engine.cache import Cache
from labfleet.engine.feed import Feed
from labfleet.engine.sample_exchange import SampleExchange
from labfleet.engine.samples import SampleRing
from labfleet.interfaces import store as stores
from labfleet.interfaces.telemetry import Samples
from labfleet.service.core.service_context import ServiceContext
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads


class Controller:
    """What the process of the controllers knows of measurements, and its exchange."""

    def __init__(self, store: stores.Store, services: ServiceContext) -> None:
        self.samples: Samples = SampleRing()
        self.cache = Cache(store)
        self.exchange = exchange_of(self.samples, store, self.cache, services)
        self.shown = exchange_of(services.samples, services.series, services.cache, services)

    async def given(self, services: ServiceContext) -> None:
        """Return once the process of the API had its turn, and the controllers' before it."""
        await self.cache.reached((await services.log.head()).revision)
        await services.fresh()
        await self.exchange.exchange()
        await self.shown.exchange()


def exchange_of(
    samples: Samples, store: object, cache: Cache, services: ServiceContext
) -> SampleExchange:
    """Return an exchange wired as the program wires it, without its pause."""
    return SampleExchange(
        samples,
        store,  # type: ignore[arg-type]  # a store is all of its parts
        cache,
        services.clock,
        life=services.sample_life,
        change_percent=lambda: 5.0,
    )


@asynccontextmanager
async def beside(world: World, url: str) -> AsyncIterator[Controller]:
    """Run the controllers' process over the same database until the end."""
    store = await open_store(url, runner=Threads(readers=1), ids=world.ids, clock=world.clock)
    made = Controller(store, world.services)
    feed = Feed(store, made.cache, world.clock)
    task = asyncio.get_running_loop().create_task(feed.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()
