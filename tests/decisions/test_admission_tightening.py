"""How realised overload tightens the rule of a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.admission import tightening
from labfleet.resources.cluster import Overload
from labfleet.resources.decision import Rule

EPSILON = 0.0025
stretches = st.lists(st.tuples(st.booleans(), st.floats(0.1, 7200)), max_size=60)


def told(stretches, epsilon=EPSILON):
    """The record after these stretches of time."""
    found = Overload()
    for over, seconds in stretches:
        found = tightening.after(found, over=over, seconds=seconds, epsilon=epsilon)
    return found


def test_nothing_looked_at_is_unknown_not_zero():
    """A promise of which nobody saw anything was neither kept nor broken."""
    assert Overload().realised is None
    assert told([(False, 60)]).realised == 0
    assert told([(True, 0)]) == Overload()


def test_overload_tightens_and_time_within_gives_back():
    """Half of the patience leaves half of epsilon; all of it no outcome above; more the bounds."""
    half = told([(True, 300 / (1 - EPSILON))])
    assert tightening.in_force(Rule.CHANCE, EPSILON, half) == (
        Rule.CHANCE, pytest.approx(EPSILON / 2),
    )  # fmt: skip
    broken = told([(True, 700)])
    assert tightening.in_force(Rule.CHANCE, EPSILON, broken) == (Rule.BOUNDS, EPSILON)
    mended = told([(True, 700), (False, 3 * 86400)])
    assert tightening.in_force(Rule.CHANCE, EPSILON, mended)[0] is Rule.CHANCE
    whole = told([(True, 700), (False, 30 * 86400)])
    assert tightening.in_force(Rule.CHANCE, EPSILON, whole) == (Rule.CHANCE, EPSILON)


def test_the_other_rules_stay_what_they_are():
    """They promise no chance that could be exceeded."""
    broken = told([(True, 7000)])
    for rule in (Rule.BOUNDS, Rule.DECLARED):
        assert tightening.in_force(rule, EPSILON, broken) == (rule, EPSILON)


@given(stretches)
def test_overload_beyond_the_allowance_ends_the_rule_by_chance(stretches):
    """While the chance rule is in force, time above is at most epsilon's share and the patience."""
    found, over_seconds, seconds = Overload(), 0.0, 0.0
    for over, length in stretches:
        rule, epsilon = tightening.in_force(Rule.CHANCE, EPSILON, found)
        assert rule is Rule.BOUNDS or 0 <= epsilon <= EPSILON
        if rule is Rule.CHANCE:
            allowed = EPSILON * seconds + tightening.PATIENCE_SECONDS
            # In the strict mode overload is no more the chance rule's, and is told beside it.
            assert over_seconds <= allowed + 1e-6
        above = over and rule is Rule.CHANCE
        found = tightening.after(found, over=above, seconds=length, epsilon=EPSILON)
        over_seconds += length if above else 0.0
        seconds += length


@given(stretches)
def test_the_realised_share_is_a_share(stretches):
    """It stays between 0 and 1, and the slack between -1 and 1."""
    found = told(stretches)
    assert found.realised is None or 0 <= found.realised <= 1
    assert -1 <= found.slack <= 1
