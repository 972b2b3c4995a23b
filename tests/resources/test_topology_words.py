"""What a server says of a place in a lab reaches people in the words of their file."""

from __future__ import annotations

import json

import pytest
from drawn_topologies import topologies
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cml_simulator.core import topology as cml_topology
from cml_simulator.core.errors import CmlError
from cml_simulator.core.profile import release
from labfleet.adapters.cml import errors as translate
from labfleet.adapters.http.transport import Reply
from labfleet.kernel import errors
from labfleet.resources import topology_words

LAB = """\
lab: {version: 0.3.0}
nodes:
  - id: n0
    label: PC
    interfaces: [{id: i0, label: eth0}, {id: i1}]
  - {id: n1, label: NET, interfaces: [{id: i0, label: port}]}
links:
  - {n1: n0, i1: i0, n2: n1, i2: i0}
  - {n1: n0, i1: i1, n2: n7, i2: i9}
"""


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("links[0]", "line 8, the link from 'eth0' of node 'PC' to 'port' of node 'NET': no"),
        (
            "links[0].i1",
            "line 8, the link from 'eth0' of node 'PC' to 'port' of node 'NET', i1: no",
        ),
        ("links[1]", "line 9, the link from 'i1' of node 'PC' to 'i9' of node 'n7': no"),
        ("nodes[0].label", "line 4, node 'PC', label: no"),
        ("Topology.nodes[1].x", "line 6, node 'NET', x: no"),
        ("nodes[0].interfaces[1].slot", "line 5, interface 'i1' of node 'PC', slot: no"),
        ("lab.title", "line 1, lab.title: no"),
        ("title", "no"),
        ("", "no"),
        ("links[9]", "line 7, links[9]: no"),
    ],
)
def test_a_place_is_told_with_its_line_and_labels(where, told):
    """Positions in what was sent become names, for what has a name."""
    assert topology_words.told(LAB, ((where, "no"),)) == told


def _refused(lab) -> errors.Invalid:
    """What the adapter makes of the refusal that a server of CML 2.10 gives for this lab."""
    try:
        cml_topology.parse(lab, release("2.10"))
    except CmlError as problem:
        words = {"code": problem.status, "description": problem.description}
        reply = Reply(
            problem.status, {"content-type": "application/json"}, json.dumps(words).encode()
        )
        found = translate.refusal(reply, where="w1", repeat="once")
        assert isinstance(found, errors.Invalid)
        return found
    raise AssertionError("the lab was taken")


@settings(max_examples=50)
@given(topologies(), st.data())
def test_no_path_of_the_api_reaches_an_author(lab, data):
    """Whatever is wrong with a node, an interface or a link: its label is told, and no path."""
    ported = [node for node in lab["nodes"] if node.get("interfaces")]
    assume(ported)
    node = data.draw(st.sampled_from(ported))
    how = data.draw(st.sampled_from(["x", "slot", "link", "tags"]))
    label = node["label"]
    if how == "x":
        node["x"] = "left"
    elif how == "slot":
        node["interfaces"][0]["slot"] = 999
    elif how == "tags":
        node["tags"] = ["x" * 65]
    else:
        end = {
            "n1": node["id"],
            "i1": "nowhere",
            "n2": node["id"],
            "i2": node["interfaces"][0]["id"],
        }
        lab["links"].append(end)
    for each in lab["nodes"]:
        each.setdefault("x", 0)
        each.setdefault("y", 0)
        each.pop("ram", None)
    refused = _refused(lab)
    told = topology_words.told(json.dumps(lab, indent=1), refused.problems)
    assert repr(label)[:60] in told
    for text in (told, refused.message):
        assert not any(word in text for word in ("body", "nodes.", "links.", "interfaces."))


@given(st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_any_answer_is_told(text, problems):
    """Whatever a server says of whatever file, a bounded sentence comes of it."""
    places = [
        *problems,
        *((f"nodes[{n}].interfaces[{n}]", what) for n, (_, what) in enumerate(problems)),
    ]
    assert len(topology_words.told(text, places)) <= topology_words.MESSAGE_LIMIT
    assert len(topology_words.told(LAB, places)) <= topology_words.MESSAGE_LIMIT
