"""A fresh list of workers straight from the store, for a last look before something ends.

The cache may be behind; who ends a machine must not be.
"""

from __future__ import annotations

from labfleet.engine import objects
from labfleet.interfaces import store as stores
from labfleet.resources.worker import Worker


async def workers(store: stores.Store) -> list[Worker]:
    """Return every stored worker; Permanent when one cannot be read, so that nothing is judged."""
    found: list[Worker] = []
    after: tuple[str, str] | None = None
    while True:
        page = await store.list("Worker", after=after)
        found += [objects.load(Worker, each) for each in page.items]
        if page.after is None:
            return found
        after = page.after
