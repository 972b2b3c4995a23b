"""An account that is dry or down: what the faults do, and what the rules on it judge."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from labfleet.rehearsal.faults import FaultPlan, ScheduledFault
from labfleet.rehearsal.rules.provider import NOTICED_SECONDS, Provider
from labfleet.rehearsal.stage.scheduled_faults import play
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources import conditions
from labfleet.resources.machine import CmlSettings, Machine, MachineStatus
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

LONG, SHORT = 0.0, 0.4
"""Numbers of a plan with which a fault is everywhere or long, and with which it is not."""


@pytest.mark.parametrize("word", ["no_stock", "ec2_down"])
@pytest.mark.parametrize("pick", [LONG, SHORT])
def test_one_in_four_is_long_and_ends(word: str, pick: float) -> None:
    """Everywhere for longer than a launch may take, or down for longer than people may wait."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        acting = loop.create_task(play(stage, ScheduledFault(0, word, 0.0, 300.0, pick)))
        zones = ("subnet-a", "subnet-b", "subnet-c")
        await asyncio.sleep(200)
        held = [stage.injector.holds(word, zone) for zone in zones]
        assert all(held) is (pick is LONG or word == "ec2_down")
        await asyncio.sleep(1550)
        assert all(stage.injector.holds(word, zone) for zone in zones) is (pick is LONG)
        await acting
        assert not any(stage.injector.holds(word, zone) for zone in zones)

    loops.run(1, main)


def _worker(phase: WorkerPhase, *facts: tuple[WorkerCondition, str, WorkerReason]) -> Worker:
    made: tuple[conditions.Condition, ...] = ()
    for name, status, reason in facts:
        told = "AWS us-east-1 does not answer"
        made = conditions.put(made, name, status, reason, told, now=EPOCH)  # type: ignore[arg-type]
    machine = Machine(cml=CmlSettings(admin_password=SecretRef(env="X")))
    status = WorkerStatus(phase=phase, machine=MachineStatus(state="running"), conditions=made)
    return Worker(metadata=Metadata(name="w1"), spec=WorkerSpec(machine=machine), status=status)


def test_a_worker_is_judged_by_what_its_machine_had() -> None:
    """Half an hour without room is no half hour of a launch; one of trying is."""

    async def main(loop: loops.Loop) -> None:
        stage, told = Stage(loop, 1, FaultPlan()), []
        rule = Provider(lambda word, text: told.append((word, text)), stage.cloud)
        waits = _worker(WorkerPhase.PROVISIONING_EC2)
        reason = WorkerReason.LAUNCH_TIMEOUT
        failed = _worker(WorkerPhase.FAILED, (WorkerCondition.FAILED, "True", reason))
        rule.worker(None, waits)
        end = rule.begin("no_stock")
        await asyncio.sleep(1900)
        end()
        rule.worker(waits, failed)
        assert [word for word, _ in told] == ["limit"]
        rule.worker(failed, waits)
        await asyncio.sleep(1900)
        rule.worker(waits, failed)
        assert len(told) == 1

    loops.run(1, main)


def test_a_worker_that_waits_long_has_to_name_the_cause() -> None:
    """What says so in time, shows nothing as true and raises no symptom is let be."""

    async def main(loop: loops.Loop) -> None:
        stage, told = Stage(loop, 1, FaultPlan()), []
        rule = Provider(lambda word, text: told.append(text), stage.cloud)
        mute = _worker(
            WorkerPhase.TERMINATING_EC2,
            (WorkerCondition.MACHINE_PROVISIONED, "True", WorkerReason.RUNNING),
            (WorkerCondition.LATE, "True", WorkerReason.TERMINATE_LATE),
        )
        cause = (WorkerCondition.PROVIDER_ANSWERS, "False", WorkerReason.PROVIDER_SILENT)
        good = _worker(WorkerPhase.TERMINATING_EC2, cause)
        status = msgspec.structs.replace(good.status, message="terminating; held up: AWS")
        good = msgspec.structs.replace(good, status=status)
        rule.worker(None, mute)
        end = rule.begin("ec2_down")
        await asyncio.sleep(NOTICED_SECONDS - 60)
        rule.patrol([mute])
        assert told == []
        await asyncio.sleep(120)
        rule.patrol([good])
        assert told == []
        rule.patrol([mute])
        assert len(told) == 1
        for words in ("does not say so", "MachineProvisioned True", "raises Late"):
            assert words in told[0]
        end()
        rule.patrol([mute])
        assert len(told) == 1

    loops.run(1, main)


def test_no_fault_outlasts_the_plan() -> None:
    """When the plan is over EC2 answers again, though the fault's own span goes on (seed 95)."""

    async def main(loop: loops.Loop) -> None:
        stage, told = Stage(loop, 1, FaultPlan()), []
        rule = Provider(lambda word, text: told.append(text), stage.cloud)
        booting = _worker(WorkerPhase.TERMINATING_EC2)
        rule.worker(None, booting)
        rule.begin("ec2_down")
        await asyncio.sleep(NOTICED_SECONDS + 60)
        stage.injector.stop()
        rule.patrol([booting])
        assert told == []

    loops.run(1, main)
