"""Issues of facts/cml-issues.md that a simulator can show: the wrong behaviour and the right.

Where a server's fault is meant, it is off by default and a rule, a fault or the server conditions turns it on;
the test sees both. Client-side rows (F2 to F4, F8 to F11, F13, F15, F17, F20, F25, F29, F32, F34,
F36, F37) belong to the adapter; F26 to F28, F30 and F43 to the cloud.
"""

import json

import pytest

from cml_simulator.core.profile import Machine, Rules, release


def server_conditions(box, **changes):
    return box.control("PATCH", f"/servers/{box.server.id}/weather", changes)


def lab_of(box, text, start=True):
    lab = box.import_text(text)["id"]
    if start:
        box.ask("PUT", f"/labs/{lab}/start", want=204)
    return lab


def states(box, lab):
    return sorted(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())


@pytest.mark.parametrize("early", [False, True])
def test_f1_converged_too_early(make_box, topo, early):
    """F1: an old server says converged while a node still stops; the states tell the truth."""
    box = make_box(rules=Rules(converged_early=early))
    lab = lab_of(box, topo({"id": "a"}))
    box.clock.forward(100)
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    assert box.get(f"/labs/{lab}/check_if_converged") is early
    assert states(box, lab) == ["BOOTED"]
    assert box.refusal("PUT", f"/labs/{lab}/wipe")[0] == 400
    box.clock.forward(5)
    assert states(box, lab) == ["STOPPED"]


@pytest.mark.parametrize("ghosts", [False, True])
def test_f5_ids_that_the_topology_lacks(box, topo, ghosts):
    """F5: states and statistics can name elements that the topology does not have."""
    lab = lab_of(box, topo({"id": "a"}))
    server_conditions(box, ghosts=ghosts)
    known = {node["id"] for node in box.get(f"/labs/{lab}/topology")["nodes"]}
    seen = set(box.get(f"/labs/{lab}/lab_element_state")["nodes"])
    figures = set(box.get(f"/labs/{lab}/simulation_stats")["nodes"])
    assert (seen > known, figures > known) == (ghosts, ghosts)


def test_f6_compute_hosts_without_nodes(make_box):
    """F6: 2.10 hosts have no node list, 2.9 hosts have one."""
    hosts = [make_box(profile=release(v)).get("/system/compute_hosts")[0] for v in ("2.9", "2.10")]
    assert ["nodes" in host for host in hosts] == [True, False]


def test_f7_licensing_bodies(make_box):
    """F7: the same change answers 204, or 200 with a body in 2.10."""
    replies = [
        make_box(profile=release(v)).send("PUT", "/licensing/product_license", "CML_Personal")
        for v in ("2.9", "2.10")
    ]
    assert [(r.status, bool(r.body)) for r in replies] == [(204, False), (200, True)]


def test_f8_a_revoked_token_stays_dead(box):
    """F8: an expired or revoked token is 401 for ever."""
    box.control("POST", f"/servers/{box.server.id}/outside", {"action": "revoke_tokens"})
    assert {box.refusal("GET", "/labs")[0] for _ in range(3)} == {401}


def test_f9_deleting_twice(box, topo):
    """F9: a second delete is a 404 with the text clients match."""
    lab = lab_of(box, topo({"id": "a"}), start=False)
    node = next(iter(box.server.nodes))
    path = f"/labs/{lab}/nodes/{node}"
    box.ask("DELETE", path, want=204)
    assert box.refusal("DELETE", path) == (404, f"Node not found: {node}")


def test_f12_titles_are_not_unique(box, topo):
    """F12, F34: importing twice makes two labs of one title."""
    text = topo({"id": "a"}, title="same")
    assert lab_of(box, text, start=False) != lab_of(box, text, start=False)
    titles = [tile["lab_title"] for tile in box.get("/populate_lab_tiles")["lab_tiles"].values()]
    assert titles == ["same", "same"]


def test_f14_no_free_licences(make_box, topo):
    """F14: an old server refuses the start with a 403 about licences, which is no login matter."""
    box = make_box(rules=Rules(over_licence="refuse", over_licence_status=403))
    lab = lab_of(box, topo(*({"id": f"n{n}"} for n in range(6))), start=False)
    status, text = box.refusal("PUT", f"/labs/{lab}/start")
    assert status == 403
    assert "failed to license" in text
    assert box.get("/authok") == "OK"


