"""A reading of a lab is judged node by node: what cannot be true is in no sum."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.lab_use import FIGURES, LabUse, judged, worth_recording
from labfleet.resources.lab_use import NodeFigures, NodeSize

SIZES = {f"id-{name}": NodeSize(label=name, cpus=2, ram_mib=512) for name in "abc"}
VALUE = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 600))
TOLD = st.dictionaries(
    st.sampled_from([*SIZES, "stranger"]),
    st.builds(NodeFigures, cpu_percent=VALUE, memory_mib=VALUE, storage_mib=VALUE),
)


@given(TOLD)
def test_a_sum_is_of_all_nodes_or_is_not_there(told: dict[str, NodeFigures]) -> None:
    """Each figure is the sum of every node's, all of them possible, or absent with a reason."""
    found = judged(told, SIZES)
    ours = [name for name in told if name in SIZES]
    assert set(found.nodes) == {SIZES[name].label for name in ours}
    for figure in FIGURES:
        values = [found.nodes[SIZES[name].label].get(figure) for name in ours]
        if values and None not in values:
            assert found.lab[figure] == pytest.approx(sum(v for v in values if v is not None))
        else:
            assert figure not in found.lab
            assert not ours or found.gaps
    for node in found.nodes.values():
        assert node.get("memory_mib", 0) <= 512 * 1.05
        assert node.get("cpu_milli", 0) <= 2000 * 1.05
        assert all(math.isfinite(value) and value >= 0 for value in node.values())


def test_what_is_more_than_a_node_has_is_named() -> None:
    """A twentieth more is measuring; beyond it the reason says node, amount and size."""
    told = {"id-a": NodeFigures(cpu_percent=209, memory_mib=537, storage_mib=1)}
    assert judged(told, SIZES).lab == {"cpu_milli": 2090, "memory_mib": 537, "storage_mib": 1}
    told = {"id-a": NodeFigures(cpu_percent=211, memory_mib=538, storage_mib=1)}
    found = judged(told, SIZES)
    assert found.lab == {"storage_mib": 1}
    assert found.gaps == (
        "a: cpu of 2110 millicores is more than its 2000 millicores",
        "a: memory of 538 MiB is more than its 512 MiB",
    )


def test_a_share_counts_all_of_a_nodes_cpus() -> None:
    """50 % of two virtual CPUs is one core; of a node of unknown size it is unknown."""
    told = {"id-a": NodeFigures(cpu_percent=50)}
    assert judged(told, SIZES, "share").lab == {"cpu_milli": 1000}
    assert judged(told, {"id-a": NodeSize(label="a")}, "share").lab == {}


def test_nodes_of_other_labs_are_none_of_its_use() -> None:
    """A ghost in the answer is named, and the lab's sums stand (facts/cml-issues.md#f5)."""
    figures = NodeFigures(cpu_percent=1, memory_mib=2, storage_mib=3)
    found = judged({"id-a": figures, "ghost": figures}, SIZES)
    assert found.lab == {"cpu_milli": 10, "memory_mib": 2, "storage_mib": 3}
    assert found.gaps == ("node ghost: not a node of this lab",)


def test_readings_add_up_for_the_lab_and_each_node() -> None:
    """A node that is up for one of two readings has one; the lab has both."""
    use = LabUse()
    for told in ({"id-a": 100, "id-b": 50}, {"id-a": 300}):
        use.add(judged({k: NodeFigures(memory_mib=v) for k, v in told.items()}, SIZES))
    assert use.readings == 2
    [found] = use.used().values()
    assert (found.peak, found.mean) == (300, 225)
    assert found.median == pytest.approx(150, rel=0.021)
    assert found.p95 == pytest.approx(300, rel=0.021)
    assert use.used_by("b")["memory_mib"].mean == 50
    assert use.used_by("c") == {}


def test_a_session_is_written_some_dozens_of_times_at_most() -> None:
    """A day of readings that wander between two values is recorded seldom."""
    use, before, measured, writes = LabUse(), {}, 0, 0
    for minute in range(1440):
        value = 100 + (minute * 37) % 200
        use.add(judged({"id-a": NodeFigures(memory_mib=value)}, SIZES))
        if worth_recording(before, measured, use.used(), use.readings):
            before, measured, writes = use.used(), use.readings, writes + 1
    assert 1 <= writes <= 36
    assert before["memory_mib"].peak == pytest.approx(299, rel=0.05)
