"""Samples of clusters and runs: kept by the minute, attributed, taught at the end, swept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from virtual_time import play
from world import ADMIN, HOUR, World, world

from labfleet.controllers import sample_writer
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.cluster import Cluster
from labfleet.resources.history import Use
from labfleet.resources.simulation import Simulation
from labfleet.service.reads import usage
from labfleet.service.verbs import admission

ROLES = ("admission", "cluster", "upkeep", "series")


class Meter:
    """Says what a test wrote down of the runs, and of all of them together with the others."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.now: dict[str, dict[str, float]] = {}
        self.others = {"cpu_milli": 100.0}
        self.away = False
        self.at: datetime | None = None
        self.looks = 0

    async def usage(self, cluster: Cluster) -> ClusterUsage | None:
        self.looks += 1
        if self.away:
            raise errors.Unreachable("the metrics are away")
        names = {name for each in self.now.values() for name in each} | set(self.others)
        load = {
            name: sum(each.get(name, 0.0) for each in self.now.values()) + self.others.get(name, 0)
            for name in names
        }
        at = self.at or self._clock.now()
        return ClusterUsage(at, load, now=self.now, others=self.others)


async def begun(w: World) -> Meter:
    """A fleet with one measured cluster of 10 CPUs."""
    meter = w.meter = Meter(w.clock)
    await w.start(run=ROLES)
    await w.make("Cluster", "c1", {"capacity": {"cpu": 10, "memory": "100Gi"}})
    return meter


async def ask(w: World, cpu: int = 1) -> Simulation:
    body = {"cluster": "c1", "cost": {"cpu": cpu, "memory": "1Gi"}, "durationSeconds": 86400}
    assert w.process is not None
    return await admission.request_run(w.process.services, ADMIN, body, namespace="default")


async def end(w: World, run: Simulation, **observed: Any) -> None:
    assert w.process is not None
    await admission.simulation_complete(
        w.process.services, ADMIN, run.name, "default", observed=observed or None
    )


async def ended_before(w: World, run: Simulation, ago: timedelta) -> None:
    """Let a run that is over have ended so long ago."""
    stored = await w.services.objects.get(Simulation, run.name, "default")
    assert stored is not None
    status = msgspec.structs.replace(stored.status, completed_at=w.clock.now() - ago)
    cause = stores.Cause("test", w.clock.now())
    await w.services.objects.save(msgspec.structs.replace(stored, status=status), cause=cause)


def of(obj: Any) -> series.Owner:
    return series.Owner(obj.kind, obj.metadata.uid)


async def minutes(w: World, obj: Any, metric: str) -> list[series.Spread]:
    """A metric's stored minutes, oldest first."""
    begin = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    rows = await w.store.series(of(obj), 60, begin)
    found = [series.unpack(obj.kind, row.data) for row in rows]
    return [each[metric] for each in found if metric in each]


def test_runs_and_their_cluster_are_kept_by_the_minute_each_by_its_own() -> None:
    """Two runs at once: each has its own use, the cluster all of it and what is not ours."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            one, two = await ask(w), await ask(w)
            meter.now = {
                one.metadata.uid: {"cpu_milli": 500.0, "network_in_kbps": 8.0, "pods": 2.0},
                two.metadata.uid: {"cpu_milli": 300.0},
                "somebody else's": {"cpu_milli": 7.0},
            }
            await w.let_pass(300)
            cluster = w.cache.get(Cluster, "c1", "default")
            head = await w.store.head()
            await w.let_pass(600)
            assert await w.store.head() == head
            assert {each.mean for each in await minutes(w, one, "cpu")} == {500.0}
            assert {each.mean for each in await minutes(w, one, "networkIn")} == {1000.0}
            assert {each.mean for each in await minutes(w, two, "cpu")} == {300.0}
            assert await minutes(w, two, "pods") == []
            whole = await minutes(w, cluster, "cpu")
            assert 12 <= len(whole) <= 16
            assert {each.mean for each in whole[1:]} == {907.0}
            others = await minutes(w, cluster, "othersCpu")
            assert {each.mean for each in others[1:]} == {107.0}
            assert await minutes(w, cluster, "othersMemory") == []
            assert set(await w.store.series_owners()) == {of(each) for each in (one, two, cluster)}
            assert w.process is not None
            rows, left = await usage.simulations(w.process.services, ADMIN)
            assert [(row.name, row.numbers["cpu"]) for row in rows] == [
                (one.name, 500.0), (two.name, 300.0),
            ]  # fmt: skip
            assert left == 0

    play(story)


def test_the_end_teaches_peak_mean_median_and_95_percent_of_the_minutes() -> None:
    """Whatever it said: an hour at 200, a minute at 2,000; and a run that nobody measured."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run, dark = await ask(w), await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 200.0}}
            await w.let_pass(3600)
            meter.now = {run.metadata.uid: {"cpu_milli": 2000.0}}
            await w.let_pass(60)
            meter.now = {run.metadata.uid: {"cpu_milli": 200.0}}
            await w.let_pass(120)
            assert w.process is not None
            await end(w, run, memoryMib=5)
            await end(w, dark)
            kept = {row.run.name: row.run for row in await w.store.history(0)}
            use = kept[run.name].use
            assert (kept[run.name].source, set(use)) == ("measured", {"cpu_milli"})
            found = use["cpu_milli"]
            assert found.peak == 2000
            # A minute is seen by one to three of some 125 looks, every half minute one.
            assert found.mean is not None
            assert 200 + 1800 * 1 / 127 <= found.mean <= 200 + 1800 * 3 / 120
            assert found.median == pytest.approx(200, rel=0.02)
            assert found.p95 == pytest.approx(200, rel=0.02)
            assert kept[dark.name].use == {}
            told = await w.process.services.objects.get(Simulation, run.name, "default")
            assert told is not None
            assert told.status.used == use

    play(story)


