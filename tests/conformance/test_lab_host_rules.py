"""LabHost means the same in the rehearsal's direct world and through the real CML adapter.

Both stand before the same simulated server in virtual time; only the adapter speaks HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from cml_simulator.core import definition_store
from cml_simulator.core import fleet as servers
from cml_simulator.core.profile import RELEASES, Profile
from cml_simulator.core.world import Server
from labfleet.adapters.cml import parsing
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.interfaces.lab_host import HostAddress, LabHost, LabHosts
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector, FaultPlan
from labfleet.rehearsal.people import people
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.time.virtual_host import SECRET, SeededRng
from labfleet.rehearsal.worlds import cml, cml_wire
from labfleet.rehearsal.worlds.wire import Wire
from labfleet.resources.image import NAMES_KEPT, Catalogue

LAB = people.topology("pair", ["alpine", "alpine"])
PORTED = LAB.replace("serial:5001", "serial:2001").replace("vnc:5901", "vnc:2002")
BOOTED = 900.0


@dataclass
class Place:
    """One server, and one of the two ways to it."""

    cml_servers: cml.CmlServers
    server: Server
    hosts: LabHosts
    address: HostAddress

    @property
    def host(self) -> LabHost:
        """The host of the present boot."""
        return self.hosts.at(self.address)

    async def lab(self, text: str = LAB, title: str = "pair") -> str:
        """Import a lab and start it."""
        lab = await self.host.import_lab(text, title=title)
        await self.host.start(lab)
        return lab

    async def licensed(self) -> None:
        """Take a licence with expansion nodes."""
        for _ in range(3):
            await self.host.register("CML_Enterprise", SECRET, expansion_nodes=180)
            await asyncio.sleep(30)


Story = Callable[[Place], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(params=["direct", "wire"])
def play(request: pytest.FixtureRequest) -> Play:
    """Play a story on a server that was switched on `after` seconds ago."""

    def run(story: Story, *, after: float = BOOTED) -> None:
        async def main(loop: loops.Loop) -> None:
            injector = FaultInjector(FaultPlan(), SeededRng("luck"))
            cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
            server = servers.create(cml_servers.fleet)
            ip = cml_servers.boot(server.id, hangs=False)
            hosts: LabHosts
            if request.param == "wire":
                hosts = CmlHosts(
                    cml_wire.CmlNetwork(loop, SeededRng("door"), injector, cml_servers).connect
                )
            else:
                hosts = cml.DirectHosts(
                    cml_servers, Wire(loop, SeededRng("wire"), injector, cml.CALL_PROFILE)
                )
            address = HostAddress("w1", f"https://{ip}:443", "boot-1", "admin", SECRET)
            await asyncio.sleep(after)
            await story(Place(cml_servers, server, hosts, address))
            await hosts.close()

        loops.run(1, main)

    return run


def test_a_boot_shows_its_stages(play: Play) -> None:
    """Refused, 502, not ready, ready; the version is told when there is one."""

    async def story(place: Place) -> None:
        seen: list[str] = []
        while not seen or seen[-1] != "ready":
            told = await place.host.readiness()
            if not seen or seen[-1] != told.stage:
                seen.append(told.stage)
            await asyncio.sleep(5)
        assert seen == ["refused", "bad_gateway", "not_ready", "ready"]
        assert told.version is not None
        assert told.version.startswith("2.9")

    play(story, after=0.0)


def test_a_server_that_is_off_is_unreachable(play: Play) -> None:
    """Readiness says so, every verb raises Unreachable."""

    async def story(place: Place) -> None:
        place.cml_servers.stop(place.server.id)
        assert (await place.host.readiness()).stage == "unreachable"
        host = place.host
        for call in (host.authenticate, host.labs, host.system_stats, host.licensing):
            with pytest.raises(errors.Unreachable):
                await call()

    play(story)


def test_a_server_that_boots_says_booting(play: Play) -> None:
    """No verb takes a refused connection or nginx's page for an answer."""

    async def story(place: Place) -> None:
        for _ in range(2):
            with pytest.raises(errors.Booting):
                await place.host.labs()
            await asyncio.sleep(60)

    play(story, after=20.0)


def test_a_wrong_password_is_denied(play: Play) -> None:
    """It is neither unreachable nor a reason to wait."""

    async def story(place: Place) -> None:
        await place.host.authenticate()
        place.address = replace(place.address, password="another")
        with pytest.raises(errors.Denied):
            await place.host.authenticate()

    play(story)


