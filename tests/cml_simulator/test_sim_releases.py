"""Each row of facts/cml.md#releases that a client can see, switched by profile.

The numbered cases are rows of facts/cml-issues.md.
"""

import json
import random

import pytest

from cml_simulator.core import fleet as fleets
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.profile import RELEASES, Profile, release

ALL = tuple(RELEASES)


@pytest.fixture(params=ALL)
def minor(request) -> int:
    """Return a minor release."""
    return request.param


@pytest.fixture
def of(make_box):
    """Return the maker of a server of a minor release."""
    return lambda minor: make_box(profile=release(f"2.{minor}"))


def status(box, method, path, body=None, **more):
    return box.send(method, path, body, **more).status


def started(box, topo, **node):
    lab = box.ask("POST", "/import", json.loads(topo({"id": "a", **node}, version="0.2.2")))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    return lab


def test_version_texts_choose_their_profile():
    """Any version text has the profile of its minor number, an odd one that of 2.9."""
    found = {text: Profile(text).minor for text in ("2.7.2", "2.8.0+x", "2.11.0+sso", "2.6.1", "x")}
    assert found == {"2.7.2": 7, "2.8.0+x": 8, "2.11.0+sso": 10, "2.6.1": 7, "x": 9}
    assert release("2.10").version == RELEASES[10]


def test_version_and_keys_of_system_information(of, minor):
    """The version is the profile's; 2.10 adds timeout and features and 2.9 has just four keys."""
    body = of(minor).get("/system_information")
    assert body["version"].startswith(f"2.{minor}.")
    more = {"timeout", "features"} if minor == 10 else set()
    assert body.keys() == {"version", "ready", "allow_ssh_pubkey_auth", "oui"} | more


def test_schema_versions(of, minor, topo):
    """An importer takes the schemas up to its release's and writes its own (row 1)."""
    box = of(minor)
    own = {7: "0.2.2", 8: "0.3.0", 9: "0.3.0", 10: "0.3.1"}[minor]
    for version in ("0.0.1", "0.1.0", "0.2.2", "0.3.0", "0.3.1", "0.4.0"):
        text = json.loads(topo({"id": "a"}, version=version))
        good = version <= own
        assert status(box, "POST", "/import", text) == (200 if good else 400), version
    lab = box.get("/labs")[0]
    assert box.get(f"/labs/{lab}/topology")["lab"]["version"] == own


def test_login_check(of, minor):
    """GET authentication exists from 2.10; authok always (row 2)."""
    box = of(minor)
    assert status(box, "GET", "/authok") == 200
    assert status(box, "GET", "/authentication") == (200 if minor == 10 else 404)


def test_diagnostics_at_once_or_by_category(of, minor):
    """All categories at once until 2.8, one by one from 2.9 (row 3)."""
    box = of(minor)
    assert status(box, "GET", "/diagnostics") == (200 if minor <= 8 else 404)
    assert status(box, "GET", "/diagnostics/licensing") == (404 if minor <= 8 else 200)
    if minor <= 8:
        assert len(box.get("/diagnostics")) == 9


def test_licensing_changes_return_the_status(of, minor):
    """Changes answer 204 without a body until 2.9, 200 with the status in 2.10 (row 4, F7)."""
    reply = of(minor).send("PUT", "/licensing/product_license", "CML_Personal")
    assert (reply.status, bool(reply.body)) == ((200, True) if minor == 10 else (204, False))


def test_sharing(of, minor):
    """groups until 2.9, associations from 2.8 (row 5)."""
    box = of(minor)
    lab = box.ask("POST", "/labs", {"title": "x"})
    assert ("groups" in lab) == (minor <= 9)
    path = f"/labs/{lab['id']}"
    assert status(box, "GET", f"{path}/groups") == (200 if minor <= 9 else 404)
    assert status(box, "PUT", f"{path}/groups", []) == (200 if minor <= 9 else 404)
    assert status(box, "GET", f"{path}/associations") == (200 if minor >= 8 else 404)
    given = status(box, "PATCH", path, {"associations": {"groups": []}})
    assert given == (200 if minor >= 8 else 400)


