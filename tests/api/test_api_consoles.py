"""How the nodes of a session's lab are reached, by REST, as far as the caller may know."""

from __future__ import annotations

from typing import Any

import pytest
from api_caller import Api
from fleet_world import MACHINE, START, who

from labfleet.resources.lab_orders import LabMember, LabOff
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import LabStatus, PortAllocation, Session, SessionPhase
from labfleet.resources.worker import WorkerPhase

PATH = "/api/v1/sessions/mine/consoles"


async def runs(api: Api) -> Session:
    """A lab of two nodes, of which one has a port and the other is off."""
    world = api.world
    await world.definition("two")
    worker = await world.make("Worker", "w1", {"machine": MACHINE})
    shown = MachineStatus(id="i-1", state="running", public_address="192.0.2.7")
    await world.status(worker, phase=WorkerPhase.ACTIVE, machine=shown)
    session = await world.session("mine", who("user", "kim"))
    lab = LabStatus(
        title="mine-1", marker="m", id="lab-1", state="STARTED",
        members=(LabMember(id="n1", label="r1"), LabMember(id="n2", label="r2")),
    )  # fmt: skip
    port = PortAllocation(name="r1_serial", node="r1", kind="serial", number=2043)
    stored: Session = await world.status(
        session, phase=SessionPhase.RUNNING, worker="w1", lab=lab, ports=(port,), ready_at=START,
        lab_off=LabOff(nodes=("r2",), by="kim", at=START),
    )  # fmt: skip
    await world.services.fresh()
    return stored


async def nodes(api: Api, **how: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.call("GET", PATH, **how)).json["nodes"]
    return found


@pytest.mark.asyncio
async def test_each_node_is_told_with_its_ports_and_whether_it_is_off(api: Api) -> None:
    """Operators see CML's console server too; owners what their access shows, strangers nothing."""
    await runs(api)
    one, two = await nodes(api, role="operator")
    assert one["ports"][0]["url"] == "telnet://192.0.2.7:2043"
    assert (one["nodeId"], one["cmlConsole"], one["off"]) == ("n1", "/mine-1/r1/0", False)
    assert (two["ports"], two["off"]) == ([], True)
    own = (await api.call("GET", PATH, role="user", owner="kim")).json
    assert own["nodes"][0]["ports"] == one["ports"]
    assert (own["nodes"][0]["cmlConsole"], own["cmlUrl"], own["labUrl"]) == (None, None, None)
    assert (await api.call("GET", PATH, role="user", owner="eve")).status == 404


@pytest.mark.asyncio
async def test_who_sees_no_address_sees_no_console(api: Api) -> None:
    """The setting that hides addresses hides these too, and a lab that is not up has none."""
    session = await runs(api)
    await api.world.make("Settings", "fleet", {"access": {"userSees": "nothing"}})
    await api.world.services.fresh()
    hidden = (await api.call("GET", PATH, role="user", owner="kim")).json
    assert (hidden["host"], hidden["nodes"]) == (None, [])
    assert "userSees" in hidden["message"]
    await api.world.status(session, phase=SessionPhase.SCHEDULED, lab=None)
    early = (await api.call("GET", PATH, role="operator")).json
    assert (early["nodes"], early["message"]) == ([], "its lab is not up")
