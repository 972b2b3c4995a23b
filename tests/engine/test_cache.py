"""The cache over the real store in memory: exact at its revision, whatever happens."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from engine_fakes import BadDays, HandClock, Ids, cause, cluster, key, memory_store, pump
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.engine.cache import Cache, required
from labfleet.engine.feed import RETRY_SECONDS, Feed
from labfleet.engine.index import Index
from labfleet.engine.objects import Objects, at_revision
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Resource
from labfleet.resources.simulation import Simulation


async def put(store: stores.Store, name: str, label: str = "a") -> int:
    """Write an object over whatever is there."""
    found = await store.get(key(name))
    obj = at_revision(cluster(name, label=label), 0 if found is None else found.revision)
    revision, _ = await Objects(store).save(obj, cause=cause())
    return revision


async def drop(store: stores.Store, name: str) -> None:
    if await store.get(key(name)) is not None:
        await store.commit(stores.Commit(cause(), (stores.Delete(key(name)),)))


async def contents(store: stores.Store) -> dict[str, int]:
    page = await store.list("Cluster")
    return {item.key.name: item.revision for item in page.items}


def held(cache: Cache) -> dict[str, int]:
    return {obj.name: obj.revision for obj in cache.all(Cluster)}


TRACK = Index(Cluster, "track", lambda obj: [obj.metadata.labels["track"]])


class Stand:
    """A store, a cache of clusters and a feed between them, on a clock moved by hand."""

    def __init__(self, store: stores.Store, clock: HandClock, relist: float | None = None) -> None:
        self.clock = clock
        self.store = BadDays(store, clock)
        self.cache = Cache(self.store, ["Cluster"])
        self.cache.declare(TRACK)
        self.heard: dict[str, Resource] = {}
        self.cache.on_change(Cluster, self._hear)
        self.feed = Feed(self.store, self.cache, clock, relist=relist)

    def _hear(self, old: Resource | None, new: Resource | None) -> None:
        name = (old or new).name
        assert self.heard.get(name) == old, "handlers hear a gapless story"
        if new is None:
            del self.heard[name]
        else:
            assert old != new
            self.heard[name] = new

    async def __aenter__(self) -> Stand:  # noqa: PYI034
        self.task = asyncio.create_task(self.feed.run())
        await pump()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def stand(relist: float | None = None) -> Stand:
    clock = HandClock()
    return Stand(await memory_store(clock), clock, relist)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcde"), st.sampled_from("xy")),
        st.tuples(st.just("drop"), st.sampled_from("abcde")),
        st.tuples(st.just("wait")),
        st.tuples(st.just("trouble")),
        st.tuples(st.just("compact")),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_cache_equals_the_store_at_its_revision(steps: list[tuple]) -> None:
    """After any history, with trouble and compaction in it, all views tell the same."""

    async def play() -> None:
        async with await stand() as it:
            for name, *args in steps:
                if name == "put":
                    await put(it.store, *args)
                elif name == "drop":
                    await drop(it.store, *args)
                elif name == "trouble":
                    it.store.fail["events"] = errors.Temporary("busy")
                    await it.clock.advance(2)
                    it.store.fail.clear()
                elif name == "compact":
                    await it.store.compact(it.clock.now().replace(year=2030), keep=1)
                else:
                    await it.clock.advance(2)
            await it.clock.advance(5)
            real = await contents(it.store)
            assert held(it.cache) == real
            assert {name: obj.revision for name, obj in it.heard.items()} == real
            assert it.cache.cursor == await it.store.head()
            by_track = [obj.name for track in "axy" for obj in it.cache.by(TRACK, track)]
            assert sorted(by_track) == sorted(real)

    asyncio.run(play())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["put", "drop"]), st.sampled_from("abc")), max_size=8),
    st.sampled_from(["head", "list"]),
)
def test_list_under_writers_is_true_at_one_revision(
    writes: list[tuple[str, str]], moment: str
) -> None:
    """Writes between the calls of a list leave a cache that is true at exactly its cursor."""

    async def play() -> None:
        it = await stand()
        await put(it.store, "a")
        await put(it.store, "b")

        async def meanwhile() -> None:
            for verb, name in writes:
                await (put if verb == "put" else drop)(it.store, name)

        it.store.after[moment] = meanwhile
        cursor = await it.cache.reset()
        history = {}
        start = stores.Cursor(cursor.epoch, 0)
        for event in (await it.store.events(start)).events:
            if event.revision <= cursor.revision:
                history[event.key.name] = (event.type, event.revision)
        expected = {name: rev for name, (what, rev) in history.items() if what != "DELETED"}
        assert held(it.cache) == expected

    asyncio.run(play())


@pytest.mark.asyncio
async def test_ready_and_reached_wait_for_the_feed() -> None:
    """A writer can wait until the cache has its own write."""
    it = await stand()
    waiting = asyncio.create_task(it.cache.ready())
    await pump()
    assert not waiting.done()
    async with it:
        assert waiting.done()
        revision = await put(it.store, "a")
        reached = asyncio.create_task(it.cache.reached(revision))
        await pump()
        assert not reached.done()
        await it.clock.advance(2)
        assert reached.done()
        assert it.cache.get(Cluster, "a", "default").revision == revision


@pytest.mark.asyncio
async def test_lost_events_are_healed_by_listing_again() -> None:
    """With every event dropped, the next list brings the cache to the truth."""
    async with await stand(relist=60) as it:
        await put(it.store, "old")
        await it.clock.advance(5)
        it.store.deaf = True
        await put(it.store, "new")
        await drop(it.store, "old")
        await it.clock.advance(10)
        assert set(held(it.cache)) == {"old"}
        await it.clock.advance(60)
        assert set(held(it.cache)) == {"new"}


@pytest.mark.asyncio
async def test_trouble_in_the_middle_delivers_nothing_twice() -> None:
    """A failure between two pages goes on from the page that was delivered."""
    it = await stand()
    seen: list[int] = []

    class Recorder:
        async def reset(self) -> stores.Cursor:
            return await it.store.head()

        def event(self, event: stores.Event) -> None:
            seen.append(event.revision)

        def caught_up(self, cursor: stores.Cursor) -> None:
            if len(seen) == stores.PAGE_LIMIT:
                it.store.fail["events"] = errors.Temporary("busy")

    feed = asyncio.create_task(Feed(it.store, Recorder(), it.clock).run())
    await pump()
    for number in range(5):
        names = [f"c{number}-{each}" for each in range(250)]
        await Objects(it.store).save(*[cluster(name) for name in names], cause=cause())
    await it.clock.advance(2)
    assert len(seen) == stores.PAGE_LIMIT
    it.store.fail.clear()
    await it.clock.advance(RETRY_SECONDS + 1)
    assert seen == sorted(set(seen))
    assert len(seen) == 1250
    feed.cancel()


@pytest.mark.asyncio
async def test_unreadable_row_is_set_aside() -> None:
    """A row that cannot be read is quarantined, stops no other, and is forgotten with its row."""
    async with await stand() as it:
        bad = stores.Put(key("bad"), "uid-bad", b'{"spec": 7}')
        await it.store.commit(stores.Commit(cause(), (bad,)))
        await put(it.store, "good")
        await it.clock.advance(2)
        assert set(held(it.cache)) == {"good"}
        assert set(it.cache.quarantined) == {key("bad")}
        with pytest.raises(errors.Permanent) as caught:
            await Objects(it.store).get(Cluster, "bad", "default")
        assert caught.value.reason == "Unreadable"
        await drop(it.store, "bad")
        await it.clock.advance(2)
        assert it.cache.quarantined == {}


@pytest.mark.asyncio
async def test_restored_store_replaces_the_contents() -> None:
    """After a restore, where revisions are lower again, the cache shows the restored objects."""
    it = await stand()
    for label in "xyz":
        await put(it.store, "a", label)
    await put(it.store, "b")
    it.cache.caught_up(await it.cache.reset())
    restored = await memory_store(it.clock, Ids(count=500))
    await put(restored, "a", "old")
    # private _store: the store behind a running cache is put back from a backup
    it.store._store = restored
    it.cache.caught_up(await it.cache.reset())
    assert held(it.cache) == {"a": 1}
    assert it.cache.get(Cluster, "a", "default").metadata.labels == {"track": "old"}


@pytest.mark.asyncio
async def test_what_was_written_here_is_taken_as_it_is() -> None:
    """An object that was stored here is the cache's own once its event came; others are read."""
    async with await stand() as it:
        _, (first,) = await Objects(it.store).save(cluster("a"), cause=cause())
        it.cache.wrote(first)
        assert it.cache.get(Cluster, "a", "default") is None
        await it.clock.advance(2)
        assert it.cache.get(Cluster, "a", "default") is first
        it.cache.wrote(first)
        await put(it.store, "a", "newer")
        await it.clock.advance(2)
        found = it.cache.get(Cluster, "a", "default")
        assert found is not None
        assert found.metadata.labels == {"track": "newer"}


