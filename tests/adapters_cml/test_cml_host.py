"""The verbs of LabHost: what is sent, how answers of several releases are read.

The numbered cases are rows of facts/cml-issues.md.
"""

from __future__ import annotations

import asyncio

import pytest
from loop_time import leap
from scripted_cml import (
    IFACE,
    LAB,
    NODE,
    ScriptedCml,
    address,
    done,
    host_on,
    lab_answers,
    node,
    ok,
    page,
    refused,
    switch,
)

from labfleet.adapters.cml import parsing
from labfleet.adapters.cml.concurrency_limits import ConcurrencyLimits
from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent, Reply, ReplyLost
from labfleet.interfaces.lab_host import LabHost, LabHosts
from labfleet.kernel import errors

LAB_BODY = {"id": LAB, "lab_title": "Pod 7", "lab_notes": "marker", "state": "STARTED"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "stage"),
    [
        (NotSent("timeout", "x"), "unreachable"),
        (NotSent("no_route", "x"), "unreachable"),
        (NotSent("certificate", "x"), "untrusted"),
        (ReplyLost("timeout", "x"), "unreachable"),
        (NotSent("refused", "x"), "refused"),
        (NotSent("closed", "x"), "refused"),
        (ReplyLost("closed", "x"), "refused"),
        (page(502), "bad_gateway"),
        (refused(503), "bad_gateway"),
        (page(200), "bad_gateway"),
        (Reply(200, {}, b'{"version'), "bad_gateway"),
        (refused(500), "not_ready"),
        (ok({"version": "2.9.1", "ready": False}), "not_ready"),
        (ok({}), "not_ready"),
        (ok({"version": "2.11.0+sso", "ready": True, "features": []}), "ready"),
    ],
)
async def test_readiness_names_the_stage_and_never_raises(answer, stage):
    """Every way of being down is a stage with a sentence."""
    seen = await host_on(ScriptedCml({"GET system_information": answer})).readiness()
    assert seen.stage == stage
    assert seen.detail
    assert seen.tls_fingerprint == "ab" * 32


@pytest.mark.asyncio
async def test_readiness_needs_no_login():
    """The probe sends no credentials."""
    server = ScriptedCml({"GET system_information": ok({"ready": True, "version": "2.9.1"})})
    assert (await host_on(server).readiness()).version == "2.9.1"
    assert server.log == ["GET system_information"]


@pytest.mark.asyncio
async def test_import_sends_yaml_with_a_quoted_title():
    """The topology goes as text without a Content-Type; any title survives the query."""
    server = ScriptedCml({"POST import": ok({"id": LAB, "warnings": ["x"]})})
    title = "Übung & 7/8?#"
    assert await host_on(server).import_lab("lab: {title: ä}", title=title) == LAB
    assert server.paths[-1] == "import?title=%C3%9Cbung%20%26%207%2F8%3F%23"
    assert server.bodies["POST import"] == "lab: {title: ä}".encode()
    assert "Content-Type" not in server.headers[-1]


@pytest.mark.asyncio
async def test_labs_are_complete_with_notes():
    """Every owner's lab is read; one that vanishes meanwhile is left out."""
    gone = "00000000-0000-4000-a000-000000000001"
    server = ScriptedCml(
        {
            "GET labs": ok([LAB, gone]),
            f"GET labs/{LAB}": ok(LAB_BODY),
            f"GET labs/{gone}": refused(404, f"Lab not found: {gone}"),
        }
    )
    [lab] = await host_on(server).labs()
    assert (lab.id, lab.title, lab.notes, lab.state) == (LAB, "Pod 7", "marker", "STARTED")
    assert "labs?show_all=true" in server.paths


@pytest.mark.asyncio
async def test_a_part_of_the_labs_is_an_error():
    """A marker that is looked up must not be missed: one failing lab fails the list."""
    server = ScriptedCml({"GET labs": ok([LAB]), f"GET labs/{LAB}": refused(500)})
    with pytest.raises(errors.Temporary):
        await host_on(server).labs()
    with pytest.raises(errors.Protocol, match="too many"):
        await host_on(ScriptedCml({"GET labs": ok([LAB] * 3)}), Limits(labs=2)).labs()


@pytest.mark.asyncio
async def test_nodes_come_in_one_request_with_effective_values():
    """Operational values stand before overrides; what nobody told is None."""
    override = node(cpus=4, ram=8192, operational=None)
    partly = node(cpus=4, operational={"ram": 512.0, "cpus": None})
    server = ScriptedCml({f"GET labs/{LAB}/nodes": ok([node(), override, partly, switch()])})
    seen = await host_on(server).nodes(LAB)
    sizes = [(n.cpus, n.ram_mib, n.cpu_limit) for n in seen]
    assert sizes == [(1, 512, 100), (4, 8192, None), (4, 512, None), (None, None, None)]
    assert seen[0].tags == ("serial:5041", "vnc:5044")
    assert server.count() == {f"GET labs/{LAB}/nodes": 1}
    assert "operational=true" in server.paths[-1]


