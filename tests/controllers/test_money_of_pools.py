"""Money in a whole installation: budgets hold what starts, and the ledger survives every death."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from fleet_cases import big
from virtual_time import play
from world import ADMIN, MACHINE, World, world

from aws_simulator import meter
from labfleet.interfaces import store as stores
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources import conditions, fleet_alerts
from labfleet.resources.history import RunKind
from labfleet.resources.pool import Pool, PoolBudget
from labfleet.resources.pool_conditions import PoolCondition
from labfleet.service.core import paid_ledger
from labfleet.service.reads import cost_statement

SLOW = 30.0
"""Seconds for which each start of this world's machines takes."""
TEMPLATE: dict[str, Any] = {
    "capacity": {"cpu": 8, "memory": "32Gi", "storage": "200Gi", "labs": 20, "ports": 500},
    "hourlyPriceUsd": 2.0,
}


async def priced(w: World, **scaling: Any) -> None:
    """Make a template of two dollars an hour, and a lab that fills a worker of it."""
    await w.make("Template", "small", {"machine": {**MACHINE, **TEMPLATE}})
    await w.definition("fits", **big(8))


def test_a_pool_starts_nothing_past_its_hour_and_ends_nothing_for_it() -> None:
    """With a budget for one worker of two that it shall have, one runs; more money starts the other."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await priced(w)
            scaling = {"minWorkers": 2, "maxWorkers": 3}
            await w.pool(template="small", scaling=scaling, budget={"usdPerHour": 3.5})
            await w.until(w.in_phase("lab-worker-default-001", "READY"), hours=2)
            await w.let_pass(300)
            assert len(w.compute.alive()) == 1
            [pool] = w.cache.all(Pool)
            assert conditions.is_true(pool.status.conditions, PoolCondition.BUDGET_REACHED)
            assert {"BudgetReached", "BudgetNear", "DemandMet"} <= {
                each.condition for each in fleet_alerts.raised(pool)
            }
            assert pool.status.budget_workers == 1
            more = msgspec.structs.replace(pool.spec, budget=PoolBudget(usd_per_hour=100))
            changed = msgspec.structs.replace(pool, spec=more)
            await w.services.objects.save(changed, cause=stores.Cause("ada", w.clock.now()))
            await w.until(lambda: len(w.compute.alive()) == 2, hours=1)
            await w.until(
                lambda: (
                    not conditions.is_true(
                        w.cache.all(Pool)[0].status.conditions, PoolCondition.BUDGET_NEAR
                    )
                ),
                hours=1,
            )
            w.check()

    play(story)


def test_a_month_that_is_read_in_part_holds_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more rows than are read the month has cost nobody knows what: nothing is started for it."""
    monkeypatch.setattr(paid_ledger, "MOST_PAGES", 0)

    async def story() -> None:
        async with world() as w:
            await w.start()
            await priced(w)
            await w.pool(template="small", scaling={"minWorkers": 1}, budget={"usdPerMonth": 9e6})
            await w.let_pass(300)
            assert w.compute.alive() == []
            [pool] = w.cache.all(Pool)
            told = conditions.find(pool.status.conditions, PoolCondition.BUDGET_REACHED)
            assert told is not None
            assert (told.status, told.reason) == ("True", "PriceUnknown")
            assert "more rows than are read" in told.message

    play(story)


def test_the_ledger_has_every_run_once_whatever_is_killed() -> None:
    """A worker that is stopped and started while its process is killed again and again is paid from
    running to stopping: each run once, and the statement is the meter within the doubt it tells."""

    async def story() -> None:
        async with world() as w:
            stops: list[float] = []
            starts: list[float] = []

            def heard(what: str, vm: FakeInstance, _who: str) -> None:
                if what in {"stopping", "ending"}:
                    starts.append(vm.launched + SLOW)
                    stops.append(w.compute.cloud.loop.time())

            w.compute.cloud.listeners.append(heard)
            await w.start()
            await priced(w)
            await w.make("Worker", "w1", {"template": "small"})
            await w.until(w.in_phase("w1", "READY"), hours=2)
            for round_ in range(2):
                await w.desire("w1", "Stopped")
                await w.let_pass(20 + 30 * round_)
                await died(w, 200)
                await w.until(w.in_phase("w1", "STOPPED"), hours=2)
                await died(w, 1000)
                await w.desire("w1", "Ready")
                await w.let_pass(10)
                await died(w, 300 * round_)
                await w.until(w.in_phase("w1", "READY"), hours=2)
                await w.let_pass(2000)
            await w.desire("w1", "Terminated")
            await w.until(lambda: w.phase("w1") == "TERMINATED", hours=2)
            rows = await w.store.newest_runs(kind=RunKind.PAID)
            ran = [each.run for each in rows if each.run.parameters["what"] == "running"]
            ends = sorted(each.ended_at for each in ran)
            assert ends == [whole(at) for at in stops]
            assert len({each.uid for each in ran}) == 3
            services = w.process.services  # type: ignore[union-attr]
            found = await cost_statement.read(services, ADMIN)
            metered = {
                "id": "i", "type": "m1", "volumes": [],
                "runs": [(unix(a), unix(b)) for a, b in zip(starts, stops, strict=True)],
            }  # fmt: skip
            prices = {"instances": {"m1": "2.0"}, "volumes": {}}
            bill = meter.bill([metered], found.month, prices, unix(stops[-1]) + 9)
            hours = sum(each.hours for each in found.rows if each.kind != "stopped")
            assert abs(hours * 2 - bill["cents"] / 100) <= found.uncertain + 0.01
            assert found.unpriced == ()

    play(story)


async def died(w: World, seconds: float) -> None:
    """Kill the process as `kill -9` does, and begin another after a while."""
    assert w.process is not None
    w.process.kill()
    await w.clock.sleep(seconds)
    await w.start()


def whole(at: float) -> datetime:
    """Return an instant of the world in whole seconds."""
    return (EPOCH + timedelta(seconds=at)).replace(microsecond=0)


def unix(at: float) -> float:
    """Return an instant of the world as Unix seconds."""
    return (EPOCH + timedelta(seconds=at)).timestamp()
