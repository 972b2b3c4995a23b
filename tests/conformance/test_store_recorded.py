"""The whole event log of a store that is in use, as a what-if reads it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

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


async def test_a_compacted_log_tells_from_where_it_is_whole(shared_place: Place) -> None:
    """The horizon and the newest instant are told; what lives keeps its last event before it."""
    async with shared_place.opened() as store:
        assert await asyncio.to_thread(opening.kept, shared_place.url) == (0, None)
        await store.commit(commit(*(put(f"w{n}") for n in range(30))))
        newest = [event.at for event in opening.recorded(shared_place.url)][-1]
        assert await asyncio.to_thread(opening.kept, shared_place.url) == (0, newest)
        await store.compact(newest + timedelta(days=1), keep=5)
        assert await asyncio.to_thread(opening.kept, shared_place.url) == (25, newest)
        events = await asyncio.to_thread(lambda: list(opening.recorded(shared_place.url)))
        assert [event.revision for event in events] == list(range(1, 31))
