"""Past runs as CSV: read back as they were written, and wrong lines named with their columns."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.resources import history, history_table
from labfleet.resources.amounts import DIMENSIONS
from labfleet.resources.history import FIGURES, LEARNED, Run, RunKind, Source, Use, nodes_of, typed

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
HEAD = "kind,uid,family,ended_at"
ROW = "Session,u1,bgp,2026-11-27T09:00:00Z"

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ["=1+1", "'=1+1", "''", "-5", "-A1", "a\r\nb", 'say "x"', "@sum", "\tx", "a\0b"]
)
words = texts.filter(bool)
figures = st.floats(0, 2**40) | st.none()
instants = st.datetimes(
    datetime(2020, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)
)  # fmt: skip
uses = st.builds(Use, peak=figures, mean=figures, median=figures, p95=figures)
runs = st.builds(
    Run,
    kind=st.sampled_from(LEARNED),
    uid=words,
    name=texts,
    namespace=words,
    family=words,
    owner=texts,
    place=texts,
    parameters=st.dictionaries(texts, st.booleans() | st.floats(-9e9, 9e9) | texts, max_size=4).map(
        typed
    ),
    allocation=st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 2**40), max_size=3),
    use=st.dictionaries(st.sampled_from(FIGURES), uses.filter(lambda each: each != Use())),
    duration_seconds=figures,
    censored=texts,
    source=st.sampled_from(Source),
    started_at=st.none() | instants.map(lambda each: each - timedelta(days=3000)),
    ended_at=instants,
)


def read(text: str) -> list[history_table.Line]:
    """Read a table of text."""
    return list(history_table.read(io.StringIO(text, newline=""), NOW))


@settings(max_examples=60, deadline=None)
@given(st.lists(runs, max_size=3))
def test_what_is_written_is_read_back(many: list[Run]) -> None:
    """Every field of any run, also text that a spreadsheet would compute, and lines in cells."""
    found = read(history_table.text(many, heading=True))
    assert [each.run for each in found] == many
    assert [each.wrong for each in found] == [()] * len(many)


@settings(max_examples=40, deadline=None)
@given(runs)
def test_no_cell_is_computed_by_a_spreadsheet(run: Run) -> None:
    """No cell begins with what makes a formula, whoever named the lab or the chart."""
    [cells] = csv.reader(io.StringIO(history_table.text([run], heading=False), newline=""))
    assert [each for each in cells if each[:1] in {"=", "+", "@", "\t", "\r"}] == []


def test_columns_may_be_left_out_and_stand_in_any_order() -> None:
    """What is absent is unknown, numbers in parameters are numbers, empty lines are skipped."""
    text = (
        "Family, UID,ended_at,kind,parameters,memory_mib_peak\n\n"
        'waku,u1,2026-11-27T10:00:00+01:00,Simulation,"{""nodecount"": ""50"", ""tls"": null}",12\n'
    )
    [line] = read(text)
    assert line.run == Run(
        kind=RunKind.SIMULATION,
        uid="u1",
        family="waku",
        parameters={"nodecount": 50.0},
        use={"memory_mib": Use(peak=12.0)},
        ended_at=datetime(2026, 11, 27, 9, 0, tzinfo=UTC),
    )
    assert line.number == 3
    assert nodes_of(line.run) == 50


@pytest.mark.parametrize(
    ("text", "number", "wrong"),
    [
        ("", 1, ["kind is missing", "uid is missing", "family is missing", "ended_at is missing"]),
        (f"{HEAD},colour\n{ROW},red\n", 1, ["colour is no column, or there twice"]),
        (f"{HEAD},uid\n{ROW},u2\n", 1, ["uid is no column", "uid is no column"]),
        (f"{HEAD}\n{ROW},more\n", 2, ["has 5 cells under 4 headings"]),
        (f"{HEAD}\n{ROW}\nLab,,bgp,soon\n", 3,
         ["uid is empty", "kind 'Lab' is no kind of run", "ended_at 'soon' is no instant"]),
        (f"{HEAD}\nSession,u1,bgp,2026-11-27T09:00:00\n", 2, ["is no instant"]),
        (f"{HEAD}\nSession,u1,bgp,2026-11-28T09:00:00Z\n", 2, ["endedAt lies ahead"]),
        (f"{HEAD},started_at\n{ROW},2026-11-27T09:00:01Z\n", 2, ["startedAt is later than endedAt"]),
        (f"{HEAD},cpu_milli_peak\n{ROW},nan\n", 2, ["use.cpu_milli.peak must lie between 0 and"]),
        (f"{HEAD},duration_seconds\n{ROW},-1\n", 2, ["durationSeconds must lie between"]),
        (f"{HEAD},allocated_cpu_milli\n{ROW},1.5\n", 2, ["'1.5' is no whole number"]),
        (f"{HEAD},parameters\n{ROW},[1]\n", 2, ["parameters '[1]' is no JSON object"]),
        (f'{HEAD},censored\n{ROW},"open', 2, ["is no CSV: unexpected end of data"]),
        (f"{HEAD}\n{ROW}{'x' * history_table.LINE_LIMIT}\n", 1, ["a line has more than"]),
    ],
)  # fmt: skip
def test_wrong_lines_are_named(text: str, number: int, wrong: list[str]) -> None:
    """By the number of their line and by column, in words; nothing is guessed."""
    line = read(text)[-1]
    said = [f"{column} {why}".strip() for column, why in line.wrong]
    assert line.run is None
    assert line.number == number
    assert len(said) == len(wrong)
    for part, whole in zip(wrong, said, strict=True):
        assert part in whole


def good(**changes: Any) -> Run:
    """Return a run with which nothing is wrong but what is changed."""
    return Run(**{"kind": RunKind.BOOT, "uid": "u", "family": "m", "ended_at": NOW, **changes})


@pytest.mark.parametrize(
    ("run", "field"),
    [
        (good(uid=""), "uid"),
        (good(owner="x" * 257), "owner"),
        (good(ended_at=datetime(2026, 1, 1)), "endedAt"),
        (good(started_at=datetime(2026, 1, 1)), "startedAt"),
        (good(use={"gpu": Use(peak=1.0)}), "use.gpu"),
        (good(allocation={"gpu": 1}), "allocation.gpu"),
        (good(allocation={"nodes": -1}), "allocation.nodes"),
        (good(parameters={"a": float("inf")}), "parameters.a"),
        (good(parameters={f"p{n}": 1.0 for n in range(65)}), "parameters"),
        (good(parameters={f"p{n}": "x" * 1000 for n in range(9)}), "parameters"),
    ],
)
def test_a_run_from_elsewhere_is_bounded(run: Run, field: str) -> None:
    """Each bound names the field that goes beyond it; a run within them has no problem."""
    assert [name for name, _ in history.problems(run, NOW)] == [field]
    assert history.problems(good(), NOW) == ()


@pytest.mark.parametrize("kind", sorted(set(RunKind) - set(LEARNED)))
def test_what_was_paid_is_not_brought_in(kind: RunKind) -> None:
    """A row of what was paid is refused by name of its column: nobody writes a bill by a table."""
    run = Run(kind=kind, uid="u", family="f", ended_at=NOW)
    (line,) = read(history_table.text([run], heading=True))
    assert line.run is None
    assert [column for column, _ in line.wrong] == ["kind"]
