"""The admission benchmark: its pool, what a rule is told when, and that it runs the product."""

from __future__ import annotations

import pytest
from benchmarks import admission, measure, pool_rules, saturated_pool, tasks

from labfleet.decisions.admission import draws, load

# private _quantiles: the product is broken at exactly this step, for whoever draws
QUANTILES = draws._quantiles


def task(seconds: float, memory: float, family: str = "f") -> tasks.Task:
    return tasks.Task(family=family, parameters={}, seconds=seconds, memory_mib=memory)


def labfleet() -> dict[str, float]:
    """The row of the product's rule on made tasks in one small pool."""
    found = admission.table(
        tasks.made(150), rules={"labfleet": admission.RULES["labfleet"]}, sizes=("100",),
        orders=(5,), scale=0.1,
    )  # fmt: skip
    return found["rules"]["labfleet"]["100"]


def test_a_pool_is_strictly_first_come_and_counts_only_while_somebody_waits():
    """Three of 6 in a pool of 10: one at a time, and the last one's hour is not counted."""
    found = saturated_pool.fill(
        [task(3600, 6), task(1800, 6), task(7200, 3)], 10, pool_rules.oracle(10, {})
    )
    # 1 h of 6, then 6 + 3 with nobody waiting; the small one does not overtake.
    assert (found.true_use, found.over_limit) == (60, 0)
    assert found.makespan_h == 3


def test_what_a_run_took_is_told_at_its_end():
    """The mean of a family is known once one of it has ended; until then what is declared."""
    rule = pool_rules.Mean(10, {"f": 9.0})
    first, second = task(10, 2), task(10, 2)
    rule.started(0, first)
    assert not rule.fits(1, second)
    rule.ended(0, first, 10)
    rule.started(1, second)
    assert rule.fits(2, second)


def test_over_the_limit_is_a_share_of_the_time_in_which_somebody_waits():
    """Two of 6 at once in a pool of 10 for half of the time: 50 % over, 90 % used."""

    class Blind:
        def fits(self, place, each):
            return place < 2

        def started(self, place, each):
            pass

        def ended(self, place, each, at):
            pass

    found = saturated_pool.fill([task(10, 6), task(20, 6), task(1, 6)], 10, Blind())
    assert (found.true_use, found.over_limit) == (90, 50)


def test_an_order_is_a_seeds_shuffle_with_a_limit_for_each_type():
    """The same seed gives the same order; no type brings more than 900 rows."""
    many = [task(1, number) for number in range(1000)] + [task(1, 5, "g")]
    one = tasks.in_order(many, 3)
    assert one == tasks.in_order(many, 3) != tasks.in_order(many, 4)
    assert len(one) == 901


@pytest.mark.parametrize(
    ("where", "name", "broken", "moves"),
    [
        (draws, "_quantiles", lambda rows: QUANTILES(rows) // 3, "over_limit"),
        (load.Load, "remove", lambda self, uid: None, "true_use"),
    ],
)
def test_a_broken_function_of_the_product_moves_the_figure(where, name, broken, moves, monkeypatch):
    """The figures are of the product's own code: drawn light, it is over; forgetful, it is empty."""
    sound = labfleet()
    monkeypatch.setattr(where, name, broken)
    other = labfleet()
    if moves == "over_limit":
        assert other["over_limit"] > sound["over_limit"] + 20
    else:
        assert other["true_use"] < sound["true_use"] / 2


def test_a_single_order_pool_and_rule_can_be_asked_for(tmp_path, monkeypatch):
    """`--rules`, `--pools` and `--orders` leave all else out; a rule that is none is an error."""
    (tmp_path / tasks.TRACE).touch()
    monkeypatch.setattr(admission, "wfinstances", lambda _: tasks.made(60))
    plan = measure.Plan(
        seconds=0.001, rounds=1, data=tmp_path, rules=("oracle",), pools=("10",), orders=(2,)
    )
    found = admission.measure(plan)
    assert found["orders"] == [2]
    assert {name: list(each) for name, each in found["rules"].items()} == {"oracle": ["10"]}
    with pytest.raises(ValueError, match="there are: oracle, declared"):
        admission.measure(measure.Plan(seconds=0.001, rounds=1, data=tmp_path, rules=("none",)))


def test_without_data_the_table_is_skipped_and_the_reason_said(tmp_path):
    """No figure is made up for data that is not there; what an answer costs is still told."""
    for folder in (None, tmp_path):
        plan = measure.Plan(seconds=0.001, rounds=1, data=folder)
        found = admission.measure(plan)
        assert found["rules"] == {}
        assert found["rows"]
        assert "wfinstances_tasks.csv.gz is not in the folder that --data names" in plan.skipped[0]
