"""Backup, restore, reopening, several openers, a tailing reader, the log as the whole truth.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_places import Place, commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.stores.opening import open_store, restore
from labfleet.stores.runners import Inline, Threads

pytestmark = pytest.mark.asyncio


async def test_reopened(shared_place: Place) -> None:
    """A store that was closed and opened again is the same: objects, log, epoch."""
    async with shared_place.opened() as store:
        await store.commit(commit(put("w1", b"1", zone="eu")))
        before = await store.head(), await store.get(key("w1"))
    async with shared_place.opened() as store:
        assert (await store.head(), await store.get(key("w1"))) == before


async def test_two_openers(shared_place: Place) -> None:
    """Two processes see each other's commits at once, and wake each other's watchers."""
    async with shared_place.opened() as one, shared_place.opened() as two:
        await one.commit(commit(put("w1")))
        assert await two.get(key("w1")) is not None
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(two.changed(1, seconds=60))
            await asyncio.sleep(0)
            await one.commit(commit(put("w2")))
        with pytest.raises(errors.Conflict):
            await two.commit(commit(put("w2"), when=(s.AtRevision(key("w2"), 0),)))


async def test_many_openers_at_once(shared_place: Place) -> None:
    """Eight who open an empty place at once make one store, migrated once."""
    stores = await asyncio.gather(*(shared_place.open() for _ in range(8)))
    try:
        heads = {await store.head() for store in stores}
        await asyncio.gather(
            *(store.commit(commit(put(f"w{n}"))) for n, store in enumerate(stores))
        )
        assert len(heads) == 1
        assert (await stores[0].head()).revision == 8
    finally:
        await asyncio.gather(*(store.close() for store in stores))


async def test_tailing_reader_loses_nothing(shared_place: Place) -> None:
    """Eight writers in stores of their own and one tail: it meets every event once, in order."""
    writers = await asyncio.gather(*(shared_place.open() for _ in range(8)))
    reader = await shared_place.open()
    try:
        cursor = await reader.head()
        total = 8 * 60
        seen: list[s.Event] = []

        async def write(number: int, store: s.Store) -> None:
            for n in range(30):
                name = f"w{number}-{n}"
                await store.commit(commit(put(name), put(name, b"again")))

        async def tail() -> None:
            nonlocal cursor
            while len(seen) < total:
                page = await reader.events(cursor, limit=37)
                seen.extend(page.events)
                cursor = page.cursor
                if not page.events:
                    await reader.changed(cursor.revision, seconds=0.01)

        async with asyncio.timeout(40), asyncio.TaskGroup() as group:
            group.create_task(tail())
            for number, store in enumerate(writers):
                group.create_task(write(number, store))
        assert [event.revision for event in seen] == list(range(1, total + 1))
        assert len({(event.key, event.type) for event in seen}) == total
    finally:
        await asyncio.gather(reader.close(), *(store.close() for store in writers))


async def _fill(store: s.Store) -> None:
    await store.commit(
        commit(put("w1", b"1", zone="eu"), put("w2"), s.TouchLedger("w1"),
               s.TakePorts("w1", "a", (("tcp", 2000),)))
    )  # fmt: skip
    await store.acquire("lead", "a", seen=None)


async def test_backup_and_restore(place: Place, tmp_path: Path) -> None:
    """A restored backup holds everything, in a new epoch that fences and conflicts the old."""
    target = str(tmp_path / "copy.backup")
    async with place.opened() as store:
        await _fill(store)
        assert await store.installation("ours") == "ours"
        assert await store.backup(target) == os.path.getsize(target)
        await store.commit(commit(put("later")))
        old = await store.head()
    url = place.empty()
    runner = Threads()
    assert await restore(target, url, runner=runner, ids=place.ids) > 0
    store = await open_store(url, runner=runner, ids=place.ids, clock=place.clock)
    try:
        head = await store.head()
        assert head.epoch != old.epoch
        assert await store.installation("other") == "ours"
        assert head.revision > old.revision + 1000
        found = await store.get(key("w1"))
        assert found is not None
        assert (found.doc, found.labels, found.revision) == (b"1", {"zone": "eu"}, 1)
        assert await store.get(key("later")) is None
        assert await store.ports() == (s.PortRow("w1", "tcp", 2000, "a"),)
        assert len(await store.events_of(key("w2"))) == 1
        with pytest.raises(errors.TooOld):
            await store.events(old)
        with pytest.raises(errors.Fenced):
            await store.commit(commit(put("w3"), fence=s.Fence("lead", 1)))
        lease = await store.acquire("lead", "b", seen=None)
        assert lease.token > 1000
        listed = await store.list("Worker", selectors=[s.Selector("zone", "=", ("eu",))])
        assert [item.key.name for item in listed.items] == ["w1"]
        await store.commit(commit(put("w3"), fence=s.Fence("lead", lease.token)))
    finally:
        await store.close()


async def test_a_restore_that_was_interrupted_leaves_no_store_that_acts(
    place: Place, tmp_path: Path
) -> None:
    """Before what must stand first was written, nobody but the restore can open the store."""
    target, runner = str(tmp_path / "copy"), Threads()
    async with place.opened() as store:
        await store.commit(commit(put("w1")))
        await store.backup(target)
    url = place.empty()

    async def killed() -> None:
        raise SystemExit(9)

    with pytest.raises(SystemExit):
        await restore(target, url, runner=runner, ids=place.ids, first=killed)
    with pytest.raises(errors.Permanent) as caught:
        await open_store(url, runner=Threads(), ids=place.ids, clock=place.clock)
    assert caught.value.reason == "RestoreUnfinished"
    inside = await open_store(
        url, runner=Threads(), ids=place.ids, clock=place.clock, restoring=True
    )
    await inside.close()
    runner.close()


async def test_nothing_is_overwritten(place: Place, tmp_path: Path) -> None:
    """Neither a backup nor a restore replaces what is there."""
    target = str(tmp_path / "copy.backup")
    async with place.opened() as store:
        await _fill(store)
        await store.backup(target)
        with pytest.raises(errors.Permanent, match="exists already"):
            await store.backup(target)
        with pytest.raises(errors.Permanent, match="No such file"):
            await store.backup(str(tmp_path / "no" / "where"))
    url = place.empty()
    runner = Threads()
    try:
        await restore(target, url, runner=runner, ids=place.ids)
        with pytest.raises(errors.Permanent) as caught:
            await restore(target, url, runner=runner, ids=place.ids)
        assert caught.value.reason == "TargetExists"
    finally:
        runner.close()
    assert sorted(name for name in os.listdir(tmp_path) if "partial" in name) == []


async def test_no_backup_file(place: Place, tmp_path: Path) -> None:
    """A missing, foreign or cut-off backup is refused and leaves the target free."""
    target = tmp_path / "copy.backup"
    async with place.opened() as store:
        await store.commit(commit(*(put(f"w{n}", bytes(2000)) for n in range(50))))
        await store.backup(str(target))
    whole = target.read_bytes()
    cut, foreign = tmp_path / "cut", tmp_path / "foreign"
    cut.write_bytes(whole[: len(whole) // 2])
    foreign.write_text("hello\n")
    url = place.empty()
    runner = Threads()
    try:
        with pytest.raises(errors.Gone):
            await restore(str(tmp_path / "missing"), url, runner=runner, ids=place.ids)
        for bad in (cut, foreign):
            with pytest.raises(errors.Permanent):
                await restore(str(bad), url, runner=runner, ids=place.ids)
        assert await restore(str(target), url, runner=runner, ids=place.ids) > 0
    finally:
        runner.close()


async def test_fifty_writers_and_a_backup(shared_place: Place, tmp_path: Path) -> None:
    """Fifty writers in ten stores and backups beside them: no client sees an error (T38)."""
    stores = await asyncio.gather(*(shared_place.open() for _ in range(10)))
    try:

        async def write(number: int) -> None:
            store = stores[number % len(stores)]
            for n in range(10):
                name = f"w{number}-{n}"
                await store.commit(
                    commit(put(name, bytes(500)), when=(s.AtRevision(key(name), 0),))
                )

        async with asyncio.timeout(50), asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(write(number))
            for number in range(3):
                group.create_task(stores[number].backup(str(tmp_path / f"b{number}")))
        assert (await stores[0].head()).revision == 500
    finally:
        await asyncio.gather(*(store.close() for store in stores))
    url, runner = shared_place.empty(), Threads()
    await restore(str(tmp_path / "b0"), url, runner=runner, ids=shared_place.ids)
    copy = await open_store(url, runner=runner, ids=shared_place.ids, clock=shared_place.clock)
    page = await copy.list("Worker")
    events = await asyncio.gather(*(copy.events_of(item.key) for item in page.items))
    assert [item.revision for item in page.items] == [found[0].revision for found in events]
    await copy.close()


@pytest.mark.parametrize(
    "url", ["sqlite:store.db", "sqlite://store.db", "mysql://x", "sqlite:///", ""]
)
async def test_unknown_url(place: Place, url: str) -> None:
    """A URL that names no store is refused with the forms that do."""
    with pytest.raises(errors.Permanent, match="sqlite:///"):
        await place.open(url)


NAMES = st.sampled_from("abc")
WRITES = st.one_of(
    st.tuples(st.just("put"), NAMES, st.binary(max_size=3), st.sampled_from(["", "x", "y"])),
    st.tuples(st.just("delete"), NAMES, st.just(b""), st.just("")),
)
STEPS = st.lists(
    st.tuples(st.lists(WRITES, min_size=1, max_size=3), st.none() | st.integers(0, 8)),
    max_size=12,
)


def _write(step: tuple[str, str, bytes, str]) -> s.Write:
    verb, name, doc, label = step
    if verb == "delete":
        return s.Delete(key(name))
    return s.Put(key(name), f"u-{name}", doc, {"l": label} if label else {})


async def _replay(store: s.Store, cursor: s.Cursor) -> dict[Key, tuple[int, bytes]]:
    model: dict[Key, tuple[int, bytes]] = {}
    page = await store.events(cursor)
    for event in page.events:
        known = event.key in model
        assert event.type == ("DELETED" if event.type == "DELETED" else
                              "MODIFIED" if known else "ADDED")  # fmt: skip
        if event.type == "DELETED":
            assert model.pop(event.key)[1] == event.doc
        else:
            model[event.key] = (event.revision, event.doc)
    assert page.cursor == await store.head()
    return model


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(groups=st.lists(STEPS, max_size=4))
async def test_the_log_replays_to_the_objects(
    place: Place, groups: list[list[tuple[list[tuple[str, str, bytes, str]], int | None]]]
) -> None:
    """Whatever is committed, alone or grouped: the log replays to exactly the stored objects."""
    async with place.opened() as store:
        stale = [key(name) for name in "abc" if await store.get(key(name)) is not None]
        if stale:
            await store.commit(commit(*(s.Delete(each) for each in stale)))
        cursor = await store.head()
        for steps in groups:
            await asyncio.gather(
                *(
                    store.commit(
                        commit(
                            *map(_write, writes),
                            when=()
                            if offset is None
                            else (s.AtRevision(key("a"), cursor.revision + offset),),
                        )
                    )
                    for writes, offset in steps
                ),
                return_exceptions=True,
            )
        model = await _replay(store, cursor)
        page = await store.list("Worker")
        assert {item.key: (item.revision, item.doc) for item in page.items} == model
        labelled = await store.list("Worker", selectors=[s.Selector("l", "exists")])
        assert labelled.items == tuple(item for item in page.items if item.labels)


async def test_runner_is_inline_in_a_rehearsal(tmp_path: Path, place: Place) -> None:
    """Inline, a commit needs no thread and no real time, so a virtual loop can run it."""
    url = f"sqlite:///{tmp_path}/inline.db"
    store = await open_store(url, runner=Inline(), ids=place.ids, clock=place.clock)
    done = await asyncio.gather(*(store.commit(commit(put(f"w{n}"))) for n in range(3)))
    assert [each.revision for each in done] == [1, 2, 3]
    await store.close()
