"""Real files: every lab goes in and comes out the same, every node definition too."""

import json

import pytest
import yaml

from cml_simulator.core.profile import Rules, release

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text):
    return yaml.load(text, LOADER)


@pytest.fixture
def wide(make_box):
    """Return a server that takes labs with definitions it does not have."""
    return make_box(rules=Rules(unknown_definition="warn"))


@pytest.fixture(scope="session")
def definitions(data) -> dict[str, str]:
    """Return the 50 node definitions; two files beside them are labs."""
    found = {
        path.name: path.read_text()
        for path in sorted((data / "node-definitions").glob("*.yaml"))
        if "-example-" not in path.name
    }
    assert len(found) == 50
    return found


def shape(document):
    """Return what a lab is, without ids, order of keys, defaults and the schema's number."""
    nodes = {}
    for node in document["nodes"]:
        value = {**node, **node["data"]} if isinstance(node.get("data"), dict) else node
        nodes[str(value["id"])] = value
    loose = {}
    for port in document.get("interfaces") or []:
        loose.setdefault(str(port["node"]), []).append({**port, **port.get("data", {})})
    ports = {
        (key, str(port["id"])): port
        for key, node in nodes.items()
        for port in node.get("interfaces") or loose.get(key, [])
    }

    def end(node, port):
        found = ports[str(node), str(port)]
        return nodes[str(node)]["label"], found.get("label") or found.get("slot")

    def files(node):
        value = node.get("configuration")
        if value is None or value == "":
            return []
        items = [{"content": value}] if isinstance(value, str) else value
        items = [items] if isinstance(items, dict) else items
        return [item["content"] for item in items if item.get("content")]

    return {
        "nodes": {
            node["label"]: (
                node["node_definition"],
                node["x"],
                node["y"],
                sorted(dict.fromkeys(node.get("tags") or [])),
                files(node),
                *(node.get(key) or None for key in ("ram", "cpus", "cpu_limit", "boot_disk_size")),
                sorted(
                    (port.get("label") or "", port.get("type", "physical"))
                    for (key, _), port in ports.items()
                    if nodes[key] is node and port.get("label")
                ),
            )
            for node in nodes.values()
        },
        "links": sorted(
            sorted(map(str, (end(k["n1"], k["i1"]), end(k["n2"], k["i2"]))))
            for k in document.get("links") or []
        ),
        "drawings": sorted(
            json.dumps({k: v for k, v in row.items() if k != "id"}, sort_keys=True)
            for row in document.get("annotations") or []
        ),
    }


def texts(document):
    lab = document["lab"] if isinstance(document.get("lab"), dict) else None
    if lab is None:
        lab = {key: document.get(f"lab_{key}") for key in ("title", "description", "notes")}
    return {key: str(lab.get(key) or "") for key in ("title", "description", "notes")}


@pytest.mark.data
def test_every_real_lab_round_trips(wide, labs):
    """Import, download: the same nodes, sizes, files, tags, interfaces, links, drawings, texts."""
    for name, text in labs.items():
        source = load(text)
        made = wide.import_text(text)
        reply = wide.send("GET", f"/labs/{made['id']}/download")
        written = load(reply.body)
        assert shape(written) == shape(source), name
        if texts(source)["title"]:
            assert texts(written) == texts(source), name
        again = wide.import_text(reply.body.decode())
        second = wide.send("GET", f"/labs/{again['id']}/download")
        assert second.body == reply.body, name
        for lab in (made["id"], again["id"]):
            wide.ask("DELETE", f"/labs/{lab}", want=204)


@pytest.mark.data
def test_both_forms_of_import_make_the_same_lab(wide, labs):
    """YAML text without a Content-Type and a JSON object make the same lab."""
    for name, text in list(labs.items())[::3]:
        source = load(text)
        one = wide.import_text(text)
        two = wide.ask("POST", "/import", source)
        assert one["warnings"] == two["warnings"], name
        first, second = (wide.send("GET", f"/labs/{lab['id']}/download").body for lab in (one, two))
        assert first == second, name
        for lab in (one, two):
            wide.ask("DELETE", f"/labs/{lab['id']}", want=204)


@pytest.mark.data
def test_labs_with_unknown_definitions_warn_or_are_refused(wide, box, labs):
    """Each unknown definition is named: as a warning, or in a 400, by the rule."""
    seen = 0
    for each in (wide, box):
        each.server.definition_store.removed |= {"iosv", "alpine", "ubuntu"}
    for name, text in list(labs.items())[::4]:
        made = wide.import_text(text)
        unknown = [w for w in made["warnings"] or [] if w.startswith("Node definition")]
        reply = box.send("POST", "/import", raw=text.encode())
        assert (reply.status == 400) == bool(unknown), name
        seen += bool(unknown)
        assert all(w.split(": ")[1] in json.loads(reply.body)["description"] for w in unknown)
        wide.ask("DELETE", f"/labs/{made['id']}", want=204)
    assert seen