def test_a_labs_life(play: Play) -> None:
    """Import, start, boot, stop, wipe, delete: each verb may be repeated, each has its time."""

    async def story(place: Place) -> None:
        host = place.host
        lab = await host.import_lab(LAB, title="pair / ü")
        [found] = await host.labs()
        assert (found.id, found.title, found.state) == (lab, "pair / ü", "DEFINED_ON_CORE")
        assert await host.lab(lab) == found
        await host.start(lab)
        await host.start(lab)
        assert await host.converged(lab) is False
        for early in (host.wipe, host.delete):
            with pytest.raises(errors.Conflict) as caught:
                await early(lab)
            assert caught.value.reason == "Later"
        await asyncio.sleep(120)
        assert await host.converged(lab) is True
        assert {node.state for node in await host.nodes(lab)} == {"BOOTED"}
        assert (await host.lab(lab)).state == "STARTED"
        for verb in (host.stop, host.wipe):
            await verb(lab)
            await verb(lab)
            await asyncio.sleep(30)
        assert (await host.lab(lab)).state == "DEFINED_ON_CORE"
        await host.delete(lab)
        await host.delete(lab)
        assert await host.labs() == ()

    play(story)


def test_what_is_gone_is_gone(play: Play) -> None:
    """A lab that is not there is Gone to all but delete."""

    async def story(place: Place) -> None:
        host = place.host
        for verb in (host.lab, host.nodes, host.start, host.stop, host.wipe, host.converged):
            with pytest.raises(errors.Gone):
                await verb("no-such-lab")
        await host.delete("no-such-lab")

    play(story)


def test_broken_topologies_are_invalid(play: Play) -> None:
    """CML's refusal is the author's to mend, and leaves no lab."""

    async def story(place: Place) -> None:
        for text in ("nodes: [", "lab: {}\nnodes: 7\nlinks: []\n"):
            with pytest.raises(errors.Invalid):
                await place.host.import_lab(text, title="broken")
        assert await place.host.labs() == ()

    play(story)


def test_the_marker_comes_back_in_the_notes(play: Play) -> None:
    """What the importer wrote is what the look-up finds."""

    async def story(place: Place) -> None:
        told = yaml.safe_load(LAB)
        told["lab"]["notes"] = "labfleet/marker-7"
        lab = await place.host.import_lab(yaml.safe_dump(told), title="pair")
        assert (await place.host.lab(lab)).notes == "labfleet/marker-7"
        assert (await place.host.labs())[0].notes == "labfleet/marker-7"

    play(story)


def test_node_values_are_the_same_by_every_way(play: Play) -> None:
    """One lab's nodes, all nodes and the observation agree, before and after the start."""

    async def story(place: Place) -> None:
        host = place.host
        lab = await host.import_lab(PORTED, title="pair")
        before = await host.nodes(lab)
        assert await host.all_nodes() == before
        await host.start(lab)
        await asyncio.sleep(120)
        after = await host.nodes(lab)
        assert await host.all_nodes() == after
        seen = await host.observe(lab)
        assert seen.nodes == after
        assert seen.gaps == ()
        assert seen.simulation_stats
        assert {each.node_id for each in seen.interfaces} <= {each.id for each in after}
        assert all((each.mac_address or "").startswith("52:54:00") for each in seen.interfaces)
        assert {each.definition for each in after} == {"alpine"}
        assert all(each.cpus and each.ram_mib for each in after)

    play(story)


def test_what_a_lab_uses_is_told_of_the_nodes_that_run(play: Play) -> None:
    """Nothing before the start, all of it by node id after; Gone for a lab that is not there."""

    async def story(place: Place) -> None:
        host = place.host
        lab = await host.import_lab(PORTED, title="pair")
        assert await host.lab_use(lab) == {}
        await host.start(lab)
        await asyncio.sleep(120)
        told = await host.lab_use(lab)
        nodes = {each.id: each for each in await host.nodes(lab)}
        assert told.keys() == nodes.keys()
        for identifier, figures in told.items():
            assert 0 < (figures.memory_mib or 0) <= (nodes[identifier].ram_mib or 0)
            assert figures.cpu_percent is not None
            assert 100 <= (figures.storage_mib or 0) < 2**20
        with pytest.raises(errors.Gone):
            await host.lab_use("00000000-0000-4000-8000-000000000000")

    play(story)


