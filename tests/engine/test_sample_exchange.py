"""Samples among processes: each shows what any measured, with few writes and no echo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from engine_fakes import HandClock, cause, memory_store, pump

from labfleet.decisions import vitals
from labfleet.engine.cache import Cache
from labfleet.engine.feed import Feed
from labfleet.engine.objects import Objects
from labfleet.engine.sample_exchange import SampleExchange
from labfleet.engine.samples import SampleRing
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.telemetry import ProviderPoint, Sample, SystemStats
from labfleet.resources.worker import Worker, WorkerSpec

W = Key("Worker", "default", "w")
LIFE = timedelta(seconds=90)


class Counted:
    """A store whose samples are counted as they go through."""

    def __init__(self, store: stores.Store) -> None:
        self.store = store
        self.batches: list[int] = []
        self.loaded: list[int] = []
        self.trouble: errors.LabfleetError | None = None

    async def put_samples(self, rows: Sequence[stores.SampleRow]) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.batches.append(len(rows))
        await self.store.put_samples(rows)

    async def sample_times(self) -> tuple[stores.SampleTime, ...]:
        return await self.store.sample_times()

    async def samples(self, workers: Sequence[str]) -> tuple[stores.SampleRow, ...]:
        self.loaded.append(len(workers))
        return await self.store.samples(workers)


class Replica:
    """One process: a cache that follows the log, its samples, its exchange."""

    def __init__(self, store: stores.Store, clock: HandClock) -> None:
        self.cache = Cache(store)
        self.ring = SampleRing()
        self.kept = Counted(store)
        self.clock = clock
        self.exchange = SampleExchange(
            self.ring, self.kept, self.cache, clock, life=lambda: LIFE,
            change_percent=lambda: 5.0, pause=clock.sleep,
        )  # fmt: skip
        self.feed = asyncio.create_task(Feed(store, self.cache, clock).run())

    async def turn(self) -> None:
        """Let the cache catch up, then exchange once."""
        await pump()
        await self.exchange.exchange()

    def cpu(self, worker: Key = W) -> float | None:
        newest = self.ring.newest(worker)
        return None if newest is None or newest.stats is None else newest.stats.cpu_percent


class Fleet:
    """Two processes over one store, with workers in it."""

    def __init__(self, store: stores.Store, clock: HandClock) -> None:
        self.store = store
        self.clock = clock
        self.made = 0
        self.leader, self.api = Replica(store, clock), Replica(store, clock)

    async def worker(self, name: str = "w") -> Worker:
        self.made += 1
        metadata = Metadata(name=name, uid=f"uid-{self.made}")
        made = Worker(metadata=metadata, spec=WorkerSpec(template="t"))
        _, stored = await Objects(self.store).save(made, cause=cause())
        await pump()
        return stored[0]  # type: ignore[return-value]

    def sample(self, cpu: float, *, ago: float = 0, boot: str = "i-1", worker: str = "w") -> Sample:
        at = self.clock.now() - timedelta(seconds=ago)
        return Sample(worker=worker, at=at, boot=boot, stats=SystemStats(cpu_percent=cpu))


@asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    clock = HandClock(sleep_moves=True)
    store = await memory_store(clock)
    made = Fleet(store, clock)
    try:
        yield made
    finally:
        for each in (made.leader, made.api):
            each.feed.cancel()
        await asyncio.gather(made.leader.feed, made.api.feed, return_exceptions=True)
        await store.close()


@pytest.mark.asyncio
async def test_what_one_process_measured_the_other_shows_with_its_time() -> None:
    """Samples and points; the log is not touched, and what came from there is not sent back."""
    async with fleet() as f:
        await f.worker()
        head = await f.store.head()
        point = ProviderPoint(at=f.clock.now(), seconds=300, cpu_percent=7)
        f.leader.ring.put(f.sample(3, ago=4))
        f.leader.ring.put_points(W, [point])
        await f.leader.turn()
        await f.api.turn()
        assert f.api.ring.newest(W) == f.leader.ring.newest(W)
        assert f.api.ring.points(W) == (point,)
        assert [each.moved for each in f.api.ring.changes(0)] != []
        await f.api.turn()
        await f.leader.turn()
        assert (f.leader.kept.batches, f.api.kept.batches) == ([2], [])
        assert (f.leader.kept.loaded, f.api.kept.loaded) == ([], [1])
        assert await f.store.head() == head


@pytest.mark.asyncio
async def test_a_new_leader_begins_with_what_the_last_one_knew() -> None:
    """Also a process that starts after the last leader died; its own newer sample then wins."""
    async with fleet() as f:
        await f.worker()
        f.leader.ring.put(f.sample(3))
        await f.leader.turn()
        f.clock.forward(20)
        later = Replica(f.store, f.clock)
        await later.turn()
        assert later.cpu() == 3
        later.ring.put(f.sample(9))
        await later.turn()
        await f.leader.turn()
        assert f.leader.cpu() == 9
        f.leader.ring.put(f.sample(1, ago=10))
        # private _give: the woken leader writes what it measured before, and has not read first
        await f.leader.exchange._give()
        await later.turn()
        assert later.cpu() == 9
        later.feed.cancel()


@pytest.mark.asyncio
async def test_a_batch_an_interval_however_many_workers() -> None:
    """One write for many samples, none when nothing is new; trouble costs only time."""
    async with fleet() as f:
        for number in range(40):
            await f.worker(f"w{number}")
        for number in range(40):
            f.leader.ring.put(f.sample(number, worker=f"w{number}"))
            f.leader.ring.put(f.sample(number + 1, worker=f"w{number}"))
        f.leader.kept.trouble = errors.Temporary("busy")
        with pytest.raises(errors.Temporary):
            await f.leader.turn()
        f.leader.kept.trouble = None
        for _ in range(3):
            await f.leader.turn()
        assert f.leader.kept.batches == [40]
        await f.api.turn()
        assert f.api.cpu(Key("Worker", "default", "w39")) == 40
        f.leader.kept.trouble = errors.Temporary("busy")
        f.clock.forward(30)
        f.leader.ring.put(f.sample(77, worker="w1"))
        run = asyncio.create_task(f.leader.exchange.run())
        await pump()
        assert not run.done(), "a store in trouble must not end the exchange"
        f.leader.kept.trouble = None
        await pump()
        run.cancel()
        await f.api.turn()
        assert f.api.cpu(Key("Worker", "default", "w1")) == 77


@pytest.mark.asyncio
async def test_a_report_does_not_hide_what_the_leader_measures() -> None:
    """While ours is fresh, a report from the API's process is passed over; then it counts."""
    async with fleet() as f:
        await f.worker()
        f.leader.ring.put(f.sample(3, ago=5))
        f.api.ring.put(f.sample(50, boot=vitals.REPORTED))
        await f.api.turn()
        await f.leader.turn()
        assert f.leader.cpu() == 3
        f.clock.forward(200)
        f.api.ring.put(f.sample(51, boot=vitals.REPORTED))
        await f.api.turn()
        await f.leader.turn()
        assert f.leader.cpu() == 51


