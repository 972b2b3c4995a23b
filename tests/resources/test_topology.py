"""CML topology files, real ones and broken ones."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.resources import topology

SMALL = """\
lab:
  title: BGP pod 7
  version: 0.3.0
nodes:
  - id: n0
    label: PC
    node_definition: alpine
    x: 0
    y: 0
    tags: ["serial:5041", "core", "pat:tcp:2022:22"]
    interfaces:
      - {id: i0, label: eth0, slot: 0, type: physical}
  - {id: n1, label: NET, node_definition: external_connector, x: 1, y: 1}
links:
  - {id: l0, n1: n0, i1: i0, n2: n1, i2: i0}
"""


def load(text: str) -> object:
    """What CML would read, by YAML 1.1's rules."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def broken(text: str) -> errors.Invalid:
    """The error that a text gives."""
    with pytest.raises(errors.Invalid) as caught:
        topology.parse(text)
    return caught.value


def test_fields_of_a_node():
    """Overrides are read, and what the file leaves out is None."""
    lab = topology.parse(SMALL.replace("x: 0", "ram: 768\n    cpus: 2\n    cpu_limit: 40"))
    node = lab.nodes[0]
    assert (node.id, node.label, node.node_definition) == ("n0", "PC", "alpine")
    assert (node.ram, node.cpus, node.cpu_limit, node.data_volume) == (768, 2, 40, None)
    assert node.tags == ("serial:5041", "core", "pat:tcp:2022:22")
    assert (node.interfaces, lab.links, lab.title, lab.version) == (1, 1, "BGP pod 7", "0.3.0")


def test_json_is_read_as_well():
    """The same structure as JSON gives the same topology, emoji escapes included."""
    document = yaml.safe_load(SMALL)
    document["lab"]["title"] = "pod \N{ROCKET}"
    assert topology.parse(json.dumps(document)).title == "pod \N{ROCKET}"


def test_every_real_lab_parses(labs):
    """All 42 real labs parse, in old and new schema versions, 0 to 302 nodes."""
    parsed = {name: topology.parse(text) for name, text in labs.items()}
    assert {lab.version for lab in parsed.values()} == {"0.0.3", "0.2.1", "0.2.2", "0.3.0"}
    assert sum(len(lab.nodes) for lab in parsed.values()) == 586
    assert max(len(lab.nodes) for lab in parsed.values()) == 302
    assert min(len(lab.nodes) for lab in parsed.values()) == 0


def test_personalise_changes_nothing_else(labs):
    """In every real lab only title, notes and port tags differ after personalising."""
    for text in labs.values():
        before = load(text)
        given_tags = {node["label"]: ("serial:2000",) for node in before["nodes"][:1]}
        mine = topology.personalise(text, title="t", marker="m-1", tags=given_tags)
        after = load(mine)
        assert after["lab"].pop("title") == "t"
        notes = after["lab"].pop("notes")
        assert topology.marker_of(notes) == "m-1"
        assert before["lab"].pop("notes") in notes
        before["lab"].pop("title")
        for node in before["nodes"][:1]:
            node["tags"] = [*node["tags"], "serial:2000"]
        assert after == before


def test_personalise_replaces_port_tags_only():
    """Allocated tags stand in for the file's; labels of people stay."""
    tags = {"PC": ("serial:2001", "pat:tcp:2002:22"), "n1": ("vnc:2003",)}
    after = load(topology.personalise(SMALL, title="x", marker="m", tags=tags))
    assert after["nodes"][0]["tags"] == ["core", "serial:2001", "pat:tcp:2002:22"]
    assert after["nodes"][1]["tags"] == ["vnc:2003"]


def test_personalise_drops_port_tags_without_allocation():
    """A number that the file's author chose never reaches a server."""
    after = load(topology.personalise(SMALL, title="x", marker="m", tags={}))
    assert after["nodes"][0]["tags"] == ["core"]


def test_personalise_refuses_an_unknown_node():
    """Tags for a node that is not there are a mistake, not silence."""
    with pytest.raises(errors.Invalid, match="no node 'PX'"):
        topology.personalise(SMALL, title="x", marker="m", tags={"PX": ("vnc:2000",)})


