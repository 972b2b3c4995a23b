"""Plans and demand of a what-if: what is accepted, what is refused, and what is drawn."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from labfleet.kernel import errors
from labfleet.rehearsal import asking, demand, demand_file, plan
from labfleet.rehearsal.plan import Exam, Generated

PLAN = """\
name: small
hours: 6
templates:
- {name: metal, instanceType: m5zn.metal}
- {name: half, instanceType: own, hourlyPriceUsd: 1.5, capacity: {cpu: 24, memory: 96Gi, labs: 10}}
pools:
- {name: main, template: metal, track: main, scaling: {minWorkers: 1, maxWorkers: 3}}
definitions:
- {name: pod, nodes: [iosv, iosv, alpine], minutes: 60, track: main}
demand:
  generated: {onDemandPerDay: 24}
variants:
- {name: as it is}
- {name: smaller machines, template: half, scaling: {maxWorkers: 6}}
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_gives_a_case_for_each_variant(tmp_path: Path) -> None:
    """Variants share fleet and demand, and differ in what they say."""
    asked = plan.load(_written(tmp_path, PLAN))
    (first, second), real = asking.cases_of(asked, tmp_path)
    assert real is None
    assert first.crowd == second.crowd
    pools = [spec for case in (first, second) for kind, _, spec in case.fleet if kind == "Pool"]
    assert [each["template"] for each in pools] == ["metal", "half"]
    assert [each["scaling"]["maxWorkers"] for each in pools] == [3, 6]
    sizes = {name: spec["machine"] for kind, name, spec in first.fleet if kind == "Template"}
    assert sizes["metal"]["hourlyPriceUsd"] == 4.3605
    assert sizes["half"]["capacity"]["memoryMib"] == 96 * 1024


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("maxWorkers: 3", "maxWorker: 3", "line 7"),
        ("hours: 6", "hours: many", "line 2"),
        ("onDemandPerDay: 24}", "onDemandPerDay: 24}\n  file: a.csv", "exactly one"),
        ("template: half,", "template: half, pools: [odd],", "no pool odd"),
        ("scaling: {maxWorkers: 6}", "scaling: {maxWorkers: 0}", "smaller machines"),
        ("instanceType: m5zn.metal", "instanceType: q9.metal", "price file"),
        ("name: smaller machines", "name: as it is", "one name"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    """Each mistake of a plan is named where it stands."""
    path = _written(tmp_path, PLAN.replace(old, new))
    with pytest.raises(errors.Invalid, match=told):
        asking.cases_of(plan.load(path), tmp_path)


def test_demand_depends_on_the_seed_alone() -> None:
    """The same seed gives the same people, another seed gives others."""
    asked = Generated(
        on_demand_per_day=40, slots_per_day=20, cancel_share=0.2, extend_share=0.2, hours=(8, 18)
    )
    first = demand.draw(asked, {"pod": 60}, 86400.0, 1)
    assert first == demand.draw(asked, {"pod": 60}, 86400.0, 1)
    assert first != demand.draw(asked, {"pod": 60}, 86400.0, 2)
    assert len(first.wishes) == 60
    now = [wish for wish in first.wishes if wish.start is None]
    assert all(8 * 3600 <= wish.at < 18 * 3600 for wish in now)
    assert any(wish.acts for wish in first.wishes)


def test_an_exam_comes_on_its_days_and_not_after_the_period() -> None:
    """Everybody of an exam has the same slot, booked before it begins."""
    exam = Exam(definition="pod", sessions=30, hour=9, minutes=90)
    crowd = demand.draw(Generated(exams=(exam,)), {"pod": 60}, 1.5 * 86400, 1)
    assert len(crowd.wishes) == 60
    assert {wish.start for wish in crowd.wishes} == {9 * 3600.0, 33 * 3600.0}
    assert all(wish.at <= (wish.start or 0) for wish in crowd.wishes)


def test_a_csv_of_instants_counts_from_its_first_midnight(tmp_path: Path) -> None:
    """ISO instants, slots, amounts and what people did later are read from a table."""
    path = tmp_path / "demand.csv"
    path.write_text(
        "submitted,start,minutes,definition,owner,cpu,memory,cancel_after_minutes\n"
        "2026-11-20T08:00:00Z,,,pod,ada,,,\n"
        "2026-11-20T07:00:00Z,2026-11-20T09:00:00Z,90,pod,bob,,,30\n"
        "2026-11-20T10:00:00Z,,45,,eve,4,8Gi,\n"
    )
    crowd = demand_file.read(path, None, {"pod": 60}, 0.0)
    booked, now, sized = crowd.wishes
    assert (now.at, now.start, now.end) == (8 * 3600, None, None)
    assert (booked.at, booked.start, booked.end) == (7 * 3600, 9 * 3600, 10.5 * 3600)
    assert booked.acts[0].at == 9.5 * 3600
    assert crowd.definitions[0][1]["resources"]["memoryMib"] == 8192
    assert sized.definition == crowd.definitions[0][0]


def test_json_lines_may_count_in_minutes(tmp_path: Path) -> None:
    """A number is minutes from the start; rows after the period are left out."""
    path = tmp_path / "demand.jsonl"
    rows = [{"submitted": 5, "definition": "pod"}, {"submitted": 500, "definition": "pod"}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    crowd = demand_file.read(path, datetime(2026, 11, 20, tzinfo=UTC), {"pod": 60}, 3600.0)
    assert [wish.at for wish in crowd.wishes] == [300.0]


@pytest.mark.parametrize(
    "row", ["submitted,definition\n5,odd", "submitted,colour\n5,red", "owner\nada", "submitted\nx"]
)
def test_a_wrong_row_is_named(tmp_path: Path, row: str) -> None:
    """A row that cannot be read is refused with its number."""
    path = tmp_path / "demand.csv"
    path.write_text(row + "\n")
    with pytest.raises(errors.Invalid, match="row 1"):
        demand_file.read(path, None, {"pod": 60}, 0.0)


@pytest.mark.parametrize("name", ["exam-week", "bookings", "last-week"])
def test_the_plans_of_the_guide_are_plans(name: str) -> None:
    """Every plan that docs/how-to/ask-what-if.md points to is read; those without a store in full."""
    path = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "what-if" / f"{name}.yaml"
    asked = plan.load(path)
    if asked.demand.recorded is None:
        cases, _ = asking.cases_of(asked, path.parent)
        assert all(case.crowd.wishes for case in cases)
