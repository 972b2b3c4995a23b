"""A kept lab's text: made ready to be kept, and put into another lab's topology, node by node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from labfleet.kernel import errors
from labfleet.resources import kept_lab, topology

MARKER = "5f0c6a52-1d0b-4b8e-9d0e-2b1f6a0e7c11"
KEPT = f"""
lab: {{title: pod, version: 0.3.0, notes: "labfleet: {MARKER}\\nmy notes"}}
nodes:
- {{id: n0, label: R1, node_definition: iosv, x: 0, y: 0,
   configuration: [{{name: ios_config.txt, content: "hostname KEPT ${{NAME}}"}}]}}
- {{id: n1, label: R2, node_definition: alpine, x: 0, y: 0, configuration: "hostname R2"}}
- {{id: n2, label: NET, node_definition: external_connector, x: 0, y: 0,
   configuration: [{{name: default, content: System Bridge}}]}}
- {{id: n3, label: ADDED, node_definition: iosv, x: 0, y: 0, ram: 9000, configuration: "x"}}
links: []
""".encode()
BASE = """
lab: {title: two, version: 0.3.0}
nodes:
- {id: a, label: R1, node_definition: iosv, x: 0, y: 0, ram: 512, tags: ["serial:2001"],
   configuration: "hostname ${NAME}", interfaces: []}
- {id: b, label: R2, node_definition: iosv, x: 0, y: 0, configuration: "hostname old", interfaces: []}
- {id: c, label: NET, node_definition: external_connector, x: 0, y: 0,
   configuration: [{name: default, content: NAT}], interfaces: []}
links: []
"""


def continued(kept: bytes = KEPT) -> dict[str, dict[str, Any]]:
    """Return the nodes of BASE with what was kept, by label."""
    found = kept_lab.configurations(kept)
    made = topology.personalise(
        BASE,
        title="t",
        marker="new",
        tags={"R1": ("serial:2044",)},
        values={"NAME": "filled"},
        change=lambda node: kept_lab.put_into(node, found),
    )
    return {each["label"]: each for each in msgspec.json.decode(made)["nodes"]}


def test_a_node_of_the_same_label_and_definition_gets_what_was_kept_and_nothing_else_changes() -> (
    None
):
    """Byte for byte, no variable filled in again; sizes, tags and other nodes are the definition's."""
    nodes = continued()
    assert sorted(nodes) == ["NET", "R1", "R2"]
    assert nodes["R1"]["configuration"] == "hostname KEPT ${NAME}"
    assert (nodes["R1"]["ram"], nodes["R1"]["tags"]) == (512, ["serial:2044"])
    assert nodes["R2"]["configuration"] == "hostname old"


def test_nobody_bridges_to_another_network_by_what_was_kept() -> None:
    """An external connector keeps the definition's configuration."""
    assert continued()["NET"]["configuration"] == [{"name": "default", "content": "NAT"}]


def test_the_marker_of_the_ended_session_is_not_kept() -> None:
    """An import by hand is nobody's lab of ours; everything else stays as it came."""
    ready = kept_lab.ready(KEPT, MARKER)
    assert MARKER.encode() not in ready
    notes = topology.parse(ready).notes
    assert topology.marker_of(notes) is None
    assert notes.strip() == "my notes"
    assert kept_lab.configurations(ready) == kept_lab.configurations(KEPT)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"lab: {}", b"nodes: 3", b"\xff\xfe", b"{{{", b"<html>login</html>"]
)
def test_what_is_no_topology_is_not_kept(text: bytes) -> None:
    """A proxy's page, half an answer, another shape: Invalid, whatever it is."""
    with pytest.raises(errors.Invalid):
        kept_lab.ready(text, MARKER)


@pytest.mark.parametrize(
    "node",
    [
        "3",
        "{label: R1}",
        "{label: R1, node_definition: iosv}",
        "{label: R1, node_definition: iosv, configuration: 3}",
        "{label: R1, node_definition: iosv, configuration: [{name: a}]}",
        "{label: R1, node_definition: iosv, configuration: []}",
    ],
)
def test_a_node_without_a_configuration_that_can_be_read_changes_none(node: str) -> None:
    """The definition's stays."""
    nodes = continued(f"lab: {{}}\nnodes: [{node}]\n".encode())
    assert nodes["R1"]["configuration"] == "hostname filled"


def test_several_files_stay_several() -> None:
    """Also where the definition has a text; a later server takes both forms."""
    two = "[{name: a, content: A}, {name: b, content: B}]"
    node = f"{{label: R1, node_definition: iosv, configuration: {two}}}"
    nodes = continued(f"nodes: [{node}]\n".encode())
    assert [each["name"] for each in nodes["R1"]["configuration"]] == ["a", "b"]
