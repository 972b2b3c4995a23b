"""What the live runs of a cluster take: draws, and sums that are kept up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from admission_runs import amounts, filled, needs, rows, spread, wanted
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.decisions.admission.draws import AT_ONCE, DRAWS, TARGETED, draws, draws_of_all
from labfleet.decisions.admission.load import SPARE, Load, need
from labfleet.resources.amounts import DIMENSIONS, Amounts
from labfleet.resources.prediction import Evidence, Forecast, Prediction

uids = st.sampled_from(["a", "b", "c", "d"])
peaks = st.dictionaries(st.sampled_from(DIMENSIONS), amounts, max_size=3)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), uids, needs),
        st.tuples(st.just("remove"), uids, st.none()),
        st.tuples(st.just("observe"), uids, peaks),
        st.tuples(st.just("advance"), st.none(), st.integers(1, 40)),
    ),
    max_size=12,
)


@settings(max_examples=40)
@given(changes)
def test_a_load_kept_up_is_the_one_built_anew(steps):
    """After any changes the sums are, to the unit, those of the live runs alone."""
    load, live, seen, now = Load(), {}, {}, 0.0
    for what, uid, more in steps:
        if what == "add":
            load.add(uid, more, since=now)
            live.setdefault(uid, (more, now))
        elif what == "remove":
            load.remove(uid)
            live.pop(uid, None)
            seen.pop(uid, None)
        elif what == "advance":
            now += more
            load.advance(now)
        else:
            load.observe(uid, more)
            if uid in live:
                old = seen.setdefault(uid, {})
                old.update({name: max(old.get(name, 0), more[name]) for name in more})
    anew = Load()
    for uid in reversed(live):
        anew.add(uid, live[uid][0], seen.get(uid), since=live[uid][1])
    anew.advance(now)
    assert np.array_equal(load.drawn, anew.drawn)
    assert (load.bounds, load.declared, len(load)) == (anew.bounds, anew.declared, len(anew))
    assert all(load.living(name) == anew.living(name) for name in ("f", "g"))
    if not live:
        assert not load.drawn.any()


@settings(max_examples=40)
@given(rows)
def test_draws_are_the_quantiles_of_the_spread_each_once(given_rows):
    """A uid only shuffles: every run has the same amounts, from its spread, in base units."""
    one, other = draws("one", given_rows), draws("other", given_rows)
    assert np.array_equal(np.sort(one, axis=1), np.sort(other, axis=1))
    for row, given_row in zip(one, given_rows, strict=True):
        assert given_row[0] <= row.min()
        assert row.max() <= given_row[-1] or given_row[-1] == 0


@settings(max_examples=20)
@given(rows, rows, st.integers(0, 2 * AT_ONCE + 1))
def test_runs_drawn_together_are_drawn_as_alone(one, other, count):
    """However many are drawn at once: each has the outcomes that its uid and spread give it."""
    runs = [(f"u{number}", other if number % 3 else one) for number in range(count)]
    found = draws_of_all(runs)
    assert len(found) == count
    for drawn, run in zip(found, runs, strict=True):
        assert np.array_equal(drawn, draws(*run))


def test_a_run_has_the_same_draws_in_every_process():
    """They depend on uid and spread alone; these first ones were written down once."""
    row = spread(0, 400)
    drawn = draws("5f0c", (row, row, row))
    assert np.array_equal(drawn, draws("5f0c", (row, row, row)))
    assert drawn[0, :6].tolist() == [311, 382, 110, 142, 29, 372]
    assert sorted(drawn[0].tolist()) == list(range(1, DRAWS + 1))


def test_one_outcome_goes_through_all_dimensions():
    """Where a run is heavy in one dimension it is heavy in each, so they are not averaged out."""
    cpu, memory, _ = draws("a", (spread(0, 10), spread(0, 4000), (0.0,)))
    assert np.corrcoef(cpu, memory)[0, 1] > 0.98
    assert (np.diff(cpu[np.argsort(memory)]) >= 0).all()


def test_two_runs_are_drawn_apart():
    """Nearly nothing links the outcomes of two uids, so that the sum of many is steadier."""
    row = spread(0, 1000)
    one, other = draws("one", (row,) * 3)[0], draws("other", (row,) * 3)[0]
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_a_spread_of_another_length_is_refused():
    """Too few quantiles would be read at wrong levels."""
    with pytest.raises(ValueError, match="memory_mib: a spread has 21 numbers or one, not 2"):
        draws("a", ((1.0,), (1.0, 2.0), (1.0,)))


def test_what_was_observed_counts_once():
    """Each draw becomes max(observed, draw), the bound max(observed, bound); not the sum."""
    load = filled(wanted(spread(100, 200), bound=190))
    load.observe("run-0", {"memory_mib": 149.5})
    assert load.drawn[1].min() == 150
    assert load.drawn[1].max() == 200
    assert load.bounds.memory_mib == 190
    load.observe("run-0", {"memory_mib": 500})
    assert set(load.drawn[1].tolist()) == {500}
    assert (load.bounds.memory_mib, load.declared.memory_mib) == (500, 500)


def test_a_run_is_added_once_and_an_unknown_one_changes_nothing():
    """Events may be told twice or come late."""
    load = filled(wanted(spread(100, 200)))
    before = load.drawn.copy()
    load.add("run-0", wanted(spread(900, 1000)))
    load.remove("gone")
    load.observe("gone", {"memory_mib": 7000})
    assert np.array_equal(load.drawn, before)
    assert len(load) == 1
    assert "run-0" in load


def test_unknown_cost_is_the_default_never_free():
    """Predicted, else declared, else what the cluster says; each dimension for itself."""
    told = Prediction(
        family="f",
        forecasts=(
            Forecast(
                resource="memory_mib", expected=80, bound=99.2, coverage=0.95,
                evidence=Evidence.EXACT, spread=spread(50, 120),
            ),
        ),
    )  # fmt: skip
    default = Amounts(cpu_milli=500, memory_mib=700, network_kbps=10, storage_mib=5)
    found = need(told, {"cpu_milli": 250}, default)
    assert found.bounds == Amounts(cpu_milli=250, memory_mib=100, network_kbps=10, storage_mib=5)
    assert found.declared == Amounts(cpu_milli=250, memory_mib=700, network_kbps=10, storage_mib=5)
    assert found.spreads == ((250.0,), spread(50, 120), (10.0,))
    assert need(None, {}, default).bounds == default
    assert found.family == "f"
    assert len(need(None, {}, default).spreads) == len(TARGETED)


def test_living_runs_are_counted_by_family():
    """A family is forgotten with its last run, so that nothing grows with past families."""
    load = Load()
    for uid in ("a", "b"):
        load.add(uid, wanted((5.0,), family="waku"))
    assert (load.living("waku"), load.living("other")) == (2, 0)
    load.add("a", wanted((5.0,), family="waku"))
    load.remove("a")
    load.remove("a")
    assert load.living("waku") == 1
    load.remove("b")
    # private _families: that nothing of an ended family is kept shows nowhere else.
    assert (load.living("waku"), load._families) == (0, {})


def test_a_run_that_lives_on_is_drawn_anew_once_for_each_age():
    """From an age on the later spread holds, what was observed stays, and nothing is redone."""
    later = ((60.0, 1, spread(200, 300)), (500.0, 1, spread(400, 500)))
    load = Load()
    load.add("a", replace(wanted(spread(0, 100)), later=later), {"memory_mib": 250}, since=1000.0)
    load.advance(1059.9)
    assert set(load.drawn[1].tolist()) == {250}
    load.advance(1060.0)
    assert (load.drawn[1].min(), load.drawn[1].max()) == (250, 300)
    load.advance(9e9)
    assert (load.drawn[1].min(), load.drawn[1].max()) == (401, 500)
    before = load.drawn
    load.advance(9e9)
    assert load.drawn is before


def test_ages_of_ended_runs_are_not_kept():
    """Runs that ended before they grew old leave nothing behind."""
    need = replace(wanted(spread(0, 100)), later=((60.0, 1, spread(200, 300)),))
    load = Load()
    for number in range(10 * SPARE):
        load.add(f"r{number}", need, since=float(number))
        load.remove(f"r{number}")
    # private _due: that ended runs leave nothing behind shows nowhere else.
    assert len(load._due) <= SPARE + 1