# F16 (layer3_addresses 500) and F21 (500 on stop) are fault rules: test_sim_faults.py acts them out.


def test_f18_no_addresses_of_a_connector(box, topo):
    """F18: layer 3 addresses of an external connector are a 400 by design."""
    lab = lab_of(box, topo({"id": "net", "kind": "external_connector"}))
    node = next(iter(box.server.nodes))
    assert box.refusal("GET", f"/labs/{lab}/nodes/{node}/layer3_addresses")[0] == 400
    assert box.get(f"/labs/{lab}/layer3_addresses") == {}


def test_f19_stop_wipe_delete_in_order(box, topo):
    """F19: delete needs a wipe, a wipe needs a stop."""
    lab = lab_of(box, topo({"id": "a"}))
    assert box.refusal("DELETE", f"/labs/{lab}")[0] == 400
    assert box.refusal("PUT", f"/labs/{lab}/wipe")[0] == 400
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(5)
    assert box.refusal("DELETE", f"/labs/{lab}")[0] == 400
    box.ask("PUT", f"/labs/{lab}/wipe", want=204)
    box.ask("DELETE", f"/labs/{lab}", want=204)


def test_f22_booted_between_two_looks(box, topo):
    """F22: the next look after a start may already say BOOTED."""
    lab = lab_of(box, topo({"id": "net", "kind": "external_connector"}))
    assert states(box, lab) == ["STARTED"]
    box.clock.forward(3)
    assert states(box, lab) == ["BOOTED"]


@pytest.mark.parametrize("lag", [0.0, 5.0])
def test_f23_the_lab_state_lags(make_box, topo, lag):
    """F23: the lab's own state can be older than its nodes'."""
    box = make_box(rules=Rules(lab_state_lag=lag))
    lab = lab_of(box, topo({"id": "a"}), start=False)
    assert box.get(f"/labs/{lab}/state") == "DEFINED_ON_CORE"
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert states(box, lab) == ["STARTED"]
    assert box.get(f"/labs/{lab}/state") == ("DEFINED_ON_CORE" if lag else "STARTED")
    box.clock.forward(6)
    assert box.get(f"/labs/{lab}/state") == "STARTED"


# F24 (401 for ever although the login works) is test_sim_faults.py: faults are the shell's.


@pytest.mark.parametrize("status", [400, 500])
def test_f31_broken_yaml(make_box, status):
    """F31: broken YAML is a 400 that names the place, or a 500 on some real servers."""
    box = make_box(rules=Rules(yaml_error_status=status))
    found, text = box.refusal("POST", "/import", raw=b"lab:\n\ttitle: x\n")
    assert found == status
    assert "line 2" in text


def test_f33_a_dead_controller(box, topo):
    """F33: health says that the core is not connected; nothing starts."""
    server_conditions(box, core_connected=False)
    health = box.get("/system_health")
    assert (health["valid"], health["controller"]["core_connected"]) == (False, False)
    assert box.get("/system_information")["ready"] is False
    assert states(box, lab_of(box, topo({"id": "a"}))) == ["QUEUED"]
    assert box.get("/diagnostics/startup_scheduler")["core_driver_connected"] is False


def test_f35_wrong_schema_version(box, topo):
    """F35: an unknown schema version is a 400 that names it."""
    status, text = box.refusal("POST", "/import", json.loads(topo({"id": "a"}, version="9.9")))
    assert status == 400
    assert "9.9" in text


def test_f38_a_newer_client(make_box):
    """F38: the 2.10 client's GET labs/{id}/interfaces is a 405 on 2.9 and works on 2.10."""
    found = []
    for text in ("2.9", "2.10"):
        box = make_box(profile=release(text))
        lab = box.ask("POST", "/labs", {})["id"]
        found.append(box.send("GET", f"/labs/{lab}/interfaces").status)
    assert found == [405, 200]


# F39 (HTML 502 while booting) is test_sim_faults.py and test_sim_fleet.py.


