"""The monthly statement against the simulator's meter, which shares no code with the product.

The meter counts what its instances really did; the product sees them through the adapter at the
times at which it looks, is killed between looks and between a look and its commit, and keeps what
it knows in a real store.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from labfleet.controllers.worker.described import machine_status
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import paid_rows
from labfleet.service.reads import cost_statement, costs

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from fleet_world import ADMIN, MACHINE, who, world

AWS = {"volume_size_gib": 250, "volume_type": "io1", "volume_iops": 10_000}
REGION = "us-east-1"
pytestmark = pytest.mark.asyncio


class Life:
    """One worker's machine, looked at by processes that are killed now and then."""

    def __init__(self, name, fleet):
        self.name = name
        self.fleet = fleet
        self.looked = None
        self.machine = None

    async def launch(self):
        """Launch the machine, and record the answer as the controller does."""
        machine = {**MACHINE, "provider": {**MACHINE["provider"], "volumeSizeGib": 250}}
        await self.fleet.world.make("Template", f"t-{self.name}", {"machine": machine})
        await self.fleet.world.make("Worker", self.name, {"template": f"t-{self.name}"})
        found = await self.fleet.ec2.launch(self.fleet.cloud.request(self.name, aws=AWS))
        self.machine = found.id
        await self._record(found)

    async def look(self, *, killed=False):
        """Look at the machine; a process that is killed commits nothing and remembers nothing."""
        found = await self.fleet.ec2.describe(REGION, self.machine)
        if not killed:
            await self._record(found)
        self.looked = None if killed else self.fleet.clock.now()

    def killed(self):
        """Forget what a process keeps in memory."""
        self.looked = None

    async def _record(self, found):
        services = self.fleet.world.services
        worker = await services.objects.get(Worker, self.name, "default")
        shown = machine_status(found)
        gone = shown.state == "gone"
        phase = WorkerPhase.TERMINATED if gone else worker.status.phase
        after = msgspec.structs.replace(worker.status, machine=shown, phase=phase)
        paid, rows = paid_rows.of_worker(
            worker, after, services.prices, self.fleet.clock.now(), self.looked
        )
        after = msgspec.structs.replace(after, paid=paid)
        if after == worker.status:
            return
        cause = stores.Cause("worker-controller", self.fleet.clock.now(), reason="looked")
        new = msgspec.structs.replace(worker, status=after)
        taught = tuple(stores.Teach(each) for each in rows)
        await services.objects.save(new, cause=cause, writes=taught)


class Fleet:
    """Machines of one account, and the clock that both sides share."""

    def __init__(self, cloud, ec2, opened):
        self.cloud, self.ec2, self.world = cloud, ec2, opened
        self.clock = opened.clock
        self.pass_time(0)
        self.begun = self.clock.now()

    def pass_time(self, seconds):
        """Let time pass for both."""
        now = self.cloud.ask("POST", "clock", {"advance": seconds, "speed": 0})["now"]
        self.clock.instant = datetime.fromtimestamp(now, tz=UTC)

    def months(self):
        """Return the months in which the test has been: one, or two when it began late."""
        return sorted({f"{self.begun:%Y-%m}", f"{self.clock.now():%Y-%m}"})

    def meter(self):
        """Return what the meter says of each month, in cents."""
        found = [self.cloud.ask("GET", f"bill?month={month}") for month in self.months()]
        assert [each["unknown"] for each in found] == [[]] * len(found)
        return [each["cents"] for each in found]


@pytest_asyncio.fixture
async def fleet(cloud, ec2):
    async with world() as opened:
        cloud.ask("POST", "clock", {"speed": 0})
        yield Fleet(cloud, ec2, opened)
        cloud.ask("POST", "clock", {"speed": 1})


async def cents(fleet):
    """Return the sum of each month's rows, as somebody adds up the CSV; in cents."""
    sums = []
    for month in fleet.months():
        found = await cost_statement.read(fleet.world.services, ADMIN, month=month)
        assert found.unpriced == ()
        total = sum(round(each.usd * 1_000_000) for each in found.rows)
        assert total == round(found.usd * 1_000_000)
        sums.append(round(total / 10_000))
    return sums


async def test_the_statement_is_the_meter_to_the_cent(fleet):
    """After stops, starts, an end, strangers' acts and kills the rows come to what the meter says."""
    one, two = Life("one", fleet), Life("two", fleet)
    await one.launch()
    fleet.pass_time(60)
    await two.launch()
    await one.look(killed=True)
    fleet.pass_time(360)
    await one.look()
    await two.look()
    fleet.pass_time(60)  # 480 s after the launch: running
    await one.look()
    await two.look()  # a look no older than a minute is what tells a start to the second
    fleet.pass_time(60)
    await two.look()
    assert await cents(fleet) == fleet.meter()
    fleet.pass_time(5_000)
    await fleet.ec2.stop(REGION, one.machine)
    one.killed()  # between the call and the record of its answer
    fleet.pass_time(1_234)
    await one.look(killed=True)
    await one.look()
    assert await cents(fleet) == fleet.meter()
    fleet.pass_time(3_600)
    await fleet.ec2.start(REGION, one.machine)
    fleet.pass_time(440)
    await one.look()
    fleet.pass_time(40)
    await one.look()
    fleet.pass_time(17)  # a start costs a minute at least
    await fleet.ec2.stop(REGION, one.machine)
    fleet.cloud.hand("terminate", two.machine)  # a stranger, while no process lives
    two.killed()
    fleet.pass_time(300)
    await one.look()
    await two.look()
    assert await cents(fleet) == fleet.meter()
    fleet.pass_time(40_000)
    await fleet.ec2.terminate(REGION, one.machine)
    fleet.pass_time(300)
    await one.look()
    await one.look(killed=True)
    await one.look()
    assert await cents(fleet) == fleet.meter()
    fleet.pass_time(9_000)  # nothing is left that costs anything
    assert await cents(fleet) == fleet.meter()
    assert sum(fleet.meter()) > 1_500


async def test_a_start_that_nobody_saw_is_wrong_by_no_more_than_is_said(fleet):
    """While no process lives at a start, the statement counts from the launch, and says the doubt."""
    one = Life("one", fleet)
    await one.launch()
    fleet.pass_time(7_000)
    one.killed()
    await one.look()
    found = await cost_statement.read(fleet.world.services, ADMIN)
    more = found.usd * 100 - fleet.meter()[-1]
    assert 0 <= more <= found.uncertain * 100
    assert found.uncertain > 0


async def test_only_operators_read_statements(fleet):
    """A user sees neither statements nor what others' sessions or pools cost; a program nothing."""
    services = fleet.world.services
    with pytest.raises(errors.Denied):
        await cost_statement.read(services, who("user", "ada"))
    with pytest.raises(errors.Denied):
        await costs.read(services, who("user", "ada"), by="pool")
    with pytest.raises(errors.Denied):
        await costs.read(services, who("controller"), by="session")
    mine = await costs.read(services, who("user", "ada"), by="session")
    assert (mine.per_hour, mine.today, mine.forecast) == (None, None, None)
