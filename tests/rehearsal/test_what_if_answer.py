"""What a what-if's answer says: the verdict, the table and the files, no more than was checked."""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from labfleet.kernel import errors
from labfleet.rehearsal import plan_command
from labfleet.rehearsal.answers import columns, report, table, verdict
from labfleet.rehearsal.answers.columns import VariantColumn
from labfleet.rehearsal.answers.report import Question
from labfleet.rehearsal.figures.tally import Figures
from labfleet.rehearsal.plans import plan, variations
from labfleet.rehearsal.plans.plan import Best
from labfleet.rehearsal.rules.invariants import Violation
from labfleet.rehearsal.whatif.what_if import Answer

RULE = Best()
EMPTY: dict[str, Any] = dict.fromkeys(columns.FIGURES, 0)
GOOD = Figures(**{**EMPTY, "requested": 100, "completed": 100, "in_time": 1.0, "wait_p95": 60.0,
                  "worker_hours": 10.0, "cost_usd": 40.0, "cost_known_usd": 40.0})  # fmt: skip
BAD = replace(GOOD, completed=80, expired=20, unserved=20, in_time=0.8, cost_usd=20.0)
POOL = {"main": {"policy": "NEED_BASED", "minWorkers": 1, "maxWorkers": 4, "template": "metal"}}
SHARED = {"days": 1, "demand": {"generated": {"onDemandPerDay": 1}}}


def answer(name: str, figures: Figures = GOOD, seed: int = 1, **more: Any) -> Answer:
    usual: dict[str, Any] = {
        "settings": POOL, "waiters": [], "reasons": {}, "details": {"by_pool": {}},
        "violations": [], "log": "00", "commits": 1, "steps": 1, "virtual_hours": 24.0,
        "seconds": 1.0, "faults": {}, "refusals": {},
    }  # fmt: skip
    return Answer(name=name, seed=seed, figures=figures, **{**usual, **more})


def judged(*answers: Answer) -> verdict.PlanVerdict:
    return verdict.judge(columns.gathered(list(answers)), RULE)


def column(*figures: Figures) -> VariantColumn:
    return VariantColumn("x", tuple(answer("x", each, seed) for seed, each in enumerate(figures)))


def question(**more: Any) -> Question:
    return Question("plan", RULE, 24.0, **more)


# --- the verdict -----------------------------------------------------------------------


def test_nothing_due_is_no_best() -> None:
    """Two variants in which nobody was due are not compared at all."""
    none = replace(GOOD, requested=2, not_due=2, completed=0, in_time=None)
    said = judged(answer("a", none), answer("b", replace(none, worker_hours=3.0)))
    assert said.best is None
    assert said.text.startswith("nothing to judge")


def test_expired_sessions_are_not_good_enough_under_a_lax_share() -> None:
    """A plan may let 30 % go unserved, but then 95 % have not started in time."""
    lax = Best(max_unserved_share=0.3)
    assert verdict.good_enough(BAD, lax) is False
    assert verdict.good_enough(replace(BAD, in_time=0.95), lax) is True


def test_the_cheapest_of_the_good_ones_is_best() -> None:
    """What serves fewer is never best for being cheap."""
    said = judged(answer("bad", BAD), answer("dear"), answer("best", replace(GOOD, cost_usd=30.0)))
    assert said.best == "best"
    assert "the cheapest of those where at most 1 % never ran and 95 % started" in said.text


def test_the_rule_must_hold_in_every_draw() -> None:
    """One bad draw of two is not good enough, and the table says in how many it was."""
    luck = [answer("luck", replace(GOOD, cost_usd=1.0), 1), answer("luck", BAD, 2)]
    said = judged(*luck, answer("sure", seed=1), answer("sure", seed=2))
    assert said.best == "sure"
    assert "in each of 2 draws" in said.text
    rows = dict(table.rows(columns.gathered(luck), RULE, None))
    assert rows["good enough"] == ["in 1 of 2"]