def test_smart_annotations(of, minor, topo):
    """Smart annotations exist from 2.8 (row 6)."""
    box = of(minor)
    lab = box.ask("POST", "/import", json.loads(topo({"id": "a", "tags": ["t"]}, version="0.2.2")))[
        "id"
    ]
    assert status(box, "GET", f"/labs/{lab}/smart_annotations") == (404 if minor == 7 else 200)
    assert ("smart_annotations" in box.get(f"/labs/{lab}/topology")) == (minor >= 8)


def test_build_configurations(of, minor):
    """A GET with the lab in the query until 2.8, PUT bootstrap from 2.9 (row 7)."""
    box = of(minor)
    lab = box.ask("POST", "/labs", {})["id"]
    query = {"lab_id": lab}
    old = status(box, "GET", "/build_configurations", query=query)
    assert old == (200 if minor <= 8 else 404)
    assert status(box, "PUT", f"/labs/{lab}/bootstrap") == (404 if minor <= 8 else 204)
    assert status(box, "GET", f"/labs/{lab}/bootstrap") == (404 if minor <= 8 else 405)


def test_docker(of, minor):
    """Docker nodes, docker_shim and clone_image exist from 2.9 (row 8)."""
    box = of(minor)
    names = {d["id"] for d in box.get("/simplified_node_definitions")}
    assert ("frr" in names) == (minor >= 9)
    compute = next(iter(box.get("/system_health")["computes"].values()))
    assert ("docker_shim" in compute) == (minor >= 9)
    lab = box.ask("POST", "/labs", {})["id"]
    node = {"label": "a", "node_definition": "alpine", "x": 0, "y": 0}
    key = box.ask("POST", f"/labs/{lab}/nodes", node)["id"]
    cloned = status(box, "PUT", f"/labs/{lab}/nodes/{key}/clone_image")
    assert cloned == (400 if minor >= 9 else 404)


def test_configuration_forms(of, minor, topo):
    """A text by default until 2.9, the list of named files everywhere in 2.10 (row 9)."""
    box = of(minor)
    lab = box.ask(
        "POST", "/import", json.loads(topo({"id": "a", "configuration": "c"}, version="0.2.2"))
    )["id"]
    node = box.get(f"/labs/{lab}/nodes", query={"data": "true"})[0]
    kind = list if minor == 10 else str
    assert isinstance(node["configuration"], kind)
    assert isinstance(box.get(f"/labs/{lab}/topology")["nodes"][0]["configuration"], kind)


def test_deployed_fields_on_top(of, minor, topo):
    """compute_id, vnc_key and so on stand on top until 2.9, and always in operational (row 10)."""
    box = of(minor)
    lab = started(box, topo)
    query = {"data": "true", "operational": "true"}
    node = box.get(f"/labs/{lab}/nodes", query=query)[0]
    assert ("compute_id" in node) == (minor <= 9)
    assert node["operational"]["compute_id"] == box.server.compute_id


def test_starting_state(of, minor, topo):
    """Only 2.10 shows STARTING between QUEUED and STARTED (row 11)."""
    box = of(minor)
    lab = started(box, topo)
    states = set(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())
    assert states == ({"STARTING"} if minor == 10 else {"STARTED"})
    box.clock.forward(1.5)
    assert set(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values()) == {"STARTED"}


def test_lab_extras(of, minor):
    """Autostart, node staging and node priority exist from 2.10 (row 12)."""
    box = of(minor)
    staging = {"enabled": True, "start_remaining": True, "abort_on_failure": False}
    body = {"autostart": {"enabled": True, "priority": 5, "delay": 9}, "node_staging": staging}
    reply = box.send("POST", "/labs", body)
    assert reply.status == (200 if minor == 10 else 400)
    if minor == 10:
        lab = json.loads(reply.body)
        assert lab["autostart"]["delay"] == 9
        assert lab["node_staging"] == staging
        assert status(box, "POST", "/labs", {"autostart": {"priority": 10_001}}) == 400


def test_lab_interfaces_and_forgetting_addresses(of, minor):
    """GET labs/{id}/interfaces is a 405 before 2.10 (F38), DELETE of addresses too (rows 13, 14)."""
    box = of(minor)
    lab = box.ask("POST", "/labs", {})["id"]
    assert status(box, "GET", f"/labs/{lab}/interfaces") == (200 if minor == 10 else 405)
    gone = status(box, "DELETE", f"/labs/{lab}/layer3_addresses")
    assert gone == (204 if minor == 10 else 405)


