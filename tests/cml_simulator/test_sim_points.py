"""The points of facts/cml.md#simulator-points, by number; what other files prove is named here.

The numbered cases are rows of facts/cml-issues.md.
"""

import base64
import json

import pytest

from cml_simulator.core.profile import Machine, Rules

MIB = 1024 * 1024


def server_conditions(box, **changes):
    return box.control("PATCH", f"/servers/{box.server.id}/weather", changes)


def outside(box, action, **more):
    path = f"/servers/{box.server.id}/outside"
    return box.control("POST", path, {"action": action, **more})


def lab_of(box, text, start=True):
    lab = box.import_text(text)["id"]
    if start:
        box.ask("PUT", f"/labs/{lab}/start", want=204)
    return lab


def states(box, lab):
    return sorted(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())


def reasons(box):
    return [row["reason"] for row in box.control("GET", f"/servers/{box.server.id}/queue")]


# 1 (TLS, ports, identities) is test_sim_shell.py and test_sim_fleet.py.


def test_point_2_tokens(box):
    """Tokens are HS256 JWT with iss, iat, exp, sub; their life is a setting; logout revokes."""
    head, body, _ = (part + "=" * (-len(part) % 4) for part in box.token.split("."))
    assert json.loads(base64.urlsafe_b64decode(head))["alg"] == "HS256"
    claims = json.loads(base64.urlsafe_b64decode(body))
    assert claims["iss"] == "com.cisco.virl"
    assert claims["exp"] - claims["iat"] == box.get("/web_session_timeout") == 86_400
    box.ask("PATCH", "/web_session_timeout/60")
    box.login()
    box.clock.forward(61)
    assert box.refusal("GET", "/authok")[0] == 401
    box.login()
    first = box.token
    box.login()
    box.ask("DELETE", "/logout", query={"clear_all_sessions": "true"})
    box.token = first
    assert box.refusal("GET", "/authok")[0] == 401
    assert box.refusal("POST", "/authenticate", {"username": "admin", "password": "no"})[0] == 403


def test_point_3_closed_bodies(box):
    """An unknown key is a 400 whose description holds CML's JSON."""
    status, text = box.refusal("POST", "/labs", {"titel": "x"})
    problem = json.loads(text)["Input validation failed"][0]
    assert (status, problem["location"]) == (400, ["body", "titel"])
    assert problem["type"] == "extra_forbidden"


# 4 (both import forms, old schemas, null and "", warnings, unknown definitions): test_sim_corpus.py.


def test_point_5_queue_waits_and_says_why(make_box, topo):
    """What does not fit waits for ever; the queue names it and the simulator knows the reason."""
    box = make_box(machine=Machine(cpus=2, memory_bytes=6144 * MIB))
    box.login()
    box.license()
    lab = lab_of(box, topo({"id": "a", "cpus": 2}, {"id": "b"}, {"id": "c", "ram": 6000}))
    box.clock.forward(10_000)
    assert states(box, lab) == ["BOOTED", "QUEUED", "QUEUED"]
    assert [row["label"] for row in box.get("/diagnostics/node_launch_queue")] == ["b", "c"]
    assert reasons(box) == ["not enough CPU", "not enough CPU"]
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    node = next(n.id for n in box.server.nodes.values() if n.label == "a")
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/state/stop", want=204)
    box.clock.forward(100)
    assert states(box, lab) == ["BOOTED", "QUEUED", "STOPPED"]
    assert reasons(box) == ["not enough memory"]