def test_variants_that_came_to_the_same_are_said_to() -> None:
    """Nobody is best where there is no difference."""
    said = judged(answer("a"), answer("b"))
    assert (said.best, said.same) == (None, ("a", "b"))
    assert said.text.startswith("no difference between a and b; all are good enough")
    third = judged(answer("a"), answer("b"), answer("c", replace(GOOD, cost_usd=99.0)))
    assert (third.best, third.same) == ("a", ("b",))


def test_none_good_enough_names_the_least_bad() -> None:
    """The answer does not call best what is not good enough."""
    said = judged(answer("bad", BAD), answer("worse", replace(BAD, unserved=30, in_time=0.7)))
    assert (said.best, said.least_bad) == (None, "bad")
    assert "none is good enough" in said.text
    assert "20.0 % never ran and 80.0 % started in time" in said.text


def test_one_variant_alone_is_good_enough_or_not() -> None:
    """With nothing beside it the answer is yes or no, and by how much."""
    assert judged(answer("only")).text.startswith("good enough: yes, where 0.0 % never ran")
    assert judged(answer("only", BAD)).best is None


def test_dollars_are_not_compared_with_hours() -> None:
    """Where one variant has no price all are compared by worker-hours."""
    said = judged(answer("priced"), answer("own", replace(GOOD, cost_usd=None, worker_hours=20.0)))
    assert said.best == "priced"
    assert "of the fewest worker-hours" in said.text


def test_a_sweep_names_the_smallest_that_is_enough() -> None:
    """Not the cheapest, not the first: the smallest value that is good enough."""
    found = columns.gathered([answer("n 2", BAD), answer("n 8"), answer("n 4")])
    sizes = {"n 2": 2.0, "n 4": 4.0, "n 8": 8.0}
    assert verdict.smallest(found, sizes, RULE) == "n 4"
    shown = report.text(question(sizes=sizes, swept="maxWorkers"), [answer("n 2", BAD)])
    assert "the smallest maxWorkers that is enough: none of these" in shown


def test_nothing_is_judged_where_a_rule_was_broken() -> None:
    """A play that stopped at a bug is neither good enough nor best, nor are those beside it."""
    broken = answer("a", violations=[Violation("one", 7200.0, "two instances")])
    found = columns.gathered([broken, answer("b")])
    said = verdict.judge(found, RULE)
    assert (said.best, said.least_bad, said.same) == (None, None, ())
    assert said.text == ("nothing is judged: a rule was broken with a, and its play stopped there")
    assert [verdict.kept(each, RULE) for each in found] == [None, True]
    assert dict(table.rows(found, RULE, None))["good enough"] == ["broken", "yes"]
    assert dict(table.rows(found, RULE, GOOD))["good enough"] == ["yes", "broken", "", "yes"]
    swept = question(sizes={"a": 1.0, "b": 2.0}, swept="maxWorkers")
    assert report.answer(swept, [broken, answer("b")], {})["smallest_enough"] is None
    assert "the smallest" not in report.text(swept, [broken, answer("b")])


def test_large_numbers_are_written_out() -> None:
    """A sweep's value and a count of seven digits stand there as they are."""
    many = answer("n 1234567", replace(GOOD, requested=1_234_567))
    asked = question(sizes={"n 1234567": 1_234_567.0}, swept="emptySeconds")
    shown = report.text(asked, [many])
    assert "the smallest emptySeconds that is enough: 1234567" in shown
    assert dict(table.rows(columns.gathered([many]), RULE, None))["sessions requested"] == [
        "1234567"
    ]


# --- the table -------------------------------------------------------------------------