def test_f40_a_port_that_does_not_work(box, topo):
    """F40: a port claimed twice, or without an address, is silent: no page of the API says so."""
    text = topo({"id": "a", "tags": ["serial:5041"]}, {"id": "b", "tags": ["serial:5041"]})
    lab = lab_of(box, text)
    lab_of(box, topo({"id": "c", "tags": ["pat:tcp:5050:22"]}))
    box.clock.forward(100)
    assert states(box, lab) == ["BOOTED", "BOOTED"]
    truth = box.control("GET", f"/servers/{box.server.id}")
    assert [port["port"] for port in truth["open_ports"]] == [5041]
    assert (truth["clashes_now"], len(truth["clash_log"])) == (1, 1)
    tags = [node["tags"] for node in box.get("/nodes")]
    assert tags == [["serial:5041"], ["serial:5041"], ["pat:tcp:5050:22"]]


def test_f41_queued_for_each_reason(make_box, topo):
    """F41: RAM, CPU, licence, pool, KVM or no READY compute: the node waits and it shows where."""
    box = make_box(machine=Machine(cpus=1, memory_bytes=1024**3))
    host = f"/system/compute_hosts/{box.server.compute_id}"
    box.ask("PATCH", host, {"admission_state": "ONLINE"})
    lab = lab_of(box, topo({"id": "a"}, {"id": "b"}))
    assert states(box, lab) == ["QUEUED", "QUEUED"]
    why = box.control("GET", f"/servers/{box.server.id}/queue")
    assert {row["reason"] for row in why} == {"no compute host is READY (it is ONLINE)"}
    assert len(box.get("/diagnostics/node_launch_queue")) == 2
    assert box.get("/system_information")["ready"] is False
    box.ask("PATCH", host, {"admission_state": "READY"})
    assert states(box, lab) == ["QUEUED", "STARTED"]


def test_f42_maintenance(box):
    """F42: in maintenance all calls of people without admin rights are 403, the mode is public."""
    box.ask("POST", "/users", {"username": "u", "password": "p"}, want=201)
    notice = box.ask("POST", "/system/notices", {"level": "WARNING", "label": "tonight"})
    mode = {"maintenance_mode": True, "notice": notice["id"]}
    box.ask("PATCH", "/system/maintenance_mode", mode)
    box.login("u", "p")
    for path in ("/labs", "/authok", "/system_stats", "/nodes"):
        assert box.refusal("GET", path)[0] == 403
    box.token = None
    shown = box.get("/system/maintenance_mode")
    assert (shown["maintenance_mode"], shown["resolved_notice"]["label"]) == (True, "tonight")
    box.login()
    assert box.get("/labs") == []
    box.ask("PATCH", "/system/maintenance_mode", {"maintenance_mode": False})
    box.login("u", "p")
    assert box.get("/labs") == []


def test_f44_409_means_later(box, topo):
    """F44: admission one step at a time, not with running nodes; licensing one call at a time."""
    path = f"/system/compute_hosts/{box.server.compute_id}"
    assert box.refusal("PATCH", path, {"admission_state": "REGISTERED"})[0] == 409
    assert box.refusal("DELETE", path)[0] == 409
    lab = lab_of(box, topo({"id": "a"}))
    box.ask("PATCH", path, {"admission_state": "ONLINE"})
    assert box.refusal("PATCH", path, {"admission_state": "REGISTERED"})[0] == 409
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(5)
    for state in ("REGISTERED", "UNREGISTERED"):
        assert box.ask("PATCH", path, {"admission_state": state})["admission_state"] == state
    box.ask("DELETE", path, want=204)
    assert box.get("/system/compute_hosts") == []
    assert box.refusal("GET", path)[0] == 404
    box.ask("POST", "/licensing/registration", {"token": "abc"}, want=204)
    assert box.refusal("PUT", "/licensing/registration/renew")[0] == 409


@pytest.mark.parametrize("full", [False, True])
def test_f45_a_full_disk(make_box, topo, full):
    """F45: over the watermark no node starts and no image is cloned; 2.10 health says overload."""
    box = make_box(profile=release("2.10"))
    lab = lab_of(box, topo({"id": "a"}))
    node = next(iter(box.server.nodes))
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(5)
    server_conditions(box, disk_full=full)
    compute = next(iter(box.get("/system_health")["computes"].values()))
    assert compute["disk_overload"] is full
    assert box.send("PUT", f"/labs/{lab}/nodes/{node}/clone_image").status == (409 if full else 200)
    assert box.send("PUT", f"/labs/{lab}/start").status == (400 if full else 204)
    used = box.get("/system_stats")["controller"]["disk"]
    assert (used["used"] == used["total"]) is full
