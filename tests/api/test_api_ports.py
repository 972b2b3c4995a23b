"""A worker's ports, by REST: which are used or held, by whom, and who may know that."""

from __future__ import annotations

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE, START, who

from labfleet.resources.held_ports import HeldPorts
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import LabStatus, PortAllocation, SessionPhase
from labfleet.resources.worker import CmlStatus, Worker, WorkerPhase

PATH = "/api/v1/workers/w1/ports"


async def held(api: Api) -> None:
    """One session that runs, one that is being removed, and a stranger's lab."""
    world = api.world
    await world.definition("two")
    worker = await world.make("Worker", "w1", {"machine": MACHINE})
    theirs = HeldPorts(transport="tcp", first=5041, last=5042, lab="lab-9", since=START)
    shown = MachineStatus(id="i-1", state="running")
    await world.status(worker, phase=WorkerPhase.ACTIVE, machine=shown, cml=CmlStatus(labs=3),
                       held_ports=(theirs,))  # fmt: skip
    for name, phase, number in (
        ("runs", SessionPhase.RUNNING, 2000), ("goes", SessionPhase.STOPPING, 2001),
    ):  # fmt: skip
        session = await world.session(name, who("user", "kim"))
        port = PortAllocation(name="r1_serial", node="r1", kind="serial", number=number)
        lab = LabStatus(title="t", marker="m", id=f"lab-{name}")
        await world.status(
            session, phase=phase, worker="w1", lab=lab, ports=(port,), scheduled_at=START,
            message="stopping the lab",
        )  # fmt: skip
    await world.services.fresh()


@pytest.mark.asyncio
async def test_a_workers_ports_say_by_whom_why_and_since_when(api: Api) -> None:
    """Used and held are told apart and counted, here and in the worker itself."""
    assert (await api.call("GET", PATH)).status == 404
    await held(api)
    found = (await api.call("GET", PATH)).json
    assert [(each["first"], each["state"], each["session"], each["owner"]) for each in found["ports"]] == [
        (2000, "used", "runs", "kim"), (2001, "held", "goes", "kim"), (5041, "held", "", ""),
    ]  # fmt: skip
    assert "stopping the lab" in found["ports"][1]["why"]
    assert "lab-9" in found["ports"][2]["why"]
    assert found["use"]["tcp"] == {"used": 1, "held": 3, "free": 5996}
    worker = (await api.call("GET", "/api/v1/workers/w1")).json
    assert worker["status"]["ports"] == found["use"]
    stored = await api.world.services.objects.get(Worker, "w1", "default")
    assert stored is not None
    assert stored.status.ports is None


@pytest.mark.asyncio
async def test_people_are_not_told_whose_ports_there_are(api: Api) -> None:
    """Workers are not theirs to read, and so neither are the names of others on them."""
    await held(api)
    refused = await api.call("GET", PATH, role="user", owner="kim")
    assert refused.status == 403
    assert "kim" not in msgspec.json.encode(refused.json).decode()


@pytest.mark.asyncio
async def test_a_worker_that_is_over_has_no_ports(api: Api) -> None:
    """Unknown is not zero: there is nothing to be counted of it."""
    await held(api)
    worker = await api.world.services.objects.get(Worker, "w1", "default")
    await api.world.status(worker, phase=WorkerPhase.TERMINATED)
    await api.world.services.fresh()
    found = (await api.call("GET", PATH)).json
    assert (found["use"], found["ports"], found["more"]) == (None, [], 0)