def test_port_tags_are_read_and_written(play: Play) -> None:
    """Tags of the import are there; set_tags replaces them all; Gone for an unknown node."""

    async def story(place: Place) -> None:
        host = place.host
        lab = await host.import_lab(PORTED, title="pair")
        tags = {tag for each in await host.nodes(lab) for tag in each.tags}
        assert {"serial:2001", "vnc:2002"} <= tags
        node = (await host.nodes(lab))[0]
        for _ in range(2):
            await host.set_tags(lab, node.id, ["serial:2009"])
        found = next(each for each in await host.nodes(lab) if each.id == node.id)
        assert found.tags == ("serial:2009",)
        with pytest.raises(errors.Gone):
            await host.set_tags(lab, "no-such-node", [])

    play(story)


def test_an_unlicensed_server_starts_five_nodes(play: Play) -> None:
    """The sixth is refused as a lack of licence or waits in the queue: it never runs."""

    async def story(place: Place) -> None:
        for number in range(3):
            lab = await place.host.import_lab(LAB, title=f"pair {number}")
            with suppress(errors.OutOfCapacity):
                await place.host.start(lab)
        await asyncio.sleep(200)
        states = [each.state for each in await place.host.all_nodes()]
        assert states.count("BOOTED") <= 5
        waiting = await place.host.queue()
        assert len(waiting) == states.count("QUEUED")
        assert all("launch queue" in why for why in waiting.values())

    play(story)


def test_a_licence_is_taken_and_given_back(play: Play) -> None:
    """Registration takes its time, may be repeated, and expands; nodes hold its end back."""

    async def story(place: Place) -> None:
        host = place.host
        assert (await host.licensing()).node_capacity == 5
        assert await host.deregister() == "not_registered"
        await place.licensed()
        told = await host.licensing()
        assert (told.licensed, told.product, told.node_capacity) == (True, "CML_Enterprise", 200)
        lab = await place.lab()
        with pytest.raises(errors.Conflict) as caught:
            await host.deregister()
        assert caught.value.reason == "NodesRunning"
        await host.stop(lab)
        await asyncio.sleep(30)
        assert await host.deregister() == "done"
        assert await host.deregister() == "not_registered"
        assert (await host.licensing()).node_capacity == 5

    play(story)


def test_another_product_is_refused(play: Play) -> None:
    """A registered server is not silently registered anew."""

    async def story(place: Place) -> None:
        await place.licensed()
        with pytest.raises(errors.Invalid) as caught:
            await place.host.register("CML_Personal", SECRET, expansion_nodes=0)
        assert caught.value.reason == "OtherProduct"

    play(story)


def test_a_registered_server_registers_anew_when_asked(play: Play) -> None:
    """With another token, beside its labs; with a bad one it ends without a licence."""

    async def story(place: Place) -> None:
        host = place.host
        await place.licensed()
        lab = await place.lab()
        for token, fine in ((SECRET, True), ("bad", False)):
            before = place.server.licence.attempted
            await host.register("CML_Enterprise", token, expansion_nodes=180, again=True)
            assert place.server.licence.attempted != before
            assert (await host.licensing()).registration == "IN_PROGRESS"
            await asyncio.sleep(30)
            told = await host.licensing()
            assert (told.registration, told.licensed) == (
                ("COMPLETED", True) if fine else ("FAILED", False)
            )
        assert (await host.lab(lab)).state == "STARTED"

    play(story)


def test_a_server_without_a_licence_takes_one_also_when_asked_anew(play: Play) -> None:
    """Whoever lost the answer to a first call repeats it."""

    async def story(place: Place) -> None:
        await place.host.register("CML_Personal", SECRET, expansion_nodes=0, again=True)
        await asyncio.sleep(30)
        told = await place.host.licensing()
        assert (told.licensed, told.product) == (True, "CML_Personal")

    play(story)


def test_a_licence_cloud_out_of_reach(play: Play) -> None:
    """The server forgets its licence, the cloud is not told, and the caller hears it."""

    async def story(place: Place) -> None:
        await place.licensed()
        place.server.licence.reachable = False
        assert await place.host.deregister() == "cloud_not_told"
        assert place.server.config.identity.product_uuid in place.cml_servers.fleet.cloud.held

    play(story)


