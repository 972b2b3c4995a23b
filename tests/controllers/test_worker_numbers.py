"""Measuring workers beside CML: EC2's checks, CloudWatch, series, live thresholds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from virtual_time import play
from world import ADMIN, HOUR, MACHINE, World, world

from labfleet.controllers.series import KEY
from labfleet.interfaces.compute import MetricPoint
from labfleet.interfaces.store import SeriesRow
from labfleet.kernel import errors
from labfleet.resources import conditions, series
from labfleet.resources.machine import ScheduledEvent
from labfleet.resources.meta import Key
from labfleet.resources.worker import Worker
from labfleet.service.reads import series as reading
from labfleet.service.reads import telemetry


async def up(w: World) -> None:
    await w.start()
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))


def fact(w: World, name: str, worker: str = "w1") -> str:
    found = conditions.find(w.get_worker(worker).status.conditions, name)
    return "" if found is None else f"{found.status} {found.reason}"


W1 = Key("Worker", "default", "w1")


def samples(w: World) -> Any:
    assert w.process is not None
    return w.process.contexts["worker-controller"].samples


def of_w1(w: World) -> series.Owner:
    """Whose series are w1's."""
    return series.Owner("Worker", w.get_worker().metadata.uid)


async def set_(w: World, section: str, **values: Any) -> None:
    """Change settings as people do."""
    await w.make("Settings", "fleet", {section: values})


def test_an_impaired_instance_degrades_and_recovers_without_harm() -> None:
    """The check's name is told; the phase and the machine stay as they are."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            machine = w.get_worker().status.machine.id or ""
            await w.until(lambda: fact(w, "InstanceChecksPassed") == "True Passed")
            w.cloud.vms[machine].system_check = "impaired"
            await w.until(lambda: w.get_worker().status.health == "Degraded")
            assert fact(w, "InstanceChecksPassed") == "False Impaired"
            assert w.phase("w1") == "READY"
            w.cloud.vms[machine].system_check = "ok"
            await w.until(lambda: w.get_worker().status.health == "Healthy")
            w.check()

    play(story)


def test_an_impaired_host_takes_no_new_session_and_its_pool_replaces_it() -> None:
    """What runs there goes on to its end; a new session is placed on the pool's next worker.

    Off switch: `CLOSING` without InstanceChecksPassed places it on the impaired one.
    """

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.make("Template", "metal", {"machine": MACHINE})
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 2})
            await w.definition()
            await w.session("s1")
            await w.until(w.in_phase("s1", "RUNNING"))
            first = w.get_session("s1").status.worker
            assert first
            machine = w.get_worker(first).status.machine.id or ""
            w.cloud.vms[machine].system_check = "impaired"
            await w.until(lambda: fact(w, "AcceptingLabs", first) == "False Closed")
            await w.session("s2")
            await w.until(w.in_phase("s2", "RUNNING"))
            second = w.get_session("s2").status.worker
            assert second
            assert second != first
            assert w.get_session("s1").status.phase == "RUNNING"
            await w.until(w.in_phase("s1", "COMPLETED"))
            await w.until(lambda: w.cloud.vms[machine].state == "gone")
            w.check()

    play(story)


def test_a_session_that_would_overlap_a_retirement_stays_away() -> None:
    """One that ends before the event is placed, one that would not waits with that reason."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            machine = w.get_worker().status.machine.id or ""
            at = w.clock.now() + timedelta(hours=1)
            event = ScheduledEvent(code="instance-retirement", not_before=at)
            w.cloud.vms[machine].events = (event,)
            await w.until(lambda: fact(w, "ScheduledEvent") == "True InstanceRetirement")
            await w.definition("short")
            await w.definition("long", defaultDurationMinutes=120)
            await w.session("s1", definition="short")
            await w.session("s2", definition="long")
            await w.until(w.in_phase("s1", "RUNNING"))
            decision = w.get_session("s2").status.decision
            assert decision is not None
            assert decision.rejected_by_reason == {"ScheduledEvent": 1}

    play(story)


