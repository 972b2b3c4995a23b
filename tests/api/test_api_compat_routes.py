"""The routes under the compatible names."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from api_caller import Api

from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import MachineStatus
from labfleet.resources.session import PortAllocation, Session, SessionPhase

ROOT = Path(__file__).resolve().parents[2]
SEEN = {
    "observed_at": "2026-11-27T09:02:00Z",
    "observer": "lablet-controller",
    "total_cpu_cores": 2.5,
    "total_memory_mb": 4096,
    "nodes": [
        {
            "node_id": "n0",
            "label": "r1",
            "node_definition": "iosv",
            "state": "BOOTED",
            "cpu_limit": 100,
            "interfaces": [{"interface_id": "i0", "label": "eth0", "mac_address": "00:11"}],
        }
    ],
    "actual_node_count": 2,
    "simulation_stats": {"any_key": {"x_y": 1}},
}


async def running(api: Api) -> str:
    """Return the uid of a running session `s`."""
    await api.world.definition()
    made = await api.world.session("s")
    port = PortAllocation(name="r1_serial", node="r1", kind="serial", number=2000)
    await api.world.status(made, phase=SessionPhase.RUNNING, ports=(port,))
    return made.metadata.uid


@pytest.mark.asyncio
async def test_an_observation_is_asked_for_recorded_and_summed_up(api: Api):
    """Upstream 000's three routes, by name and by uid, in snake_case."""
    uid = await running(api)
    asked = await api.call("POST", "/api/lablet-sessions/s/observe-resources")
    assert (asked.status, asked.json) == (202, {"session_id": "s", "status": "requested"})
    await api.world.services.fresh()
    path = f"/api/internal/lablet-sessions/{uid}/resource-observations"
    sent = {"observed_resources": SEEN, "observed_ports": {"r1_serial": 5041}}
    told = await api.call("POST", path, sent, role="controller")
    assert told.json == {
        "session_id": "s",
        "observation_count": 1,
        "port_drift_detected": True,
        "observed_at": "2026-11-27T09:02:00Z",
    }
    stored = (await api.call("GET", "/api/v1/sessions/s")).json["status"]
    assert stored["observedResources"]["nodes"][0]["interfaces"][0]["macAddress"] == "00:11"
    assert stored["observedResources"]["simulationStats"] == {"any_key": {"x_y": 1}}
    assert stored["observedPorts"] == {"r1_serial": 5041}
    found = await api.call("GET", "/api/lablet-definitions/two/resource-observations?limit=5")
    assert found.json["aggregate"]["cpu_cores"] == {"max": 2.5, "avg": 2.5, "latest": 2.5}
    assert found.json["aggregate"]["storage_mb"]["latest"] is None
    assert found.json["port_drift_sessions"] == ["s"]


@pytest.mark.asyncio
async def test_an_observation_of_nothing_changes_nothing_and_drift_needs_no_given_port(api: Api):
    """Issue 18's three bodies: drift of a lab without ports, an empty look, an instant without zone."""
    uid = await running(api)
    bare = await api.world.services.objects.get(Session, "s", "default")
    await api.world.status(bare, ports=())
    path = f"/api/internal/lablet-sessions/{uid}/resource-observations"
    found = await api.call("POST", path, {"observed_ports": {"A_serial": 5041}}, role="controller")
    assert (found.status, found.json["port_drift_detected"]) == (200, True)
    known = (await api.call("GET", "/api/v1/sessions/s")).json
    fact = next(each for each in known["status"]["conditions"] if each["type"] == "PortDrift")
    assert (fact["status"], fact["message"]) == ("True", "added A_serial 5041")
    nothing = {"observed_resources": None, "observed_ports": {}}
    empty = await api.call("POST", path, nothing, role="controller")
    assert (empty.status, empty.json) == (200, found.json)
    assert (await api.call("GET", "/api/v1/sessions/s")).json == known
    naive = {"observed_at": "2026-11-28T15:00:00", "total_cpu_cores": 1.0}
    refused = await api.call("POST", path, {"observed_resources": naive}, role="controller")
    assert refused.status == 400
    assert "zone" in refused.json["detail"]
    listed = await api.call("GET", "/api/lablet-definitions/two/resource-observations")
    assert (listed.status, listed.json["port_drift_sessions"]) == (200, ["s"])


