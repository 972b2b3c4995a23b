"""Runs virl2_client's whole life cycle against a server of its own release; exit 0 or 1.

Usage: python run_virl2.py URL USER PASSWORD. Prints one JSON line for each group of calls. Needs
virl2-client 2.8.0, 2.9.1 or 2.10.1 (and aiohttp for its event listener), nothing of Labfleet.
"""

import json
import pathlib
import sys
import tempfile
import time
import warnings
from importlib import metadata
from importlib.util import find_spec

from virl2_client import ClientLibrary
from virl2_client.exceptions import APIError

VERSION = metadata.version("virl2-client")
MINOR = int(VERSION.split(".")[1])
TOPOLOGY = """
lab: {title: from file, description: d, notes: n, version: 0.3.0}
nodes:
  - {id: n0, label: PC, node_definition: alpine, x: 0, y: 0, tags: ["serial:5041"],
     configuration: [{name: node.cfg, content: hostname PC}],
     interfaces: [{id: i0, label: eth0, slot: 0, type: physical}]}
  - {id: n1, label: NET, node_definition: external_connector, x: 50, y: 0,
     configuration: [{name: default, content: NAT}],
     interfaces: [{id: i0, label: port, slot: 0, type: physical}]}
links: [{id: l0, n1: n0, i1: i0, n2: n1, i2: i0}]
"""
DEFINITION = """
id: toaster
general: {nature: server, description: a toaster, read_only: false}
device: {interfaces: {serial_ports: 1, physical: [eth0, eth1], default_count: 1}}
ui: {visible: true, label_prefix: t-, icon: server, label: Toaster}
sim: {linux_native: {libvirt_domain_driver: kvm, driver: server, ram: 64, cpus: 1}}
boot: {timeout: 20, completed: [done], uses_regex: false}
configuration: {generator: {driver: null}}
schema_version: 0.0.1
"""
CHECKS = []


def check(function):
    """Add a group of calls; they run in the order of this file."""
    CHECKS.append(function)
    return function


def until(question, text, seconds=60):
    """Ask until the answer is yes."""
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, text
        time.sleep(0.1)


def quick(lab):
    """Poll a lab often, as the constructor's settings do not reach imported ones."""
    lab.wait_max_iterations, lab.wait_time = 2000, 0.05
    return lab


def true(answer):
    """Take the client's word that a licensing call worked: 2.10.1 only believes an empty 204."""
    assert answer or MINOR >= 10


def refused(call, text):
    """Make a call that a true server must refuse."""
    said = "nothing"
    try:
        call()
    except APIError as error:
        said = str(error)
    assert text in said, f"a strict server must say {text}, it said {said}"


def finish(client, lab):
    """Stop, wipe, remove."""
    lab.stop(wait=True)
    lab.wipe(wait=True)
    lab_id = lab.id
    lab.remove()
    assert lab_id not in client.get_lab_list(show_all=True)


@check
def system(client):
    """is_system_ready, system_info, health, stats, compute_hosts, diagnostics, definitions."""
    assert client.is_system_ready()
    assert client.system_info()["version"].startswith(f"2.{MINOR}")
    assert client.get_system_health()["valid"]
    assert client.get_system_stats()["computes"]
    assert client.system_management.compute_hosts
    assert client.system_management.controller.admission_state == "READY"
    assert client.resource_pool_management.resource_pools == {}
    assert client.user_management.users()
    assert client.user_management.user_id("admin")
    assert client.group_management.groups() == []
    assert any(d["id"] == "iosv" for d in client.definitions.node_definitions())
    assert client.definitions.image_definitions()
    found = client.get_diagnostics()
    assert not any("error" in part for part in found.values() if isinstance(part, dict)), found