def test_an_ec2_that_cannot_be_asked_makes_no_server_silent() -> None:
    """Its trouble is not the servers': they are asked at their last address."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.cloud.refusals["any"] = errors.Throttled("RequestLimitExceeded")
            await w.let_pass(900)
            assert fact(w, "Silent") == "False Answering"
            assert w.get_worker().status.health == "Healthy"
            w.check()

    play(story)


def test_cloudwatch_is_asked_only_when_switched_on_and_stands_in_for_a_dead_server() -> None:
    """Off: no number and no call. On: batched points, source named, also when CML is silent."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.let_pass(400)
            assert samples(w).points(W1) == ()
            machine = w.get_worker().status.machine.id or ""
            end = series.bucket_start(w.clock.now(), 300) + timedelta(hours=1)
            w.cloud.points[machine] = tuple(
                MetricPoint(end - timedelta(seconds=300 * n), 97.0, 3e6, 6e6)
                for n in reversed(range(24))
            )
            await set_(w, "monitoring", cloudwatch=True)
            w.hosts.cut.add("w1")
            await w.until(lambda: fact(w, "CpuHigh") == "True OverThreshold")
            assert samples(w).points(W1)[-1].network_in_bytes_per_second == 10_000
            assert w.process is not None
            w.process.services.samples.put_points(W1, samples(w).points(W1))
            told = await telemetry.newest(w.process.services, ADMIN, "w1", "default")
            assert (told.numbers["cpu"].value, told.numbers["cpu"].source) == (97.0, "cloudwatch")
            assert told.numbers["memory"].value is None

    play(story)


def test_a_threshold_changed_at_run_time_acts_at_the_next_sample() -> None:
    """Raised under the new one within two looks, taken back under the old one."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.set(cpu_percent=50.0)
            await w.let_pass(120)
            assert fact(w, "CpuHigh") == "False BelowThreshold"
            await set_(w, "thresholds", cpuPercent=40, cpuEasedPercent=30)
            await w.let_pass(45)
            assert fact(w, "CpuHigh") == "True OverThreshold"
            w.hosts.set(cpu_percent=10.0)
            await w.until(lambda: fact(w, "CpuHigh") == "False BelowThreshold")

    play(story)


def test_numbers_are_kept_by_the_minute_without_an_event_and_survive_a_restart() -> None:
    """Half an hour gives half an hour of minutes; a new process goes on where the old ended."""

    async def story() -> None:
        async with world() as w:
            w.hosts.set(cpu_percent=1.0)
            await up(w)
            await w.let_pass(120)
            before = await w.events("Worker", "w1")
            began = w.clock.now()
            await w.let_pass(HOUR / 2)
            assert await w.events("Worker", "w1") == before
            rows = await w.store.series(of_w1(w), 60, began)
            assert 28 <= len(rows) <= 31
            assert series.unpack("Worker", rows[5].data)["cpu"].mean == 1.0
            await w.start()
            await w.let_pass(HOUR / 4)
            assert len(await w.store.series(of_w1(w), 60, began)) >= len(rows) + 13
            hour = await w.store.series(of_w1(w), 3600, began - timedelta(hours=1))
            assert sum(series.unpack("Worker", each.data)["cpu"].count for each in hour) >= 80
            told = await reading.read(w.process.services, ADMIN, Worker, "w1", "default", metrics="cpu,sessions",
                                      since="1h", step=600)  # type: ignore[union-attr]  # fmt: skip
            assert told.step == 600
            assert told.metrics["cpu"].points[-1].mean == 1.0

    play(story)


def test_series_go_with_their_worker() -> None:
    """And those of workers that went while nobody led are swept."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.let_pass(180)
            assert await w.store.series_owners() == (of_w1(w),)
            other = (await w.store.series(of_w1(w), 60, w.clock.now() - timedelta(hours=1)))[0]
            ghost = series.Owner("Worker", "of nobody")
            await w.store.merge_series([SeriesRow(ghost, 60, other.at, other.data)])
            assert w.process is not None
            await w.process.reconcile("series", KEY)
            await w.let_pass(700)
            assert await w.store.series_owners() == (of_w1(w),)
            await w.delete("Worker", "w1")
            await w.until(lambda: w.cache.get(Worker, "w1", "default") is None)
            await w.let_pass(700)
            assert await w.store.series_owners() == ()
            assert samples(w).workers() == ()

    play(story)


def test_a_store_in_trouble_costs_no_number() -> None:
    """What could not be written is written in the next round."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            began = w.clock.now()
            real = w.store.merge_series

            async def failing(_rows: Any) -> None:
                raise errors.Temporary("disk trouble")

            w.store.merge_series = failing  # type: ignore[method-assign]
            await w.let_pass(150)
            w.store.merge_series = real  # type: ignore[method-assign]
            await w.let_pass(240)
            assert len(await w.store.series(of_w1(w), 60, began)) >= 5

    play(story)


def test_moved_numbers_are_a_bounded_feed() -> None:
    """A jump is one change with its values; a quiet server makes none."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.let_pass(120)
            feed = samples(w)
            start = feed.last_change
            await w.let_pass(600)
            assert feed.changes(start) == ()
            w.hosts.set(cpu_percent=60.0)
            await w.let_pass(60)
            (change,) = feed.changes(start)
            assert (change.worker, change.moved, change.values["cpu"]) == ("w1", ("cpu",), 60.0)

    play(story)
