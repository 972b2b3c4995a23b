"""Every benchmark runs in a tiny size and prints the shape that readers rely on; no timing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "admission", "autoscaling", "aws_list", "commits", "decide", "fleet", "listing", "placements", "polls",
    "prediction", "queue", "queue_core", "reconciles", "stream", "web",
)  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    # No limit of its own: pytest-timeout ends what hangs.
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def smoke(name: str, *more: str) -> tuple[dict[str, Any], str]:
    done = run("--only", name, "--smoke", *more)
    assert done.returncode == 0, done.stderr
    *_, one, whole = [json.loads(line) for line in done.stdout.splitlines()]
    assert whole["benchmarks"] == {name: one}
    assert whole["machine"]["python"] == one["python"]
    assert whole["failed"] == []
    return one, done.stderr


@pytest.fixture(scope="module")
def all_of_them() -> subprocess.CompletedProcess[str]:
    """Every benchmark, one after the other in one process, as `python -m benchmarks` runs them."""
    return run("--smoke", "--no-peers")


def test_the_last_line_has_all(all_of_them: subprocess.CompletedProcess[str]) -> None:
    """Without --only every benchmark runs, and the last object repeats each one's."""
    *each, whole = [json.loads(line) for line in all_of_them.stdout.splitlines()]
    assert (all_of_them.returncode, whole["failed"]) == (0, []), all_of_them.stderr
    assert whole["benchmarks"] == {one["benchmark"]: one for one in each}
    assert tuple(whole["benchmarks"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_its_object(
    name: str, all_of_them: subprocess.CompletedProcess[str]
) -> None:
    """Rates, CPU beside wall time, an fsync probe, and a ratio to a limit of the same run."""
    whole = json.loads(all_of_them.stdout.splitlines()[-1])
    one = whole["benchmarks"][name]
    assert "error" not in one, all_of_them.stderr
    assert whole["machine"]["python"] == one["python"]
    assert one["benchmark"] == name
    assert one["smoke"] is True
    assert one["fsync"]["append_per_second"] > 0
    assert one["noisy"] in {True, False}
    assert one["wall_s"] > 0
    assert one["cpu_s"] > 0
    assert one["rows"]
    for row in one["rows"]:
        assert all(each is None or isinstance(each, (int, float, str)) for each in row.values())
        assert any("cpu" in key for key in row), row
    if name == "stream":
        assert one["rows"][0]["delivery_last_ms"] > 0
    elif name == "fleet":
        assert set(one["phases"]) == {"READY Healthy"}
        assert one["rows"][0]["looks_per_second"] > 0
        assert one["errors"] == {}
    elif name == "prediction":
        assert set(one["coverage"]) == {"made", "made, shuffle 1"}
        assert one["width"]["made"] > 1
        assert one["latency_ms"]["p99"] > 0
    elif name == "web":
        assert {"page /", "page /sessions", "idle clients"} <= {row["name"] for row in one["rows"]}
        assert one["first_page_ms"] > 0
        assert 0 < one["bundle_gz_kib"] <= 60
    elif name == "autoscaling":
        assert set(one["policies"]) > {
            "NEED_BASED",
            "CAPACITY_BASED",
            "SCHEDULED",
            "HYBRID",
            "NONE",
        }
        assert all(each["ratio"] > 1 for each in one["policies"].values())
        assert one["exam_day"]["days"] == 1
    elif name == "queue":
        assert 0 < one["rows"][0]["use_percent"] <= 100
        assert one["rows"][0]["approved"] + one["rows"][0].get("queued", 0) == 40
    else:
        assert all(row["per_second"] > 0 for row in one["rows"])
        assert any(row["name"].startswith("limit: ") for row in one["rows"])
        assert any(each for each in one["ratios"].values())


def test_absent_peers_are_named() -> None:
    """A folder without peers is said on stderr and in the object, and is no failure."""
    one, said = smoke("commits", "--peers", "/nowhere/perf-peers")
    assert "SKIPPED" in said
    assert "/nowhere/perf-peers" in said
    assert one["skipped"]


def test_the_list_names_every_benchmark() -> None:
    """`--list` says what there is and measures nothing."""
    done = run("--list")
    assert done.returncode == 0
    assert tuple(line.split()[0] for line in done.stdout.splitlines()) == NAMES
