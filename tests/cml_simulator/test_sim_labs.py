"""Import, life cycle, refusals, states and what is shown of them."""

import json

import pytest
import yaml

from cml_simulator.core.profile import Machine, Rules


def states(box, lab):
    return set(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())


def test_a_lab_lives_and_ends(box, topo):
    """Import, start, boot, stop, wipe, delete, each seen in the states."""
    lab = box.import_text(topo({"id": "a"}, {"id": "b", "kind": "iosv"}, links=[("a", "b")]))["id"]
    assert box.get(f"/labs/{lab}/state") == "DEFINED_ON_CORE"
    assert box.get(f"/labs/{lab}/check_if_converged") is True
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert box.get(f"/labs/{lab}/state") == "STARTED"
    assert states(box, lab) == {"STARTED"}
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    box.clock.forward(30)
    assert states(box, lab) == {"STARTED", "BOOTED"}
    box.clock.forward(100)
    assert states(box, lab) == {"BOOTED"}
    assert box.get(f"/labs/{lab}/check_if_converged") is True
    assert set(box.get(f"/labs/{lab}/lab_element_state")["links"].values()) == {"STARTED"}
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    box.clock.forward(3)
    assert states(box, lab) == {"STOPPED"}
    box.ask("PUT", f"/labs/{lab}/wipe", want=204)
    assert states(box, lab) == {"DEFINED_ON_CORE"}
    box.ask("DELETE", f"/labs/{lab}", want=204)
    status, text = box.refusal("GET", f"/labs/{lab}")
    assert (status, text) == (404, f"Lab not found: {lab}")


def test_order_is_enforced(box, topo):
    """A running lab can be neither wiped nor deleted, a stopped one not deleted."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert box.refusal("PUT", f"/labs/{lab}/wipe")[0] == 400
    assert box.refusal("DELETE", f"/labs/{lab}")[0] == 400
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    assert box.refusal("PUT", f"/labs/{lab}/wipe")[0] == 400
    box.clock.forward(3)
    assert "wiped" in box.refusal("DELETE", f"/labs/{lab}")[1]


def test_start_is_idempotent(box, topo):
    """Starting a running lab changes nothing."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    for _ in range(2):
        box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(60)
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert states(box, lab) == {"BOOTED"}
    assert box.server.tally.starts == 1


def test_empty_lab_has_the_same_life(box, topo):
    """A lab without nodes can be started, stopped, wiped and deleted."""
    lab = box.import_text(topo())["id"]
    for verb, state in (("start", "STARTED"), ("stop", "STOPPED"), ("wipe", "DEFINED_ON_CORE")):
        box.ask("PUT", f"/labs/{lab}/{verb}", want=204)
        assert box.get(f"/labs/{lab}/state") == state
        assert box.get(f"/labs/{lab}/check_if_converged") is True
    box.ask("DELETE", f"/labs/{lab}", want=204)


def test_both_import_forms_and_the_title(box, topo):
    """YAML without a Content-Type and JSON both import; the query title wins; twins are two."""
    document = json.loads(topo({"id": "a"}, title="from file"))
    first = box.ask("POST", "/import", document)["id"]
    second = box.import_text(yaml.safe_dump(document), title="from file")["id"]
    third = box.import_text(yaml.safe_dump(document), title="Prüfung ✓ 試験")["id"]
    titles = [box.get(f"/labs/{lab}")["lab_title"] for lab in (first, second, third)]
    assert titles == ["from file", "from file", "Prüfung ✓ 試験"]
    assert first != second


@pytest.mark.parametrize("title", ["", "x" * 65, "two\nlines"])
def test_bad_titles_are_refused(box, topo, title):
    """A title has 1 to 64 characters in one line."""
    assert box.refusal("POST", "/import", raw=topo().encode(), query={"title": title})[0] == 400
    assert box.refusal("POST", "/labs", {"title": title})[0] == 400
    assert box.get("/labs") == []


def test_long_unicode_title_counts_characters(box):
    """64 characters of any script are allowed."""
    assert box.ask("POST", "/labs", {"title": "試" * 64})["lab_title"] == "試" * 64


