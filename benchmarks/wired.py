"""The API application over a store of its own, with its feeds running: no controllers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks import samples
from labfleet.api import application
from labfleet.api.front import Front
from labfleet.api.streams.ring import Ring
from labfleet.app.system import SystemClock, SystemIds
from labfleet.engine.cache import Cache
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.core.tokens import Tokens
from labfleet.service.kinds import indices
from labfleet.web import application as console
from labfleet.web import doors


@dataclass(frozen=True)
class Wired:
    """The application, what it stands on, all tokens, and an admin's token as its text."""

    app: Front
    services: ServiceContext
    ring: Ring
    tokens: Tokens
    token: str


@asynccontextmanager
async def wired(url: str, *, pages: bool = False) -> AsyncIterator[Wired]:
    """Open the store, follow its log, and give the application as the server builds it.

    With `pages` it has the web console too, and frames beside objects are kept.
    """
    clock, ids = SystemClock(), SystemIds()
    async with samples.opened(url) as store:
        cache, ring = Cache(store), Ring(store)
        cache.declare(*indices.declared())
        services = ServiceContext(
            Objects(store), cache, clock, ids, log=store, replies=store, series=store,
            history=store, kept=store,
        )  # fmt: skip
        tokens = Tokens(store, clock, ids)
        made = await tokens.first()
        assert made is not None
        app = application.build(
            services, tokens, ring, readiness=dict, metrics=lambda: (b"", "text/plain"),
            **({"web": console.build(services, tokens), "credentials": doors.credentials}
               if pages else {}),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            feeds = [group.create_task(Feed(store, each, clock).run()) for each in (cache, ring)]
            if pages:
                feeds.append(group.create_task(app.events.latest.run()))
            await cache.ready()
            while not ring.ready:
                await asyncio.sleep(0.001)
            try:
                yield Wired(app, services, ring, tokens, made.text)
            finally:
                for feed in feeds:
                    feed.cancel()
