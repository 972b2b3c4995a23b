"""The licensing machine and what it allows to run."""

import pytest

from cml_simulator.core.profile import Rules


def five_and(n):
    return [{"id": f"n{i}"} for i in range(5 + n)]


def test_unregistered_servers_run_five_nodes(box, topo):
    """Without a licence five nodes start and the rest stay QUEUED; connectors do not count."""
    lab = box.import_text(topo(*five_and(2), {"id": "net", "kind": "external_connector"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(1000)
    found = list(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())
    assert found.count("BOOTED") == 6
    assert found.count("QUEUED") == 2
    box.license()
    box.clock.forward(100)
    found = list(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())
    assert found.count("BOOTED") == 8


def test_over_licence_can_be_refused(make_box, topo):
    """By option a start beyond the licence is a 400 and nothing starts."""
    box = make_box(rules=Rules(over_licence="refuse"))
    lab = box.import_text(topo(*five_and(1)))["id"]
    assert "licenses" in box.refusal("PUT", f"/labs/{lab}/start")[1]
    assert box.get(f"/labs/{lab}/state") == "DEFINED_ON_CORE"


def test_registration_takes_its_steps(box):
    """NOT_REGISTERED, IN_PROGRESS, COMPLETED with WAITING, then IN_COMPLIANCE."""

    def now():
        status = box.get("/licensing")
        return status["registration"]["status"], status["authorization"]["status"]

    assert now() == ("NOT_REGISTERED", "INIT")
    box.ask("PUT", "/licensing/product_license", "CML_Personal", want=204)
    box.ask("POST", "/licensing/registration", {"token": "abc"}, want=204)
    assert now() == ("IN_PROGRESS", "INIT")
    assert box.refusal("DELETE", "/licensing/deregistration")[0] == 409
    box.clock.forward(9)
    assert now() == ("COMPLETED", "WAITING")
    assert box.get("/diagnostics/licensing")["quota"] == 5
    box.clock.forward(4)
    assert now() == ("COMPLETED", "IN_COMPLIANCE")
    assert box.get("/diagnostics/licensing")["quota"] == 20
    status = box.get("/licensing")
    assert status["registration"]["expires"].count(" ") == 1
    assert status["features"][0]["max"] == 1
    assert box.get("/system_health")["is_licensed"] is True


def test_bad_token_fails_and_can_be_retried(box):
    """A token that begins with 'bad' ends in FAILED; a good one works afterwards."""
    box.ask("POST", "/licensing/registration", {"token": "bad-token"}, want=204)
    box.clock.forward(30)
    status = box.get("/licensing")["registration"]
    assert status["status"] == "FAILED"
    assert status["register_time"]["failure"]
    box.license()


@pytest.mark.parametrize("token", ["", "has space", "x" * 257, 7])
def test_malformed_tokens_are_400(box, token):
    """The token has a closed alphabet."""
    assert box.refusal("POST", "/licensing/registration", {"token": token})[0] == 400


def test_expansion_counts_make_the_quota(box):
    """Capacity is the included nodes plus the requested count, within the ceiling."""
    box.license(expansion=180)
    assert box.get("/diagnostics/licensing")["quota"] == 200
    count = next(f for f in box.get("/licensing")["features"] if "NODE_COUNT" in f["id"])
    assert (count["in_use"], count["max"]) == (180, 500)
    too_many = [{"id": count["id"], "count": 501}]
    assert box.refusal("PATCH", "/licensing/features", too_many)[0] == 400
    unknown = [{"id": "x", "count": 1}]
    assert box.refusal("PATCH", "/licensing/features", unknown)[0] == 400
    assert box.refusal("PATCH", "/licensing/features", [])[0] == 400


def test_deregistration_refusals_have_cmls_texts(box, topo):
    """400 while nodes run, 400 when nothing is registered, 204 when done."""
    box.license()
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    running = "Licensing issue: Cannot de-register when nodes are running."
    assert box.refusal("DELETE", "/licensing/deregistration") == (400, running)
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(3)
    box.ask("DELETE", "/licensing/deregistration", want=204)
    gone = "Licensing issue: The product has already been de-registered."
    assert box.refusal("DELETE", "/licensing/deregistration") == (400, gone)
    assert box.control("GET", "/summary")["licences_held"] == 0


def test_unreachable_cloud_leaks_a_licence(box):
    """202 means the server is free of it, but the vendor still counts it."""
    box.license()
    path = f"/servers/{box.server.id}/licence_cloud"
    box.control("PUT", path, {"reachable": False})
    box.ask("DELETE", "/licensing/deregistration", want=202)
    assert box.get("/licensing")["registration"]["status"] == "NOT_REGISTERED"
    found = box.control("GET", "/summary")
    assert (found["licences_held"], found["licences_leaked"]) == (1, 1)


def test_destroying_a_registered_server_leaks(box):
    """Termination without deregistration is counted as a leak; a stop is none."""
    box.license()
    box.control("POST", f"/servers/{box.server.id}/stop")
    assert box.control("GET", "/summary")["licences_leaked"] == 0
    box.control("POST", f"/servers/{box.server.id}/destroy")
    assert box.control("GET", "/summary")["licences_leaked"] == 1


def test_licence_and_product_stay_together(box):
    """The product of a registered server cannot change; Personal has no expansion nodes."""
    box.ask("PUT", "/licensing/product_license", "CML_Personal", want=204)
    box.ask("POST", "/licensing/registration", {"token": "abc"}, want=204)
    box.clock.forward(30)
    assert box.refusal("PUT", "/licensing/product_license", "CML_Enterprise")[0] == 400
    assert box.refusal("PUT", "/licensing/product_license", "no such!")[0] == 400
    assert len(box.get("/licensing")["features"]) == 1
    box.ask("PUT", "/licensing/registration/renew", want=204)
    box.ask("PUT", "/licensing/authorization/renew", want=204)


def test_licence_survives_a_stop_in_the_middle(box):
    """A registration that was under way goes on after the next boot."""
    box.ask("POST", "/licensing/registration", {"token": "abc"}, want=204)
    box.control("POST", f"/servers/{box.server.id}/stop")
    box.clock.forward(1000)
    box.control("POST", f"/servers/{box.server.id}/boot")
    box.login()
    assert box.get("/licensing")["registration"]["status"] == "IN_PROGRESS"
    box.clock.forward(30)
    assert box.get("/licensing")["registration"]["status"] == "COMPLETED"
