"""The adapter against the CML simulator over loopback TLS: whole lives of labs and licences.

The simulator's clock is a number that the test moves, so boots take no time.
"""

from __future__ import annotations

import re

import pytest
import yaml
from loopback_cml import LAB, world

from cml_simulator.core import configurations
from cml_simulator.core import fleet as fleets
from cml_simulator.core.profile import Rules
from labfleet.kernel import errors
from labfleet.resources import kept_lab
from labfleet.resources.machine import TlsSettings


@pytest.mark.asyncio
async def test_a_lab_lives_its_whole_life():
    """Import, start, converge, observe, stop, wipe, delete; nothing is left."""
    async with world() as cml:
        host = cml.host
        assert (await host.readiness()).stage == "ready"
        await host.authenticate()
        lab_id = await host.import_lab(LAB, title="Pod 7 / ä")
        [lab] = await host.labs()
        assert (lab.id, lab.title, lab.state) == (lab_id, "Pod 7 / ä", "DEFINED_ON_CORE")
        assert "labfleet/marker-1" in lab.notes
        assert await host.lab(lab_id) == lab
        fresh = {n.label: n for n in await host.nodes(lab_id)}
        assert (fresh["PC"].cpus, fresh["PC"].tags) == (None, ("serial:5041", "vnc:5044"))
        await host.start(lab_id)
        await host.start(lab_id)
        await cml.settle(lab_id, "BOOTED")
        assert await host.queue() == {}
        seen = await host.observe(lab_id)
        pc = next(n for n in seen.nodes if n.label == "PC")
        assert (pc.cpus, pc.ram_mib, pc.definition) == (1, 512, "alpine")
        assert seen.simulation_stats is not None
        assert pc.id in seen.simulation_stats["nodes"]
        mac = next(i.mac_address for i in seen.interfaces if i.node_id == pc.id)
        assert mac is not None
        assert mac.startswith("52:54:00")
        assert {n.id for n in await host.all_nodes()} == {n.id for n in seen.nodes}
        stats = await host.system_stats()
        assert (stats.cpu_count, stats.gaps) == (48, {})
        with pytest.raises(errors.Conflict):
            await host.wipe(lab_id)
        with pytest.raises(errors.Conflict):
            await host.delete(lab_id)
        await host.stop(lab_id)
        await cml.settle(lab_id, "STOPPED")
        await host.wipe(lab_id)
        await host.wipe(lab_id)
        await cml.settle(lab_id, "DEFINED_ON_CORE")
        await host.delete(lab_id)
        await host.delete(lab_id)
        with pytest.raises(errors.Gone):
            await host.lab(lab_id)
        assert await host.labs() == ()


@pytest.mark.asyncio
async def test_what_was_typed_into_a_node_is_in_the_download_once_it_is_extracted():
    """Invalid before the node is up, an error for what is not there; the text comes as it is."""
    async with world() as cml:
        lab_id = await cml.host.import_lab(LAB, title="pod")
        node = next(each for each in await cml.host.nodes(lab_id) if each.label == "PC")
        with pytest.raises(errors.Invalid):
            await cml.host.extract(lab_id, node.id)
        await cml.host.start(lab_id)
        await cml.settle(lab_id, "BOOTED")
        typed = cml.server.nodes[node.id]
        configurations.type_in(typed, "hostname typed ü\n", cml.now)
        assert b"typed" not in await cml.host.download(lab_id)
        await cml.host.extract(lab_id, node.id)
        kept = kept_lab.configurations(await cml.host.download(lab_id))
        assert kept["PC"].configuration[0]["content"] == "hostname typed ü\n"
        with pytest.raises(errors.LabfleetError):
            await cml.host.extract(lab_id, "nobody")
        with pytest.raises(errors.Gone):
            await cml.host.download("nothing")


