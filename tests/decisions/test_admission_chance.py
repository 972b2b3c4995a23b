"""May a run start, by chance, by bounds, by what is declared?"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from admission_runs import NOW, TARGET, asked, filled, needs, spread, wanted
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import DRAWS, TARGETED, draws
from labfleet.decisions.admission.load import Load
from labfleet.resources.amounts import Amounts
from labfleet.resources.decision import Decision, Rule

LIMITS = np.array([[8000], [8000], [7500]])


@settings(max_examples=40)
@given(st.lists(needs, max_size=4), needs, st.sampled_from([0.0, 0.0025, 0.1, 0.5]))
def test_approved_is_exactly_a_chance_within_epsilon(running, need, epsilon):
    """The chance is the share of outcomes in which any target is exceeded."""
    load = filled(*running)
    total = load.drawn + draws("new", need.spreads)
    over = sum(any(column > LIMITS[:, 0]) for column in total.T) / DRAWS
    found = asked(load, need, epsilon=epsilon)
    stored = load.bounds.storage_mib + need.bounds.storage_mib
    room = stored <= TARGET.storage_mib or need.bounds.storage_mib == 0
    assert found.risk == over
    assert (found.outcome == "approved") == (over <= epsilon and room)


@settings(max_examples=40)
@given(st.lists(needs, min_size=1, max_size=4), needs, st.sampled_from([0.0, 0.0025, 0.1]))
def test_what_is_named_as_missing_would_let_it_in(running, need, epsilon):
    """With as much more room in each named dimension, and no less anywhere, it is approved."""
    load = filled(*running)
    found = asked(load, need, epsilon=epsilon)
    lacks = {each.dimension: each.wanted - each.free for each in found.candidates[0].shortages}
    assert bool(lacks) == (found.outcome == "denied")
    roomier = {name: getattr(TARGET, name) + lack for name, lack in lacks.items()}
    target = msgspec.structs.replace(TARGET, **roomier)
    again = chance.admit(
        need, draws("new", need.spreads), load=load, cluster="c", target=target, now=NOW,
        epsilon=epsilon,
    )  # fmt: skip
    assert again.outcome == "approved"


@settings(max_examples=40)
@given(st.lists(needs, max_size=4), needs, st.sampled_from(list(Rule)))
def test_a_run_that_never_fits_is_told_so_whatever_runs(running, need, rule):
    """NeverFits is about the run alone; NoCapacityAvailable about the load."""
    alone = asked(Load(), need, rule=rule)
    beside = asked(filled(*running), need, rule=rule)
    assert alone.reason in {"Fits", "NeverFits"}
    if beside.outcome == "denied":
        expected = "NeverFits" if alone.outcome == "denied" else "NoCapacityAvailable"
        assert beside.reason == expected


@settings(max_examples=40)
@given(st.lists(needs, max_size=4), needs, st.sampled_from([Rule.BOUNDS, Rule.DECLARED]))
def test_the_sum_rules_never_let_a_sum_exceed_a_target(running, need, rule):
    """Strict mode and fallback hold the sum of bounds, or of what was declared, in integers."""
    load = filled(*running)
    held, cost = (
        (load.bounds, need.bounds) if rule is Rule.BOUNDS else (load.declared, need.declared)
    )
    fits = all(
        getattr(held, name) + getattr(cost, name) <= getattr(TARGET, name) for name in TARGETED
    ) and (not cost.storage_mib or held.storage_mib + cost.storage_mib <= TARGET.storage_mib)
    found = asked(load, need, rule=rule)
    assert (found.outcome == "approved") == fits
    assert (found.rule, found.risk, found.epsilon) == (rule.value, None, None)


def test_many_runs_need_less_than_the_sum_of_their_bounds():
    """What the joint draws are for: 10 or more of 0 to 1000 fit, not 8."""
    row = spread(0, 1000)

    def count(rule):
        load, number = Load(), 0
        while asked(load, wanted(row), f"r{number}", rule=rule).outcome == "approved":
            load.add(f"r{number}", wanted(row))
            number += 1
        return number

    assert count(Rule.BOUNDS) == 8
    assert 10 <= count(Rule.CHANCE) <= 14


def test_the_answer_says_rule_chance_and_what_would_let_it_in():
    """People read the bound, the chance beside epsilon, and how much must be given back."""
    load = filled(wanted((7000.0,)))
    found = asked(load, wanted(spread(900, 1100), cpu_milli=500))
    assert (found.outcome, found.reason, found.chosen) == ("denied", "NoCapacityAvailable", None)
    assert found.candidates[0].reasons == ("OverMemoryTarget",)
    assert found.message == (
        "needs 0.5 CPU / 1.074 GiB (upper bound); chance of exceeding a target 50.00%, "
        "above 0.20%; c lets it in once 100 MiB more is free; ask again later"
    )
    assert (found.rule, found.risk, found.epsilon) == ("chance", 0.5, chance.EPSILON)
    found = asked(load, wanted(spread(100, 300)))
    assert found.message == (
        "needs 300 MiB (upper bound); chance of exceeding a target 0.00%, within 0.20%; "
        "approved on c"
    )


def test_never_fits_says_what_even_an_empty_cluster_lacks():
    """Waiting does not help a run that is larger than the target."""
    found = asked(Load(), wanted((8001.0,)))
    assert (found.reason, found.rejected_by_reason) == ("NeverFits", {"NeverFits": 1})
    assert "c is short 1 MiB even when nothing runs on it" in found.message


def test_storage_is_a_plain_sum_in_the_chance_rule_too():
    """A disk that is full is full with certainty."""
    load = filled(wanted((100.0,), storage_mib=600))
    found = asked(load, wanted((100.0,), storage_mib=401))
    assert found.risk == 0
    assert (found.outcome, found.candidates[0].reasons) == ("denied", ("OverStorageTarget",))
    assert asked(load, wanted((100.0,), storage_mib=400)).outcome == "approved"


def test_a_decision_of_before_the_rules_is_still_read():
    """Stored decisions have no rule, chance or epsilon."""
    old = b'{"outcome":"approved","reason":"Fits","message":"m","at":"2026-11-27T09:00:00Z"}'
    found = msgspec.json.decode(old, type=Decision)
    assert (found.rule, found.risk, found.epsilon) == ("", None, None)


@pytest.mark.parametrize("live", [1, 60])
def test_an_answer_looks_at_no_run(live):
    """The work of an answer and of a change is on sums: live runs are never gone through."""
    load = filled(*[wanted(spread(1, 9)) for _ in range(live)])

    class Sealed(dict):
        def __iter__(self):
            raise AssertionError("went through the live runs")

        keys = values = items = __iter__

    # private _live: replaced to notice whoever goes through the live runs.
    load._live = Sealed(load._live)
    assert asked(load, wanted(spread(1, 9))).outcome == "approved"
    load.add("new", wanted(spread(1, 9)))
    load.observe("new", {"memory_mib": 4})
    load.remove("new")
    assert len(load) == live
    assert load.bounds == Amounts(memory_mib=9 * live)
