"""Lists, the log, watching, compaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from store_places import START, Place, commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors

pytestmark = pytest.mark.asyncio


async def test_list_pages(store: s.Store) -> None:
    """Pages follow one another in key order, without gap or repeat, and end with None."""
    await store.commit(commit(*(put(f"w{n:02}") for n in range(25)), put("x", kind="Pool")))
    names: list[str] = []
    after = None
    while True:
        page = await store.list("Worker", after=after, limit=10)
        names += [item.key.name for item in page.items]
        after = page.after
        if after is None:
            break
    assert names == [f"w{n:02}" for n in range(25)]
    assert page.cursor.revision == 26


async def test_list_of_nothing(store: s.Store) -> None:
    """An empty list is true at the store's revision too."""
    await store.commit(commit(put("x", kind="Pool")))
    page = await store.list("Worker")
    assert page == s.Page((), await store.head(), None)


async def test_list_in_byte_order(store: s.Store) -> None:
    """Names sort by their bytes, on both databases alike."""
    names = ["B", "a", "a-b", "a.b", "ab", "b", "é"]
    await store.commit(commit(*(put(name) for name in reversed(names))))
    assert [item.key.name for item in (await store.list("Worker")).items] == names


async def test_list_of_a_namespace(store: s.Store) -> None:
    """A namespace is seen alone, pages included."""
    writes = [s.Put(key(f"w{n}", namespace=space), "u", b"") for n in range(3) for space in "abc"]
    await store.commit(commit(*writes))
    page = await store.list("Worker", namespace="b", limit=2)
    assert [item.key.name for item in page.items] == ["w0", "w1"]
    rest = await store.list("Worker", namespace="b", limit=2, after=page.after)
    assert [(item.key.namespace, item.key.name) for item in rest.items] == [("b", "w2")]
    assert rest.after is None


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (s.Selector("zone", "=", ("eu",)), "a"),
        (s.Selector("zone", "!=", ("eu",)), "bc"),
        (s.Selector("zone", "in", ("eu", "us")), "ab"),
        (s.Selector("zone", "exists"), "ab"),
        (s.Selector("zone", "absent"), "c"),
        (s.Selector("zone", "in", ()), ""),
    ],
)
async def test_selectors(store: s.Store, selector: s.Selector, names: str) -> None:
    """Each label operator keeps what it says; the absent label is not equal to anything."""
    await store.commit(commit(put("a", zone="eu"), put("b", zone="us"), put("c")))
    page = await store.list("Worker", selectors=[selector])
    assert "".join(item.key.name for item in page.items) == names


async def test_selectors_together(store: s.Store) -> None:
    """All selectors must hold, and labels that changed or went are not found any more."""
    await store.commit(commit(put("a", zone="eu", tier="x"), put("b", zone="eu", tier="y")))
    both = [s.Selector("zone", "=", ("eu",)), s.Selector("tier", "=", ("y",))]
    assert [i.key.name for i in (await store.list("Worker", selectors=both)).items] == ["b"]
    await store.commit(commit(put("b", tier="y")))
    assert (await store.list("Worker", selectors=both)).items == ()


async def test_events_from_a_revision(store: s.Store) -> None:
    """A watcher that goes on from each page's cursor sees each event once, in order."""
    cursor = await store.head()
    for n in range(7):
        await store.commit(commit(put("w1", str(n).encode())))
    seen: list[int] = []
    for _ in range(4):
        page = await store.events(cursor, limit=3)
        seen += [event.revision for event in page.events]
        cursor = page.cursor
    assert seen == list(range(1, 8))
    assert cursor == await store.head()


async def test_cursor_outside_the_log(store: s.Store) -> None:
    """A cursor of another epoch, or from the future, is TooOld: list again."""
    await store.commit(commit(put("w1")))
    head = await store.head()
    for cursor in (s.Cursor("another", 0), s.Cursor(head.epoch, head.revision + 1)):
        with pytest.raises(errors.TooOld):
            await store.events(cursor)


