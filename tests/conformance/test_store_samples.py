"""The newest samples: one row for each part of a worker, no events, gone with their worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from store_places import START, Place

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores.opening import restore
from labfleet.stores.runners import Threads

pytestmark = pytest.mark.asyncio
LATER = START + timedelta(seconds=30)


async def test_the_last_write_of_a_part_stays(store: s.Store) -> None:
    """Also of two in one batch; the other parts and workers keep theirs, no event is appended."""
    head = await store.head()
    await store.put_samples(
        [
            s.SampleRow("exam/w1", "provider", START, "[1]"),
            s.SampleRow("default/w1", "cml", START, '{"a":"x\\u0000\\"é"}'),
        ]
    )
    await store.put_samples(
        [s.SampleRow("exam/w1", "cml", START, "1"), s.SampleRow("exam/w1", "cml", LATER, "2")]
    )
    await store.put_samples([s.SampleRow("exam/w1", "provider", LATER, "[2]")])
    assert await store.sample_times() == (
        s.SampleTime("default/w1", "cml", START),
        s.SampleTime("exam/w1", "cml", LATER),
        s.SampleTime("exam/w1", "provider", LATER),
    )
    assert await store.samples(["exam/w1", "nobody"]) == (
        s.SampleRow("exam/w1", "cml", LATER, "2"),
        s.SampleRow("exam/w1", "provider", LATER, "[2]"),
    )
    (odd,) = await store.samples(["default/w1"])
    assert odd.data == '{"a":"x\\u0000\\"é"}'
    assert await store.samples([]) == ()
    assert await store.head() == head


async def test_samples_go_with_their_worker(store: s.Store) -> None:
    """Those of the named ones, and nobody else's; none is fine."""
    await store.put_samples([s.SampleRow(f"default/{name}", "cml", START, "1") for name in "ab"])
    assert await store.drop_samples(["default/a", "default/c"]) == 1
    assert [each.worker for each in await store.sample_times()] == ["default/b"]
    assert await store.drop_samples([]) == 0


async def test_a_batch_is_bounded(store: s.Store) -> None:
    """As many as stated go in one batch, one more is refused, and none is fine."""
    rows = [s.SampleRow(f"w{n}", "cml", START, "1") for n in range(s.SAMPLES_LIMIT)]
    with pytest.raises(errors.Invalid):
        await store.put_samples([*rows, s.SampleRow("more", "cml", START, "1")])
    await store.put_samples([])
    assert await store.sample_times() == ()
    await store.put_samples(rows)
    assert len(await store.sample_times()) == s.SAMPLES_LIMIT


async def test_two_processes_write_the_same_rows_and_both_read_them(shared_place: Place) -> None:
    """In opposite orders at once: neither is refused, and each reads what the other wrote."""
    names = [f"w{n:02}" for n in range(50)]
    async with shared_place.opened() as one, shared_place.opened(shared_place.url) as two:
        await asyncio.gather(
            *(
                store.put_samples([s.SampleRow(name, "cml", at, data) for name in order])
                for _ in range(5)
                for store, at, order, data in (
                    (one, START, names, "1"),
                    (two, LATER, names[::-1], "2"),
                )
            )
        )
        found = await one.samples(names)
        assert [row.worker for row in found] == names
        assert found == await two.samples(names)


async def test_samples_survive_a_backup(shared_place: Place) -> None:
    """A restored store knows what was measured last, and how long ago that is."""
    target = str(shared_place.folder / "samples.backup")
    async with shared_place.opened() as store:
        await store.put_samples([s.SampleRow("default/w", "cml", START, "1")])
        await store.backup(target)
    url = shared_place.empty()
    await restore(target, url, runner=Threads(), ids=shared_place.ids)
    async with shared_place.opened(url) as store:
        assert await store.samples(["default/w"]) == (s.SampleRow("default/w", "cml", START, "1"),)