def test_health_and_sizes_agree_with_the_server(play: Play) -> None:
    """Stats and health have no gaps on a server that is up."""

    async def story(place: Place) -> None:
        stats = await place.host.system_stats()
        assert (stats.cpu_count, stats.gaps) == (48, {})
        assert (await place.host.system_health()).gaps == {}
        assert await place.host.maintenance() is False
        place.server.maintenance = True
        assert await place.host.maintenance() is True

    play(story)


def test_both_ways_tell_the_same() -> None:
    """One server, asked both ways at one instant: every record is equal."""
    told: list[list[Any]] = []

    async def main(loop: loops.Loop) -> None:
        injector = FaultInjector(FaultPlan(), SeededRng("luck"))
        cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
        server = servers.create(cml_servers.fleet)
        ip = cml_servers.boot(server.id, hangs=False)
        address = HostAddress("w1", f"https://{ip}:443", "boot-1", "admin", SECRET)
        await asyncio.sleep(BOOTED)
        direct = cml.DirectHosts(
            cml_servers, Wire(loop, SeededRng("wire"), injector, cml.CALL_PROFILE)
        )
        wire = CmlHosts(cml_wire.CmlNetwork(loop, SeededRng("door"), injector, cml_servers).connect)
        place = Place(cml_servers, server, wire, address)
        await place.licensed()
        lab = await place.lab(PORTED)
        await asyncio.sleep(300)
        for hosts in (direct, wire):
            host = hosts.at(address)
            told.append(
                [
                    await host.labs(),
                    await host.nodes(lab),
                    await host.queue(),
                    (await host.observe(lab)).interfaces,
                    await host.system_health(),
                    await host.catalogue(),
                ]
            )

    loops.run(1, main)
    assert told[0] == told[1]


def test_the_catalogue_is_what_the_server_has(play: Play) -> None:
    """Every node and image definition is listed, those that people added or removed too."""

    async def story(place: Place) -> None:
        before = await place.host.catalogue()
        assert {"alpine", "external_connector", "nxosv9000"} <= {*before.node_definitions}
        assert "alpine-base-3-21-3" in before.image_definitions
        store = place.server.definition_store
        body = {**store.body("alpine"), "id": "my-own"}
        definition_store.put_node_definition(store, body, new=True)
        image = {"id": "my-image", "node_definition_id": "my-own", "label": "mine"}
        definition_store.put_image(store, image, new=True)
        store.removed.add("nxosv9000")
        after = await place.host.catalogue()
        assert {*after.node_definitions} == {*before.node_definitions, "my-own"} - {"nxosv9000"}
        assert "my-image" in after.image_definitions
        assert after.node_definitions == tuple(sorted(after.node_definitions))

    play(story)


@pytest.mark.parametrize("version", RELEASES.values())
def test_every_release_tells_its_catalogue(version: str) -> None:
    """The adapter reads the definitions of each release that the simulator plays."""

    async def main(loop: loops.Loop) -> None:
        injector = FaultInjector(FaultPlan(), SeededRng("luck"))
        cml_servers = cml.CmlServers(loop, SeededRng("racks"), injector)
        server = servers.create(cml_servers.fleet, profile=Profile(version))
        ip = cml_servers.boot(server.id, hangs=False)
        network = cml_wire.CmlNetwork(loop, SeededRng("door"), injector, cml_servers)
        hosts = CmlHosts(network.connect)
        await asyncio.sleep(BOOTED)
        address = HostAddress("w1", f"https://{ip}:443", "boot-1", "admin", SECRET)
        told = await hosts.at(address).catalogue()
        assert told.node_definitions == tuple(sorted(server.definition_store.names()))
        assert told.image_definitions == tuple(sorted(server.definition_store.image_names()))
        await hosts.close()

    loops.run(1, main)


def test_a_catalogue_is_whole_or_an_error() -> None:
    """What is no list, has an entry without an id, or is too long is not taken for a part."""
    assert parsing.catalogue(
        [{"id": "a", "image_definitions": [{"id": "i"}, "j"]}, {"id": "b"}]
    ) == (Catalogue(node_definitions=("a", "b"), image_definitions=("i", "j")))
    many = [{"id": f"d{number}"} for number in range(NAMES_KEPT + 1)]
    for value in ("x", [{"label": "a"}], [{"id": ""}], [{"id": "x" * 251}], many,
                  [{"id": "a", "image_definitions": [7]}]):  # fmt: skip
        with pytest.raises(errors.Protocol):
            parsing.catalogue(value)
