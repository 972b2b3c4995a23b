"""What a lab is reckoned to need.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import demand
from labfleet.resources import node_definitions, topology
from labfleet.resources.topology import Node, Topology


def lab(*nodes: Node) -> Topology:
    """A lab of these nodes and nothing else."""
    return Topology(title="", description="", notes="", version="0.3.0", nodes=nodes, links=0)


def node(number: int = 0, definition: str = "iosv", **over) -> Node:
    """One node that overrides what is given."""
    return Node(id=f"n{number}", label=f"N{number}", node_definition=definition, **over)


def test_cpu_is_cpus_times_limit():
    """Two CPUs capped at 40 % count 800 milli-CPU, not 40 cores (facts/cml.md#seeds-corrected)."""
    found = demand.of(lab(node(cpus=2, cpu_limit=40)))
    assert found.amounts.cpu_milli == 800


def test_defaults_fill_what_the_lab_leaves_out():
    """A bare node takes CPU and RAM of its definition."""
    found = demand.of(lab(node(definition="nxosv9000")))
    assert (found.amounts.cpu_milli, found.amounts.memory_mib) == (2000, 8192)


def test_connectors_need_no_licence():
    """External connectors and unmanaged switches are nodes but count for no licence."""
    found = demand.of(lab(node(0, "external_connector"), node(1, "unmanaged_switch"), node(2)))
    assert (found.node_count, found.amounts.nodes) == (3, 1)
    assert found.definitions == {"external_connector": 1, "iosv": 1, "unmanaged_switch": 1}


def test_unknown_definition_is_assumed_and_listed():
    """A definition that nobody knows costs 1 CPU and 1 GiB and is named."""
    found = demand.of(lab(node(definition="quantum-router")))
    assert found.unknown == ("quantum-router",)
    assert (found.amounts.cpu_milli, found.amounts.memory_mib) == (1000, 1024)


def test_boot_budget_grows_as_the_cap_shrinks():
    """A node at a quarter of a CPU may take four times as long."""
    fast, slow = demand.of(lab(node())), demand.of(lab(node(cpu_limit=25)))
    default = node_definitions.DEFAULTS["iosv"].boot_seconds
    assert slow.boot_seconds - fast.boot_seconds == 3 * default


def test_boot_budget_grows_with_the_queue():
    """A lab that starts behind two others gets three times its budget (T46)."""
    assert demand.start_budget(100, ahead=2) == 300


def test_empty_lab_needs_a_slot_only():
    """A lab without nodes still takes one lab slot."""
    assert demand.of(lab()).amounts.labs == 1
    assert demand.of(lab()).amounts.memory_mib == 0


nodes = st.lists(
    st.builds(
        node,
        st.integers(0, 10**6),
        st.sampled_from([*node_definitions.DEFAULTS, "no-such"]),
        cpus=st.none() | st.integers(1, 128),
        cpu_limit=st.none() | st.integers(1, 100),
        ram=st.none() | st.integers(1, 10**6),
        data_volume=st.none() | st.integers(1, 4096),
    ),
    max_size=12,
)


@given(nodes, nodes)
def test_demand_adds_up(some, more):
    """Two labs together need what each needs, to the unit: nothing is rounded away (T22)."""
    one, two, both = demand.of(lab(*some)), demand.of(lab(*more)), demand.of(lab(*some, *more))
    for name in ("cpu_milli", "memory_mib", "storage_mib", "nodes"):
        parts = getattr(one.amounts, name) + getattr(two.amounts, name)
        assert getattr(both.amounts, name) == parts


def test_every_real_lab_has_a_demand(labs):
    """The 42 real labs use known definitions only; one is beyond a 200-node licence."""
    found = {name: demand.of(topology.parse(text)) for name, text in labs.items()}
    assert not any(each.unknown for each in found.values())
    big = [name for name, each in found.items() if each.amounts.nodes > 200]
    assert big == ["300-node-lab-300-node-lab.yaml"]
    assert all(each.boot_seconds < 3600 for each in found.values())
