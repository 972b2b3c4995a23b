"""The history of past runs: each once, in the order of commits, with its object or not at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from store_places import START, Place, commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.resources.history import Run, RunKind, Source, Use
from labfleet.stores.opening import restore
from labfleet.stores.runners import Threads

pytestmark = pytest.mark.asyncio
DAY = timedelta(days=1)


def run(uid: str, *, kind: RunKind = RunKind.SESSION, family: str = "bgp", **more: object) -> Run:
    """Return a run that ended when the tests' time begins."""
    return Run(kind=kind, uid=uid, family=family, ended_at=START, **more)  # type: ignore[arg-type]


FULL = run(
    "full",
    name="s-1",
    namespace="exam",
    owner="ann",
    place="w-1",
    parameters={"nodes": 12.0, "tls": True, "image": 'a\0b"é'},
    allocation={"cpu_milli": 4000},
    use={"cpu_milli": Use(peak=812.5, mean=100.25)},
    duration_seconds=61.5,
    censored="killed",
    source=Source.IMPORTED,
    started_at=START - DAY,
)  # fmt: skip


async def test_a_run_is_kept_as_it_was_told(store: s.Store) -> None:
    """Every field comes back, unknown ones stay unknown, and places begin with 1."""
    assert await store.history(0) == ()
    assert await store.history_size() == s.HistorySize(0, 0)
    head = await store.head()
    done = await store.commit(commit(s.Teach(FULL), s.Teach(run("bare"))))
    assert (done.revisions, done.taught) == ((), 2)
    first, second = await store.history(0)
    assert (first.place, first.run) == (1, FULL)
    assert (second.place, second.run) == (2, run("bare"))
    assert await store.history_size() == s.HistorySize(2, 2)
    assert await store.head() == head


async def test_a_run_is_learned_once(store: s.Store) -> None:
    """A second one of the kind and uid changes nothing, whoever says it, also within a batch."""
    await store.commit(commit(s.Teach(run("a")), s.Teach(run("a", family="other"))))
    again = await store.commit(commit(s.Teach(run("a", source=Source.REPORTED)), put("w1")))
    assert again.taught == 0
    assert len(again.revisions) == 1
    boot = await store.commit(commit(s.Teach(run("a", kind=RunKind.BOOT))))
    assert boot.taught == 1
    assert [(kept.place, kept.run) for kept in await store.history(0)] == [
        (1, run("a")),
        (2, run("a", kind=RunKind.BOOT)),
    ]


async def test_a_run_and_its_objects_end_are_one(store: s.Store) -> None:
    """A commit that fails teaches nothing, and leaves no place; one too large writes no object."""
    await store.commit(commit(put("w1")))
    late = commit(put("w1"), s.Teach(run("a")), when=(s.AtRevision(key("w1"), 99),))
    good = commit(put("w2"), s.Teach(run("b")))
    outcomes = await asyncio.gather(store.commit(late), store.commit(good), return_exceptions=True)
    assert isinstance(outcomes[0], errors.Conflict)
    assert [(kept.place, kept.run.uid) for kept in await store.history(0)] == [(1, "b")]
    large = run("c", parameters={"text": "x" * s.RUN_BYTES})
    with pytest.raises(errors.Invalid) as refused:
        await store.commit(commit(put("w3"), s.Teach(large)))
    assert refused.value.reason == "RunTooLarge"
    assert await store.get(key("w3")) is None
    await store.commit(commit(s.Teach(run("d"))))
    assert [kept.place for kept in await store.history(0)] == [1, 2]


async def test_pages_and_filters(store: s.Store) -> None:
    """Forwards by place, backwards by place with any filters, and pages join without a gap."""
    for n in range(12):
        kind = RunKind.BOOT if n % 4 == 3 else RunKind.SESSION
        space = "exam" if n % 2 else "default"
        family = "bgp" if n % 3 else "a\0b"
        each = run(f"r{n:02}", kind=kind, namespace=space, family=family, owner="ann")
        await store.commit(commit(s.Teach(each)))
    assert [kept.place for kept in await store.history(4, limit=3)] == [5, 6, 7]
    assert [kept.place for kept in await store.history(10, limit=3)] == [11, 12]
    newest = [kept.place for kept in await store.newest_runs(limit=5)]
    assert newest == [12, 11, 10, 9, 8]
    more = [kept.place for kept in await store.newest_runs(before=8, limit=1000)]
    assert more == [7, 6, 5, 4, 3, 2, 1]
    boots = await store.newest_runs(kind=RunKind.BOOT)
    assert [kept.place for kept in boots] == [12, 8, 4]
    odd = await store.newest_runs(family="a\0b", namespace="exam")
    assert [kept.run.uid for kept in odd] == ["r09", "r03"]
    own = await store.newest_runs(kind=RunKind.BOOT, namespace="exam", owner="ann", limit=2)
    assert [kept.place for kept in own] == [12, 8]
    assert await store.newest_runs(owner="") == ()
    some = await store.history(4, kind=RunKind.BOOT, namespace="exam", owner="ann")
    assert [kept.place for kept in some] == [8, 12]
    for limit in (0, s.PAGE_LIMIT + 1):
        with pytest.raises(errors.Invalid):
            await store.history(0, limit=limit)
        with pytest.raises(errors.Invalid):
            await store.newest_runs(limit=limit)