@pytest.mark.asyncio
async def test_a_licence_is_taken_expanded_and_given_back():
    """Unregistered 5 nodes, Enterprise 20 + 180, back to 5; each step may be repeated."""
    async with world() as cml:
        host = cml.host
        assert (await host.licensing()).node_capacity == 5
        assert await host.deregister() == "not_registered"
        for _ in range(8):
            await host.register("CML_Enterprise", "good-token", expansion_nodes=180)
            cml.now += 3
        now = await host.licensing()
        assert (now.licensed, now.product, now.node_capacity) == (True, "CML_Enterprise", 200)
        assert now.product_uuid == cml.server.config.identity.product_uuid
        assert cml.asked("/licensing/registration") == 1
        assert cml.asked("/licensing/features") == 1
        lab_id = await host.import_lab(LAB, title="t")
        await host.start(lab_id)
        with pytest.raises(errors.Conflict) as caught:
            await host.deregister()
        assert caught.value.reason == "NodesRunning"
        await host.stop(lab_id)
        await cml.settle(lab_id, "STOPPED")
        assert await host.deregister() == "done"
        assert await host.deregister() == "not_registered"
        assert (await host.licensing()).node_capacity == 5
        assert cml.fleet.cloud.held == {}


@pytest.mark.asyncio
async def test_a_licence_cloud_that_is_not_told_is_reported():
    """202 is told apart from done: somebody must know of the leak."""
    async with world() as cml:
        for _ in range(8):
            await cml.host.register("CML_Personal", "good-token", expansion_nodes=0)
            cml.now += 3
        assert (await cml.host.licensing()).node_capacity == 20
        with pytest.raises(errors.Invalid, match="CML_Personal"):
            await cml.host.register("CML_Enterprise", "good-token", expansion_nodes=0)
        cml.server.licence.reachable = False
        assert await cml.host.deregister() == "cloud_not_told"


@pytest.mark.asyncio
async def test_a_bad_licence_token_ends_unregistered():
    """The refusal is seen by polling, in the server's own words."""
    async with world() as cml:
        await cml.host.register("CML_Enterprise", "bad-token", expansion_nodes=0)
        cml.now += 60
        now = await cml.host.licensing()
        assert (now.registered, now.registration, now.node_capacity) == (False, "FAILED", 5)


@pytest.mark.asyncio
async def test_readiness_follows_the_boot():
    """Each stage of a boot is seen in its order, and a new boot is a new login."""
    async with world(booted=False, boot_seconds=100.0) as cml:
        cml.boot()
        stages = []
        for _ in range(101):
            stage = (await cml.host.readiness()).stage
            if not stages or stages[-1] != stage:
                stages.append(stage)
            cml.now += 1
        assert stages == ["refused", "bad_gateway", "not_ready", "ready"]
        await cml.host.authenticate()
        fleets.stop(cml.fleet, cml.server, cml.now)
        assert (await cml.host.readiness()).stage == "refused"
        cml.boot()
        cml.now += 100
        await cml.host.authenticate()
        assert cml.asked("/authenticate") == 2


@pytest.mark.asyncio
async def test_wrong_password_and_wrong_certificate_are_denied():
    """Neither reaches a lab; the certificate is refused before the password is sent."""
    async with world(booted=False) as cml:
        cml.boot(password="wrong")
        with pytest.raises(errors.Denied) as caught:
            await cml.host.authenticate()
        assert caught.value.reason == "BadCredentials"
        logins = cml.asked("/authenticate")
        cml.boot(tls=TlsSettings(fingerprint="00" * 32))
        with pytest.raises(errors.Denied) as caught:
            await cml.host.authenticate()
        assert caught.value.reason == "Certificate"
        assert cml.asked("/authenticate") == logins
        seen = await cml.host.readiness()
        assert seen.stage == "untrusted"
        told = re.search(r"certificate ([0-9a-f]{64}) is not", seen.detail)
        assert told is not None
        cml.boot(tls=TlsSettings(fingerprint=told[1]))
        await cml.host.authenticate()


@pytest.mark.asyncio
async def test_a_401_in_the_middle_is_one_login():
    """A revoked token costs one login; a server that always says 401 costs two."""
    async with world() as cml:
        await cml.host.authenticate()
        cml.fault("401", "/labs$")
        assert await cml.host.labs() == ()
        assert cml.asked("/authenticate") == 2
        cml.fault("401", "/labs$", times=None)
        with pytest.raises(errors.Denied):
            await cml.host.labs()
        assert (cml.asked("/authenticate"), cml.asked("/labs")) == (3, 4)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["close_after", "truncated", "hang", "502", "500", "html"])
