"""Lists workers straight from the store, for a last check before something is terminated.

The cache may lag; the decision to terminate a machine must not use stale data.
"""

from __future__ import annotations

from labfleet.engine import objects
from labfleet.interfaces import store as stores
from labfleet.resources.worker import Worker


async def workers(store: stores.ObjectReader) -> list[Worker]:
    """Return every stored worker; raise Permanent when one cannot be read: no list is complete."""
    found: list[Worker] = []
    after: tuple[str, str] | None = None
    while True:
        page = await store.list("Worker", after=after)
        found += [objects.load(Worker, each) for each in page.items]
        if page.after is None:
            return found
        after = page.after