def test_a_wide_table_is_broken_into_blocks() -> None:
    """Ten variants, and no line is wider than 80."""
    waiter = {"session": "s", "owner": "ada", "definition": "pod", "slot": True, "ran": False,
              "asked_hours": 33.5, "wait_seconds": 1800.0, "outcome": "EXPIRED",
              "never_ran": True, "reason": "needs much; " * 30}  # fmt: skip
    found = [answer(f"a long name {n}", BAD, waiters=[waiter]) for n in range(10)]
    shown = report.text(question(), found)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(f"a long name {n}" in shown for n in range(10))
    assert "30.0 min  s of ada (pod, slot day 1 09:30, expired): needs much" in shown


def test_draws_show_the_median_and_the_range() -> None:
    """Three draws of a wait are one cell; one draw says that it is one."""
    waits = [replace(GOOD, wait_p95=each * 60.0) for each in (2, 15, 8)]
    rows = dict(table.rows([column(*waits)], RULE, None))
    assert rows["wait p95"] == ["8.0 (2.0..15.0) min"]
    assert rows["  completed"] == ["100"]
    several = report.text(question(), list(column(*waits).draws))
    assert "3 draws (seeds 0..2): median (lowest..highest)" in several
    assert "1 draw (seed 1)" in report.text(question(), [answer("a")])


def test_the_record_is_the_first_column_with_the_distance_of_the_first_variant() -> None:
    """Recorded, played, apart, then the rest; what reads the same is the same."""
    far = replace(GOOD, worker_hours=11.0)
    found = columns.gathered([answer("as it was", far), answer("less", BAD)])
    rows = dict(table.rows(found, RULE, GOOD))
    assert rows[""] == ["recorded", "as it was", "apart", "less"]
    assert rows["worker-hours"][:3] == ["10.0", "11.0", "+10.0 %"]
    assert rows["  completed"] == ["100", "100", "=", "80"]
    assert rows["good enough"] == ["yes", "yes", "", "no"]


def test_settings_of_variants_are_rows() -> None:
    """Policy, size and template of the only pool, and what else differs."""
    late = {"main": {**POOL["main"], "maxWorkers": 1, "emptySeconds": 9}}
    rows = dict(table.settings_rows(columns.gathered([answer("a"), answer("b", settings=late)])))
    assert rows["workers"] == ["1 to 4", "1"]
    assert rows["policy"] == ["NEED_BASED", "NEED_BASED"]
    assert rows["emptySeconds"] == ["-", "9"]


def test_a_cost_with_unpriced_machines_says_what_is_known() -> None:
    """Part of a cost is shown as part, and the pool without a price is named."""
    half = answer("a", replace(GOOD, cost_usd=None, cost_known_usd=5.0),
                  details={"by_pool": {"own": {"unpriced_hours": 2.0}}})  # fmt: skip
    shown = report.text(question(), [half])
    assert "5.00 + ?" in shown
    assert "no price for pool own with a: 2.0 worker-hours" in " ".join(shown.split())


def test_a_broken_rule_says_what_to_do() -> None:
    """It is a bug of the product, and the command that plays it again stands there."""
    broken = answer("a", violations=[Violation("one", 7200.0, "two instances")])
    asked = question(replay="labfleet rehearse --plan p.yaml")
    shown = report.text(asked, [broken])
    assert "BROKEN one at 2.00 h with a (seed 1): two instances" in shown
    assert "please report it" in shown
    assert "replay: labfleet rehearse --plan p.yaml" in shown
    assert report.answer(asked, [broken], {})["violations"][0]["replay"] == asked.replay


# --- for programs ----------------------------------------------------------------------


def test_json_has_medians_ranges_and_every_draw() -> None:
    """The old names hold the medians; the draws stand beside them."""
    two = [answer("a", seed=1, log="aa"), answer("a", BAD, 2, log="bb")]
    found = report.answer(question(recorded=GOOD), two, {"period_hours": 24.0})
    (only,) = found["variants"]
    assert (only["completed"], only["range"]["completed"]) == (90, [80, 100])
    assert [each["seed"] for each in only["draws"]] == found["seeds"] == [1, 2]
    assert found["hashes"] == {"a seed 1": "aa", "a seed 2": "bb"}
    assert found["recorded"]["apart"]["completed"] == -0.1
    assert (only["good_enough"], only["told_of_seed"]) == (False, 2)


