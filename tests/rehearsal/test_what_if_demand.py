"""Demand of a what-if: what is drawn, what is read from files, and which row is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from labfleet.kernel import errors
from labfleet.rehearsal import plan_command
from labfleet.rehearsal.plans import demand, demand_file, plan
from labfleet.rehearsal.plans.plan import Exam, Generated

PLAN = """\
templates: [{name: metal, instanceType: m5zn.metal}]
pools: [{name: main, template: metal, track: main}]
definitions: [{name: pod, nodes: [iosv], minutes: 60, maxMinutes: 90}]
demand: {file: demand.csv}
"""


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
    """A number is minutes from the start; with a start and a length a part is played."""
    path = tmp_path / "demand.jsonl"
    rows = [{"submitted": 5, "definition": "pod"}, {"submitted": 500, "definition": "pod"}]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    crowd = demand_file.read(path, datetime(2026, 11, 20, tzinfo=UTC), {"pod": 60}, 3600.0)
    assert [wish.at for wish in crowd.wishes] == [300.0]
    assert crowd.notes == (
        f"{path}: 1 of 2 rows lie outside the period and are not played, the first on line 2",
    )


def test_a_json_string_may_hold_any_separator(tmp_path: Path) -> None:
    """U+2028 and its like inside a string end no line."""
    path = tmp_path / "demand.jsonl"
    rows = [{"submitted": n, "definition": "pod", "owner": "a\u2028b\x85c"} for n in (1, 2)]
    path.write_text("\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    wishes = demand_file.read(path, None, {"pod": 60}, 0.0).wishes
    assert [(wish.owner, wish.line) for wish in wishes] == [
        ("a\u2028b\x85c", 1), ("a\u2028b\x85c", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("hours", "seconds"),
    [((20.0, 8.0), 86400.0), ((20.0, 8.0), 3 * 86400.0), ((8.0, 20.0), 36000.0), ((8, 8.1), 86400)],
)
def test_people_come_in_their_hours(hours: tuple[float, float], seconds: float) -> None:
    """A night wraps, a window may be cut by the period, and a short one does not heap up."""
    asked = Generated(on_demand_per_day=100, hours=hours)
    crowd = demand.draw(asked, {"pod": 60}, seconds, 1)
    first, last = hours
    for wish in crowd.wishes:
        hour = wish.at % 86400 / 3600
        assert first <= hour < last if first < last else hour >= first or hour < last
    assert len({wish.at for wish in crowd.wishes}) == len(crowd.wishes)


BAD_ROWS = {
    "unknown lab": ("submitted,definition\n5,odd", 2, "no definition odd in the plan; there are pod"),
    "unknown column": ("submitted,colour\n5,red", 1, "unknown column 'colour'; known: "),
    "misspelt column": ("submited,definition\n5,pod", 1, "did you mean submitted?"),
    "two columns": ("submitted,submitted\n5,5", 1, "two columns have the name submitted"),
    "nameless column": ("submitted,definition,\n5,pod,x", 2, "'x' stands in a column without"),
    "no time": ("owner\nada", 2, "give start or submitted"),
    "no lab": ("submitted\n5", 2, "give a definition, or cpu and memory"),
    "no instant": ("submitted,definition\n5,pod\n30.11.2026 08:00,pod", 3,
                   "submitted: '30.11.2026 08:00' is no instant; write 2026-11-30T08:00:00Z"),
    "nan": ("submitted,definition\nnan,pod", 2, "submitted: 'nan' is no instant"),
    "infinite": ("submitted,start,definition\n1,inf,pod", 2, "start: 'inf' is no instant"),
    "before the start": ("submitted,definition\n-5,pod", 2, "submitted: '-5' is no instant"),
    "two sorts": ("submitted,definition\n2026-11-30T08:00:00Z,pod\n60,pod", 3,
                  "minutes from the start (line 3) and instants (line 2) do not go together"),
    "too many cells": ("submitted,definition\n5,pod,,7", 2, "4 values for 2 columns"),
    "negative length": ("submitted,definition,minutes\n5,pod,-90", 2, "minutes: -90 is not more"),
    "no length": ("submitted,definition,minutes\n5,pod,long", 2, "minutes: 'long' is not a number"),
    "too long": ("submitted,definition,minutes\n5,pod,9000", 2,
                 "9000 minutes are too long: pod runs 90 at most"),
    "priority": ("submitted,definition,priority\n5,pod,1.5", 2,
                 "priority: '1.5' is not a whole number"),
    "huge priority": ("submitted,definition,priority\n5,pod,5000", 2, "priority is -1000 to 1000"),
    "no memory": ("submitted,cpu,memory\n5,4,much", 2, "memory: 'much' is not a number"),
    "half a node": ("submitted,cpu,nodes\n5,4,0", 2, "nodes: 0 is less than 1"),
    "never fits": ("submitted,cpu,memory\n5,400,8Gi", 2, "it fits no worker: needs 400 CPU"),
    "unknown track": ("submitted,definition,track\n5,pod,mian", 2,
                      "no pool serves the track mian; there are main"),
    "cancelled too early": ("submitted,definition,cancel_after_minutes\n5,pod,-3", 2,
                            "it is cancelled or extended before it is asked for"),
    "shorter": ("submitted,definition,extend_by_minutes\n5,pod,-3", 2,
                "extend_by_minutes: -3 is not more than 0"),
    "cancelled years later": ("submitted,definition,cancel_after_minutes\n5,pod,1e9", 2,
                              "cancel_after_minutes: 1e+09 is more than 527040 (366 days)"),
    "extended by ages": ("submitted,definition,extend_by_minutes\n5,pod,1e13", 2,
                         "extend_by_minutes: 1e+13 is more than 527040"),
    "extended by nothing": ("submitted,definition,extend_after_minutes\n5,pod,30", 2,
                            "extend_after_minutes: give extend_by_minutes too"),
    "beyond any clock": ("submitted,definition\n1e300,pod", 2, "submitted: '1e300' is no instant"),
    "years away": ("submitted,definition\n2026-11-30T08:00:00Z,pod\n2027-12-30T08:00:00Z,pod", 3,
                   "it lies 395 days after the beginning; a plan has at most 366"),
    "after the period": ("submitted,definition\n5,pod\n700,pod", 3,
                         "it begins after the period of 10 h; the plan needs more days or hours"),
    "slot after the period": ("submitted,start,definition\n5,4320,pod", 2,
                              "it begins after the period of 10 h"),
    "before its start": ("submitted,definition\n2026-11-30T05:00:00Z,pod", 2,
                         "it begins before the plan's start"),
    "broken quote": ('submitted,definition\n5,"pod', 2, "this is no CSV"),
    "line of a later row": ('submitted,definition,owner\n5,pod,"a\nb"\n\nx,pod,c', 5,
                            "submitted: 'x' is no instant"),
}  # fmt: skip
EXTRA = {
    "after the period": "hours: 10\n",
    "slot after the period": "hours: 10\n",
    "before its start": "start: 2026-11-30T06:00:00\n",
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_wrong_row_is_named(tmp_path: Path, case: str) -> None:
    """Each mistake of a table is refused with the file and the line where it stands."""
    text, line, told = BAD_ROWS[case]
    path = tmp_path / "demand.csv"
    path.write_text(text + "\n")
    (tmp_path / "plan.yaml").write_text(PLAN + EXTRA.get(case, ""))
    with pytest.raises(errors.Invalid) as caught:
        plan_command.cases_of(plan.load(tmp_path / "plan.yaml"), tmp_path)
    assert caught.value.message.startswith(f"{path}, line {line}: ")
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"submitted": 5, "definition": "pod"}\n{"submitted": 5 "definition": "pod"}', "line 2: "),
        ('{"submitted": 5, "definition": "pod", "track": ["a"]}', "line 1: track: "),
        ('{"submitted": 5, "definition": "pod", "track": 7}', "line 1: track: '7' is not a name"),
        ("[1]", "line 1: each line is one JSON object"),
        ('{"submitted": NaN, "definition": "pod"}', "line 1: submitted: 'nan' is no instant"),
        ('\n{"submitted": true, "definition": "pod"}', "line 2: submitted: 'True' is no instant"),
        ("", "there is no row in it"),
    ],
)
def test_a_wrong_json_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    """JSON lines are refused with file and line too."""
    path = tmp_path / "demand.jsonl"
    path.write_text(text)
    with pytest.raises(errors.Invalid) as caught:
        demand_file.read(path, None, {"pod": 60}, 0.0)
    assert caught.value.message.startswith(str(path))
    assert told in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffsubmitted,minutes,definition\n2026-11-30T08:00:00,45,pod\n",
        "submitted;minutes;definition\r\n2026-11-30T08:00:00Z;45;pod\r\n",
        "submitted\tminutes\tdefinition\n2026-11-30T08:00:00+00:00\t45\tpod\n",
        "submitted, minutes, definition,\n2026-11-30T08:00:00Z, 45, pod,\n",
    ],
)
def test_spreadsheets_are_read_as_they_are_saved(tmp_path: Path, text: str) -> None:
    """A byte-order mark, semicolons, tabs and blanks change nothing; no zone means UTC."""
    path = tmp_path / "demand.csv"
    path.write_text(text, encoding="utf-8", newline="")
    (wish,) = demand_file.read(path, None, {"pod": 60}, 0.0).wishes
    assert (wish.at, wish.end, wish.line) == (8 * 3600, 8.75 * 3600, 2)


@pytest.mark.parametrize("text", [None, "submitted,definition\n", b"submitted\n\xff\n"])
def test_a_file_that_gives_nothing_is_named(tmp_path: Path, text: str | bytes | None) -> None:
    """No file, no rows and no text are three sentences, each with the file's name."""
    path = tmp_path / "demand.csv"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    (tmp_path / "plan.yaml").write_text(PLAN)
    with pytest.raises(errors.Invalid, match=r"demand\.csv.*(no row|line 2.*UTF-8)|no file"):
        plan_command.cases_of(plan.load(tmp_path / "plan.yaml"), tmp_path)


def test_a_booking_made_before_the_part_that_is_played_is_known_at_its_start(
    tmp_path: Path,
) -> None:
    """Who booked yesterday for today is there when today is played."""
    path = tmp_path / "demand.csv"
    path.write_text("submitted,start,definition\n2026-11-29T08:00Z,2026-11-30T09:00Z,pod\n")
    begin = datetime(2026, 11, 30, tzinfo=UTC)
    (wish,) = demand_file.read(path, begin, {"pod": 60}, 86400.0).wishes
    assert (wish.at, wish.start) == (0.0, 9 * 3600)