def test_point_5_pools_limit_their_users(box, topo):
    """A pool's licences, RAM and CPUs bound its users' nodes; a template's limits count too."""
    box.license(100)
    user = box.ask("POST", "/users", {"username": "u", "password": "p"}, want=201)["id"]
    made = box.ask(
        "POST", "/resource_pools", {"label": "p", "licenses": 2, "users": [user], "shared": False}
    )
    template, pool = made
    assert template["user_pools"] == [pool["id"]]
    box.login("u", "p")
    lab = lab_of(box, topo({"id": "a"}, {"id": "b"}, {"id": "c"}))
    assert states(box, lab) == ["QUEUED", "STARTED", "STARTED"]
    assert "has no licenses left" in reasons(box)[0]
    assert box.get(f"/labs/{lab}/resource_pools") == [pool["id"]]
    usage = box.get("/resource_pool_usage")[0]
    assert (usage["limit"]["licenses"], usage["usage"]["licenses"]) == (2, 2)
    assert usage["usage"]["cpus"] == 200
    box.login()
    assert box.refusal("DELETE", f"/resource_pools/{template['id']}")[0] == 409
    box.ask("PATCH", f"/resource_pools/{template['id']}", {"licenses": 9})
    assert states(box, lab) == ["STARTED"] * 3


def test_point_5_priority_of_2_10(make_box, topo):
    """From 2.10 a queued node of higher priority starts first."""
    from cml_simulator.core.profile import release

    box = make_box(profile=release("2.10"))
    server_conditions(box, ready=False)
    lab = lab_of(box, topo(*({"id": f"n{n}"} for n in range(6))), start=False)
    last = list(box.server.nodes)[-1]
    box.ask("PATCH", f"/labs/{lab}/nodes/{last}", {"priority": 9})
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    server_conditions(box, ready=None)
    assert last in box.server.active


def test_point_6_boot_time_rule(make_box, topo):
    """Booting lasts 100/cpu_limit times as long; a silent console is BOOTED at its timeout."""
    box = make_box(rules=Rules(silent=("iosv",)))
    lab = lab_of(
        box, topo({"id": "s", "kind": "iosv"}, {"id": "q", "kind": "iosv", "cpu_limit": 25})
    )
    box.clock.forward(119)
    assert states(box, lab) == ["STARTED", "STARTED"]
    box.clock.forward(2)
    assert states(box, lab) == ["BOOTED", "STARTED"]
    box.clock.forward(358)
    assert states(box, lab) == ["BOOTED", "STARTED"]
    box.clock.forward(2)
    assert states(box, lab) == ["BOOTED", "BOOTED"]


def test_point_6_host_loss_disconnects(box, topo):
    """Without the compute host its nodes are DISCONNECTED and closed; they come back with it."""
    lab = lab_of(box, topo({"id": "a", "tags": ["serial:5041"]}))
    box.clock.forward(100)
    assert len(box.control("GET", f"/servers/{box.server.id}")["open_ports"]) == 1
    server_conditions(box, compute_lost=True)
    assert states(box, lab) == ["DISCONNECTED"]
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    assert box.get("/system_information")["ready"] is False
    assert box.get("/system/compute_hosts")[0]["is_connected"] is False
    assert box.get("/system_stats")["computes"] == {}
    assert box.get(f"/labs/{lab}/simulation_stats")["nodes"] == {}
    assert box.control("GET", f"/servers/{box.server.id}")["open_ports"] == []
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(1000)
    assert states(box, lab) == ["DISCONNECTED"]
    server_conditions(box, compute_lost=False)
    box.clock.forward(10)
    assert states(box, lab) == ["STOPPED"]


def test_point_6_addresses_and_macs(box, topo):
    """MACs are 52:54:00; an address is learnt a while after the boot and only behind NAT."""
    text = topo(
        {"id": "a"},
        {"id": "alone"},
        {"id": "net", "kind": "external_connector", "configuration": "NAT"},
        links=[("a", "net")],
    )
    lab = lab_of(box, text)
    box.clock.forward(20)
    assert box.get(f"/labs/{lab}/layer3_addresses") == {}
    box.clock.forward(60)
    found = box.get(f"/labs/{lab}/layer3_addresses")
    assert [row["name"] for row in found.values()] == ["a"]
    mac = next(iter(next(iter(found.values()))["interfaces"]))
    assert mac.startswith("52:54:00:")
    node = next(iter(found))
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/state/stop", want=204)
    box.clock.forward(10)
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/state/start", want=204)
    box.clock.forward(80)
    assert mac in box.get(f"/labs/{lab}/layer3_addresses")[node]["interfaces"]