def test_csv_has_a_row_for_the_record_and_each_draw() -> None:
    """Every figure is a column, and what is unknown is empty."""
    odd = answer("a", replace(GOOD, cost_usd=None), 2)
    text = report.csv_text(question(recorded=GOOD), [answer("a"), odd])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["variant"] for row in rows] == ["recorded", "a", "a"]
    assert (rows[1]["main.maxWorkers"], rows[1]["completed"]) == ("4", "100")
    assert (rows[2]["seed"], rows[2]["cost_usd"]) == ("2", "")
    (_, named) = csv.DictReader(
        io.StringIO(report.csv_text(question(recorded=GOOD), [answer("=1+1")]))
    )
    assert named["variant"] == "'=1+1"


# --- seeds, sweeps and options ---------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "seeds"),
    [({}, (1, 2, 3)), ({"seed": 7}, (7,)), ({"seeds": "2..4"}, (2, 3, 4)), ({"seeds": [5, 1]}, (5, 1)),
     ({"demand": {"file": "a.csv"}}, (1,))],
)  # fmt: skip
def test_a_plan_says_how_many_draws(keys: dict[str, Any], seeds: tuple[int, ...]) -> None:
    """Drawn demand is played three times, a file's once, unless the plan says which seeds."""
    assert variations.seeds(msgspec.convert({**SHARED, **keys}, plan.WhatIfPlan)) == seeds


@pytest.mark.parametrize(
    "keys",
    [{"seeds": "4..2"}, {"seeds": "some"}, {"seeds": []}, {"seeds": [1, 1]}, {"seeds": "1..2", "seed": 1}],
)  # fmt: skip
def test_wrong_seeds_are_refused(keys: dict[str, Any]) -> None:
    """Backwards, twice, none and both ways at once."""
    with pytest.raises(errors.Invalid):
        variations.seeds(msgspec.convert({**SHARED, **keys}, plan.WhatIfPlan))


def test_a_sweep_is_a_variant_for_each_value() -> None:
    """Its variants carry the value as their name; it does not go with variants."""
    asked = msgspec.convert({**SHARED, "sweep": {"maxWorkers": [2, 4]}}, plan.WhatIfPlan)
    word, sizes, variants = variations.swept(asked)
    assert (word, sizes) == ("maxWorkers", {"maxWorkers 2": 2.0, "maxWorkers 4": 4.0})
    assert [each.scaling for each in variants] == [{"maxWorkers": 2}, {"maxWorkers": 4}]
    both = msgspec.structs.replace(asked, variants=variants)
    with pytest.raises(errors.Invalid, match="not both"):
        variations.swept(both)


def test_a_wrong_sweep_is_named_where_it_stands(tmp_path: Path) -> None:
    """A value that no pool can have is refused at the sweep's line, not at a variant's."""
    path = tmp_path / "plan.yaml"
    path.write_text(
        "templates: [{name: metal}]\npools: [{name: main, template: metal}]\n"
        "definitions: [{name: pod, nodes: [alpine]}]\ndemand: {generated: {onDemandPerDay: 9}}\n"
        "sweep: {maxWorkers: [2, 0]}\n"
    )
    with pytest.raises(
        errors.Invalid, match=r"line 5: sweep.maxWorkers\[1\]: variant maxWorkers 0"
    ):
        plan_command.cases_of(plan.load(path), tmp_path)


def test_options_of_seeds_beside_a_plan_are_named() -> None:
    """Each that was given, by the name that was typed; what was not given is not."""
    given = argparse.Namespace(plan=Path("p"), json=True, jobs=2, hours=2.0, workers=None,
                               wire=True, without=(), no_shrink=True)  # fmt: skip
    assert plan_command.ignored(given) == ["--hours", "--wire", "--no-shrink"]