@check
def licensing(client):
    """set_default_transport, set_product_license, register_wait, update_features, status."""
    true(client.licensing.set_default_transport())
    true(client.licensing.set_product_license("CML_Enterprise"))
    client.licensing.wait_interval = 0.1
    client.licensing.max_wait = 600
    true(client.licensing.register_wait("abcd-1234"))
    features = client.licensing.status()["features"]
    count = next(f["id"] for f in features if "NODE_COUNT" in f["id"])
    client.licensing.update_features([{"id": count, "count": 10}])
    counts = {f["id"]: f["in_use"] for f in client.licensing.status()["features"]}
    assert counts[count] == 10
    true(client.licensing.renew_authorization())
    true(client.licensing.register_renew())
    assert "Registration" in client.licensing.tech_support()


@check
def lab_by_hand(client):
    """create_lab, create_node, connect, patch, start, operational, stop, wipe, find, remove."""
    lab = quick(client.create_lab("by hand"))
    one = lab.create_node("r1", "iosv", 0, 0, populate_interfaces=True)
    two = lab.create_node("r2", "alpine", 100, 0)
    link = lab.connect_two_nodes(one, two)
    lab.title = "by hand ✓ Ω"
    two.add_tag("vnc:5050")
    one.label = "R1"
    lab.sync()
    assert {n.label for n in lab.nodes()} == {"R1", "r2"}
    lab.start(wait=True)
    assert lab.state() == "STARTED"
    assert lab.is_active()
    assert all(node.state == "BOOTED" for node in lab.nodes())
    assert link.state == "STARTED"
    lab.sync(topology_only=False)
    assert one.cpu_usage >= 0
    assert one.compute_id
    if MINOR >= 9:
        assert one.operational["ram"] == 512
        if MINOR == 9:
            one.sync_interface_operational()
        assert one.interfaces()[1].operational["mac_address"].startswith("52:54:00")
    assert one.console_key()
    assert one.console_logs(0)
    one.stop(wait=True)
    one.wipe(wait=True)
    one.start(wait=True)
    assert lab.has_converged()
    assert any(lab.id == found.id for found in client.find_labs_by_title("by hand ✓ Ω"))
    assert lab.get_node_by_label("R1").id == one.id
    assert [n.id for n in lab.find_nodes_by_tag("vnc:5050")] == [two.id]
    finish(client, lab)


@check
def lab_from_file(client):
    """import_lab, download, start, addresses, statistics, events, all_labs, remove."""
    lab = quick(client.import_lab(TOPOLOGY, title="my lab"))
    assert lab.title == "my lab"
    assert "hostname PC" in lab.download()
    lab.start(wait=True)
    node = lab.get_node_by_label("PC")
    assert node.is_booted()
    tags = node.tags() if callable(node.tags) else node.tags
    assert tags == ["serial:5041"]
    port = node.get_interface_by_label("eth0")

    def learnt():
        lab.sync_layer3_addresses()
        return bool(port.discovered_ipv4)

    until(learnt, "no address learnt")
    lab.sync_events()
    lab.sync_statistics()
    assert client.all_labs(show_all=True)
    assert lab.details()["node_count"] == 2
    assert "testbed" in lab.get_pyats_testbed()
    finish(client, lab)


@check
def drawings(client):
    """create, change and remove annotations; smart annotations of tags."""
    lab = client.create_lab("drawings")
    for kind in ("text", "rectangle", "ellipse", "line"):
        made = lab.create_annotation(kind, x1=5, y1=6)
        made.color = "#112233FF"
        assert made.x1 == 5
    lab.sync()
    assert len(lab.annotations()) == 4
    lab.remove_annotation(lab.annotations()[0])
    lab.remove_annotations()
    lab.sync()
    assert lab.annotations() == []
    node = lab.create_node("a", "alpine")
    node.add_tag("blue")
    lab.sync()
    smart = lab.get_smart_annotation_by_tag("blue")
    smart.padding = 50
    lab.sync()
    assert lab.get_smart_annotation_by_tag("blue").padding == 50
    lab.remove()


