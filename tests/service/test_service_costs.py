"""What the fleet costs, as it is read from records and ledger: by whom, how much, for whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, MACHINE, START, World, who

from labfleet.decisions.costs import shares
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import prices
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.history import KeptRun, Run, RunKind
from labfleet.resources.machine import Machine, MachineStatus
from labfleet.resources.paid_time import PaidTime
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import Origin
from labfleet.service.core.paid_ledger import PaidLedger
from labfleet.service.kinds import paid_rows
from labfleet.service.reads import cost_statement, costs, past_runs

pytestmark = pytest.mark.asyncio


async def running(world: World, name: str, hours: float = 1, **spec: Any) -> Any:
    """Make a worker whose machine has run for some hours and could host at once."""
    await world.template()
    worker = await world.make("Worker", name, {"template": "metal", **spec})
    since = world.clock.now() - timedelta(hours=hours)
    paid = PaidTime(machine=f"i-{name}", disk_since=since, running_since=since, ready_at=since)
    return await world.status(
        worker, paid=paid, machine=MachineStatus(id=f"i-{name}", state="running", type="m5zn.metal")
    )


async def row(
    world: World, name: str, hours: float, namespace: str = "default", **more: Any
) -> None:
    """Write a row of the ledger: a run that ended now."""
    now = world.clock.now()
    told = {"what": "running", "worker": name, "machine": f"i-{name}", "region": "us-east-1",
            "type": "m5zn.metal", "usd": "2 USD", **more}  # fmt: skip
    run = Run(
        kind=RunKind.PAID, uid=f"i-{name}/running/1", name=f"uid-{name}", family="metal",
        namespace=namespace, place="exam", parameters=told, started_at=now - timedelta(hours=hours), ended_at=now,
    )  # fmt: skip
    commit = stores.Commit(cause=stores.Cause("c", now, reason="r"), writes=(stores.Teach(run),))
    await world.store.commit(commit)


async def test_an_hour_and_the_month_of_a_running_worker(world: World) -> None:
    """A machine that runs costs its listed hour and its disk, counted as idle without sessions."""
    await running(world, "w1", hours=2)
    found = await costs.read(world.services, ADMIN)
    disk = (500 * 0.125 + 10_000 * 0.065) / (30 * 24)
    assert found.per_hour is not None
    assert found.per_hour.idle == pytest.approx(4.3605 + disk, abs=1e-5)
    assert found.month.usd == pytest.approx(2 * (4.3605 + disk), abs=1e-5)
    assert found.lines[0].name == ""
    assert found.forecast is not None
    assert found.forecast > found.month.usd


async def test_the_ledger_outlives_the_worker(world: World) -> None:
    """What a worker that is gone has cost stands in the month, at the price of its time."""
    await row(world, "w9", hours=3)
    found = await costs.read(world.services, ADMIN, by="pool")
    assert [(each.name, each.cost.warming) for each in found.lines] == [("exam", 6.0)]
    statement = await cost_statement.read(world.services, ADMIN)
    assert statement.usd == 6.0
    assert statement.unpriced == ("a disk of unknown size in us-east-1",)


async def test_pools_of_one_name_are_told_apart(world: World) -> None:
    """A line is about one pool: one of the same name in another namespace has a line of its own."""
    await row(world, "w1", hours=3)
    await row(world, "w2", hours=1, namespace="dev")
    found = await costs.read(world.services, ADMIN, by="pool")
    assert [(each.name, each.cost.usd) for each in found.lines] == [
        ("exam", 6.0),
        ("dev/exam", 2.0),
    ]
    one = await costs.read(world.services, ADMIN, by="pool", pool=found.lines[1].name)
    assert one.month.usd == 2.0


async def test_a_month_of_which_nobody_can_know_is_refused(world: World) -> None:
    """The first year that there is would be before all rows, and no instant lies before it."""
    for month in ("0001-01", "1969-12"):
        with pytest.raises(errors.Invalid, match="lies before 1970"):
            await costs.read(world.services, ADMIN, month=month)


async def test_a_user_sees_the_own_sessions_alone(world: World) -> None:
    """Two people share a worker: each sees the own half, and neither the other's name or the fleet."""
    await world.definition()
    worker = await running(world, "w1", hours=1)
    for owner in ("ann", "bob"):
        session = await world.session(f"of-{owner}", who("user", owner))
        held = {"amounts": {"cpuMilli": 1000, "memoryMib": 1000}}
        await world.status(session, worker=worker.name, **await placed(world, held))
    mine = await costs.read(world.services, who("user", "ann"))
    assert [each.name for each in mine.lines] == ["of-ann"]
    assert (mine.by, mine.per_hour, mine.pools_now) == ("session", None, ())
    everybody = await costs.read(world.services, ADMIN, by="person")
    both = {each.name: each.cost.used for each in everybody.lines}
    assert both["ann"] == pytest.approx(both["bob"], abs=1e-5)
    assert mine.month.usd == both["ann"]