def test_telemetry_choice(of, minor):
    """No telemetry in 2.7, true or false in 2.8, also null in 2.9, words in 2.10 (row 15)."""
    box = of(minor)
    good = {7: [], 8: [True, False], 9: [True, False, None], 10: ["accepted", "declined", "unset"]}
    for value in (True, False, None, "accepted", "declined", "unset", "maybe", 1):
        done = status(box, "PUT", "/telemetry", {"opt_in": value})
        known = any(
            value is each or (value == each and type(value) is type(each)) for each in good[minor]
        )
        assert done == (404 if minor == 7 else 200 if known else 400), value
    if minor > 7:
        box.ask("PUT", "/telemetry", {"opt_in": good[minor][0]})
        assert box.get("/telemetry") == {"opt_in": good[minor][0], "show_modal": False}


def test_event_words(of, minor, topo):
    """ADD of a NODE until 2.9, CREATED of a Node in 2.10 (row 16)."""
    box = of(minor)
    lab = started(box, topo)
    found = {(e["event"], e["element_type"]) for e in box.get(f"/labs/{lab}/events")}
    new = {("CREATED", "Lab"), ("state", "Node")}
    assert found == (new if minor == 10 else {("ADD", "LAB"), ("STATE_CHANGED", "NODE")})


def test_compute_hosts(of, minor):
    """A host lists its nodes until 2.9 and counts them from 2.9 (row 17, F6)."""
    host = of(minor).get("/system/compute_hosts")[0]
    assert ("nodes" in host) == (minor <= 9)
    assert ("node_counts" in host) == (minor >= 9)


def test_new_links(of, minor):
    """Making a link returns its id until 2.9, all of it with its key in 2.10 (row 19)."""
    box = of(minor)
    lab = box.ask("POST", "/labs", {})["id"]
    ends = []
    for name in ("a", "b"):
        node = {"label": name, "node_definition": "alpine", "x": 0, "y": 0}
        key = box.ask("POST", f"/labs/{lab}/nodes", node)["id"]
        ends.append(box.ask("POST", f"/labs/{lab}/interfaces", {"node": key})["id"])
    made = box.ask("POST", f"/labs/{lab}/links", {"src_int": ends[0], "dst_int": ends[1]})
    assert made["id"]
    if minor == 10:
        assert made["link_capture_key"] == made["id"]
    else:
        assert made.keys() == {"id"}
        assert box.get(f"/labs/{lab}/links/{made['id']}")["link_capture_key"] == ""


def test_trailing_slashes(of, minor):
    """Paths may end with a slash until 2.8, and are unknown then from 2.9 (row 20)."""
    assert status(of(minor), "GET", "/node_definitions/") == (200 if minor <= 8 else 404)


def test_overload_flags(of, minor):
    """2.10 health says what is overloaded and which services live."""
    health = of(minor).get("/system_health")
    compute = next(iter(health["computes"].values()))
    assert ("disk_overload" in compute) == (minor == 10)
    assert ("dispatcher" in health["controller"]) == (minor == 10)


def test_queue_form(of, minor, topo):
    """The launch queue has its new form in 2.10."""
    if minor < 9:
        assert "node_launch_queue" in of(minor).get("/diagnostics")
        return
    box = of(minor)
    box.control("PATCH", f"/servers/{box.server.id}/weather", {"ready": False})
    started(box, topo)
    waiting = box.get("/diagnostics/node_launch_queue")
    assert len(waiting) == 1
    assert ("node_id" in waiting[0]) == (minor == 10)


def test_simulation_stats_additions(of, minor, topo):
    """2.10 adds times and sizes to each node's figures."""
    box = of(minor)
    lab = started(box, topo)
    figures = next(iter(box.get(f"/labs/{lab}/simulation_stats")["nodes"].values()))
    assert ("times" in figures) == (minor == 10)


def test_a_fleet_mixes_releases():
    """Servers of different releases live in one process."""
    fleet = Fleet(random.Random(1), "pw")
    made = [fleets.create(fleet, profile=release(f"2.{minor}")) for minor in ALL]
    assert [server.config.profile.minor for server in made] == list(ALL)
