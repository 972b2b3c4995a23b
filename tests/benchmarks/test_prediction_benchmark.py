"""The benchmark of predictions reads recorded runs and measures the product's own learner."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from benchmarks import prediction, traces
from benchmarks.measure import Plan

from labfleet.decisions.prediction.series import Series

COLUMNS = (
    "system", "workflow", "instance", "task", "runtime_s", "avg_cpu_pct", "cores", "peak_mem_bytes",
    "read_bytes", "written_bytes", "n_inputs", "input_bytes", "output_bytes",
)  # fmt: skip


def trace_file(folder: Path) -> Path:
    """Write a file of tasks: three of one type, one without a run time, one of helloworld."""
    path = folder / "mine.csv"
    tasks = [("a", "2.5", 3e6), ("a", "0", 9e9), ("a", "4", 5e6 + 1), ("a", "1", 4e6)]
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, COLUMNS, restval="")
        writer.writeheader()
        for task, seconds, peak in tasks:
            writer.writerow(
                {"system": "s", "workflow": "w", "task": task, "runtime_s": seconds,
                 "avg_cpu_pct": "50", "peak_mem_bytes": peak, "n_inputs": "2"}
            )  # fmt: skip
        writer.writerow({"system": "helloworld", "task": "b", "runtime_s": "1"})
    return path


def missed(found: dict[str, Any], level: str = "0.95") -> int:
    """Return how many runs of made data were above their bound of memory."""
    buckets = found["coverage"]["made"]["memory_mib"][level]
    return sum(each["miss"] for name, each in buckets.items() if name != "pooled")


def test_a_trace_is_read_by_the_rule(tmp_path: Path) -> None:
    """No run time, no row; twice the type's largest peak is declared; whole MB are known as such."""
    trace = traces.read(trace_file(tmp_path))
    assert [row.seconds for row in trace.rows] == [2.5, 4.0, 1.0]
    assert trace.declared["s/w/a"]["memory_mib"] == 10, "2 x 5,000,001 bytes are 9.5 MiB"
    assert [row.unit["memory_mib"] > 0 for row in trace.rows] == [True, False, True]
    assert trace.rows[0].used["cpu_milli"] == 500
    assert "storage_mib" not in trace.rows[0].used, "what nobody measured is absent"
    assert sorted(row.seconds for row in trace.ordered(3)) == [1.0, 2.5, 4.0]


def test_any_trace_of_this_form_is_measured(tmp_path: Path) -> None:
    """With --trace the figures are of that file, in the form that readers rely on."""
    found = prediction.measure(Plan(smoke=True, trace=trace_file(tmp_path)))
    counted = found["coverage"]["mine"]["memory_mib"]["0.9"]
    assert counted["1"]["runs"] == 1
    assert {"runs", "miss"} <= set(counted["1"])
    assert set(found["width"]) == {"mine", "mine, shuffle 1"}


def test_without_data_coverage_is_skipped_with_its_reason(tmp_path: Path) -> None:
    """No folder, and a folder without the files: both are said, nothing is made up."""
    for plan in (Plan(), Plan(data=tmp_path)):
        assert prediction.sources(plan) == []
        assert plan.skipped


def test_a_broken_bound_moves_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the product that is measured: without ratios half of the runs are above the bound."""
    plan = Plan(smoke=True)
    whole = prediction.measure(plan)
    monkeypatch.setattr(Series, "bound_ratio", lambda *_: 1.0)
    broken = prediction.measure(plan)
    assert missed(whole) < 30
    assert missed(broken) > 2 * missed(whole)
    assert broken["width"]["made"] < whole["width"]["made"]
    assert len(broken["outside_bars"]) > len(whole["outside_bars"])


@pytest.mark.parametrize(
    ("level", "runs", "miss", "tied", "why"),
    [
        (0.95, 1000, 50, 0, ""),
        (0.95, 1000, 80, 0, "more missed"),
        (0.95, 1000, 5, 0, "over-covered by"),
        (0.95, 1000, 5, 60, "over-covered, but only by peaks within one unit"),
        (0.99, 1000, 31, 0, "more than 3 %"),
        (0.99, 1000, 0, 0, ""),
    ],
)
def test_the_bars(level: float, runs: int, miss: int, tied: int, why: str) -> None:
    """Too many misses for chance, too few by four points, and 3 % at 99 %."""
    counted = {"runs": runs, "miss": miss, "tied": tied}
    assert prediction.why_outside("memory_mib", level, counted).startswith(why)
    assert bool(prediction.why_outside("memory_mib", level, counted)) is bool(why)


def test_the_chance_of_so_many_misses() -> None:
    """The binomial tail, beside sums that are known."""
    assert prediction.at_least(2, 1, 0.5) == pytest.approx(0.75)
    assert prediction.at_least(10, 10, 0.1) == pytest.approx(1e-10)
    assert prediction.at_least(10, 0, 0.1) == pytest.approx(1.0)
