"""The lead of a pool follows its boots, and reading them costs what is new."""

from __future__ import annotations

from datetime import timedelta

from test_promises import alerts, booked, fleet
from virtual_time import play
from world import ADMIN, HOUR, World, world

from labfleet.controllers.boots import EVERY, Boots
from labfleet.interfaces import store as stores
from labfleet.resources import refs
from labfleet.resources.history import Run, RunKind
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import LeadSource, Pool
from labfleet.resources.worker import Worker
from labfleet.service.reads.explain import explain


def found(w: World) -> Pool:
    [pool] = w.cache.all(Pool)
    return pool


def source(w: World) -> LeadSource | None:
    told = found(w).status.lead
    return None if told is None else told.source


async def measured(w: World, seconds: float, count: int) -> None:
    """Boots of the pool's machines that others made, in the history."""
    pool = found(w)
    now = w.clock.now()
    runs = [
        Run(
            kind=RunKind.BOOT, uid=f"{seconds}/{each}", family=pool.spec.template, ended_at=now,
            parameters={"region": "us-east-1", "type": "m1"}, duration_seconds=seconds,
        )
        for each in range(count)
    ]  # fmt: skip
    cause, taught = stores.Cause("tester", now), tuple(stores.Teach(each) for each in runs)
    await w.store.commit(stores.Commit(cause=cause, writes=taught))


def test_a_measured_lead_is_when_workers_are_made():
    """After 40 boots of ten minutes a worker is made eleven minutes before the head start, not 35."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1)
            await measured(w, 600.0, 40)
            await w.until(lambda: source(w) is LeadSource.MEASURED, hours=1)
            assert found(w).status.lead.seconds == 660
            await booked(w, "a")
            await w.until(lambda: len(w.cache.all(Worker)) > 0, hours=5)
            claim = w.get_session("a").status.claim
            early = claim.start - w.clock.now()
            assert timedelta(seconds=600) < early <= timedelta(seconds=660)

    play(story)


def test_looks_without_a_new_boot_read_nothing():
    """A pool is looked at all day; its history is read when a boot is over, or a quarter passed."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 2)
            await booked(w, "a", minutes=50)
            await w.until(lambda: bool(w.cache.all(Worker)), hours=1)
            boots, pool = Boots(w.store), found(w)
            template = w.cache.find(refs.template_of(pool))

            async def look(after: timedelta = timedelta()) -> int:
                workers = w.cache.all(Worker)
                told = await boots.of(pool, template, workers, w.clock.now() + after)
                assert boots.reads > 0
                return len(told.seconds)

            assert [await look() for _ in range(5)] == [0] * 5
            assert boots.reads == 1
            await w.until(w.in_phase(w.cache.all(Worker)[0].name, "READY"), hours=1)
            assert [await look() for _ in range(5)] == [1] * 5
            assert boots.reads == 2
            assert await look(EVERY) == 1
            assert boots.reads == 3

    play(story)


def test_a_boot_that_hangs_before_an_exam_is_an_alert_before_its_slot():
    """It boots longer than measured, so whose promise that endangers is said before the head start."""

    async def story() -> None:
        async with world() as w:
            await fleet(w, 1)
            await measured(w, 600.0, 40)
            await w.until(lambda: source(w) is LeadSource.MEASURED, hours=1)
            await booked(w, "a")
            await w.until(lambda: bool(w.cache.all(Worker)), hours=5)
            w.hosts.boot(10 * HOUR)
            assert alerts(w) == []
            told = (await explain(w.services, ADMIN, KINDS["Pool"], "p1", "default")).lines
            assert "1 session promised from" in str(told)
            assert "0 of 1 worker up, all by" in str(told)
            assert "boots of m1 in us-east-1: 95 % within 10 min of 40" in str(told)
            await w.until(lambda: alerts(w) == [("PromisesKept", "BootsLate")], hours=1)
            status = w.get_session("a").status
            assert w.clock.now() < status.claim.start
            told = (await explain(w.services, ADMIN, KINDS["Pool"], "p1", "default")).lines
            assert "at risk: a" in str(told)
            assert (found(w).status.promised, found(w).status.endangered) == (1, 1)

    play(story)