async def placed(world: World, held: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a session whose lab has been on a worker for an hour."""
    now = world.clock.now()
    amounts = Amounts(
        cpu_milli=held["amounts"]["cpuMilli"], memory_mib=held["amounts"]["memoryMib"]
    )
    reservation = Reservation(
        holder="x", amounts=amounts, start=now - timedelta(hours=1), end=now + timedelta(hours=1)
    )
    return {
        "phase": SessionPhase.RUNNING, "reservation": reservation,
        "hosted_since": now - timedelta(hours=1),
    }  # fmt: skip


async def test_a_past_month_has_no_forecast_and_a_later_one_is_refused(world: World) -> None:
    """A month that is over has no present hour; one ahead, or none at all, is said to be wrong."""
    await running(world, "w1")
    early = (START - timedelta(days=40)).strftime("%Y-%m")
    found = await costs.read(world.services, ADMIN, month=early)
    assert (found.month.usd, found.per_hour, found.forecast) == (0.0, None, None)
    for wrong in ("2999-01", "soon"):
        with pytest.raises(errors.Invalid):
            await costs.read(world.services, ADMIN, month=wrong)
    before = (START.replace(day=1) - timedelta(days=1)).strftime("%Y-%m")
    assert (await costs.read(world.services, who("user", "ann"), month=before)).lines == ()
    with pytest.raises(errors.Invalid, match="one before"):
        await costs.read(world.services, who("user", "ann"), month="2026-01")


async def test_an_unknown_price_is_named_and_in_no_sum(world: World) -> None:
    """A type that the list does not have makes no 0: the hour is told without it, the type named."""
    worker = await running(world, "w1")
    await world.status(worker, machine=MachineStatus(id="i-w1", state="running", type="q9.metal"))
    found = await costs.read(world.services, ADMIN)
    assert found.unpriced == ("q9.metal in us-east-1",)
    assert found.forecast is None
    assert found.per_hour is not None
    assert found.per_hour.unpriced_hours == 1


async def test_a_template_states_its_own_price_first() -> None:
    """The stated price wins, the list of its region comes second; else it is unknown, and no 0."""
    machine = msgspec.convert(MACHINE, Machine)
    provider = msgspec.structs.replace(machine.provider, region="eu-west-1")
    far = msgspec.structs.replace(machine, provider=provider)
    for each, seen, usd in (
        (msgspec.structs.replace(far, hourly_price_usd=2.5), "m5zn.metal", 2.5),
        (machine, "m5zn.metal", 4.3605),
        (machine, "q9.metal", None),
        (far, "m5zn.metal", None),
        (None, "m5zn.metal", None),
    ):
        assert paid_rows.hourly_usd(each, seen, prices.SHIPPED) == usd


async def test_the_forecast_has_the_disks_of_parked_workers(world: World) -> None:
    """A pool that needs nobody goes on paying for the disk of a worker that is stopped."""
    await world.template()
    await world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": 3}})
    worker = await world.make("Worker", "w1", {"template": "metal", "pool": "exam"})
    now = world.clock.now()
    stopped = MachineStatus(id="i-w1", state="stopped", type="m5zn.metal")
    paid = PaidTime(machine="i-w1", disk_since=now, until=now)
    await world.status(worker, paid=paid, machine=stopped)
    found = await costs.read(world.services, ADMIN)
    left = (shares.month_end(now) - now).total_seconds() / 3600
    disk = (500 * 0.125 + 10_000 * 0.065) / (30 * 24)
    assert found.forecast == pytest.approx(disk * left, rel=1e-3)


async def test_a_disk_without_a_price_is_told_of_an_hour_too(world: World) -> None:
    """Of a running machine whose hour is stated and whose disk is not known, the hour is not whole."""
    far = {**MACHINE, "provider": {**MACHINE["provider"], "region": "eu-west-1"}}
    await world.make("Template", "far", {"machine": {**far, "hourlyPriceUsd": 5}})
    worker = await world.make("Worker", "w1", {"template": "far"})
    now = world.clock.now()
    paid = PaidTime(machine="i-w1", disk_since=now, running_since=now, ready_at=now)
    machine = MachineStatus(id="i-w1", state="running", type="m5zn.metal")
    await world.status(worker, paid=paid, machine=machine)
    found = await costs.read(world.services, ADMIN)
    assert found.per_hour is not None
    assert (found.per_hour.usd, found.per_hour.unpriced_hours) == (5, 1)


async def test_a_price_beyond_all_bounds_does_not_take_the_answer_from_all(world: World) -> None:
    """No machine is given one any more; of a machine that has one its hour is not known."""
    dear = {**MACHINE, "hourlyPriceUsd": 1e30}
    with pytest.raises(errors.Invalid, match="hourlyPriceUsd"):
        await world.make("Template", "dear", {"machine": dear})
    worker = await running(world, "w1")
    machine = msgspec.structs.replace(worker.spec.machine, hourly_price_usd=1e30)
    spec = msgspec.structs.replace(worker.spec, machine=machine)
    cause = stores.Cause("before", world.clock.now(), reason="Made")
    await world.services.objects.save(msgspec.structs.replace(worker, spec=spec), cause=cause)
    found = await costs.read(world.services, ADMIN)
    assert found.month.unpriced_hours == 1
    assert found.unpriced == ("m5zn.metal in us-east-1",)
    assert (await cost_statement.read(world.services, ADMIN)).unpriced == found.unpriced


async def test_the_history_of_runs_does_not_show_the_ledger(world: World) -> None:
    """Who reads past runs sees runs: rows of money fill no page, and cannot be brought in."""
    for number in range(5):
        await row(world, f"w{number}", hours=1)
    assert await past_runs.read(world.services, ADMIN, limit=2) == ((), None)
    with pytest.raises(errors.Invalid):
        await past_runs.read(world.services, ADMIN, kind=RunKind.PAID)


class Counted:
    """A history that counts the rows that are read of it."""

    def __init__(self, real: stores.HistoryStore) -> None:
        self.real = real
        self.read = 0

    async def history_size(self) -> stores.HistorySize:
        """Return how much there is."""
        return await self.real.history_size()

    async def history(self, after: int, **more: Any) -> tuple[KeptRun, ...]:
        """Return later rows."""
        found = await self.real.history(after, **more)
        self.read += len(found)
        return found

    async def newest_runs(self, **more: Any) -> tuple[KeptRun, ...]:
        """Return the newest rows."""
        found = await self.real.newest_runs(**more)
        self.read += len(found)
        return found


async def test_a_question_reads_what_is_new_and_no_finished_months(world: World) -> None:
    """The first question reads the month, each further one only rows that were written since."""
    since = START.replace(day=1, hour=0)
    for number in range(5):
        await row(world, f"w{number}", hours=1)
    counted = Counted(world.store)
    ledger = PaidLedger(counted)  # type: ignore[arg-type]
    assert len((await ledger.rows(RunKind.PAID, since))[0]) == 5
    first = counted.read
    assert len((await ledger.rows(RunKind.PAID, since))[0]) == 5
    assert counted.read == first
    await row(world, "w9", hours=1)
    rows, left_out = await ledger.rows(RunKind.PAID, since)
    assert (len(rows), left_out, counted.read) == (6, False, first + 1)
    later = (await ledger.rows(RunKind.PAID, START + timedelta(days=40)))[0]
    assert later == ()


async def test_a_machine_that_is_no_more_ours_is_paid_no_more(world: World) -> None:
    """What somebody takes back is closed then: it must not cost for ever."""
    worker = await running(world, "w1", hours=2)
    origin = Origin(kind="imported", instance_id="i-w1", managed=False)
    spec = msgspec.structs.replace(worker.spec, origin=origin)
    theirs = msgspec.structs.replace(worker, spec=spec)
    now = world.clock.now()
    paid, rows = paid_rows.of_worker(theirs, theirs.status, world.services.prices, now, None)
    assert paid is None
    assert {str(each.parameters["what"]) for each in rows} == {"running", "disk"}
    assert {each.ended_at for each in rows} == {now}