def test_point_6_a_bridge_teaches_nothing(box, topo):
    """A connector to the system bridge learns no NAT address; a mapping to virbr0 makes it so."""
    text = topo(
        {"id": "a"},
        {"id": "net", "kind": "external_connector", "configuration": "System Bridge"},
        links=[("a", "net")],
    )
    lab = lab_of(box, text, start=False)
    mapping = [{"key": "System Bridge", "device_name": "virbr0"}]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(100)
    assert box.get(f"/labs/{lab}/layer3_addresses") == {}
    assert box.refusal("PATCH", f"/labs/{lab}/connector_mappings", mapping)[0] == 409
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(10)
    box.ask("PATCH", f"/labs/{lab}/connector_mappings", mapping)
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(100)
    assert len(box.get(f"/labs/{lab}/layer3_addresses")) == 1


def test_point_7_figures_agree(box, topo):
    """Host figures are the sums of the nodes'; disks grow with starts and shrink with a wipe."""
    before = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]
    lab = lab_of(box, topo({"id": "a", "ram": 1024}, {"id": "b", "cpus": 2}))
    box.clock.forward(200)
    stats = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]
    nodes = box.get(f"/labs/{lab}/simulation_stats")["nodes"].values()
    busy = sum(node["cpu_usage"] for node in nodes) / 48
    assert stats["cpu"]["percent"] == pytest.approx(before["cpu"]["percent"] + busy, abs=0.02)
    ram = sum(node["ram_usage"] for node in nodes) * MIB
    assert stats["memory"]["used"] == before["memory"]["used"] + ram
    disk = sum(node["disk_usage"] for node in nodes) * MIB
    assert stats["disk"]["used"] == before["disk"]["used"] + disk > before["disk"]["used"]
    info = stats["dominfo"]
    assert (info["allocated_cpus"], info["allocated_memory"]) == (3, (1024 + 512) * 1024)
    assert (info["running_nodes"], info["total_nodes"]) == (2, 2)
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(10)
    stopped = box.get("/system_stats")["controller"]["disk"]["used"]
    assert stopped == stats["disk"]["used"]
    box.ask("PUT", f"/labs/{lab}/wipe", want=204)
    assert box.get("/system_stats")["controller"]["disk"]["used"] == before["disk"]["used"]


def test_point_8_expiry_and_renewal(box):
    """Renewals happen by themselves; without the cloud an authorization ends after 90 days."""
    box.license()
    path = f"/servers/{box.server.id}/licence_cloud"
    first = box.get("/licensing")["authorization"]["expires"]
    box.clock.forward(45 * 86_400)
    box.login()
    assert box.get("/licensing")["authorization"]["expires"] > first
    box.control("PUT", path, {"reachable": False})
    box.clock.forward(80 * 86_400)
    box.login()
    status = box.get("/licensing")
    assert status["authorization"]["status"] == "AUTH_EXPIRED"
    assert status["registration"]["status"] == "COMPLETED"
    assert box.get("/system_health")["is_licensed"] is False
    assert box.get("/diagnostics/licensing")["quota"] == 5
    box.control("PUT", path, {"reachable": True})
    box.ask("PUT", "/licensing/authorization/renew", want=204)
    assert box.get("/licensing")["authorization"]["status"] == "IN_COMPLIANCE"
    box.control("PUT", path, {"reachable": False})
    box.clock.forward(400 * 86_400)
    box.login()
    assert box.get("/licensing")["registration"]["status"] == "NOT_REGISTERED"