@given(st.text(max_size=300), st.text(max_size=300))
def test_personalise_survives_any_text(title, description):
    """Any Unicode in the file comes back as it was; the title is one line of at most 64."""
    document = yaml.safe_load(SMALL)
    document["lab"]["description"] = description
    text = yaml.dump(document, allow_unicode=False)
    mine = load(topology.personalise(text, title=title, marker="m", tags={}))
    assert mine["lab"]["description"] == yaml.safe_load(text)["lab"]["description"]
    assert 1 <= len(mine["lab"]["title"]) <= 64
    assert "\n" not in mine["lab"]["title"]


@given(st.text(max_size=200))
def test_marker_is_found_above_any_notes(notes):
    """The marker is the first line, put once, whatever the notes were."""
    once = topology.with_marker(notes, "uid-1")
    twice = topology.with_marker(once, "uid-2")
    assert topology.marker_of(once) == "uid-1"
    assert topology.marker_of(twice) == "uid-2"
    assert "uid-1" not in twice.replace(notes, "")


def test_notes_stay_within_cmls_limit():
    """Long notes lose their end, never the marker."""
    notes = topology.with_marker("x" * 40000, "m")
    assert len(notes) == topology.NOTES_LIMIT
    assert topology.marker_of(notes) == "m"


@pytest.mark.parametrize("notes", ["", "hello", "x labfleet: m", "labfleet: ", "labfleet: a b"])
def test_foreign_notes_hold_no_marker(notes):
    """A lab without our exact first line is not ours."""
    assert topology.marker_of(notes) is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("    label: PC\n", "    label: NET\n", 13, "duplicate label 'NET', first on line 6"),
        ("id: n1", "id: n0", 13, "duplicate id 'n0', first on line 5"),
        ("    label: PC\n", "", 5, "label: is missing"),
        ("label: PC\n", f"label: {'x' * 129}\n", 6, "129 characters, at most 128"),
        ("label: PC\n", "label: 12\n", 6, "must be text; quote it"),
        ("version: 0.3.0", "version: 9.9.9", 3, "'9.9.9' is not one of 0.0.1 to 0.3.1"),
        ("version: 0.3.0", "version: 0.3", 3, "0.3 is not one of"),
        ("x: 0", "ram: lots", 8, "must be a whole number 0 to 1048576"),
        ("x: 0", "cpu_limit: 120", 8, "must be a whole number 0 to 100"),
        ('"core"', "3", 10, "tags are text"),
        ("links:", "nodes:", 14, "duplicate key 'nodes', first given on line 4"),
        ("  title: BGP pod 7\n", "  title: BGP pod 7\n\tx: y\n", 3, ""),
        ("  - id: n0", "  - id: [", 7, ""),
    ],
)
def test_bad_files_are_refused_with_a_line(old, new, line, words):
    """Each mistake is named with the line that it stands on."""
    assert old in SMALL
    problem = broken(SMALL.replace(old, new, 1))
    where, what = problem.problems[0]
    assert (where, words in what) == (f"line {line}", True), problem.problems


@pytest.mark.parametrize(
    "text", ["", "[]", "lab: x", "just words", "nodes: []", "---\na: 1\n---\nb: 2\n"]
)
def test_what_is_no_topology_is_refused(text):
    """Text of another kind is an error and not an empty lab."""
    assert broken(text).reason == "BadTopology"


def test_too_many_nodes_are_refused():
    """More nodes than any server could hold are refused before anything is made of them."""
    nodes = [f"  - {{id: n{i}, label: N{i}, node_definition: alpine}}\n" for i in range(2001)]
    text = "lab: {version: 0.3.0}\nnodes:\n" + "".join(nodes)
    assert "at most 2000" in str(broken(text))


def test_alias_bomb_is_refused_quickly():
    """Nine lines that stand for a thousand million values cost nothing."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    begin = time.process_time()
    problem = broken("\n".join(lines))
    assert "aliases expanded" in str(problem)
    assert time.process_time() - begin < 1


def test_unknown_keys_stay_in_the_lab():
    """CML's schema grows; what we do not know travels on."""
    text = SMALL.replace("x: 0", "pyats: {use: true}\n    priority: 7")
    after = load(topology.personalise(text, title="t", marker="m", tags={}))
    assert after["nodes"][0]["pyats"] == {"use": True}
    assert after["nodes"][0]["priority"] == 7
