"""Request sequences of clients that cannot run here: Terraform's and Ansible's (10.8 and 10.9)."""

import json
import re


def polled(box, path, wanted=True):
    """Poll as they do: every 5 s, a bounded number of times."""
    for _ in range(200):
        if box.get(path) is wanted:
            return
        box.clock.forward(5)
    raise AssertionError(f"{path} never became {wanted}")


def terraform(box):
    """Log in as gocmlclient does, and check what it checks."""
    body = {"username": "admin", "password": "pw"}
    box.token = None
    found = box.ask("POST", "/auth_extended", body)
    assert found.keys() == {"username", "id", "token", "admin", "error"}
    box.token = found["token"]
    said = box.get("/system_information")
    assert said["ready"] is True
    assert re.match(r"2\.(9|\d\d)\.", said["version"])


def test_terraform_life_cycle(box, topo):
    """Import, tags, start, read, change, stop, wipe, delete, and delete again."""
    terraform(box)
    lab = box.import_text(topo({"id": "a"}, {"id": "b"}, links=[("a", "b")]))["id"]
    nodes = box.get(f"/labs/{lab}/nodes", query={"data": "true", "operational": "true"})
    for node in nodes:
        path = f"/labs/{lab}/nodes/{node['id']}"
        assert box.ask("PATCH", path, {"tags": ["stage1"]}) == node["id"]
    for node in nodes:
        box.ask("PUT", f"/labs/{lab}/nodes/{node['id']}/state/start", want=204)
    polled(box, f"/labs/{lab}/check_if_converged")
    assert box.get(f"/labs/{lab}")["state"] == "STARTED"
    shown = box.get(f"/labs/{lab}/nodes/{nodes[0]['id']}", query={"operational": "true"})
    assert shown["state"] == "BOOTED"
    assert shown["operational"]["ram"] == 512
    assert lab in box.get("/populate_lab_tiles")["lab_tiles"]
    if box.get(f"/labs/{lab}/state") == "STARTED":
        box.ask("PUT", f"/labs/{lab}/stop", want=204)
        polled(box, f"/labs/{lab}/check_if_converged")
    if box.get(f"/labs/{lab}/state") != "DEFINED_ON_CORE":
        box.ask("PUT", f"/labs/{lab}/wipe", want=204)
        polled(box, f"/labs/{lab}/check_if_converged")
    box.ask("DELETE", f"/labs/{lab}", want=204)
    assert box.refusal("DELETE", f"/labs/{lab}") == (404, f"Lab not found: {lab}")


def test_terraform_single_resources(box):
    """A lab, two nodes, their interfaces and a link as resources of their own."""
    terraform(box)
    lab = box.ask("POST", "/labs", {"title": "tf", "description": "", "notes": ""})["id"]
    ends = []
    for name in ("r1", "r2"):
        body = {"label": name, "node_definition": "iosv", "x": 0, "y": 0, "tags": []}
        node = box.ask("POST", f"/labs/{lab}/nodes", body)["id"]
        made = box.ask("POST", f"/labs/{lab}/interfaces", {"node": node, "slot": 1})
        assert [port["label"] for port in made] == ["GigabitEthernet0/0", "GigabitEthernet0/1"]
        ends.append(made[-1]["id"])
    link = box.ask("POST", f"/labs/{lab}/links", {"src_int": ends[0], "dst_int": ends[1]})["id"]
    assert box.get(f"/labs/{lab}/links/{link}")["label"] == (
        "r1-GigabitEthernet0/1<->r2-GigabitEthernet0/1"
    )
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/state/start", want=204)
    polled(box, f"/labs/{lab}/nodes/{node}/check_if_converged")
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/state/stop", want=204)
    polled(box, f"/labs/{lab}/nodes/{node}/check_if_converged")
    box.ask("PUT", f"/labs/{lab}/nodes/{node}/wipe_disks", want=204)
    box.ask("DELETE", f"/labs/{lab}/links/{link}", want=204)
    box.ask("DELETE", f"/labs/{lab}/nodes/{node}", want=204)
    assert box.refusal("GET", f"/labs/{lab}/nodes/{node}")[0] == 404


def by_title(box, title):
    """Find a lab as cml_lab does: the first match wins."""
    tiles = box.get("/populate_lab_tiles")["lab_tiles"]
    return next((key for key, tile in tiles.items() if tile["lab_title"] == title), None)


def test_ansible_states(box, topo):
    """cml_lab: present, started, started again, stopped, wiped, absent, absent again."""
    for _ in range(2):
        if by_title(box, "ans") is None:
            box.ask("POST", "/import", json.loads(topo({"id": "a"})), query={"title": "ans"})
    lab = by_title(box, "ans")
    for state in ("started", "started", "stopped", "wiped", "absent"):
        now = box.get(f"/labs/{lab}/state")
        if state == "started" and now != "STARTED":
            box.ask("PUT", f"/labs/{lab}/start", want=204)
        if state in {"stopped", "wiped", "absent"} and now == "STARTED":
            box.ask("PUT", f"/labs/{lab}/stop", want=204)
        polled(box, f"/labs/{lab}/check_if_converged")
        if state in {"wiped", "absent"} and box.get(f"/labs/{lab}/state") == "STOPPED":
            box.ask("PUT", f"/labs/{lab}/wipe", want=204)
        if state == "absent":
            box.ask("DELETE", f"/labs/{lab}", want=204)
    assert by_title(box, "ans") is None


def test_ansible_inventory(box, topo):
    """The inventory reads `ansible:` tags and pat ports from every node, and skips connectors."""
    tags = ["ansible:user=admin", "pat:2022:22", "pat:udp:5000:161", "blue"]
    text = topo({"id": "a", "tags": tags}, {"id": "net", "kind": "external_connector"})
    lab = box.import_text(text)["id"]
    found = {}
    for node in box.get(f"/labs/{lab}/nodes", query={"data": "true"}):
        if node["node_definition"] == "external_connector":
            continue
        ports = [m for t in node["tags"] if (m := re.match(r"^pat:(?:tcp|udp)?:?(\d+):(\d+)", t))]
        found[node["label"]] = [(m[1], m[2]) for m in ports]
        assert [t for t in node["tags"] if t.startswith("ansible:")] == ["ansible:user=admin"]
    assert found == {"a": [("2022", "22"), ("5000", "161")]}
