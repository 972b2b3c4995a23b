"""What a lab really used."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import observation
from labfleet.resources.session import NodeObservation

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)


def node(label: str = "PC", **over) -> NodeObservation:
    """A booted alpine of one CPU and 512 MiB, but for what is given."""
    fields = {"node_id": label, "node_definition": "alpine", "state": "BOOTED"}
    return NodeObservation(label=label, **{**fields, "cpus": 1, "ram_mb": 512, **over})


def look(*nodes: NodeObservation, **over):
    """The observation of these nodes."""
    return observation.assemble(nodes, at=NOW, observer="lab-controller", **over)


def test_cores_are_cpus_times_limit():
    """Two CPUs at 40 % and one without limit are 1.8 cores (facts/cml.md#seeds-corrected)."""
    found = look(node("a", cpus=2, cpu_limit=40), node("b"))
    assert (found.total_cpu_cores, found.total_memory_mb) == (1.8, 1024)


def test_one_unknown_node_makes_the_total_unknown():
    """A sum without a part is null with the reason, not a smaller number."""
    found = look(node("a"), node("b", cpus=None, ram_mb=None))
    assert (found.total_cpu_cores, found.total_memory_mb) == (None, None)
    assert {"b: CPUs unknown", "b: memory unknown"} <= set(found.gaps)


def test_connectors_have_no_size_to_miss():
    """An external connector runs nothing, so its missing size is no gap."""
    found = look(node(), node("N", node_definition="external_connector", cpus=None, ram_mb=None))
    assert found.total_cpu_cores == 1.0
    assert found.actual_node_count == 2
    assert found.node_definitions_used == ("alpine", "external_connector")


def test_ports_come_from_tags():
    """Ports are those of the live tags, named as in upstream 000."""
    found = look(node(tags=("serial:5041", "vnc:5044", "core")))
    assert found.observed_ports == {"PC_serial": 5041, "PC_vnc": 5044}


def test_lab_without_nodes_gives_no_observation():
    """Nothing seen is not an observation of zero."""
    assert look() is None


def test_missing_parts_are_named():
    """Storage and statistics that nobody reported are null and listed."""
    found = look(node(), gaps=("interfaces: time-out",))
    assert (found.total_storage_mb, found.simulation_stats) == (None, None)
    assert found.gaps[0] == "interfaces: time-out"
    assert len(found.gaps) == 3


@given(
    st.lists(st.builds(node, st.text(max_size=5), cpus=st.none() | st.integers(0, 8)), max_size=80)
)
def test_null_comes_with_a_reason(nodes):
    """Whenever a total is null some gap says why, and the gaps are bounded."""
    found = look(*nodes)
    if found is None:
        assert not nodes
        return
    assert len(found.gaps) <= observation.GAPS_KEPT
    assert found.total_cpu_cores is not None or any("CPUs unknown" in each for each in found.gaps)