@check
def conditions(client):
    """set_condition, by name, get and remove; captures (2.10)."""
    lab = quick(client.create_lab("conditions"))
    one, two = lab.create_node("a", "alpine"), lab.create_node("b", "alpine")
    link = lab.connect_two_nodes(one, two)
    link.set_condition(bandwidth=1000, latency=20, jitter=2, loss=0.5)
    assert link.get_condition()["latency"] == 20
    link.set_condition_by_name("dsl1")
    link.remove_condition()
    assert link.get_condition() == {}
    lab.start(wait=True)
    link.stop(wait=True)
    link.start(wait=True)
    if MINOR >= 10:
        link.start_capture(maxpackets=10)
        until(lambda: (link.capture_status().get("packetscaptured") or 0) == 10, "no packets")
        link.stop_capture()
        for read in (link.get_capture_packets, link.download_capture):
            refused(read, "Not Found")  # the client puts /api/v0 twice into the path
    finish(client, lab)


@check
def definitions(client):
    """upload, download, lock and remove node and image definitions; clone_image (2.9)."""
    made = client.definitions
    assert made.upload_node_definition(DEFINITION) == "toaster"
    assert "toaster" in made.download_node_definition("toaster")
    image = {
        "id": "toast-1",
        "node_definition_id": "toaster",
        "label": "t",
        "disk_image": "t.qcow2",
    }
    assert made.upload_image_definition(image) == "toast-1"
    assert made.image_definitions_for_node_definition("toaster")[0]["id"] == "toast-1"
    made.set_image_definition_read_only("toast-1", True)
    made.set_image_definition_read_only("toast-1", False)
    made.set_node_definition_read_only("toaster", True)
    made.set_node_definition_read_only("toaster", False)
    lab = quick(client.create_lab("toast"))
    node = lab.create_node("t1", "toaster", populate_interfaces=True)
    node.start(wait=True)
    node.stop(wait=True)
    if MINOR >= 9:
        clone = node.clone_image()
        made.remove_image_definition(clone["id"])
    node.wipe(wait=True)
    lab.remove()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "disk.qcow2"
        path.write_bytes(b"QFI\xfb" + bytes(1000))
        made.upload_image_file(str(path))
    assert "disk.qcow2" in made.download_image_file_list()
    made.remove_dropfolder_image("disk.qcow2")
    made.remove_image_definition("toast-1")
    made.remove_node_definition("toaster")


@check
def people(client):
    """users, groups, sharing of labs, connector mappings, pools and their usage."""
    users, groups = client.user_management, client.group_management
    bob = users.create_user("bob", "secret", fullname="Bob", description="b")
    users.update_user(bob["id"], fullname="Robert")
    assert users.get_user(bob["id"])["fullname"] == "Robert"
    group = groups.create_group("team", description="d", members=[bob["id"]])
    assert groups.group_id("team") == group["id"]
    assert users.user_groups(bob["id"]) == [group["id"]]
    groups.update_group(group["id"], description="new")
    lab = client.create_lab("shared")
    if MINOR >= 9:
        share = {"groups": [{"id": group["id"], "permissions": ["lab_view"]}], "users": []}
        lab.update_associations(share)
        assert lab.associations["groups"][0]["id"] == group["id"]
    else:
        lab.update_lab_groups([{"id": group["id"], "permission": "read_only"}])
        assert lab.groups[0]["id"] == group["id"]
    lab.create_node("net", "external_connector")
    lab.update_connector_mappings([{"key": "NAT", "device_name": "virbr0"}])
    assert lab.connector_mappings[0]["key"] == "NAT"
    pools = client.resource_pool_management
    pool = pools.create_resource_pool("small", licenses=2, users=[bob["id"]])
    pool.licenses = 3
    assert pool.get_usage().limit.licenses == 3
    pools.sync_resource_pools()
    assert pools.get_resource_pools_by_ids(pool.id)
    pool.remove()
    made = pools.create_resource_pools("each", [bob["id"]], licenses=5)
    assert len(made) == 2
    for pool in reversed(made):
        pool.remove()
    lab.remove()
    groups.delete_group(group["id"])
    users.delete_user(bob["id"])