@pytest.mark.parametrize("broken", [None, "x", [LAB], [{"label": "no id"}], {"a": 1}])
def test_nodes_of_another_shape_are_a_protocol_error(broken):
    """A list of ids or a node without id is not an empty lab."""
    with pytest.raises(errors.Protocol):
        parsing.nodes(broken)


def test_nodes_may_come_as_a_map():
    """A map by id reads as the list does."""
    raw = {key: value for key, value in node().items() if key not in ("id", "lab_id")}
    [seen] = parsing.nodes({NODE: raw}, LAB)
    assert (seen.id, seen.lab_id) == (NODE, LAB)


@pytest.mark.asyncio
async def test_all_nodes_of_a_server_are_one_request():
    """All port tags of the server cost one call."""
    server = ScriptedCml({"GET nodes": ok([node(), node(lab_id="other")])})
    assert {n.lab_id for n in await host_on(server).all_nodes()} == {LAB, "other"}
    assert server.count() == {"GET nodes": 1}


@pytest.mark.asyncio
async def test_converged_is_a_boolean_or_an_error():
    """Anything but true and false is a broken answer."""
    path = f"GET labs/{LAB}/check_if_converged"
    server = ScriptedCml({path: [ok(True), ok(False), ok("yes")]})
    host = host_on(server)
    assert await host.converged(LAB) is True
    assert await host.converged(LAB) is False
    with pytest.raises(errors.Protocol):
        await host.converged(LAB)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            {"id": NODE, "label": "PC", "cpus": 2, "ram": 2048},
            "PC is in the launch queue, needs 2 vCPU, 2048 MiB",
        ),
        (
            {"node_id": NODE, "resource_requirements": {"cpus": 1, "ram": 512}},
            "in the launch queue, needs 1 vCPU, 512 MiB",
        ),
        ({"id": NODE}, "in the launch queue"),
    ],
)
async def test_the_queue_says_what_a_node_waits_for(item, text):
    """The items of 2.9 and 2.10 read alike."""
    server = ScriptedCml({"GET diagnostics/node_launch_queue": ok([item])})
    assert await host_on(server).queue() == {NODE: text}


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [400, 409])
async def test_tearing_down_too_early_is_a_conflict(status):
    """A wipe or delete has no body that could be wrong: a 400 means later."""
    answer = refused(status, "the lab must be stopped")
    server = ScriptedCml({f"PUT labs/{LAB}/wipe": answer, f"DELETE labs/{LAB}": answer})
    host = host_on(server)
    for call in (host.wipe(LAB), host.delete(LAB)):
        with pytest.raises(errors.Conflict) as caught:
            await call
        assert caught.value.reason == "Later"


@pytest.mark.asyncio
async def test_deleting_what_is_gone_is_done():
    """404 on delete is success; on stop it is Gone."""
    host = host_on(ScriptedCml())
    await host.delete(LAB)
    with pytest.raises(errors.Gone):
        await host.stop(LAB)


@pytest.mark.asyncio
async def test_a_404_page_of_the_proxy_does_not_delete_a_lab():
    """A booting server's page is never read as a lab that is gone."""
    with pytest.raises(errors.Booting):
        await host_on(ScriptedCml({f"DELETE labs/{LAB}": page(404)})).delete(LAB)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("now", "sent"),
    [
        (None, b'{"opt_in":true}'),
        (False, b'{"opt_in":true}'),
        ("unset", b'{"opt_in":"accepted"}'),
        (True, None),
        ("accepted", None),
    ],
)
async def test_telemetry_speaks_the_releases_language(now, sent):
    """Booleans to 2.9, words to 2.10, nothing when it is already so."""
    server = ScriptedCml({"GET telemetry": ok({"opt_in": now}), "PUT telemetry": ok({})})
    await host_on(server).set_telemetry(enabled=True)
    assert server.bodies.get("PUT telemetry") == sent


@pytest.mark.asyncio
async def test_a_look_collects_everything_of_a_lab():
    """Nodes, statistics, interfaces with live MAC, state and learned addresses."""
    server = ScriptedCml(lab_answers())
    seen = await host_on(server).observe(LAB)
    [interface] = seen.interfaces
    assert [n.label for n in seen.nodes] == ["PC", "SW"]
    assert seen.simulation_stats is not None
    assert seen.simulation_stats["nodes"][NODE]["ram_usage"] == 187
    assert (interface.id, interface.node_id, interface.slot) == (IFACE, NODE, 0)
    assert (interface.state, interface.mac_address) == ("STARTED", "52:54:00:1a:2b:3c")
    assert interface.ip4 == ("192.168.255.57",)
    assert len(seen.gaps) == 1
    assert "SW" in seen.gaps[0]
    assert sum(server.count().values()) == 6


