"""The whole event log of a store that is in use, as a what-if reads it."""

from __future__ import annotations

import asyncio

import pytest
from store_places import Place, commit, put

from labfleet.stores import opening

pytestmark = pytest.mark.asyncio


async def test_the_log_is_read_while_the_store_is_in_use(shared_place: Place) -> None:
    """More than a page of events comes in order, and the store goes on as before."""
    count = opening.RECORDED_PAGE + 10
    async with shared_place.opened() as store:
        for first in range(0, count, 200):
            names = range(first, min(first + 200, count))
            await store.commit(commit(*(put(f"w{n:05}") for n in names)))
        before = await store.head()
        events = await asyncio.to_thread(lambda: list(opening.recorded(shared_place.url)))
        assert [event.revision for event in events] == list(range(1, count + 1))
        assert events[0].key.name == "w00000"
        assert await store.head() == before
        await store.commit(commit(put("after")))
