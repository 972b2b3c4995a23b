"""Runs the whole life cycle with Cisco's own virl2_client against a server; exit 0 or 1.

Usage: python run_virl2.py URL USER PASSWORD. Needs virl2-client 2.9.1 and nothing of Labfleet.
"""

import sys
import time

from virl2_client import ClientLibrary

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


def licence(client: ClientLibrary) -> None:
    """Register, count up, read."""
    assert client.licensing.set_default_transport()
    if client.licensing.status()["registration"]["status"] == "COMPLETED":
        return
    assert client.licensing.set_product_license("CML_Enterprise")
    client.licensing.wait_interval = 0.1
    client.licensing.max_wait = 600
    assert client.licensing.register_wait("abcd-1234")
    features = client.licensing.status()["features"]
    count = next(f["id"] for f in features if "NODE_COUNT" in f["id"])
    client.licensing.update_features([{"id": count, "count": 10}])
    counts = {f["id"]: f["in_use"] for f in client.licensing.status()["features"]}
    assert counts[count] == 10


def build(client: ClientLibrary) -> None:
    """Create a lab by hand, run it, and take it down."""
    lab = client.create_lab("by hand")
    lab.wait_max_iterations, lab.wait_time = 2000, 0.05
    one = lab.create_node("r1", "iosv", 0, 0, populate_interfaces=True)
    two = lab.create_node("r2", "alpine", 100, 0)
    link = lab.connect_two_nodes(one, two)
    lab.title = "by hand ✓ Ω"
    two.tags = ["vnc:5050"]
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
    one.stop(wait=True)
    one.wipe(wait=True)
    one.start(wait=True)
    assert lab.has_converged()
    assert any(lab.id == found.id for found in client.find_labs_by_title("by hand ✓ Ω"))
    finish(client, lab)


def bring(client: ClientLibrary) -> None:
    """Import a lab, read everything, export it, and take it down."""
    lab = client.import_lab(TOPOLOGY, title="my lab")
    lab.wait_max_iterations, lab.wait_time = 2000, 0.05
    assert lab.title == "my lab"
    assert "hostname PC" in lab.download()
    lab.start(wait=True)
    node = lab.get_node_by_label("PC")
    assert node.is_booted()
    assert node.tags() == ["serial:5041"] if callable(node.tags) else node.tags == ["serial:5041"]
    deadline = time.monotonic() + 60
    while not node.get_interface_by_label("eth0").discovered_ipv4:
        assert time.monotonic() < deadline, "no address learnt"
        time.sleep(0.2)
        lab.sync_layer3_addresses()
    lab.sync_events()
    assert client.all_labs(show_all=True)
    finish(client, lab)


def finish(client: ClientLibrary, lab) -> None:
    """Stop, wipe, remove."""
    lab.stop(wait=True)
    lab.wipe(wait=True)
    lab_id = lab.id
    lab.remove()
    assert lab_id not in client.get_lab_list(show_all=True)


def look(client: ClientLibrary) -> None:
    """Read the server's own pages."""
    assert client.is_system_ready()
    assert client.system_info()["version"].startswith("2.9")
    assert client.get_system_health()["valid"]
    assert client.get_system_stats()["computes"]
    assert client.system_management.compute_hosts
    assert client.resource_pool_management.resource_pools == {}
    assert client.user_management.users()
    assert client.user_management.user_id("admin")
    assert client.group_management.groups() == []
    assert any(d["id"] == "iosv" for d in client.definitions.node_definitions())
    assert client.definitions.image_definitions()
    assert "error" not in str(client.get_diagnostics())[:200]


def main(url: str, user: str, password: str) -> None:
    """Run everything."""
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
    look(client)
    licence(client)
    build(client)
    bring(client)
    assert client.licensing.deregister() == 204
    client.logout()
    print("ok")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:4])
    except Exception as error:
        print(f"failed: {error!r}", file=sys.stderr)
        raise SystemExit(1) from error