@pytest.mark.asyncio
async def test_who_observed_is_said_by_the_server_and_not_by_the_report(api: Api):
    """A program is internal:NAME whatever it writes; our own controller has upstream's name there."""
    uid = await running(api)
    path = f"/api/internal/lablet-sessions/{uid}/resource-observations"
    await api.call("POST", path, {"observed_resources": SEEN}, role="controller", owner="lab-1")
    stored = await api.world.services.objects.get(Session, "s", "default")
    assert stored.status.observed_resources.observer == "internal:lab-1"
    own = msgspec.structs.replace(stored.status.observed_resources, observer="session-controller")
    await api.world.status(stored, observed_resources=own)
    await api.world.services.fresh()
    listed = await api.call("GET", "/api/lablet-definitions/two/resource-observations")
    (one,) = listed.json["sessions"]
    assert one["observed_resources"]["observer"] == "lablet-controller"


@pytest.mark.asyncio
async def test_who_asks_for_a_look_is_kept_and_set_by_nobody_by_hand(api: Api):
    """Asked again before it was made it stays the first one's; switched off nobody is promised one."""
    await running(api)
    path, at = "/api/v1/sessions/s/observe", "/api/v1/sessions/s"
    first = (await api.call("POST", path, {}, role="operator", owner="kim")).json
    again = (await api.call("POST", path, {}, role="admin", owner="eve")).json
    assert first["spec"]["observeRequestedBy"] == again["spec"]["observeRequestedBy"] == "kim"
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    forged = await api.call("PATCH", at, {"spec": {"observeRequestedBy": "eve"}})
    assert forged.status == 400
    made = {"metadata": {"name": "t"}, "spec": {"definition": "two", "observeRequestedBy": "eve"}}
    assert (await api.call("POST", "/api/v1/sessions", made)).status == 400
    off = {"spec": {"observation": {"enabled": False}}}
    assert (await api.call("PATCH", "/api/v1/settings/fleet", off)).status == 200
    await api.world.services.fresh()
    refused = await api.call("POST", path, {})
    assert (refused.status, refused.json["reason"]) == (409, "ObservationOff")


@pytest.mark.asyncio
async def test_observations_in_wrong_phases_or_of_nothing_are_refused(api: Api):
    """400 outside RUNNING and COLLECTING, 404 for unknown, 403 for people, 400 for bad bodies."""
    await api.world.definition()
    await api.world.session("s")
    path = "/api/internal/lablet-sessions/{}/resource-observations"
    assert (await api.call("POST", path.format("s"), {})).status == 400
    assert (await api.call("POST", path.format("nope"), {})).status == 404
    assert (await api.call("POST", path.format("s"), {}, role="user", owner="eve")).status == 403
    early = await api.call("POST", "/api/lablet-sessions/s/observe-resources")
    assert (early.status, early.json["reason"]) == (400, "NotRunning")
    for sent in ({"observed_ports": {"a": 0}}, {"observed_ports": {"a": 70000}}, {"x": 1},
                 {"observed_resources": {"nodes": 3}},
                 {"observed_resources": {"observed_at": "2026-11-28T15:00:00"}}, {"observed_resources": {"nope": 3}}):  # fmt: skip
        assert (await api.call("POST", path.format("s"), sent)).status == 400