@pytest.mark.asyncio
async def test_index_leaves_no_empty_rows() -> None:
    """An index by a value that changes all the time does not grow."""
    async with await stand() as it:
        for number in range(30):
            await put(it.store, "a", f"track-{number}")
        await it.clock.advance(2)
        assert it.cache.values(TRACK) == ("track-29",)
        assert it.cache.count(TRACK, "track-29") == 1
        assert it.cache.by(TRACK, "nothing") == ()


@pytest.mark.asyncio
async def test_index_made_late_knows_what_is_there() -> None:
    """An index that is added to a filled cache starts full."""
    async with await stand() as it:
        await put(it.store, "a")
        await it.clock.advance(2)
        by_name = Index(Cluster, "name", lambda obj: [obj.name])
        it.cache.declare(by_name)
        assert [obj.name for obj in it.cache.by(by_name, "a")] == ["a"]


@pytest.mark.asyncio
async def test_other_kinds_are_not_kept() -> None:
    """Events of a kind that the cache does not hold pass by."""
    it = await stand()
    cache = Cache(it.store, ["Simulation"])
    await put(it.store, "a")
    cache.caught_up(await cache.reset())
    page = await it.store.events(stores.Cursor(cache.cursor.epoch, 0))
    cache.event(page.events[0])
    assert cache.all(Simulation) == ()


@pytest.mark.asyncio
async def test_save_is_a_compare_and_set() -> None:
    """A stale version conflicts; the stored version comes back; the end removes the row."""
    store = await memory_store(HandClock())
    objects = Objects(store)
    revision, (first,) = await objects.save(cluster("a"), cause=cause())
    assert first.revision == revision
    await objects.save(first, cause=cause())
    with pytest.raises(errors.Conflict):
        await objects.save(first, cause=cause())
    latest = required(await objects.get(Cluster, "a", "default"), "cluster a")
    ended = replace_deletion(latest)
    await objects.save(ended, cause=cause())
    assert await objects.get(Cluster, "a", "default") is None
    with pytest.raises(errors.Gone):
        required(await objects.get(Cluster, "a", "default"), "cluster a")


def replace_deletion(obj: Cluster) -> Cluster:
    """Return the object with its end asked for and no finalizer left."""
    now = cause().at
    metadata = msgspec.structs.replace(obj.metadata, deletion_timestamp=now)
    return msgspec.structs.replace(obj, metadata=metadata)