@check
def house(client):
    """compute host states, maintenance, notices, connectors, session time, telemetry."""
    system = client.system_management
    host = system.controller
    host.admission_state = "ONLINE"
    assert not client.system_info()["ready"]
    host.admission_state = "READY"
    assert client.system_info()["ready"]
    system.maintenance_mode = True
    system.maintenance_mode = False
    assert system.get_external_connectors()
    assert system.get_external_connectors(sync=True)
    assert system.get_web_session_timeout() > 0
    system.set_web_session_timeout(7200)
    assert system.get_new_compute_host_state() == "READY"
    system.set_new_compute_host_state("REGISTERED")
    system.set_new_compute_host_state("READY")
    assert system.system_notices == {}
    assert client.get_sample_labs()
    sample = client.import_sample_lab("Two hosts")
    sample.remove()
    if MINOR >= 10:
        before = system.telemetry_state
        system.telemetry_state = type(before).DECLINED
        assert system.telemetry_state.name == "DECLINED"
        assert isinstance(system.get_telemetry_events(), list)


@check
def bootstrap(client):
    """build_configurations: works to 2.8; later clients ask with GET, and a true server says 405."""
    lab = client.create_lab("bootstrap")
    lab.create_node("r", "iosv")
    if MINOR >= 9:
        refused(lab.build_configurations, "Method Not Allowed")
    else:
        lab.build_configurations()
    lab.remove()


@check
def listener(client):
    """start_event_listening: a change made elsewhere arrives without polling."""
    if find_spec("aiohttp") is None:
        return
    lab = client.create_lab("listened")
    lab.create_node("old", "alpine")
    client.start_event_listening()
    try:
        # private _connected, _nodes, _label: the official client has no public way to look without
        # asking the server
        until(lambda: client.event_listener._connected, "not connected")
        time.sleep(0.5)
        url = f"{client.url}"
        other = ClientLibrary(url, client.username, client.password, ssl_verify=False)
        other.join_existing_lab(lab.id).create_node("new", "alpine")
        until(lambda: len(lab._nodes) == 2, "no event")
        assert {node._label for node in lab._nodes.values()} == {"old", "new"}
    finally:
        client.stop_event_listening()
    lab.sync()
    lab.remove()


@check
def goodbye(client):
    """reservation calls, deregister, logout."""
    assert client.licensing.deregister() in {200, 204}
    client.licensing.enable_reservation_mode()
    assert client.licensing.request_reservation()
    client.licensing.cancel_reservation()
    client.licensing.disable_reservation_mode()
    client.logout()


def main(url, user, password):
    """Run everything; return whether all passed."""
    client = ClientLibrary(
        url,
        user,
        password,
        ssl_verify=False,
        allow_http=True,
        raise_for_auth_failure=True,
        convergence_wait_time=0.05,
        convergence_wait_max_iter=2000,
    )
    client.auto_sync_interval = 0.0
    client.resource_pool_management.auto_sync_interval = 0.0
    client.system_management.auto_sync_interval = 0.0
    fine = True
    for function in CHECKS:
        said = {"client": f"virl2_client {VERSION}", "calls": function.__name__}
        try:
            function(client)
        except Exception as error:
            fine = False
            said["error"] = f"{type(error).__name__}: {error}"[:500]
            place = error.__traceback__
            while (
                place.tb_next is not None
                and "run_virl2" in place.tb_next.tb_frame.f_code.co_filename
            ):
                place = place.tb_next
            said["line"] = place.tb_lineno
        print(json.dumps({**said, "ok": "error" not in said}), flush=True)
    return fine


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(0 if main(*sys.argv[1:4]) else 1)