@pytest.mark.asyncio
async def test_a_run_is_asked_for_and_reported(api: Api):
    """Upstream 004: approved with an id, denied with reasons, completed twice, unknown id 404."""
    sent = {"metadata": {"name": "default"}, "spec": {"capacity": {"cpu": 10, "memory": "10Gi"}}}
    await api.call("POST", "/api/v1/clusters", sent)
    run = {"chart": "waku", "node_count": 50, "cost": {"cpu": 6}, "duration_seconds": 600}
    yes = await api.call("POST", "/request_run", run, role="runner")
    assert yes.status == 200
    assert yes.json["decision"] == "approved"
    until = api.world.clock.now() + timedelta(minutes=20)
    assert yes.json["expires_at"] == until.isoformat().replace("+00:00", "Z")
    kept = (await api.call("GET", f"/api/v1/simulations/{yes.json['simulation_id']}")).json
    assert kept["spec"]["params"] == {"chart": "waku", "node_count": 50}
    no = await api.call("POST", "/request_run", run, role="runner")
    assert (no.json["decision"], no.json["simulation_id"]) == ("denied", None)
    assert no.json["reasons"] == ["OverCpuTarget"]
    assert no.json["message"]
    done = {"simulation_id": yes.json["simulation_id"]}
    for _ in range(2):
        ended = await api.call("POST", "/simulation_complete", done, role="runner")
        assert ended.json == {**done, "status": "completed"}
    gone = await api.call("POST", "/simulation_complete", {"simulation_id": "x"})
    assert gone.status == 404


@pytest.mark.asyncio
async def test_a_run_states_only_what_it_knows(api: Api):
    """Any keys are parameters; without a cost nothing is free, and beside params keys are judged."""
    await api.world.make("Cluster", "default", {"capacity": {"cpu": 100, "memory": "100Gi"}})
    found = await api.call("POST", "/request_run", {"chart": "waku", "nodecount": 50})
    assert found.json["decision"] == "approved"
    assert found.json["predicted"] == {"cpu_milli": 25_000, "memory_mib": 30_000}
    kept = (await api.call("GET", f"/api/v1/simulations/{found.json['record']}")).json
    assert kept["spec"]["params"] == {"chart": "waku", "nodecount": 50}
    assert kept["spec"]["cost"] is None
    other = await api.call("POST", "/request_run", {"costs": {"cpu": 1}, "cost": {}})
    assert other.json["predicted"] == {"cpu_milli": 8000, "memory_mib": 8192}
    for run in ([], {"cost": {"cpu": 1}, "params": {}, "costt": 1}, {"queue": 3},
                {"cost": {"gpu": 1}}, {"cost": 3}, {"ttl_seconds": 1}, {"priority": 5000}):  # fmt: skip
        found = await api.call("POST", "/request_run", run)
        assert found.status == 400
        assert found.json["problems"]


@pytest.mark.asyncio
async def test_a_run_reports_life_and_how_it_ended(api: Api):
    """A heartbeat makes it RUNNING and moves its lease; a failed run says so, once and for all."""
    await api.world.make("Cluster", "default", {"capacity": {"cpu": 10, "memory": "10Gi"}})
    run = {"cost": {"cpu": 1}, "ttl_seconds": 60, "key": "once"}
    made = (await api.call("POST", "/request_run", run, role="runner")).json
    assert (await api.call("POST", "/request_run", run, role="runner")).json == made
    which = {"simulation_id": made["simulation_id"]}
    lives = (await api.call("POST", "/simulation_heartbeat", which, role="runner")).json
    assert lives["status"] == "running"
    assert lives["lease_until"] is not None
    ended = {**which, "status": "failed", "observed": {"peak_cpu_delta": 0.5, "memoryMib": 700}}
    for _ in range(2):
        found = await api.call("POST", "/simulation_complete", ended, role="runner")
        assert found.json == {**which, "status": "failed"}
    kept = (await api.call("GET", f"/api/v1/simulations/{made['record']}")).json["status"]
    assert kept["observed"]["cpu_milli"]["peak"] == 500.0
    gone = await api.call("POST", "/simulation_heartbeat", which, role="runner")
    assert (gone.status, gone.json["reason"]) == (409, "NotApproved")
    for wrong in ({"status": "won"}, {"observed": {"gpu": 1}}, {"observed": {"memoryMib": -1}}):
        assert (await api.call("POST", "/simulation_complete", {**which, **wrong})).status == 400


