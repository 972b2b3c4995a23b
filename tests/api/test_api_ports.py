"""A worker's ports, by REST: which are used or held, by whom, and who may know that."""

from __future__ import annotations

import msgspec
import pytest
from api_caller import Api
from fleet_world import MACHINE, START, who

from labfleet.decisions import port_holders
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


@pytest.mark.asyncio
async def test_a_person_releases_a_held_port_with_a_reason(api: Api) -> None:
    """Its numbers alone are free, who and why stand beside them, and saying it twice changes nothing."""
    await held(api)
    sent = {"first": 5041, "reason": "lab-9 is switched off"}
    done = await api.call("POST", f"{PATH}/release", sent)
    assert done.status == 200
    rows = [(each["first"], each["state"]) for each in done.json["ports"][2:]]
    assert rows == [(5041, "released"), (5042, "held")]
    assert "lab-9 is switched off" in done.json["ports"][2]["why"]
    assert done.json["use"]["tcp"] == {"used": 1, "held": 2, "free": 5997}
    worker = await api.world.services.objects.get(Worker, "w1", "default")
    assert worker.status.foreign_ports == ("tcp/5042",)
    assert (await api.call("POST", f"{PATH}/release", sent)).json == done.json
    again = await api.world.services.objects.get(Worker, "w1", "default")
    assert again.revision == worker.revision


@pytest.mark.asyncio
async def test_only_what_a_lab_holds_unasked_is_released_and_only_by_operators(api: Api) -> None:
    """A session's port, a free number, no reason, a wrong stretch: each is refused with its why."""
    await held(api)
    for sent, status, said in (
        ({"first": 2001, "reason": "x"}, 409, "session 'goes'"),
        ({"first": 3000, "reason": "x"}, 409, "no lab holds tcp/3000"),
        ({"first": 5041, "transport": "udp", "reason": "x"}, 409, "no lab holds udp/5041"),
        ({"first": 5041, "lab": "lab-8", "reason": "x"}, 409, "no lab holds"),
        ({"first": 5041}, 400, "reason"),
        ({"first": 5041, "reason": " "}, 400, "say why"),
        ({"first": 5041, "reason": "a\nb"}, 400, "say why"),
        ({"first": 5041, "last": 5040, "reason": "x"}, 400, "below first"),
        ({"first": 0, "reason": "x"}, 400, "first"),
        ({"first": 5041, "reason": "x" * 201}, 400, "reason"),
    ):
        refused = await api.call("POST", f"{PATH}/release", sent)
        assert refused.status == status, sent
        assert said in msgspec.json.encode(refused.json).decode()
    right = {"first": 5041, "reason": "x"}
    for role in ("user", "controller", "runner"):
        refused = await api.call("POST", f"{PATH}/release", right, role=role, owner="kim")
        assert refused.status == 403
    assert (await api.call("POST", f"{PATH}/release", right, role="operator")).status == 200


@pytest.mark.asyncio
async def test_releases_never_cut_a_record_into_more_than_it_holds(api: Api) -> None:
    """Else the next look would hold all ports of the worker; the one too many says what to do."""
    await held(api)
    worker = await api.world.services.objects.get(Worker, "w1", "default")
    ours = worker.status.held_ports[0]
    cut = [
        msgspec.structs.replace(ours, first=number, last=number)
        for number in range(5000, 5000 + 2 * port_holders.KEPT - 4, 2)
    ]
    whole = msgspec.structs.replace(ours, first=7000, last=7009)
    await api.world.status(worker, held_ports=(*cut, whole))
    await api.world.services.fresh()
    refused = await api.call("POST", f"{PATH}/release", {"first": 7005, "reason": "x"})
    assert (refused.status, refused.json["reason"]) == (409, "TooManyStretches")
    longer = {"first": 7000, "last": 7009, "reason": "x"}
    assert (await api.call("POST", f"{PATH}/release", longer)).status == 200