@pytest.mark.data
def test_every_real_node_definition_round_trips(wide, definitions):
    """Upload, read as JSON and as YAML: the same document; upload again: refused, replaced."""
    for name, text in definitions.items():
        source = load(text)
        known = wide.send("GET", f"/node_definitions/{source['id']}").status == 200
        if known:
            wide.ask("PUT", f"/node_definitions/{source['id']}/read_only", False)
        done = wide.ask("PUT" if known else "POST", "/node_definitions", raw=text.encode())
        assert done == source["id"], name
        path = f"/node_definitions/{source['id']}"
        assert wide.get(path, query={"json": "true"}) == source, name
        assert load(wide.send("GET", path).body) == source, name
        assert wide.send("POST", "/node_definitions", raw=text.encode()).status == 400
        short = next(d for d in wide.get("/simplified_node_definitions") if d["id"] == source["id"])
        native = source["sim"]["linux_native"]
        assert short["sim"]["ram"] == native.get("ram", 0), name
    assert len(wide.get("/node_definitions")) > 50


@pytest.mark.data
def test_an_uploaded_definition_runs(wide, definitions):
    """A node of an uploaded kind has its sizes and labels, and starts once there is an image."""
    text = definitions["cisco-ucspe-ucspe.yaml"]
    wide.ask("POST", "/node_definitions", raw=text.encode())
    lab = wide.ask("POST", "/labs", {})["id"]
    body = {"label": "u", "node_definition": "ucspe", "x": 0, "y": 0}
    query = {"populate_interfaces": "true"}
    node = wide.ask("POST", f"/labs/{lab}/nodes", body, query=query)["id"]
    ports = wide.get(f"/labs/{lab}/nodes/{node}/interfaces", query={"data": "true"})
    assert [port["label"] for port in ports] == ["ethernet0", "ethernet1", "ethernet2"]
    assert wide.refusal("PUT", f"/labs/{lab}/start")[0] == 400
    image = {"id": "ucspe-4", "node_definition_id": "ucspe", "label": "u", "ram": 3072}
    wide.ask("POST", "/image_definitions", image)
    wide.ask("PUT", f"/labs/{lab}/start", want=204)
    query = {"operational": "true"}
    shown = wide.get(f"/labs/{lab}/nodes/{node}", query=query)["operational"]
    assert (shown["ram"], shown["cpus"]) == (3072, 1)
    wide.clock.forward(1000)
    assert wide.get(f"/labs/{lab}/check_if_converged") is True


@pytest.mark.data
def test_old_schemas_are_upgraded(make_box, labs):
    """Labs of every old schema come out in the schema of the server's release."""
    versions = {}
    for name, text in labs.items():
        source = load(text)
        lab = source.get("lab")
        versions.setdefault(str(lab.get("version")) if isinstance(lab, dict) else "old", name)
    assert len(versions) >= 4
    for minor in (9, 10):
        box = make_box(profile=release(f"2.{minor}"), rules=Rules(unknown_definition="warn"))
        for name in versions.values():
            made = box.import_text(labs[name])
            written = load(box.send("GET", f"/labs/{made['id']}/download").body)
            assert written["lab"]["version"] == box.server.config.profile.schema


def test_a_virl_file_becomes_a_lab(box):
    """VIRL 1.x XML: nodes by subtype, connections by their paths; rubbish is a 400."""
    text = (
        '<topology xmlns="http://www.cisco.com/VIRL">'
        '<node name="r1" subtype="IOSv"><interface id="0"/></node>'
        '<node name="r2" subtype="IOSv"><interface id="0"/></node>'
        '<connection dst="/virl:topology/virl:node[2]/virl:interface[1]" '
        'src="/virl:topology/virl:node[1]/virl:interface[1]"/></topology>'
    )
    made = box.ask("POST", "/import/virl-1x", raw=text.encode())
    body = box.get(f"/labs/{made['id']}")
    assert (body["node_count"], body["link_count"]) == (2, 1)
    for bad in (b"", b"<a>", b"<!DOCTYPE x><topology/>", b"<lab/>"):
        assert box.refusal("POST", "/import/virl-1x", raw=bad)[0] == 400
