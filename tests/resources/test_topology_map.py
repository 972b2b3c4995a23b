"""What of a lab's file is drawn: never a refusal, never a place outside the canvas."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.resources import topology_layers, topology_map, topology_places

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(allow_nan=False),
    st.text(max_size=5),
)  # fmt: skip
NODE = st.dictionaries(
    st.sampled_from(["id", "label", "node_definition", "x", "y", "interfaces"]), ODD, max_size=6
)
LINK = st.dictionaries(st.sampled_from(["n1", "i1", "n2", "i2"]), ODD, max_size=4)
DRAWN = st.dictionaries(
    st.sampled_from(["type", "x1", "y1", "x2", "y2", "z_index", "text_content"]),
    st.one_of(ODD, st.sampled_from(["text", "line", "ellipse", "rectangle"])), max_size=7,
)  # fmt: skip


@given(st.lists(NODE, max_size=8), st.lists(LINK, max_size=8), st.lists(DRAWN, max_size=8))
def test_odd_files_are_drawn_as_far_as_they_go(
    nodes: list[object], links: list[object], drawn: list[object]
) -> None:
    """Whatever stands in a file, every node has a place on the canvas and links join such nodes."""
    root = {"lab": {}, "nodes": nodes, "links": links, "annotations": drawn}
    found = topology_map.read(json.dumps(root))
    assert len(found.nodes) == len(nodes)
    for node in found.nodes:
        assert math.isfinite(node.x)
        assert math.isfinite(node.y)
    for link in found.links:
        assert max(link.first, link.second) < len(nodes)
    for each in found.drawings:
        assert abs(each.x) <= topology_places.FAR


def test_ends_of_links_have_their_interfaces_names() -> None:
    """Interfaces are named by the node's own list, or by the list that old exports keep beside."""
    root = {
        "nodes": [
            {"id": "n0", "label": "a", "node_definition": "iosv", "x": 0, "y": 5,
             "interfaces": [{"id": "i0", "label": "Gi0/0"}]},
            {"id": "n1", "label": "b", "node_definition": "iosv", "x": 9, "y": 5},
        ],
        "interfaces": [{"node": "n1", "id": "i7", "label": "eth1"}],
        "links": [{"n1": "n0", "i1": "i0", "n2": "n1", "i2": "i7"},
                  {"n1": "n0", "i1": "i0", "n2": "nowhere", "i2": "i7"}],
    }  # fmt: skip
    found = topology_map.read(json.dumps(root))
    assert found.placed == "file"
    assert found.links == (topology_map.MapLink(0, 1, "Gi0/0", "eth1"),)


def test_drawings_are_bounded_and_the_others_counted() -> None:
    """A file with thousands of texts is drawn with some of them, and says how many are not shown."""
    texts = [{"type": "text", "x1": 0, "y1": 0, "text_content": "x" * 900}] * 500
    found = topology_map.read(json.dumps({"nodes": [], "annotations": texts}))
    assert (len(found.drawings), found.left_out) == (topology_map.DRAWINGS, 300)
    assert len(found.drawings[0].text) == topology_map.TEXT_LIMIT


@pytest.mark.parametrize("count", [1, 2, 30, 300])
def test_nodes_that_nobody_places_stand_apart(count: int) -> None:
    """In layers no two nodes share a place, whether they are joined in a row, a star or not at all."""
    row = [(each, each + 1) for each in range(count - 1)]
    star = [(0, each) for each in range(1, count)]
    for links in (row, star, []):
        found = topology_layers.places(count, links)
        assert len(set(found)) == count


def test_layers_follow_the_links() -> None:
    """What is linked to the first node stands in the second layer, the next one in the third."""
    found = topology_layers.places(4, [(0, 1), (0, 2), (2, 3)])
    assert [y // topology_layers.STEP for _, y in found] == [0, 1, 1, 2]
