"""Kept labs: one content for each uid, bounded, dropped when its time is over, in no event."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from store_places import START, Place

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores.opening import restore
from labfleet.stores.runners import Threads

pytestmark = pytest.mark.asyncio
UNTIL = START + timedelta(days=7)
WIDE = s.KeptBounds(lab=1 << 20, owner=1 << 20, all=1 << 20)
TEXT = "hostname R1 — enable secret 5 $1$mERr\0\n".encode()


def lab(
    uid: str, content: bytes = TEXT, *, owner: str = "ada", until: datetime = UNTIL
) -> s.NewKeptLab:
    return s.NewKeptLab(uid, owner, content, START, until)


async def test_what_was_kept_comes_back_byte_for_byte(store: s.Store) -> None:
    """With its row; no event is appended, and what is not kept is None."""
    head = await store.head()
    row = await store.keep_lab(lab("u1"), WIDE)
    assert await store.kept_content("u1") == TEXT
    assert await store.kept_lab("u1") == row
    assert (row.uid, row.owner, row.kept_at, row.until) == ("u1", "ada", START, UNTIL)
    assert await store.kept_content("u2") is None
    assert await store.kept_lab("u2") is None
    assert await store.head() == head


async def test_the_first_content_of_a_uid_stays(store: s.Store) -> None:
    """A process that had lost its lead comes late with a wiped lab: it gets the row that is there."""
    row = await store.keep_lab(lab("u1"), WIDE)
    assert await store.keep_lab(lab("u1", b"wiped", owner="bob"), WIDE) == row
    assert await store.kept_content("u1") == TEXT


async def test_two_labs_of_one_content_share_it_until_the_last_goes(store: s.Store) -> None:
    """The content is counted once for all, and to each owner; it goes with the last lab."""
    first = await store.keep_lab(lab("u1"), WIDE)
    tight = s.KeptBounds(lab=100, owner=100, all=first.stored)
    second = await store.keep_lab(lab("u2", owner="bob"), tight)
    assert second.digest == first.digest
    with pytest.raises(errors.QuotaExceeded) as full:
        await store.keep_lab(lab("u3", b"other"), tight)
    assert full.value.reason == "KeptStoreFull"
    assert await store.drop_kept_lab("u1")
    assert await store.kept_content("u2") == TEXT
    assert await store.drop_kept_lab("u2")
    assert not await store.drop_kept_lab("u2")
    await store.keep_lab(lab("u3", b"other"), tight)


async def test_each_bound_holds_and_drops_nothing_of_others(store: s.Store) -> None:
    """Too large, too much of one owner: refused with its reason, and everything else stays."""
    row = await store.keep_lab(lab("u1"), WIDE)
    with pytest.raises(errors.Invalid) as large:
        await store.keep_lab(lab("u2"), s.KeptBounds(len(TEXT) - 1, 1 << 20, 1 << 20))
    assert large.value.reason == "KeptLabTooLarge"
    tight = s.KeptBounds(lab=1 << 20, owner=row.stored, all=1 << 20)
    with pytest.raises(errors.QuotaExceeded) as full:
        await store.keep_lab(lab("u2", b"more"), tight)
    assert full.value.reason == "KeptOwnerFull"
    assert "$1$" not in str(large.value) + str(full.value)
    await store.keep_lab(lab("u2", b"more", owner="bob"), tight)
    assert [each.uid for each in await store.kept_labs()] == ["u1", "u2"]


async def test_what_is_old_goes_and_nothing_else(store: s.Store) -> None:
    """In bites; what is kept until later stays, and is listed page by page."""
    for number in range(4):
        until = UNTIL + timedelta(days=number)
        await store.keep_lab(lab(f"u{number}", f"{number}".encode(), until=until), WIDE)
    assert await store.drop_old_kept_labs(UNTIL + timedelta(days=2), limit=1) == 1
    assert await store.drop_old_kept_labs(UNTIL + timedelta(days=2), limit=9) == 1
    assert await store.drop_old_kept_labs(UNTIL + timedelta(days=2), limit=9) == 0
    assert [each.uid for each in await store.kept_labs(limit=1)] == ["u2"]
    assert [each.uid for each in await store.kept_labs(after="u2")] == ["u3"]


async def test_a_restored_store_has_what_was_kept(shared_place: Place) -> None:
    """A backup carries kept labs with their contents."""
    async with shared_place.opened() as store:
        await store.keep_lab(lab("u1"), WIDE)
        await store.backup(str(shared_place.folder / "b"))
    url, runner = shared_place.empty(), Threads()
    await restore(str(shared_place.folder / "b"), url, runner=runner, ids=shared_place.ids)
    runner.close()
    async with shared_place.opened(url) as store:
        assert await store.kept_content("u1") == TEXT
        assert [each.uid for each in await store.kept_labs()] == ["u1"]