def test_a_process_that_comes_after_goes_on_where_the_last_one_was() -> None:
    """A crash costs a minute of samples, and neither the peak nor what the mean has seen."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 900.0}}
            await w.let_pass(600)
            meter.now = {run.metadata.uid: {"cpu_milli": 100.0}}
            await w.let_pass(300)
            assert w.process is not None
            w.process.kill()
            await w.start(run=ROLES)
            await w.let_pass(300)
            told = w.cache.get(Simulation, run.name, "default")
            assert told is not None
            used = told.status.used["cpu_milli"]
            assert used.peak == 900
            assert used.mean is not None
            assert 400 < used.mean < 800
            await end(w, run)
            (kept,) = await w.store.history(0)
            assert kept.run.use["cpu_milli"].mean == pytest.approx(500, rel=0.1)

    play(story)


def test_a_store_in_trouble_costs_no_sample_and_holds_up_no_memory() -> None:
    """What could not be written is written later; beyond a bound, no more is taken."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 500.0}}
            real = w.store.merge_series
            tries = 0

            async def failing(_rows: Any) -> None:
                nonlocal tries
                tries += 1
                raise errors.Temporary("disk trouble")

            w.store.merge_series = failing  # type: ignore[method-assign]
            await w.let_pass(300)
            w.store.merge_series = real  # type: ignore[method-assign]
            await w.let_pass(420)
            assert tries > 1
            assert len(await minutes(w, run, "cpu")) >= 10

    play(story)


def test_beyond_a_bound_no_more_buckets_wait_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three, a cluster's first minute waits and its run's never does."""
    monkeypatch.setattr(sample_writer, "WAITING", 3)

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 500.0}}
            await w.let_pass(50)
            await w.let_pass(300)
            assert await minutes(w, run, "cpu") == []
            cluster = w.cache.get(Cluster, "c1", "default")
            assert await minutes(w, cluster, "cpu") != []

    play(story)


def test_an_answer_of_before_is_counted_once_and_a_strange_clock_not_at_all() -> None:
    """A meter that repeats itself, one that lives in the future, and one of last hour."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 500.0}}
            await w.let_pass(10)
            meter.at = w.clock.now()
            await w.let_pass(200)
            for hours in (1, -1):
                meter.at = w.clock.now() + timedelta(hours=hours)
                await w.let_pass(200)
            assert sum(each.count for each in await minutes(w, run, "cpu")) == 1
            meter.at = None
            looks = meter.looks
            await w.let_pass(300)
            assert meter.looks > looks
            assert sum(each.count for each in await minutes(w, run, "cpu")) > 5

    play(story)


def test_while_the_metrics_are_away_there_is_no_sample() -> None:
    """The hole stays a hole, and what waited before it is written all the same."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            meter.now = {run.metadata.uid: {"cpu_milli": 500.0}}
            await w.let_pass(200)
            meter.away = True
            await w.let_pass(120)
            before = len(await minutes(w, run, "cpu"))
            await w.let_pass(1800)
            assert len(await minutes(w, run, "cpu")) == before
            meter.away = False
            await w.let_pass(600)
            assert len(await minutes(w, run, "cpu")) >= before + 3

    play(story)


@pytest.mark.parametrize("days", [None, 2])
def test_samples_of_a_run_go_some_days_after_its_end(days: int | None) -> None:
    """Seven, or as many as the setting says; a live run's stay, and a deleted one's go at once."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            if days is not None:
                await w.make("Settings", "fleet", {"monitoring": {"samplesDays": days}})
            over, gone = await ask(w), await ask(w)
            meter.now = {each.metadata.uid: {"cpu_milli": 5.0} for each in (over, gone)}
            await w.let_pass(200)
            for each in (over, gone):
                await end(w, each)
            meter.now = {}
            await w.delete("Simulation", gone.name)
            ended = timedelta(days=days or 7) - timedelta(seconds=1000)
            await ended_before(w, over, ended)
            await w.let_pass(700)
            cluster = w.cache.get(Cluster, "c1", "default")
            assert set(await w.store.series_owners()) == {of(over), of(cluster)}
            await w.let_pass(1000)
            assert await w.store.series_owners() == (of(cluster),)

    play(story)


def test_a_run_is_recorded_some_dozens_of_times_however_long_it_lasts() -> None:
    """A load that swings all day: 2,880 looks make some records, and each was worth one."""

    async def story() -> None:
        async with world() as w:
            meter = await begun(w)
            run = await ask(w)
            for hour in range(8):
                meter.now = {run.metadata.uid: {"cpu_milli": 100.0 + 300.0 * (hour % 3)}}
                await w.let_pass(HOUR / 4)
            events = await w.store.events_of(run.key)
            assert 3 <= len([each for each in events if each.reason == "Measured"]) <= 30
            told = w.cache.get(Simulation, run.name, "default")
            assert told is not None
            assert told.status.used["cpu_milli"].peak == 700
            assert isinstance(told.status.used["cpu_milli"], Use)

    play(story)