async def test_old_runs_go_in_bounded_bites(store: s.Store) -> None:
    """By when they were kept, the oldest first; the count follows, and places go on."""
    for day in (0, 0, 0, 5, 9):
        size = await store.history_size()
        await store.commit(commit(s.Teach(run(f"r{size.rows}")), at=START + day * DAY))
    assert await store.drop_history(START, limit=10) == 0
    assert await store.drop_history(START + DAY, limit=2) == 2
    assert await store.drop_history(START + DAY, limit=2) == 1
    assert await store.drop_history(START + DAY, limit=2) == 0
    assert [kept.place for kept in await store.history(0)] == [4, 5]
    assert await store.history_size() == s.HistorySize(2, 5)
    assert await store.drop_history(START + 90 * DAY, limit=1000) == 2
    assert await store.history_size() == s.HistorySize(0, 5)
    await store.commit(commit(s.Teach(run("later"))))
    assert [kept.place for kept in await store.history(5)] == [6]


async def test_a_fenced_leader_teaches_nothing(store: s.Store) -> None:
    """Runs are under the fence of their commit as objects are."""
    lease = await store.acquire("lead", "a", seen=None)
    fence = s.Fence(lease.name, lease.token)
    await store.commit(commit(s.Teach(run("mine")), fence=fence))
    await store.release(lease)
    with pytest.raises(errors.Fenced):
        await store.commit(commit(s.Teach(run("late")), fence=fence))
    assert [kept.run.uid for kept in await store.history(0)] == ["mine"]


async def test_a_reader_that_goes_on_by_place_loses_nothing(shared_place: Place) -> None:
    """Four writers in stores of their own and one tail: it meets every run once, in order."""
    writers = [await shared_place.open() for _ in range(4)]
    reader = await shared_place.open()
    seen: list[tuple[int, str]] = []

    async def write(number: int, store: s.Store) -> None:
        for n in range(25):
            await store.commit(commit(put(f"w{number}-{n}"), s.Teach(run(f"{number}-{n}"))))

    async def tail() -> None:
        while len(seen) < 100:
            after = seen[-1][0] if seen else 0
            seen.extend((kept.place, kept.run.uid) for kept in await reader.history(after, limit=7))
            await asyncio.sleep(0)

    try:
        async with asyncio.timeout(40), asyncio.TaskGroup() as group:
            group.create_task(tail())
            for number, store in enumerate(writers):
                group.create_task(write(number, store))
    finally:
        await asyncio.gather(reader.close(), *(store.close() for store in writers))
    assert [place for place, _ in seen] == list(range(1, 101))
    assert {uid for _, uid in seen} == {f"{w}-{n}" for w in range(4) for n in range(25)}


async def test_history_survives_a_backup(shared_place: Place) -> None:
    """A restored store has every run; its next place is none that the lost life may have given."""
    target = str(shared_place.folder / "history.backup")
    async with shared_place.opened() as store:
        await store.commit(commit(s.Teach(FULL), s.Teach(run("b"))))
        await store.backup(target)
        await store.commit(commit(s.Teach(run("lost"))))
    url = shared_place.empty()
    await restore(target, url, runner=Threads(), ids=shared_place.ids)
    async with shared_place.opened(url) as store:
        assert [kept.run for kept in await store.history(0)] == [FULL, run("b")]
        for uid in ("c", "d"):
            await store.commit(commit(s.Teach(run(uid))))
        later = await store.history(2)
        assert [kept.run.uid for kept in later] == ["c", "d"]
        assert later[0].place > 1000
        assert later[1].place == later[0].place + 1
        assert (await store.history_size()).rows == 4


async def test_the_size_is_that_of_a_database_with_tables(store: s.Store) -> None:
    """Bytes on the disk, never 0: the tables alone take some."""
    assert await store.size() > 10_000