def test_point_8_out_of_compliance(box):
    """Out of compliance, or beyond what was bought, the quota is the free one."""
    box.license()
    server_conditions(box, compliant=False)
    assert box.get("/licensing")["authorization"]["status"] == "OUT_OF_COMPLIANCE"
    assert box.get("/diagnostics/licensing")["quota"] == 5
    server_conditions(box, compliant=True)
    assert box.get("/diagnostics/licensing")["quota"] == 20
    box.control("PUT", f"/servers/{box.server.id}/licence_cloud", {"bought": 0})
    assert box.get("/licensing")["authorization"]["status"] == "OUT_OF_COMPLIANCE"


def test_point_8_reservation(box):
    """Reservation: mode, request, code, confirmation; release gives a return code."""
    base = "/licensing/reservation"
    assert box.refusal("POST", f"{base}/request")[0] == 400
    box.ask("PUT", f"{base}/mode", True, want=204)
    assert box.get("/licensing")["reservation_mode"] is True
    assert box.refusal("POST", f"{base}/complete", "code")[0] == 400
    box.ask("POST", f"{base}/request")
    assert box.refusal("POST", f"{base}/complete", "bad")[0] == 400
    code = box.ask("POST", f"{base}/complete", "code")
    assert box.get(f"{base}/confirmation_code") == code
    assert box.get("/licensing")["authorization"]["status"] == "IN_COMPLIANCE"
    back = box.ask("DELETE", f"{base}/release")
    assert box.get(f"{base}/return_code") == back
    box.ask("DELETE", f"{base}/return_code", want=204)
    assert box.refusal("GET", f"{base}/return_code")[0] == 400
    box.ask("POST", f"{base}/request")
    box.ask("DELETE", f"{base}/cancel", want=204)
    box.ask("PUT", f"{base}/mode", False, want=204)


# 8's registration steps and refusals: test_sim_licences.py. 9: test_sim_releases.py.
# 10 (listeners, polling, clashes): test_sim_ports.py, test_sim_shell.py, test_sim_socket.py.


def test_point_11_ready_false(box, topo):
    """ready=false: the API answers, nothing starts."""
    server_conditions(box, ready=False)
    assert box.get("/system_information")["ready"] is False
    lab = lab_of(box, topo({"id": "a"}))
    assert states(box, lab) == ["QUEUED"]
    server_conditions(box, ready=None)
    assert states(box, lab) == ["STARTED"]


def test_point_11_a_busy_cpu(box):
    """The host's CPU is what it is told to be, until it is computed again."""
    quiet = box.get("/system_stats")["all"]["cpu"]["percent"]
    server_conditions(box, cpu_percent=97.0)
    assert box.get("/system_stats")["all"]["cpu"]["percent"] == 97.0
    server_conditions(box, cpu_percent=None)
    assert box.get("/system_stats")["all"]["cpu"]["percent"] == quiet


def test_point_11_orphans_keep_capacity(make_box, topo):
    """Orphans show in every counter and keep RAM and CPU."""
    box = make_box(machine=Machine(cpus=4, memory_bytes=8192 * MIB))
    server_conditions(box, orphans=3, orphan_ram=2048)
    lab = lab_of(box, topo({"id": "a", "ram": 3000}))
    assert states(box, lab) == ["QUEUED"]
    info = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]["dominfo"]
    assert (info["total_orphans"], info["running_orphans"]) == (3, 3)
    assert box.get("/system/compute_hosts")[0]["node_counts"]["total_orphans"] == 3
    compute = box.get("/diagnostics/computes")[box.server.compute_id]
    assert len(compute["lld_consistency"]["orphaned_nodes"]) == 3
    server_conditions(box, orphans=0)
    assert states(box, lab) == ["STARTED"]


def test_point_11_missing_compute_and_null_health(box):
    """A compute can be absent from the figures, and health can be null."""
    server_conditions(box, compute_missing=True)
    assert box.get("/system_stats")["computes"] == {}
    assert box.get("/system_health")["computes"] == {}
    server_conditions(box, compute_missing=False, null_health=True)
    compute = box.get("/system_health")["computes"][box.server.compute_id]
    assert compute["kvm_vmx_enabled"] is None
    assert compute["lld_connected"] is True
    assert box.get("/system_health")["is_licensed"] is None
    stats = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]
    assert stats["dominfo"]["total_nodes"] is None