async def test_an_import_without_an_answer_is_found_by_its_marker(kind):
    """Ambiguous, and the list of labs then tells whether it happened."""
    async with world(patience=0.05 if kind == "hang" else 10.0) as cml:
        await cml.host.authenticate()
        cml.fault(kind, "/import")
        with pytest.raises(errors.Ambiguous):
            await cml.host.import_lab(LAB, title="t")
        found = [lab for lab in await cml.host.labs() if "marker-1" in lab.notes]
        assert len(found) == (kind in ("close_after", "truncated"))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("close_before", errors.Temporary),
        ("close_after", errors.Temporary),
        ("502", errors.Booting),
        ("html", errors.Booting),
        ("500", errors.Temporary),
        ("409", errors.Conflict),
        ("403", errors.Denied),
    ],
)
async def test_a_start_that_fails_may_be_repeated(kind, error):
    """Starting is safe to repeat: no fault makes it Ambiguous, and the next try works."""
    async with world() as cml:
        lab_id = await cml.host.import_lab(LAB, title="t")
        cml.fault(kind, "/start", times=None)
        with pytest.raises(error):
            await cml.host.start(lab_id)
        cml.fleet.faults.clear()
        await cml.host.start(lab_id)
        await cml.settle(lab_id, "BOOTED")


@pytest.mark.asyncio
async def test_bad_topologies_are_invalid_in_cmls_words():
    """Broken YAML and an unknown node definition are the user's errors, not the server's."""
    async with world() as cml:
        for text in ("lab: [", LAB.replace("alpine", "no_such_thing")):
            with pytest.raises(errors.Invalid) as caught:
                await cml.host.import_lab(text, title="t")
            assert "400" in caught.value.message
        with pytest.raises(errors.Invalid):
            await cml.host.import_lab(LAB, title="x" * 65)
        assert await cml.host.labs() == ()


@pytest.mark.asyncio
async def test_nodes_over_the_licence_wait_or_are_refused():
    """A start over the licence is OutOfCapacity, or its nodes wait and the queue says so."""
    pc = LAB.split("  - id: n1", maxsplit=1)[0]
    many = pc + "".join(
        f"  - {{id: m{n}, label: M{n}, node_definition: alpine, x: 0, y: 0, interfaces: []}}\n"
        for n in range(6)
    )
    for rule in ("queue", "refuse"):
        async with world(rules=Rules(over_licence=rule)) as cml:
            lab_id = await cml.host.import_lab(many, title="t")
            if rule == "refuse":
                with pytest.raises(errors.OutOfCapacity):
                    await cml.host.start(lab_id)
            else:
                await cml.host.start(lab_id)
                cml.now += 300
                waiting = await cml.host.queue()
                assert len(waiting) == 2
                assert all("launch queue" in why for why in waiting.values())
                assert not await cml.host.converged(lab_id)


@pytest.mark.asyncio
async def test_telemetry_is_set():
    """Opting in reaches the server; the second time nothing is sent."""
    async with world() as cml:
        before = cml.asked("/telemetry")
        await cml.host.set_telemetry(enabled=True)
        await cml.host.set_telemetry(enabled=True)
        assert cml.asked("/telemetry") - before == 3


@pytest.mark.data
@pytest.mark.asyncio
async def test_real_topologies_go_in_and_out(labs):
    """Each of the real labs is imported, started, observed and taken down whole."""
    async with world() as cml:
        for name, text in labs.items():
            wanted = yaml.safe_load(text)["nodes"] or []
            lab_id = await cml.host.import_lab(text, title=name[:64])
            await cml.host.start(lab_id)
            cml.now += 600
            seen = await cml.host.observe(lab_id)
            assert [n.label for n in seen.nodes] == [n["label"] for n in wanted], name
            known = {node.id for node in seen.nodes}
            assert {i.node_id for i in seen.interfaces} <= known, name
            await cml.host.stop(lab_id)
            cml.now += 60
            await cml.host.wipe(lab_id)
            await cml.host.delete(lab_id)
        assert await cml.host.labs() == ()