@pytest.mark.asyncio
async def test_internal_workers_are_listed_and_read(api: Api):
    """By name and by uid, in pages, flat as upstream 002's programs read them."""
    await api.world.template()
    made = await api.world.make("Worker", "w", {"template": "metal"})
    await api.world.make("Worker", "x", {"template": "metal"})
    seen = MachineStatus(
        id="i-1", state="booting", private_address="10.0.0.1", tags_seen={"course": "net"}
    )
    await api.world.status(made, machine=seen, summary="provisioning", capacity=Amounts(labs=20))
    page = (await api.call("GET", "/api/internal/workers?limit=1", role="controller")).json
    assert (page["total"], len(page["items"])) == (2, 1)
    after = f"/api/internal/workers?limit=1&cursor={page['next']}"
    assert [each["name"] for each in (await api.call("GET", after)).json["items"]] == ["x"]
    for name in ("w", made.metadata.uid):
        found = await api.call("GET", f"/api/internal/workers/{name}", role="controller")
        assert found.json == page["items"][0] | {"cml_data_fresh": found.json["cml_data_fresh"]}
    wanted = {
        "id": made.metadata.uid, "name": "w", "status": "provisioning", "aws_instance_id": "i-1",
        "ec2_instance_id": "i-1", "ip_address": "10.0.0.1", "ec2_instance_state": "pending",
        "aws_region": "us-east-1", "aws_tags": {"course": "net"}, "template_name": "metal",
        "cpu_utilization": None, "active_labs_count": None, "last_activity_at": None,
    }  # fmt: skip
    assert {key: found.json[key] for key in wanted} == wanted
    assert found.json["available_capacity"]["labs"] == 20
    assert found.json["allocated_capacity"]["labs"] == 0
    assert not any("password" in key or "token" in key for key in found.json)
    assert (await api.call("GET", "/api/internal/workers/nobody")).status == 404


@pytest.mark.asyncio
async def test_the_map_names_every_field_of_the_flat_worker(api: Api):
    """Upstream 002's page says of each where it stands in ours, and of no other."""
    await api.world.template()
    await api.world.make("Worker", "w", {"template": "metal"})
    flat = (await api.call("GET", "/api/internal/workers/w")).json
    text = (ROOT / "docs" / "reference" / "upstream-002.md").read_text()
    table = text.split("## The flat worker")[1]
    told = re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\|([^|]+)\|", table)))
    assert sorted(told) == sorted(flat)


@pytest.mark.asyncio
async def test_verbs_speak_http(api: Api):
    """Drain by seconds, take back, cordon, desired; extend by seconds; observe is 202."""
    await api.world.template()
    await api.world.make("Worker", "w", {"template": "metal"})
    path = "/api/v1/workers/w"
    drained = await api.call("POST", f"{path}/drain", {"deadlineSeconds": 60, "reason": "r"})
    assert drained.json["spec"]["drain"]["deadline"] == "2026-11-27T09:01:00Z"
    both = {"deadlineSeconds": 60, "deadline": "2026-11-28T00:00:00Z"}
    assert (await api.call("POST", f"{path}/drain", both)).status == 400
    later = {"deadline": "2026-11-28T00:00:00Z"}
    moved = await api.call("POST", f"{path}/change-drain", later)
    assert moved.json["spec"]["drain"]["deadline"] == "2026-11-28T00:00:00Z"
    assert (await api.call("POST", f"{path}/change-drain", {})).status == 400
    assert (await api.call("POST", f"{path}/cancel-drain")).json["spec"]["drain"] is None
    refused = await api.call("POST", f"{path}/change-drain", {"force": True})
    assert (refused.status, refused.json["reason"]) == (409, "NotDraining")
    assert (await api.call("POST", f"{path}/cordon", {})).json["spec"]["cordoned"] is True
    assert (await api.call("POST", f"{path}/uncordon", {})).json["spec"]["cordoned"] is False
    wish = await api.call("POST", f"{path}/desired", {"desired": "Stopped"})
    assert wish.json["spec"]["desired"] == "Stopped"
    assert (await api.call("POST", f"{path}/desired", {"desired": "Gone"})).status == 400
    await running(api)
    await api.world.status(
        await api.world.services.objects.get(type(await api.world.session("t")), "s", "default"),
        end=api.world.clock.now() + timedelta(hours=1),
    )
    longer = await api.call("POST", "/api/v1/sessions/s/extend", {"bySeconds": 1800})
    assert longer.json["status"]["end"] == "2026-11-27T10:30:00Z"
    assert (await api.call("POST", "/api/v1/sessions/s/observe")).status == 202