BROKEN = {
    "tabs": "lab:\n\ttitle: x",
    "indent": "lab:\n  title: a\n bad: [",
    "text": "just words",
    "no lab": "nodes: []",
    "version": "lab: {title: a, version: 9.9.9}",
    "no version": "lab: {title: a}",
    "nodes": "lab: {version: 0.3.0}\nnodes: {a: b}",
    "node": "lab: {version: 0.3.0}\nnodes: [7]",
    "missing": "lab: {version: 0.3.0}\nnodes: [{id: n0}]",
    "link": "lab: {version: 0.3.0}\nnodes: []\nlinks: [{n1: a, i1: b, n2: c, i2: d}]",
    "range": "lab: {version: 0.3.0}\nnodes: [{id: a, label: a, node_definition: iosv, x: 1e9, y: 0}]",
    "not utf-8": "\udcff",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_topologies_are_400_with_a_text(box, name):
    """Whatever is wrong with a file, the answer is a 400 with a sentence, and no lab is left."""
    body = BROKEN[name].encode("utf-8", "surrogateescape")
    status, text = box.refusal("POST", "/import", raw=body)
    assert status == 400
    assert text
    assert box.get("/labs") == []


def test_alias_bomb_is_cheap(box):
    """Nested YAML aliases are refused and not expanded."""
    rows = ["a0: &a0 [x, x]"]
    rows += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    text = "\n".join([*rows, "lab: {version: 0.3.0}", "annotations: [{x: *a39}]"])
    assert box.refusal("POST", "/import", raw=text.encode())[0] == 400


def test_unknown_definition_is_refused_by_name(box, make_box, topo):
    """An unknown node definition is a 400 that names it; by option a warning."""
    text = topo({"id": "a", "kind": "nosuch"})
    assert "nosuch" in box.refusal("POST", "/import", raw=text.encode())[1]
    lenient = make_box(rules=Rules(unknown_definition="warn"))
    found = lenient.import_text(text)
    assert "nosuch" in found["warnings"][0]
    assert lenient.refusal("PUT", f"/labs/{found['id']}/start")[0] == 400


def test_unknown_image_is_a_warning(box, topo):
    """A missing image is replaced by the default one, with a warning."""
    found = box.import_text(topo({"id": "a", "image_definition": "alpine-old"}))
    assert "alpine-old" in found["warnings"][0]


def test_old_schema_versions_are_upgraded(box):
    """The oldest exports import: zeros mean 'not set', interfaces stand apart."""
    text = """
    lab_title: old
    version: 0.0.5
    nodes:
      - {id: n0, data: {label: A, node_definition: iosv, x: 1, y: 2, cpus: 0, ram: 0}}
      - {id: n1, data: {label: B, node_definition: iosv, x: 1, y: 2}}
    interfaces:
      - {id: i0, node: n0, data: {label: Gi0/0, slot: 0, type: physical}}
      - {id: i1, node: n1, data: {label: Gi0/0, slot: 0, type: physical}}
    links: [{id: l0, n1: n0, i1: i0, n2: n1, i2: i1}]
    """
    lab = box.import_text(text)["id"]
    nodes = box.get(f"/labs/{lab}/nodes", query={"data": "true"})
    assert [(n["cpus"], n["ram"]) for n in nodes] == [(None, None)] * 2
    assert box.get(f"/labs/{lab}")["link_count"] == 1


@pytest.mark.data
def test_real_labs_import_and_come_back(box, labs):
    """Every real file imports, and its download imports again to the same topology."""
    assert len(labs) >= 42
    for text in labs.values():
        source = yaml.load(text, yaml.CSafeLoader)
        lab = box.import_text(text, title="real")["id"]
        shown = box.get(f"/labs/{lab}")
        assert shown["node_count"] == len(source["nodes"])
        assert shown["link_count"] == len(source["links"])
        first = box.send("GET", f"/labs/{lab}/download").body
        again = box.ask("POST", "/import", raw=first)["id"]
        assert first == box.send("GET", f"/labs/{again}/download").body


def test_configurations_in_three_forms(box, topo):
    """exclude_configurations absent gives the main text, false every file, true none."""
    files = [{"name": "node.cfg", "content": "one"}, {"name": "extra", "content": "two"}]
    lab = box.import_text(topo({"id": "a", "configuration": files}))["id"]

    def shown(**query):
        return box.get(f"/labs/{lab}/topology", query=query)["nodes"][0].get("configuration")

    assert shown() == "one"
    assert shown(exclude_configurations="false") == files
    assert shown(exclude_configurations="true") is None


def test_operational_holds_the_effective_values(box, topo):
    """Top-level sizes are overrides; operational is null until the node was deployed."""
    lab = box.import_text(topo({"id": "a", "kind": "iosv", "cpu_limit": 50}))["id"]
    query = {"data": "true", "operational": "true", "exclude_configurations": "true"}
    node = box.get(f"/labs/{lab}/nodes", query=query)[0]
    assert node["operational"] is None
    assert node["ram"] is None
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    node = box.get(f"/labs/{lab}/nodes", query=query)[0]
    assert node["ram"] is None
    sizes = node["operational"]
    assert (sizes["cpus"], sizes["ram"], sizes["cpu_limit"]) == (1, 512, 50)
    assert node["compute_id"] == box.server.compute_id
    assert box.get("/nodes", query=query)[0] == node


def test_cpu_limit_stretches_the_boot(box, topo):
    """At 25 percent of a CPU a boot takes four times as long."""
    text = topo({"id": "a"}, {"id": "b", "cpu_limit": 25})
    lab = box.import_text(text)["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    spans = [n.booted_at - n.started_at for n in box.server.labs[lab].nodes.values()]
    assert 3 < spans[1] / spans[0] < 5


def test_nodes_one_by_one(box):
    """Nodes, interfaces and links can be made by hand, edited, and frozen by a start."""
    lab = box.ask("POST", "/labs", {"title": "hand"})["id"]
    new = {"label": "a", "node_definition": "iosv", "x": 0, "y": 0}
    populated = {"populate_interfaces": "true"}
    a = box.ask("POST", f"/labs/{lab}/nodes", new, query=populated)["id"]
    b = box.ask("POST", f"/labs/{lab}/nodes", {**new, "label": "b"})["id"]
    ports = box.get(f"/labs/{lab}/nodes/{a}/interfaces", query={"data": "true"})
    assert [p["label"] for p in ports] == [f"GigabitEthernet0/{n}" for n in range(4)]
    made = box.ask("POST", f"/labs/{lab}/interfaces", {"node": b, "slot": 1})
    assert [p["slot"] for p in made] == [0, 1]
    one = box.ask("POST", f"/labs/{lab}/interfaces", {"node": b})
    assert one["slot"] == 2
    ends = {"src_int": ports[0]["id"], "dst_int": one["id"]}
    link = box.ask("POST", f"/labs/{lab}/links", ends)["id"]
    assert box.refusal("POST", f"/labs/{lab}/links", ends)[0] == 400
    assert box.get(f"/labs/{lab}/links/{link}")["node_a"] == a
    assert box.ask("PATCH", f"/labs/{lab}/nodes/{a}", {"ram": 1024, "tags": ["x"]}) == a
    box.ask("PUT", f"/labs/{lab}/nodes/{a}/state/start", want=204)
    assert box.refusal("PATCH", f"/labs/{lab}/nodes/{a}", {"ram": 512})[0] == 400
    assert box.ask("PATCH", f"/labs/{lab}/nodes/{a}", {"label": "A"}) == a
    assert box.refusal("POST", f"/labs/{lab}/interfaces", {"node": a})[0] == 404
    assert box.refusal("DELETE", f"/labs/{lab}/nodes/{a}")[0] == 400
    assert box.get(f"/labs/{lab}/nodes/{a}/state") == {"state": "STARTED", "progress": "Booting"}
    gone = "1" * 8 + "-1111-4111-8111-" + "1" * 12
    assert box.refusal("GET", f"/labs/{lab}/nodes/{gone}") == (404, f"Node not found: {gone}")
    box.ask("DELETE", f"/labs/{lab}/nodes/{b}", want=204)
    assert box.get(f"/labs/{lab}/links") == []


def test_events_tell_the_story_in_order(box, topo):
    """Events appear when their time has come; a boot that was cut short never shows."""
    lab = box.import_text(topo({"id": "a"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)

    def seen():
        found = [e["data"].get("state") for e in box.get(f"/labs/{lab}/events")]
        return [state for state in found if state]

    assert seen() == ["QUEUED", "STARTED"]
    box.ask("PUT", f"/labs/{lab}/stop", want=204)
    box.clock.forward(60)
    assert seen() == ["QUEUED", "STARTED", "STOPPED"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(60)
    assert seen()[-1] == "BOOTED"


def test_addresses_are_learnt_on_nat_only(box, topo):
    """Nodes behind a NAT connector, also through an unmanaged switch, get an address late."""
    text = topo(
        {"id": "net", "kind": "external_connector"},
        {"id": "sw", "kind": "unmanaged_switch"},
        {"id": "in"},
        {"id": "out"},
        links=[("net", "sw"), ("sw", "in")],
    )
    lab = box.import_text(text)["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    assert box.get(f"/labs/{lab}/layer3_addresses") == {}
    box.clock.forward(60)
    found = box.get(f"/labs/{lab}/layer3_addresses")
    assert [entry["name"] for entry in found.values()] == ["in"]
    mac, port = next(iter(next(iter(found.values()))["interfaces"].items()))
    assert mac.startswith("52:54:00:")
    assert port["ip4"][0].startswith("192.168.255.")


def test_statistics_agree(box, topo):
    """system_stats, compute hosts, diagnostics and simulation_stats count the same nodes."""
    lab = box.import_text(
        topo({"id": "a"}, {"id": "b", "kind": "iosv"}, {"id": "c", "kind": "unmanaged_switch"})
    )["id"]
    idle = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(200)
    busy = box.get("/system_stats")["computes"][box.server.compute_id]["stats"]
    assert busy["dominfo"] == {
        "total_nodes": 2,
        "total_orphans": 0,
        "running_nodes": 2,
        "running_orphans": 0,
        "allocated_cpus": 2,
        "allocated_memory": 1024 * 1024,
    }
    assert busy["memory"]["used"] > idle["memory"]["used"]
    assert busy["disk"]["used"] > idle["disk"]["used"]
    assert len(box.get(f"/labs/{lab}/simulation_stats")["nodes"]) == 2
    assert box.get("/system/compute_hosts")[0]["node_counts"]["running_nodes"] == 2
    assert box.get("/diagnostics/licensing") == {
        "quota": 5,
        "started": 2,
        "user_quota": None,
        "user_started": 2,
    }
    assert box.get(f"/labs/{lab}/simulation_stats") == box.get(f"/labs/{lab}/simulation_stats")


def test_small_host_queues_what_does_not_fit(make_box, topo):
    """Memory and CPU points hold nodes in QUEUED until others stop; VM-less nodes pass."""
    box = make_box(machine=Machine(cpus=2, memory_bytes=1100 * 1024 * 1024))
    names = [{"id": f"n{n}", "ram": 500} for n in range(3)]
    lab = box.import_text(topo(*names, {"id": "sw", "kind": "unmanaged_switch"}))["id"]
    box.ask("PUT", f"/labs/{lab}/start", want=204)
    box.clock.forward(10_000)
    found = list(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())
    assert found == ["BOOTED", "BOOTED", "QUEUED", "BOOTED"]
    assert box.get(f"/labs/{lab}/check_if_converged") is False
    assert len(box.get("/diagnostics/node_launch_queue")) == 1
    first = box.get(f"/labs/{lab}/nodes")[0]
    box.ask("PUT", f"/labs/{lab}/nodes/{first}/state/stop", want=204)
    box.clock.forward(100)
    found = list(box.get(f"/labs/{lab}/lab_element_state")["nodes"].values())
    assert found == ["STOPPED", "BOOTED", "BOOTED", "BOOTED"]