def test_point_11_clock_skew(box):
    """A wrong clock shows in stamps, tokens and the Date header, not in behaviour."""
    right = box.send("GET", "/authok").date
    server_conditions(box, clock_skew=-7200)
    assert box.send("GET", "/system_information").date == right - 7200
    box.login()
    body = box.token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert claims["iat"] == int(right) - 7200
    assert box.ask("POST", "/labs", {})["created"].startswith("2026-11-27T07:00")


def test_point_11_external_edits(box, topo):
    """Others rename, tag, start, stop and delete behind one's back."""
    lab = lab_of(box, topo({"id": "a"}), start=False)
    node = next(iter(box.server.nodes))
    outside(box, "rename_lab", lab_id=lab, text="mine now")
    outside(box, "set_notes", lab_id=lab, text="n")
    outside(box, "add_tag", node_id=node, tag="serial:5000")
    outside(box, "remove_tag", node_id=node, tag="serial:5000")
    outside(box, "start_lab", lab_id=lab)
    box.clock.forward(100)
    assert states(box, lab) == ["BOOTED"]
    assert box.get(f"/labs/{lab}")["lab_title"] == "mine now"
    outside(box, "stop_node", node_id=node)
    outside(box, "start_node", node_id=node)
    outside(box, "stop_lab", lab_id=lab)
    outside(box, "delete_node", node_id=node)
    assert box.get(f"/labs/{lab}")["node_count"] == 0
    outside(box, "delete_lab", lab_id=lab)
    assert box.refusal("GET", f"/labs/{lab}")[0] == 404
    assert outside(box, "add_lab", text="theirs")["lab_id"] in box.get("/labs")
    outside(box, "revoke_tokens")
    assert box.refusal("GET", "/labs")[0] == 401
    box.control("POST", f"/servers/{box.server.id}/outside", {"action": "dance"}, want=400)


# 11's single-request faults: test_sim_faults.py. Disk full: F45, maintenance: F42 in test_sim_issues.


def test_point_12_journal(box):
    """The journal (kept by the application) can be read and cleared through the control face."""
    box.server.journal.append({"path": "/api/v0/labs"})
    path = f"/servers/{box.server.id}/journal"
    assert box.control("GET", path) == [{"path": "/api/v0/labs"}]
    assert box.control("DELETE", path) == []
    assert box.control("GET", path) == []


def test_snapshot_and_restore(box, topo):
    """A server's labs, users and licence go back to a snapshot; the cloud and the power do not."""
    box.license()
    lab = lab_of(box, topo({"id": "a"}))
    box.clock.forward(100)
    path = f"/servers/{box.server.id}/snapshots"
    kept = box.control("POST", path, want=201)
    assert [row["id"] for row in box.control("GET", path)] == [kept["id"]]
    outside(box, "delete_lab", lab_id=lab)
    box.ask("POST", "/users", {"username": "new", "password": "p"}, want=201)
    box.ask("DELETE", "/licensing/deregistration", want=204)
    box.control("POST", f"{path}/{kept['id']}/restore")
    assert states(box, lab) == ["BOOTED"]
    assert box.refusal("GET", "/users/new/id")[0] == 404
    assert box.get("/licensing")["registration"]["status"] == "COMPLETED"
    assert not box.fleet.cloud.held
    node = next(iter(box.server.active))
    assert box.server.active[node] is box.server.labs[lab].nodes[node]
    box.control("POST", f"/servers/{box.server.id}/stop")
    box.control("POST", f"{path}/{kept['id']}/restore")
    box.control("POST", f"/servers/{box.server.id}/boot")
    box.login()
    assert states(box, lab) == ["STOPPED"]
    box.control("POST", f"{path}/none/restore", want=404)
