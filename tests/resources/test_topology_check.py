"""What CML's import would refuse is refused when a definition is made, by name and line."""

from __future__ import annotations

import copy
import json

import pytest
import yaml
from drawn_topologies import topologies
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cml_simulator.core import topology as cml_topology
from cml_simulator.core.profile import release
from labfleet.kernel import errors
from labfleet.resources import topology, topology_check

LAB = """\
lab:
  version: 0.3.0
nodes:
  - id: n0
    label: PC
    node_definition: alpine
    x: 0
    y: 0
    interfaces:
      - {id: i0, label: eth0, slot: 0, type: physical}
      - {id: i1, label: eth1, slot: 1}
  - {id: n1, label: NET, node_definition: external_connector, x: 1, y: 1, interfaces: [{id: i0}]}
links:
  - {id: l0, n1: n0, i1: i0, n2: n1, i2: i0}
"""
NEW_LINK = "  - {id: l1, n1: n0, i1: i1, n2: n1, i2: %s}\n"


def broken(text: str) -> tuple[tuple[str, str], ...]:
    """The problems that the check finds in a text."""
    with pytest.raises(errors.Invalid) as caught:
        topology_check.check(text)
    assert caught.value.reason == "BadTopology"
    return caught.value.problems


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("n2: n1", "n2: n9", 14, "links[0].n2: no node has the id 'n9'"),
        ("n2: n1", "n2: NET", 14, "no node has the id 'NET'; node 'NET' has the id 'n1'"),
        ("i1: i0", "i1: i9", 14,
         "links[0].i1: node 'PC' has no interface 'i9'; it has i0 (eth0), i1 (eth1)"),
        (", interfaces: [{id: i0}]", "", 14, "node 'NET' has no interface 'i0'; it has none"),
        ("n2: n1, i2: i0", "n2: n0, i2: i0", 14,
         "links[0].i2: the link joins interface 'i0' (eth0) of node 'PC' to itself"),
        ("\n  - {id: l0", "\n" + NEW_LINK % "i0" + "  - {id: l0", 15,
         "interface 'i0' of node 'NET' has a link already, links[0] on line 14"),
        (", i2: i0}", "}", 14, "links[0].i2: is missing"),
        ("  - {id: l0, n1: n0, i1: i0, n2: n1, i2: i0}", "  - l0", 14, "links[0]: must be a mapping"),
        ("{id: i1,", "{id: i0,", 11, "node 'PC', interface 'i0': this id is given twice"),
        ("{id: i1,", "{", 11, "node 'PC': interfaces[1].id: is missing"),
        ("slot: 1", "slot: 129", 11, "node 'PC', interface 'i1': slot: must be a whole number 0 to"),
        ("type: physical", "type: logical", 10, "interface 'i0': type: must be physical or loopback"),
        ("slot: 1", "mac_address: 52-54", 11, "interface 'i1': mac_address: must be written like"),
        ("x: 0", "x: 15001", 7, "node 'PC': x: must be a whole number -15000 to 15000"),
        ("x: 0", "x: left", 7, "node 'PC': x: must be a whole number"),
        ("x: 0", "cpu_limit: 19", 7, "node 'PC': cpu_limit: must be a whole number 20 to 100"),
        ("x: 0", "configuration: 7", 7, "node 'PC': configuration: must be text, or a list of"),
        ("x: 0", "configuration: [{content: x}]", 7, "node 'PC': configuration file 1: must be a"),
        ("x: 0", "parameters: {a: [1]}", 7, "node 'PC': parameters: must be a mapping of plain"),
        ("x: 0", f"tags: [{'t' * 65}]", 7, "node 'PC': tag 1: 65 characters, at most 64"),
        ("label: PC\n", 'label: "P\\nC"\n', 5, "node 'P\\nC': label: holds the control character U+000A"),
        ("label: PC\n", 'label: "P\\u202eC"\n', 5, "label: holds the control character U+202E"),
        ("label: eth1", 'label: "a\\tb"', 11, "interface 'i1': label: holds the control character U+0009"),
        ("  version: 0.3.0\n", "  title: x\n", 1, "lab.version: is missing; write one of 0.0.1 to 0.3.1"),
        ("version: 0.3.0", "version:", 2, "lab.version: is missing"),
        ("version: 0.3.0", "version: 9.9", 2, "9.9 is not one of 0.0.1 to 0.3.1"),
        ("lab:\n", f"lab:\n  description: {'d' * 4097}\n", 2, "4097 characters, at most 4096"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(old, new, line, words):
    """Node and interface are called by the names that their author gave them."""
    assert old in LAB
    problems = broken(LAB.replace(old, new, 1))
    assert any(where == f"line {line}" and words in what for where, what in problems), problems


def test_all_mistakes_are_told_at_once():
    """Links, nodes and interfaces of one file are corrected in one go."""
    problems = broken(
        LAB.replace("n2: n1", "n2: n9").replace("x: 0", "x: left").replace("slot: 1", "slot: -1")
    )
    assert [where for where, _ in problems] == ["line 7", "line 11", "line 14"]


def test_what_is_stored_stays_readable():
    """A definition of an earlier revision with a mistake in its links is read and imported."""
    text = LAB.replace("n2: n1", "n2: n9").replace("label: PC\n", 'label: "P\\nC"\n')
    assert topology.parse(text).links == 1
    assert '"n9"' in topology.personalise(text, title="t", marker="m", tags={})


def test_interfaces_of_the_oldest_exports_are_found():
    """Releases up to 2.2 list interfaces beside the nodes, each with its node's id."""
    old = yaml.safe_load(LAB)
    old["interfaces"] = [
        {**port, "node": node["id"]} for node in old["nodes"] for port in node.pop("interfaces")
    ]
    topology_check.check(json.dumps(old))
    old["interfaces"].pop()
    (problem,) = broken(json.dumps(old))
    assert "node 'NET' has no interface 'i0'" in problem[1]


def test_every_real_lab_is_accepted(labs):
    """Nothing that stands in the 42 real labs is taken for a mistake."""
    for text in labs.values():
        assert topology_check.check(text) == topology.parse(text)


def _accepted_by_cml(text: str) -> cml_topology.Topology:
    """Read the text as a server of the newest release reads what is sent to it."""
    sent = topology.personalise(text, title="t", marker="m", tags={})
    return cml_topology.parse(cml_topology.load_text(sent.encode()), release("2.10"))


@settings(max_examples=50)
@given(topologies(), st.booleans())
def test_a_valid_lab_is_accepted_and_imported(lab, as_yaml):
    """What CML would take is accepted, and is taken by CML with every node at a place."""
    text = yaml.safe_dump(lab, allow_unicode=True) if as_yaml else json.dumps(lab)
    assume(not as_yaml or yaml.safe_load(text) == lab)
    topology_check.check(text)
    made = _accepted_by_cml(text)
    assert (len(made.nodes), len(made.links)) == (len(lab["nodes"]), len(lab["links"]))
    given_places = {str(n["id"]): (n["x"], n["y"]) for n in lab["nodes"] if "x" in n and "y" in n}
    assert {n.id: (n.x, n.y) for n in made.nodes if n.id in given_places} == given_places


@settings(max_examples=50)
@given(topologies(), st.data())
def test_every_broken_link_is_refused_by_name(lab, data):
    """A link to what is not there, or to what has a link, is refused and says which."""
    assume(lab["links"])
    at = data.draw(st.integers(0, len(lab["links"]) - 1))
    link, how = lab["links"][at], data.draw(st.sampled_from(["node", "port", "twice", "label"]))
    label = next(node["label"] for node in lab["nodes"] if node["id"] == link["n1"])
    told = f"node {label!r}"[:80]
    if how == "node":
        link["n1"], told = "nowhere else", "no node has the id 'nowhere else'"
    elif how == "port":
        link["i1"] = "nowhere else"
    elif how == "twice":
        lab["links"].append(dict(link))
    else:
        node = next(each for each in lab["nodes"] if each["id"] == link["n1"])
        node["label"], told = label + "\n", "control character U+000A"
    assert any(told in what for _, what in broken(json.dumps(lab)))


_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def _places(value, path=()):
    """Yield the path of every value in a document but the marks of its version."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, key))


@settings(max_examples=50)
@given(topologies(), st.data())
def test_what_is_accepted_is_taken_by_cml(lab, data):
    """Whatever is put wherever: what the check lets through, a server of 2.10 imports."""
    changed = copy.deepcopy(lab)
    places = list(_places(changed))
    for *path, key in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        holder = changed
        try:
            for step in path:
                holder = holder[step]
            holder[key] = data.draw(_values | st.sampled_from([0, "", "n0", "i0"]))
        except (LookupError, TypeError):
            continue
    text = json.dumps(changed)
    try:
        topology_check.check(text)
    except errors.Invalid as problem:
        assert problem.problems or problem.reason == "BadTopology"  # noqa: PT017 - either is right
        return
    _accepted_by_cml(text)


@given(_values)
def test_arbitrary_json_is_refused_and_never_crashes(value):
    """Any JSON is a lab or an error of the file, as a part of a lab too."""
    for text in (value, {"lab": {"version": "0.3.0"}, "nodes": value, "links": value}):
        try:
            topology_check.check(json.dumps(text))
        except errors.Invalid:
            continue


def test_a_response_of_the_api_is_taken_as_well():
    """A lab saved from `/labs/{id}/topology` names the ends of its links in other words."""
    lab = yaml.safe_load(LAB)
    lab["links"] = [{"id": "l0", "node_a": "n0", "interface_a": "i0", "node_b": "n1",
                     "interface_b": "i0"}]  # fmt: skip
    topology_check.check(json.dumps(lab))
    assert len(_accepted_by_cml(json.dumps(lab)).links) == 1
    lab["links"][0]["interface_b"] = "i7"
    (problem,) = broken(json.dumps(lab))
    assert "links[0].interface_b: node 'NET' has no interface 'i7'" in problem[1]