@pytest.mark.asyncio
@pytest.mark.parametrize("failing", list(lab_answers()))
async def test_one_failing_call_keeps_the_rest_of_the_look(failing):
    """A 500 of one endpoint is a gap that names it (F16)."""
    server = ScriptedCml({**lab_answers(), failing: refused(500, "oops")})
    seen = await host_on(server).observe(LAB)
    assert any("500 oops" in gap for gap in seen.gaps)
    found = (bool(seen.nodes), bool(seen.simulation_stats), bool(seen.interfaces))
    assert sum(found) >= 2


@pytest.mark.asyncio
async def test_a_look_at_a_lab_that_is_gone_says_so():
    """Gone is not an empty observation."""
    with pytest.raises(errors.Gone):
        await host_on(ScriptedCml()).observe(LAB)


@pytest.mark.asyncio
async def test_a_look_asks_a_bounded_number_of_nodes():
    """Nodes over the bound are named in a gap and not asked."""
    many = [node(id=f"n{n}", label=f"R{n}") for n in range(70)]
    server = ScriptedCml({**lab_answers(), f"GET labs/{LAB}/nodes": ok(many)})
    seen = await host_on(server).observe(LAB)
    assert sum(name.endswith("/interfaces") for name in server.log) == 64
    assert any("not asked for R64, R65" in gap for gap in seen.gaps)


@pytest.mark.asyncio
async def test_a_look_that_takes_too_long_keeps_what_it_has():
    """The whole look has a deadline; nodes and statistics came first and stay."""

    class Slow(ScriptedCml):
        async def request(self, method, path, body, deadlines, *, headers):
            if path.endswith("operational=true"):
                leap(Limits().observe_total)
                await asyncio.Event().wait()
            return await super().request(method, path, body, deadlines, headers=headers)

    server = Slow(lab_answers())
    server.answers[f"GET labs/{LAB}/nodes"] = ok([node()])
    seen = await host_on(server).observe(LAB)
    assert seen.nodes
    assert seen.interfaces[0].ip4 == ("192.168.255.57",)
    assert any("cut short" in gap for gap in seen.gaps)


class Recording(ScriptedCml):
    """Notes how many changes run at once."""

    running = 0
    most = 0

    async def request(self, method, path, body, deadlines, *, headers):
        change = method in ("PUT", "DELETE")
        self.running += change
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= change
        return await super().request(method, path, body, deadlines, headers=headers)


@pytest.mark.asyncio
async def test_changes_of_one_lab_go_one_after_the_other():
    """Two changes of a lab never overlap (F21); changes of two labs do."""
    for labs, most in (([LAB, LAB], 1), ([LAB, "other"], 2)):
        server = Recording({f"PUT labs/{lab}/stop": done() for lab in labs})
        host = host_on(server)
        await host.authenticate()
        async with asyncio.TaskGroup() as group:
            for lab in labs:
                group.create_task(host.stop(lab))
        assert server.most == most
        # private _limits_by_key: a leak of forgotten entries shows in no answer
        assert len(host._limits_by_key) == 0


@pytest.mark.asyncio
async def test_waiting_for_a_turn_ends():
    """A caller behind a change that hangs gets Busy, and the lane is cleaned up."""
    limits_by_key = ConcurrencyLimits(patience=0.01)
    async with limits_by_key.turn(LAB):
        with pytest.raises(errors.Temporary) as caught:
            async with limits_by_key.turn(LAB):
                pass
    assert (caught.value.reason, len(limits_by_key)) == ("Busy", 0)


@pytest.mark.asyncio
async def test_hosts_keep_one_host_for_each_boot():
    """The same boot gives the same host; the next boot logs in anew and closes the old."""
    made: list[tuple[ScriptedCml, str | None]] = []

    def connect(_address, seen, _limits):
        made.append((ScriptedCml({"GET system_stats": ok({})}), seen))
        return made[-1][0]

    hosts = CmlHosts(connect)
    first = hosts.at(address())
    assert hosts.at(address()) is first
    await first.system_stats()
    second = hosts.at(address(boot="i-1/2"))
    assert second is not first
    await second.system_stats()
    assert made[0][0].closed
    assert made[1][0].logins == 1
    assert [seen for _, seen in made] == [None, None]
    hosts.at(address(boot="i-1/2", password="new"))
    assert made[2][1] == "ab" * 32
    await hosts.close()
    assert all(server.closed for server, _ in made)


@pytest.mark.asyncio
async def test_forgetting_a_worker_closes_its_connections():
    """A worker that is gone keeps nothing; forgetting twice is fine."""
    server = ScriptedCml()
    hosts = CmlHosts(lambda *_: server)
    hosts.at(address())
    await hosts.forget("w1")
    await hosts.forget("w1")
    assert server.closed


def test_the_adapter_has_the_interfaces_shape():
    """CmlHost and CmlHosts are what the controllers ask for."""
    hosts: LabHosts = CmlHosts(lambda *_: ScriptedCml())
    host: LabHost = hosts.at(address())
    assert host is hosts.at(address())


def test_deadlines_only_shrink():
    """What is left of a call never lengthens a request, and is never negative."""
    deadlines = Deadlines(connect=1, read=2, total=3)
    assert deadlines.within(10).total == 3
    assert deadlines.within(-1).total == 0