async def test_changed(store: s.Store) -> None:
    """A waiter is woken by a commit, and by its deadline when nothing happens."""
    await store.changed(-1, seconds=60)
    await store.changed(0, seconds=0.01)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiter = group.create_task(store.changed(0, seconds=60))
        await asyncio.sleep(0)
        assert not waiter.done()
        await store.commit(commit(put("w1")))


async def test_compaction(place: Place, store: s.Store) -> None:
    """The horizon moves to the newest `keep`; rows stay readable as history until they are old."""
    day = timedelta(days=1)
    start = await store.head()
    for n in range(10):
        await store.commit(commit(put("w1", str(n).encode()), at=START + n * day))
    assert await store.compact(START + 3 * day, keep=4) == 3
    with pytest.raises(errors.TooOld):
        await store.events(start)
    with pytest.raises(errors.TooOld):
        await store.events(s.Cursor(start.epoch, 5))
    page = await store.events(s.Cursor(start.epoch, 6))
    assert [event.revision for event in page.events] == [7, 8, 9, 10]
    history = await store.events_of(key("w1"))
    assert [event.revision for event in history] == [10, 9, 8, 7, 6, 5, 4]
    older = await store.events_of(key("w1"), before=6, limit=1)
    assert [event.revision for event in older] == [5]
    assert await store.get(key("w1")) is not None


async def test_compaction_keeps_the_newest(place: Place, store: s.Store) -> None:
    """However old they are, the newest `keep` events are never dropped; expired replies are."""
    reply = s.Remember("k", "d", b"r", START + timedelta(hours=1))
    for n in range(5):
        await store.commit(commit(put("w"), *([reply] if n == 0 else [])))
    place.clock.instant = START + timedelta(days=400)
    assert await store.compact(place.clock.instant, keep=5) == 1
    assert await store.compact(place.clock.instant, keep=2) == 3
    assert await store.compact(place.clock.instant, keep=2) == 0
    head = await store.head()
    page = await store.events(s.Cursor(head.epoch, 3))
    assert [event.revision for event in page.events] == [4, 5]


async def test_compaction_keeps_what_lives(place: Place, store: s.Store) -> None:
    """An object that was not touched for ages is still whole; of a removed one nothing is left."""
    for name in "abc":
        await store.commit(commit(put(name, b"1"), put(name, name.encode())))
    await store.commit(commit(s.Delete(key("b"))))
    place.clock.instant = START + timedelta(days=400)
    await store.commit(commit(put("new", b"new"), at=place.clock.instant))
    assert await store.compact(place.clock.instant, keep=1) == 5
    page = await store.list("Worker")
    assert [item.doc for item in page.items] == [b"a", b"c", b"new"]
    assert [event.doc for event in await store.events_of(key("a"))] == [b"a"]
    assert await store.events_of(key("b")) == ()
    await store.commit(commit(put("b"), s.Delete(key("a"))))
    assert [event.type for event in await store.events_of(key("a"))] == ["DELETED", "MODIFIED"]
    assert [event.type for event in await store.events_of(key("b"))] == ["ADDED"]


async def test_history_over_a_removal(store: s.Store) -> None:
    """An object that was removed and made again has one history, page by page."""
    for _ in range(3):
        await store.commit(commit(put("w1"), put("w2")))
        await store.commit(commit(put("w1"), s.Delete(key("w1"))))
    found: list[int] = []
    before = None
    while page := await store.events_of(key("w1"), before=before, limit=2):
        found += [event.revision for event in page]
        before = page[-1].revision
    assert found == [12, 11, 9, 8, 7, 5, 4, 3, 1]
    foreign = await store.events_of(key("w1"), before=10)
    assert [event.revision for event in foreign] == found[2:]


async def test_reads_see_no_uncommitted_state(shared_place: Place) -> None:
    """A reader never finds one half of a commit, however it falls in between."""
    async with shared_place.opened() as store:

        async def write() -> None:
            for n in range(60):
                doc = str(n).encode()
                await store.commit(commit(put("a", doc), put("b", doc)))

        async with asyncio.TaskGroup() as group:
            writer = group.create_task(write())
            looks = 0
            while not writer.done():
                page = await store.list("Worker")
                assert len({item.doc for item in page.items}) <= 1
                assert page.cursor.revision % 2 == 0
                looks += 1
            assert looks
