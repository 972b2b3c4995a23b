"""When the figures of a cluster may be decided by: age by our own receipt, and what cannot be."""

from __future__ import annotations

import pytest
from hand_clock import START
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import cluster_seen
from labfleet.decisions.safe_mode import (
    KUBERNETES,
    METRICS,
    Heard,
    contradiction,
    in_safe_mode,
    safe_mode,
)
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import ClusterSeen, ClusterSpec
from labfleet.resources.cluster_access import KubernetesAccess, MetricsSource
from labfleet.resources.cluster_conditions import ClusterReason
from labfleet.resources.decision import Decision

PLAIN = ClusterSpec()
METERED = ClusterSpec(metrics=(MetricsSource(name="prom", url="http://prom:9090"),))
SEEN = ClusterSpec(metrics=METERED.metrics, kubernetes=KubernetesAccess())
ages = st.one_of(st.none(), st.floats(0, 1e6))


@given(ages, ages)
def test_without_a_source_of_metrics_it_is_never_in_safe_mode(one: float, other: float) -> None:
    """Whatever was heard of its API server: nothing that could be old is believed."""
    heard = {KUBERNETES: Heard(one), METRICS: Heard(other)}
    assert safe_mode(PLAIN, heard) is None
    assert safe_mode(ClusterSpec(kubernetes=KubernetesAccess()), heard) is None


@given(ages, ages)
def test_each_named_part_must_have_been_heard_lately(kubernetes: float, metrics: float) -> None:
    """In safe mode exactly while one of the parts that it names is older than its limit."""
    heard = {KUBERNETES: Heard(kubernetes), METRICS: Heard(metrics)}

    def old(age: float | None) -> bool:
        return age is None or age > SEEN.safe_after_seconds

    assert (safe_mode(METERED, heard) is not None) == old(metrics)
    assert (safe_mode(SEEN, heard) is not None) == (old(metrics) or old(kubernetes))


@pytest.mark.parametrize(
    ("heard", "reason", "words"),
    [
        ({}, ClusterReason.NOT_YET, "nothing was heard of its API server yet"),
        (
            {KUBERNETES: Heard(300.0, "refused"), METRICS: Heard(150.0)},
            ClusterReason.KUBERNETES_SILENT,
            "its API server are 300 s old, 120 s",
        ),
        (
            {KUBERNETES: Heard(150.0), METRICS: Heard(200.0)},
            ClusterReason.METRICS_OLD,
            "its metrics are 200 s old",
        ),
        ({KUBERNETES: Heard(1.0)}, ClusterReason.NOT_YET, "nothing was heard of its metrics yet"),
        (
            {KUBERNETES: Heard(1.0), METRICS: Heard(121.0, "timed out")},
            ClusterReason.METRICS_OLD,
            "121 s old, 120 s are allowed: timed out",
        ),
        (
            {KUBERNETES: Heard(1.0), METRICS: Heard(500.0, "too much", contradicting=True)},
            ClusterReason.CONTRADICTING,
            "too much",
        ),
    ],
)  # fmt: skip
def test_it_says_which_part_and_since_when(
    heard: dict[str, Heard], reason: ClusterReason, words: str
) -> None:
    """The reason is of a closed list, the sentence has the age and what went wrong."""
    found = safe_mode(SEEN, heard)
    assert found is not None
    assert found.reason is reason
    assert words in found.message
    assert "300" not in found.lasting  # what changes by the second is not recorded


def test_a_denial_in_safe_mode_names_the_cluster_and_the_reason() -> None:
    """Whatever the run needs: it is denied, and told to ask again."""
    asked = Decision(outcome="approved", reason="Fits", message="needs 1 CPU", at=START, chosen="c")
    found = safe_mode(METERED, {METRICS: Heard(200.0)})
    assert found is not None
    told = in_safe_mode(asked, "c", found)
    assert (told.outcome, told.reason, told.chosen) == ("denied", "SafeMode", None)
    assert told.message.startswith("c is in safe mode: the newest figures of its metrics are 200 s")


def test_more_than_all_nodes_have_cannot_be_used() -> None:
    """Half above is allowed: what nodes keep for themselves is used as well."""
    has = {"cpu_milli": 1000.0}
    assert contradiction(load={"cpu_milli": 1490.0}, has=has, running=0, measured=0) == ""
    assert "1600 mCPU" in contradiction(load={"cpu_milli": 1600.0}, has=has, running=0, measured=0)


@given(
    st.lists(st.fixed_dictionaries({"cpu_milli": st.floats(0, 1e9)}), max_size=5),
    st.floats(0, 1500),
)
def test_no_run_uses_more_than_all_nodes_have(pods: list[dict[str, float]], load: float) -> None:
    """Whatever the load is said to be: figures of pods come by another call, maybe from a source
    that lied then and not any more."""
    said = contradiction(
        load={"cpu_milli": load}, has={"cpu_milli": 1000.0}, running=0, measured=0, pods=pods
    )
    assert bool(said) == any(each["cpu_milli"] > 1500 for each in pods)


def test_running_pods_that_use_nothing_at_all_contradict() -> None:
    """All zero is an answer only where nothing runs; no figure at all is none."""
    zero = {"cpu_milli": 0.0, "memory_mib": 0.0}
    assert contradiction(load=zero, has={}, running=2, measured=0)
    assert contradiction(load=zero, has={}, running=0, measured=0) == ""
    assert contradiction(load={}, has={}, running=2, measured=0) == ""
    assert contradiction(load={"cpu_milli": 3.0}, has={}, running=2, measured=0) == ""


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_what_others_take_is_recorded_high_enough_and_rarely(use: list[float]) -> None:
    """What is recorded is never below what was told last, nor above it by more than a third."""
    record, writes = ClusterSeen(), 0
    for each in use:
        now = cluster_seen.seen((), {"cpu_milli": each}, record)
        writes += now is not record
        record = now
        assert each <= record.others.cpu_milli <= each * 1.32 + 1
    assert record.others.memory_mib == 0
    assert cluster_seen.seen((), {}, record) is record


def test_only_nodes_that_take_pods_are_capacity() -> None:
    """A cordoned one is a node all the same."""
    nodes = [({"cpu_milli": 4000, "memory_mib": 10}, True), ({"cpu_milli": 9000}, False)]
    found = cluster_seen.seen(nodes, {}, None)
    assert found.capacity == Amounts(cpu_milli=4000, memory_mib=10)
    assert (found.nodes, found.usable) == (2, 1)
