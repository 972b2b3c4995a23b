"""Why a node stays QUEUED, and how lost tags are written back."""

from __future__ import annotations

import pytest
from loopback_cml import LAB, world
from scripted_cml import ScriptedCml, host_on, ok, refused

from cml_simulator.core.profile import Rules
from cml_simulator.core.server import Admission
from labfleet.adapters.cml import waiting
from labfleet.kernel import errors

QUEUED = ok([{"id": "n1", "label": "R1", "cpus": 1, "cpu_limit": 100, "ram": 512}])


@pytest.mark.asyncio
async def test_an_empty_queue_costs_one_request():
    """Only when something waits is asked what it waits for."""
    server = ScriptedCml({"GET diagnostics/node_launch_queue": ok([])})
    assert await host_on(server).queue() == {}
    assert list(server.count()) == ["GET diagnostics/node_launch_queue"]


@pytest.mark.asyncio
async def test_what_holds_a_node_up_is_told():
    """No READY compute, a used-up licence, a full pool: each is named, in four requests."""
    host = {"hostname": "c1", "admission_state": "ONLINE", "is_connected": True}
    pool = {"label": "exam", "limit": {"ram": 1024, "cpus": None}, "usage": {"ram": 1024}}
    server = ScriptedCml(
        {
            "GET diagnostics/node_launch_queue": QUEUED,
            "GET system/compute_hosts": ok([host]),
            "GET diagnostics/licensing": ok({"quota": 5, "started": 5}),
            "GET resource_pool_usage": ok([pool]),
        }
    )
    told = (await host_on(server).queue())["n1"]
    for part in ("needs 1 vCPU", "c1 is ONLINE", "5 of 5 licensed", "pool exam is full (ram"):
        assert part in told
    assert len(server.log) <= 5


@pytest.mark.asyncio
async def test_what_cannot_be_asked_is_left_out():
    """A refusal of a helper call leaves the queue's own words."""
    server = ScriptedCml(
        {
            "GET diagnostics/node_launch_queue": QUEUED,
            "GET system/compute_hosts": refused(403),
            "GET diagnostics/licensing": refused(500),
        }
    )
    told = (await host_on(server).queue())["n1"]
    assert told.endswith("512 MiB")


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ([], []),
        (None, []),
        ([{"admission_state": "READY"}], []),
        (
            [{"hostname": "c", "admission_state": "READY", "is_connected": False}],
            ["no compute takes nodes: c is not connected"],
        ),
    ],
)
def test_computes_that_take_nodes_hold_nothing_up(hosts, told):
    """READY and connected is enough; nothing told is no reason."""
    assert waiting.computes(hosts) == told


@pytest.mark.asyncio
async def test_a_drained_compute_of_the_simulator_is_the_reason():
    """ONLINE takes no new nodes: the queue says so."""
    async with world(rules=Rules()) as cml:
        lab_id = await cml.host.import_lab(LAB, title="t")
        cml.server.admission = Admission.ONLINE
        await cml.host.start(lab_id)
        told = await cml.host.queue()
        assert told
        assert all("ONLINE" in each for each in told.values())


@pytest.mark.asyncio
async def test_tags_are_replaced_and_a_lab_that_is_gone_is_gone():
    """The node has the new tags; the second time changes nothing; 404 is Gone."""
    async with world() as cml:
        lab_id = await cml.host.import_lab(LAB, title="t")
        [pc] = [each for each in await cml.host.nodes(lab_id) if each.label == "PC"]
        for _ in range(2):
            await cml.host.set_tags(lab_id, pc.id, ["serial:5099", "web"])
        [pc] = [each for each in await cml.host.nodes(lab_id) if each.label == "PC"]
        assert pc.tags == ("serial:5099", "web")
        await cml.host.delete(lab_id)
        with pytest.raises(errors.Gone):
            await cml.host.set_tags(lab_id, pc.id, [])
