"""Drafts of a dry run: read back, checked as the store checks, and never written."""

from __future__ import annotations

import asyncio

import pytest
from fleet_world import world

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.service.core.draft_store import DraftStore

KEY = Key("Template", "default", "t")


def put(doc: bytes = b"{}") -> stores.Put:
    """A write of the object."""
    return stores.Put(KEY, "u-1", doc)


def test_a_draft_is_read_back_and_the_real_store_stays_as_it_was() -> None:
    """Create, change and delete as the store would allow it, in memory."""

    async def story() -> None:
        async with world() as w:
            real = w.services.objects.store
            drafts = DraftStore(real)
            cause = stores.Cause("ada", w.clock.now())
            absent = stores.AtRevision(KEY, 0)
            done = await drafts.commit(stores.Commit(cause, (put(),), (absent,)))
            found = await drafts.get(KEY)
            assert found is not None
            assert (found.revision, found.doc) == (done.revisions[0], b"{}")
            with pytest.raises(errors.Conflict):
                await drafts.commit(stores.Commit(cause, (put(),), (absent,)))
            there = stores.AtRevision(KEY, done.revision)
            later = await drafts.commit(stores.Commit(cause, (put(b"[]"),), (there,)))
            assert later.revision > done.revision
            ended = stores.Commit(cause, (stores.Delete(KEY), stores.TouchLedger("x")))
            assert len((await drafts.commit(ended)).revisions) == 1
            assert await drafts.get(KEY) is None
            assert await real.get(KEY) is None
            assert (await drafts.list("Template")).items == (await real.list("Template")).items

    asyncio.run(story())
