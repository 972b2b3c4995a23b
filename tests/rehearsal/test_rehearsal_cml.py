"""CML servers behind LabHost without HTTP: boots, labs, licences, ports, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from cml_simulator.core import fleet as servers
from labfleet.interfaces.lab_host import HostAddress, LabHost
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.people import people
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SECRET, SeededRng
from labfleet.rehearsal.worlds import cml
from labfleet.rehearsal.worlds.port_probe import PortProbe
from labfleet.rehearsal.worlds.wire import Wire

LAB = people.topology("pair", ["alpine", "alpine"])


@dataclass
class Rack:
    """One server that boots, and a host for it."""

    cml_servers: cml.CmlServers
    server: servers.Server
    host: LabHost
    probe: PortProbe
    address: str
    injector: FaultInjector


async def rack(loop: loops.Loop, plan: FaultPlan | None = None) -> Rack:
    """Switch a server on."""
    injector = FaultInjector(plan or FaultPlan(), SeededRng("luck"))
    cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
    wire = Wire(loop, SeededRng("wire"), injector, cml.CALL_PROFILE)
    server = servers.create(cml_servers.fleet)
    ip = cml_servers.boot(server.id, hangs=False)
    address = HostAddress("w1", f"https://{ip}:443", "boot-1", "admin", SECRET)
    host = cml.DirectHosts(cml_servers, wire).at(address)
    return Rack(cml_servers, server, host, PortProbe(cml_servers, wire), ip, injector)


def play(story: Callable[[Rack], Awaitable[None]], plan: FaultPlan | None = None) -> None:
    """Run a story on a server that was just switched on."""

    async def main(loop: loops.Loop) -> None:
        await story(await rack(loop, plan))

    loops.run(1, main)


def test_a_boot_shows_its_stages() -> None:
    """Refused, 502, not ready, ready: in this order and no other."""

    async def story(rack: Rack) -> None:
        seen = []
        while not seen or seen[-1] != "ready":
            stage = (await rack.host.readiness()).stage
            if not seen or seen[-1] != stage:
                seen.append(stage)
            await asyncio.sleep(5)
        assert seen == ["refused", "bad_gateway", "not_ready", "ready"]

    play(story)


def test_a_server_that_is_off_is_unreachable() -> None:
    """Its address leads nowhere."""

    async def story(rack: Rack) -> None:
        rack.cml_servers.stop(rack.server.id)
        assert (await rack.host.readiness()).stage == "unreachable"
        with pytest.raises(errors.Unreachable):
            await rack.host.labs()

    play(story)


def test_a_labs_life() -> None:
    """Import, start, boot, ports, stop, wipe, delete; each refused before its time."""

    async def story(rack: Rack) -> None:
        await asyncio.sleep(600)
        text = LAB.replace("serial:5001", "serial:2001").replace("vnc:5901", "vnc:2002")
        lab = await rack.host.import_lab(text, title="pair")
        await rack.host.start(lab)
        assert await rack.host.converged(lab) is False
        with pytest.raises(errors.Conflict):
            await rack.host.wipe(lab)
        await asyncio.sleep(120)
        assert await rack.host.converged(lab) is True
        assert {node.state for node in await rack.host.nodes(lab)} == {"BOOTED"}
        assert await rack.probe.answers(rack.address, 2001)
        assert not await rack.probe.answers(rack.address, 2003)
        seen = await rack.host.observe(lab)
        assert len(seen.nodes) == 2
        assert seen.simulation_stats
        await rack.host.stop(lab)
        await asyncio.sleep(10)
        await rack.host.wipe(lab)
        await rack.host.delete(lab)
        await rack.host.delete(lab)
        with pytest.raises(errors.Gone):
            await rack.host.lab(lab)

    play(story)


def test_a_licence_is_taken_and_given_back() -> None:
    """Registration takes its time; running nodes hold a deregistration back."""

    async def story(rack: Rack) -> None:
        await asyncio.sleep(600)
        for _ in range(3):
            await rack.host.register("CML_Enterprise", SECRET, expansion_nodes=180)
            await asyncio.sleep(20)
        told = await rack.host.licensing()
        assert (told.licensed, told.node_capacity) == (True, 200)
        lab = await rack.host.import_lab(LAB, title="pair")
        await rack.host.start(lab)
        with pytest.raises(errors.Conflict) as caught:
            await rack.host.deregister()
        assert caught.value.reason == "NodesRunning"
        await rack.host.stop(lab)
        await asyncio.sleep(10)
        rack.server.licence.reachable = False
        assert await rack.host.deregister() == "cloud_not_told"
        assert await rack.host.deregister() == "not_registered"
        assert rack.server.config.identity.product_uuid in rack.cml_servers.fleet.cloud.held

    play(story)


def test_a_lost_import_is_ambiguous_and_there() -> None:
    """The lab stands on the server although nobody was told its id."""

    async def story(rack: Rack) -> None:
        await asyncio.sleep(600)
        with pytest.raises(errors.Ambiguous):
            await rack.host.import_lab(LAB, title="pair")
        assert len(rack.server.labs) == 1

    play(story, FaultPlan(rates={"call_lost_after": 1.0}))


def test_a_server_out_of_reach_answers_nobody() -> None:
    """While its window is open neither calls nor probes get through."""

    async def story(rack: Rack) -> None:
        await asyncio.sleep(600)
        close = rack.injector.begin("server_unreachable", rack.address)
        with pytest.raises(errors.Unreachable):
            await rack.host.labs()
        assert not await rack.probe.answers(rack.address, 2001)
        close()
        assert await rack.host.labs() == ()

    play(story)
