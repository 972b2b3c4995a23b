"""Many servers: power, boot stages, addresses, control, and the numbers at the end."""

import random
from datetime import timedelta

import pytest

from cml_simulator.core import fleet as fleets
from cml_simulator.core.fleet import Fleet, loopback
from cml_simulator.core.profile import Machine
from cml_simulator.core.world import BootStage, boot_stage


def test_a_boot_goes_through_its_stages(make_box):
    """Refused, then 502, then not ready, then ready, as parts of the boot time."""
    box = make_box(machine=Machine(boot_seconds=100))
    start = box.clock.instant
    seen = []
    for at in (0, 49, 51, 74, 76, 99, 100):
        box.clock.instant = start + timedelta(seconds=at)
        seen.append(str(boot_stage(box.server, box.now)))
    assert seen == ["refused", "refused", "bad_gateway", "bad_gateway", *["not_ready"] * 2, "ready"]
    box.clock.instant = start + timedelta(seconds=80)
    assert box.get("/system_information")["ready"] is False
    box.login()
    assert box.get("/system_stats")["computes"] == {}
    assert box.get("/system_health")["valid"] is False
    box.clock.forward(20)
    assert box.get("/system_information") == {
        "version": "2.9.1+build.7",
        "ready": True,
        "allow_ssh_pubkey_auth": False,
        "oui": "52:54:00:00:00:00",
    }


def test_a_boot_may_begin_without_a_network(make_box):
    """Nobody answers at first, whatever part of the boot it is; then it goes on as always."""
    box = make_box(machine=Machine(boot_seconds=100, silent_seconds=60))
    seen = []
    for _ in range(5):
        seen.append(str(boot_stage(box.server, box.now)))
        box.clock.forward(25)
    assert seen == ["off", "off", "off", "not_ready", "ready"]


def test_nodes_wait_for_the_end_of_the_boot(make_box, topo):
    """A lab started while ready is false stays QUEUED until a compute host is there."""
    box = make_box(machine=Machine(boot_seconds=100))
    box.clock.forward(80)
    box.login()
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert box.server.queue
    box.clock.forward(21)
    assert box.get("/system_stats")["computes"]
    assert box.server.nodes[next(iter(box.server.nodes))].started_at == box.server.power.ready_at


def test_hosts_without_kvm_are_not_valid(make_box, topo):
    """On an ordinary EC2 instance KVM nodes do not start and the health says so."""
    box = make_box(machine=Machine(kvm=False))
    assert box.get("/system_health")["valid"] is False
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(1000)
    assert set(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values()) == {"QUEUED"}


def test_addresses_never_repeat():
    """Every boot gets a new loopback address, never 127.0.0.1."""
    found = {loopback(250, n) for n in range(100_000)}
    assert len(found) == 100_000
    assert "127.0.0.1" not in found
    assert loopback(1, 0) == "127.1.0.1"


def test_control_runs_a_fleet(box):
    """Create, boot, stop, boot at a new address, destroy; the UDI stays all the while."""
    body = {"id": "i-1", "product_uuid": "udi-1", "boot_seconds": 10, "cpus": 8, "password": "x"}
    made = box.control("POST", "/servers", body, want=201)
    assert (made["id"], made["product_uuid"], made["stage"]) == ("i-1", "udi-1", "off")
    box.control("POST", "/servers", body, want=409)
    first = box.control("POST", "/servers/i-1/boot")
    assert box.control("POST", "/servers/i-1/boot") == first
    assert first["port"] == 8443
    assert box.control("POST", "/servers/i-1/stop")["address"] is None
    second = box.control("POST", "/servers/i-1/boot")
    assert second["address"] != first["address"]
    assert box.control("GET", "/servers/i-1")["product_uuid"] == "udi-1"
    assert box.control("POST", "/servers/i-1/destroy")["stage"] == "destroyed"
    box.control("POST", "/servers/i-1/boot", want=409)
    box.control("GET", "/servers/i-2", want=404)
    found = box.control("GET", "/summary")
    assert (found["servers"], found["running"], found["destroyed"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"cpus": 0},
        {"colour": 1},
        {"cpus": "x"},
        {"rules": {"no": 1}},
        {"rules": {"stop_seconds": "x"}},
        {"silent_seconds": -1},
    ],
)
def test_control_refuses_nonsense(box, body):
    """Sizes must make sense and keys must be known."""
    box.control("POST", "/servers", body, want=400)


def test_rules_can_be_given_at_creation(box):
    """Open questions of the facts are switches of each server."""
    rules = {"over_licence": "refuse", "stop_seconds": 7}
    made = box.control("POST", "/servers", {"rules": rules}, want=201)
    found = box.fleet.servers[made["id"]].config.rules
    assert (found.over_licence, found.stop_seconds) == ("refuse", 7)


def test_summary_counts_what_is_left(box, topo):
    """Labs, nodes and imports are counted; a destroyed server's labs are lost, not left."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    found = box.control("GET", "/summary")
    assert (found["labs_left"], found["import_count"], found["nodes_running"]) == (1, 1, 1)
    box.control("POST", f"/servers/{box.server.id}/destroy")
    found = box.control("GET", "/summary")
    assert (found["labs_left"], found["labs_destroyed"], found["nodes_running"]) == (0, 1, 0)


def test_a_lab_deleted_from_outside_is_gone(box, topo):
    """Whoever deletes a running lab in CML's web page frees everything at once."""
    lab = box.import_text(topo({"id": "a", "tags": ["serial:5041"]}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(30)
    edit = {"action": "delete_lab", "lab_id": lab}
    box.control("POST", f"/servers/{box.server.id}/outside", edit)
    assert box.refusal("GET", f"/labs/{lab}/state") == (404, f"Lab not found: {lab}")
    found = box.control("GET", "/summary")
    assert (found["nodes_running"], found["ports_open"], found["labs_left"]) == (0, 0, 0)


def test_one_seed_is_one_world():
    """The same dice give the same ids."""
    ids = []
    for _ in range(2):
        fleet = Fleet(random.Random(3), "pw")
        ids.append(fleets.create(fleet).config.identity)
    assert ids[0] == ids[1]


def test_listening_follows_the_stage(make_box):
    """An address listens from the 502 stage on."""
    box = make_box(machine=Machine(boot_seconds=100))
    assert fleets.listening(box.fleet, box.now) == {}
    box.clock.forward(60)
    assert list(fleets.listening(box.fleet, box.now)) == ["127.1.0.1"]
    assert boot_stage(box.server, box.now) is BootStage.BAD_GATEWAY