@pytest.mark.asyncio
async def test_a_worker_that_is_gone_is_forgotten_and_its_namesake_begins_anew() -> None:
    """In every process; one that no cache has yet keeps what was reported of it."""
    async with fleet() as f:
        f.api.ring.put(f.sample(4, boot=vitals.REPORTED))
        await f.api.turn()
        assert f.api.cpu() == 4, "a report may come before the cache knows its worker"
        first = await f.worker()
        f.leader.ring.put(f.sample(5))
        await f.leader.turn()
        await f.api.turn()
        await f.store.commit(stores.Commit(cause(), (stores.Delete(first.key),), ()))
        for each in (f.leader, f.api):
            await each.turn()
            assert each.ring.workers() == ()
        await f.worker()
        await f.api.turn()
        assert f.api.cpu() is None, "a sample of the worker that had this name before"


@pytest.mark.asyncio
async def test_odd_rows_are_passed_over_and_a_clock_set_back_is_not_followed() -> None:
    """What a newer program wrote, and a sample from the future of a clock that was mended."""
    async with fleet() as f:
        made = await f.worker()
        for data in ('{"uid":"x","shape":"new"}', "no json"):
            row = stores.SampleRow(W.path, "cml", f.clock.now(), data)
            await f.store.put_samples([row])
            await f.api.turn()
            f.clock.forward(1)
        assert f.api.cpu() is None
        ahead = f.sample(1, ago=-3600)
        f.leader.ring.put(ahead)
        await f.leader.turn()
        await f.api.turn()
        assert f.api.cpu() == 1
        f.leader.ring.put(f.sample(2))
        await f.leader.turn()
        await f.api.turn()
        assert f.api.cpu() == 2
        (kept,) = await f.store.samples([W.path])
        assert msgspec.json.decode(kept.data)["uid"] == made.metadata.uid


def test_a_sample_counts_for_three_looks_and_longer_under_a_fast_clock() -> None:
    """Fleet time may run so fast that an exchange takes longer than three looks."""
    assert vitals.fresh_for(30, 1.0) == timedelta(seconds=90)
    assert vitals.fresh_for(30, 60.0) == timedelta(seconds=630)
    at = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
    known = Sample(worker="w", at=at, boot="i-1")
    older = msgspec.structs.replace(known, at=at - timedelta(seconds=1))
    assert not vitals.replaces(older, known, at, LIFE)
    assert vitals.replaces(older, None, at, LIFE)
