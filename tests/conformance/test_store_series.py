"""Series: rings that never grow, merged buckets, no events, gone with their worker."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from store_places import START, Place

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.resources import series

pytestmark = pytest.mark.asyncio
MINUTE = series.TIERS[0]


def of(uid: str, kind: str = "Worker") -> series.Owner:
    """Whose series."""
    return series.Owner(kind, uid)


def row(worker: str, at: datetime, *, step: int = 60, **values: float) -> s.SeriesRow:
    """A bucket of one measurement."""
    return s.SeriesRow(
        of(worker),
        step,
        series.bucket_start(at, step),
        series.pack("Worker", series.single("Worker", values)),
    )


async def test_what_was_written_is_read_in_order(store: s.SeriesStore) -> None:
    """Only of this worker and step, from the instant asked for; no event is appended."""
    head = await store.head()
    later = START + timedelta(minutes=1)
    await store.merge_series([row("w1", later, cpu=20), row("w1", START, cpu=10)])
    await store.merge_series([row("w2", START, cpu=1), row("w1", START, step=600, cpu=10)])
    found = await store.series(of("w1"), 60, START)
    assert [(each.at, series.unpack("Worker", each.data)["cpu"].mean) for each in found] == [
        (START, 10),
        (later, 20),
    ]
    assert [each.at for each in await store.series(of("w1"), 60, later)] == [later]
    assert [each.step for each in await store.series(of("w1"), 600, START)] == [600]
    assert await store.series_owners() == (of("w1"), of("w2"))
    assert await store.head() == head


async def test_the_same_bucket_twice_holds_both(store: s.SeriesStore) -> None:
    """In one batch and in two: least, mean, greatest and count of all."""
    await store.merge_series([row("w1", START, cpu=10), row("w1", START, cpu=20, labs=1)])
    await store.merge_series([row("w1", START, cpu=60)])
    (found,) = await store.series(of("w1"), 60, START)
    spread = series.unpack("Worker", found.data)["cpu"]
    assert (spread.count, spread.low, spread.mean, spread.high) == (3, 10, 30, 60)
    assert series.unpack("Worker", found.data)["labs"].count == 1


async def test_a_ring_never_grows(store: s.SeriesStore) -> None:
    """Twice around: as many rows as slots, the newest; what comes a ring too late is dropped."""
    rows = [row("w1", START + timedelta(minutes=n), cpu=n) for n in range(2 * MINUTE.slots)]
    await store.merge_series(rows)
    found = await store.series(of("w1"), 60, datetime.min.replace(tzinfo=START.tzinfo, year=1971))
    assert len(found) == MINUTE.slots
    assert found[0].at == START + timedelta(minutes=MINUTE.slots)
    await store.merge_series([row("w1", START, cpu=999)])
    assert await store.series(of("w1"), 60, START) == found


async def test_kinds_are_apart_and_each_has_its_own_form(store: s.SeriesStore) -> None:
    """One uid of two kinds is two owners; a run has minutes alone, and what is no kind nothing."""
    run = of("u", "Simulation")
    minute = series.pack("Simulation", series.single("Simulation", {"pods": 3.0}))
    for _ in range(2):
        await store.merge_series([s.SeriesRow(run, 60, START, minute), row("u", START, labs=1)])
    (found,) = await store.series(run, 60, START)
    assert series.unpack("Simulation", found.data)["pods"] == series.Spread(2, 3, 6, 3)
    assert set(await store.series_owners()) == {run, of("u")}
    for owner, step in ((run, 600), (of("u", "Pool"), 60)):
        with pytest.raises(errors.Invalid):
            await store.merge_series([s.SeriesRow(owner, step, START, minute)])
    assert await store.drop_series([run]) == 1
    assert await store.series_owners() == (of("u"),)


async def test_buckets_of_many_are_read_by_their_instants(store: s.SeriesStore) -> None:
    """Only those that begin then: what a whole ring ago had the place of one is not it."""
    now = START + MINUTE.window
    await store.merge_series(
        [
            row("w1", START, cpu=1),
            row("w2", now, cpu=2),
            row("w3", now + timedelta(minutes=1), cpu=3),
        ]
    )
    asked = [of(name) for name in ("w1", "w2", "w3", "nobody")]
    found = await store.series_at(asked, 60, [now, now - timedelta(minutes=1)])
    assert [(each.owner, each.at) for each in found] == [(of("w2"), now)]
    assert await store.series_at([], 60, [now]) == ()
    with pytest.raises(errors.Invalid):
        await store.series_at(asked * s.SERIES_LIMIT, 60, [now])


async def test_series_go_with_their_worker(store: s.SeriesStore) -> None:
    """All steps of the named ones, and nobody else's; none is fine."""
    await store.merge_series(
        [row("w1", START, cpu=1), row("w1", START, step=3600, cpu=1), row("w2", START, cpu=2)]
    )
    assert await store.drop_series([of("w1"), of("nobody")]) == 2
    assert await store.series_owners() == (of("w2"),)
    assert await store.drop_series([]) == 0
    await store.merge_series([])


async def test_a_step_nobody_keeps_and_too_much_are_refused(store: s.SeriesStore) -> None:
    """Invalid, and nothing is written."""
    with pytest.raises(errors.Invalid):
        await store.merge_series([row("w1", START, step=7, cpu=1)])
    with pytest.raises(errors.Invalid):
        await store.merge_series([row("w1", START, cpu=1)] * (s.SERIES_LIMIT + 1))
    assert await store.series_owners() == ()


async def test_series_survive_a_restart_and_a_backup(shared_place: Place) -> None:
    """They lie in the database, and travel with its backup."""
    async with shared_place.opened() as store:
        await store.merge_series([row("w1", START, cpu=50)])
        await store.backup(str(shared_place.folder / "copy"))
    async with shared_place.opened() as store:
        assert len(await store.series(of("w1"), 60, START)) == 1


async def test_many_rows_in_one_batch(store: s.SeriesStore) -> None:
    """A thousand workers' minute is one call."""
    rows = [row(f"w{n}", START, step=step, cpu=n % 100) for n in range(1000) for step in (60, 600)]
    await store.merge_series(rows)
    assert len(await store.series_owners()) == 1000
