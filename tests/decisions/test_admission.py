"""May a simulation start?"""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import draws
from labfleet.decisions.admission.load import Load, Need, need
from labfleet.decisions.admission.needs import default_of
from labfleet.decisions.admission.room import LoadRoom, taken
from labfleet.decisions.admission.targets import targets
from labfleet.decisions.queueing.requests import Request
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.cluster import ClusterSpec
from labfleet.resources.decision import Rule

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
CLUSTER = ClusterSpec(capacity=Amounts(cpu_milli=10001, memory_mib=1000, network_kbps=1000))


def wanted(cost: Amounts) -> Need:
    """What a run is judged by whose caller states its cost."""
    return need(None, {name: getattr(cost, name) for name in DIMENSIONS}, Amounts())


def admit(cost: Amounts, *active: Amounts, spec: ClusterSpec = CLUSTER):
    """The decision by what is declared, beside these active runs."""
    load = Load()
    for number, each in enumerate(active):
        load.add(str(number), wanted(each))
    return chance.admit(
        wanted(cost),
        draws("new", wanted(cost).spreads),
        load=load,
        cluster="c",
        target=targets(spec),
        now=NOW,
        rule=Rule.DECLARED,
        revision=3,
    )


def test_targets_are_rounded_down():
    """80 % of 10001 is 8000 and 75 % of 1000 is 750 (supply down)."""
    found = targets(CLUSTER)
    assert (found.cpu_milli, found.memory_mib, found.network_kbps) == (8000, 800, 750)


def test_exactly_the_target_is_approved():
    """The rule is <=: the last unit may be used."""
    found = admit(Amounts(cpu_milli=5000), Amounts(cpu_milli=3000))
    assert (found.outcome, found.chosen, found.revision) == ("approved", "c", 3)


def test_one_unit_more_is_denied_with_the_shortage():
    """A denial says which dimension lacks how much, and that asking again may help."""
    found = admit(Amounts(cpu_milli=5001), Amounts(cpu_milli=3000))
    assert (found.outcome, found.reason) == ("denied", "NoCapacityAvailable")
    short = found.candidates[0].shortages
    assert [(each.dimension, each.wanted, each.free) for each in short] == [
        ("cpu_milli", 5001, 5000)
    ]
    assert "c lets it in once 0.001 CPU more is free; ask again later" in found.message


def test_what_no_empty_cluster_holds_is_said_so():
    """Waiting does not help a run that is larger than the target."""
    assert admit(Amounts(memory_mib=801)).reason == "NeverFits"


def test_over_target_nothing_is_approved():
    """Current + cost <= target holds for a cost of zero as well."""
    found = admit(Amounts(cpu_milli=1), Amounts(memory_mib=900))
    assert found.outcome == "denied"
    assert found.candidates[0].reasons == ("OverMemoryTarget",)


def test_undeclared_dimensions_do_not_deny():
    """A cluster that states no network still takes what needs none."""
    bare = ClusterSpec(capacity=Amounts(cpu_milli=1000, memory_mib=1000))
    found = admit(Amounts(cpu_milli=800), spec=bare)
    assert found.outcome == "approved"


@given(
    st.sampled_from(Rule), st.integers(0, 800), st.integers(0, 10**6), st.integers(0, 10**6),
)  # fmt: skip
def test_a_network_that_nobody_states_is_not_judged(rule, memory, of_run, of_others):
    """What is measured of it denies nothing, in the decision and in the queue's room alike."""
    bare = targets(ClusterSpec(capacity=Amounts(cpu_milli=1000, memory_mib=1000)))
    cost = wanted(Amounts(memory_mib=memory))
    load = Load()
    load.add("live", wanted(Amounts(cpu_milli=100)))
    load.observe("live", {"network_kbps": of_run})
    load.others(Amounts(network_kbps=of_others))
    found = chance.admit(
        cost, draws("new", cost.spreads), load=load, cluster="c", target=bare, now=NOW, rule=rule
    )
    assert found.outcome == "approved"
    waits = Request(uid="new", amounts=cost.bounds, since=NOW)
    room = LoadRoom(load, {"new": taken("new", cost, rule)}, target=bare, rule=rule, epsilon=0.002)
    assert room.fits(waits)


def test_who_asks_for_a_network_that_nobody_states_is_denied():
    """Nobody can tell that there is as much."""
    bare = ClusterSpec(capacity=Amounts(cpu_milli=1000, memory_mib=1000))
    found = admit(Amounts(network_kbps=1), spec=bare)
    assert found.candidates[0].reasons == ("OverNetworkTarget",)


costs = st.builds(
    Amounts, cpu_milli=st.integers(0, 9000), memory_mib=st.integers(0, 900),
    network_kbps=st.integers(0, 900),
)  # fmt: skip


@given(st.lists(costs, max_size=12))
def test_the_sum_rule_is_exact(wanted):
    """Approved iff the sum stays within every target, run after run."""
    active: list[Amounts] = []
    most = targets(CLUSTER)
    for cost in wanted:
        total = cost
        for each in active:
            total = total + each
        fits = all(
            getattr(total, name) <= getattr(most, name)
            for name in ("cpu_milli", "memory_mib", "network_kbps")
        )
        found = admit(cost, *active)
        assert (found.outcome == "approved") == fits
        if fits:
            active.append(cost)


def test_a_default_that_says_nothing_of_a_dimension_is_not_free_in_it():
    """The chart's default knows no network, so a run counts for a share of the network's target."""
    cost, _ = default_of(CLUSTER, "waku", {"nodecount": 2.0})
    assert (cost.cpu_milli, cost.memory_mib, cost.network_kbps) == (1000, 1200, 75)
    blind = ClusterSpec(capacity=Amounts(cpu_milli=10000, memory_mib=1000))
    assert default_of(blind, "waku", {"nodecount": 2.0})[0].network_kbps == 0
