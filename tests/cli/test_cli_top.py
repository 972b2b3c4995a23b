"""`top` and `alerts`: numbers of all, one worker over time, curves for people only."""

from __future__ import annotations

import json

import pytest

NUMBER = {"value": 41.6, "unit": "percent", "source": "cml", "ageSeconds": 12.0, "fresh": True}
STALE = {**NUMBER, "fresh": False}


def point(minute, value):
    """A point of a series."""
    at = f"2026-11-27T11:{minute:02}:00Z"
    return {"at": at, "count": 2, "min": value - 1, "mean": value, "max": value + 1}


@pytest.fixture
def numbers(stub):
    """What the server says of two workers and of one over an hour."""
    stub.answers["GET /api/v1/fleet/vitals"] = 200, {"items": [
        {"worker": "w-1", "phase": "READY", "health": "Healthy", "sessions": 2,
         "alerts": ["CpuHigh"], "numbers": {"cpu": NUMBER, "memory": STALE}},
        {"worker": "w-2", "phase": "STOPPED", "health": "Unknown", "sessions": 0, "numbers": {}},
    ]}  # fmt: skip
    stub.answers["GET /api/v1/workers/w-1/series"] = 200, {
        "worker": "w-1", "since": "2026-11-27T11:00:00Z", "until": "2026-11-27T12:00:00Z",
        "step": 60, "metrics": {
            "cpu": {"unit": "percent", "source": "cml", "points": [point(0, 10), point(59, 90)]},
            "labs": {"unit": "labs", "source": "cml", "points": []},
        }}  # fmt: skip
    stub.answers["GET /api/v1/fleet/alerts"] = 200, {"items": [
        {"object": "worker/w-1", "condition": "CpuHigh", "severity": "warning", "message": "CPU high",
         "since": "2026-11-27T11:00:00Z", "cause": "c", "command": "labfleet top", "fix": "wait"},
    ]}  # fmt: skip
    return stub


def test_all_workers_with_unknown_and_stale_marked(run, numbers):
    """`-` is unknown, `?` is old; the source stands beside the age."""
    _, first, second = run("top").out.splitlines()
    assert first.split()[:6] == ["w-1", "READY", "Healthy", "42", "42?", "-"]
    assert "12s cml" in first
    assert "CpuHigh" in first
    assert second.split()[3] == "-"


def test_an_old_measurement_has_its_age_in_hours(run, stub):
    """Nobody divides 4,623 seconds by hand."""
    old = {"value": 2, "unit": "percent", "source": "cml", "ageSeconds": 4623, "fresh": False}
    stub.answers["GET /api/v1/fleet/vitals"] = 200, {"items": [
        {"worker": "w-1", "phase": "READY", "health": "Unreachable", "sessions": 0,
         "numbers": {"cpu": old}},
    ]}  # fmt: skip
    assert "1h17m cml" in run("top").out


def test_one_worker_over_time_is_plain_in_a_pipe(run, numbers):
    """Numbers and no curve; an empty metric says so."""
    done = run("top", "worker", "w-1", "--since", "1h")
    head, cpu, labs = done.out.splitlines()
    assert "CURVE" not in head
    assert cpu.split() == ["cpu", "90", "9", "50", "91", "percent", "2"]
    assert labs.split()[1] == "-"
    for asked in ("1h", "60m", "2026-11-27T11:00:00Z", "2026-11-27 11:00:00Z (1h ago)"):
        run("top", "worker", "w-1", "--since", asked)
        assert numbers.calls("GET")[-1].query["since"] == "2026-11-27T11:00:00.000Z"


def test_a_terminal_gets_a_curve(run, numbers):
    """From since to until, gaps left empty, percent against 100."""
    line = run("top", "worker/w-1", out_tty=True).out.splitlines()[1]
    assert line.rstrip().endswith("█")
    assert "▁" in line


def test_json_is_the_answer_whole(run, numbers):
    """Programs get what the server said."""
    said = json.loads(run("top", "worker", "w-1", "-o", "json").out)
    assert said["metrics"]["cpu"]["points"][0]["mean"] == 10


@pytest.mark.parametrize("argv", [("pool", "p-1"), ("groups",), ("pool/p-1",)])
def test_what_is_not_measured_has_no_top(run, numbers, argv):
    """Another kind is refused with the right way."""
    done = run("top", *argv)
    assert done.code == 2
    assert "labfleet top worker" in done.err


USED = {"cpu": 6250.0, "memory": 51200.0, "networkIn": 1_234_567.0, "networkOut": 999.0, "pods": 12}


@pytest.fixture
def runs(stub):
    """What the server says of two clusters, one of them not measured, and of two live runs."""
    measured = {"namespace": "default", "minute": "2026-11-27T11:59:00Z", "numbers": USED,
                "shareOf": {"cpuMilli": 8000, "memoryMib": 102400}}  # fmt: skip
    unknown = {"namespace": "default", "minute": None, "numbers": {}, "shareOf": None}
    stub.answers["GET /api/v1/fleet/clusters/usage"] = 200, {"items": [
        {"name": "vaclab", "cluster": "vaclab", "runs": 3, **measured},
        {"name": "other", "cluster": "other", "runs": 0, **unknown},
    ]}  # fmt: skip
    stub.answers["GET /api/v1/fleet/simulations/usage"] = 200, {"leftOut": 2, "items": [
        {"name": "sim-0123456789abcdef0123", "cluster": "vaclab", "phase": "RUNNING", **measured},
    ]}  # fmt: skip
    lab = {"namespace": "default", "minute": "2026-11-27T11:59:00Z",
           "numbers": {"cpu": 640, "memory": 3072, "storage": 11000},
           "shareOf": {"cpuMilli": 4000, "memoryMib": 8192}}  # fmt: skip
    stub.answers["GET /api/v1/fleet/sessions/usage"] = 200, {"items": [
        {"name": "ada-1", "worker": "exam-001", "phase": "RUNNING", **lab},
    ]}  # fmt: skip
    stub.answers["GET /api/v1/simulations/sim-1/series"] = 200, {
        "kind": "Simulation", "name": "sim-1", "worker": "", "step": 60,
        "since": "2026-11-27T11:00:00Z", "until": "2026-11-27T12:00:00Z", "metrics": {
            "pods": {"unit": "pods", "source": "cluster", "points": [point(0, 10)]},
            "cpu": {"unit": "millicores", "source": "cluster", "points": [point(0, 1500)]},
        }}  # fmt: skip
    return stub


@pytest.mark.parametrize("words", ["clusters", "cluster"])
def test_all_clusters_in_a_narrow_window(run, runs, words):
    """Use beside the share of the target; what nobody measured is `-`, never 0."""
    head, first, second = run("top", words).out.splitlines()
    assert first.split() == ["vaclab", "3", "6.25", "78", "50GiB", "50", "1.23M", "999", "12", "1m"]
    assert second.split() == ["other", "0", *["-"] * 8]
    assert max(map(len, (head, first, second))) <= 80


def test_all_live_runs_in_a_narrow_window(run, runs):
    """With their cluster, and how many more there are."""
    done = run("top", "simulations")
    head, first = done.out.splitlines()[:2]
    assert first.split() == [
        "sim-0123456789abcdef0123", "vaclab", "6.25", "78", "50GiB", "50", "1.23M", "12", "1m",
    ]  # fmt: skip
    assert max(len(head), len(first)) <= 80
    assert "2" in done.err
    assert "simulations" in done.err
    table = run("top", "simulations", "-o", "csv").out.splitlines()
    assert table[0].split(",")[6:8] == ["IN/S", "OUT/S"]
    assert table[1].split(",")[2:8] == ["6250", "78", "51200", "50", "1234567", "999"]


def test_all_labs_in_a_narrow_window(run, runs):
    """With their worker, and the share of what each was given."""
    head, first = run("top", "sessions").out.splitlines()
    assert head.split() == ["SESSION", "WORKER", "CPU", "CPU%", "MEMORY", "MEM%", "DISK", "AGE"]
    assert first.split() == ["ada-1", "exam-001", "0.64", "16", "3GiB", "38", "10.742GiB", "1m"]
    assert run("top", "sessions", "-o", "csv").out.splitlines()[1].split(",")[2:7] == [
        "640", "16", "3072", "38", "11000",
    ]  # fmt: skip


def test_one_run_over_time_begins_with_the_run(run, runs):
    """All of its metrics are shown; how far back is the server's to say, unless somebody does."""
    lines = run("top", "simulation", "sim-1").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["cpu", "pods"]
    assert "since" not in runs.calls("GET")[-1].query
    run("top", "simulation", "sim-1", "--since", "1h")
    assert runs.calls("GET")[-1].query["since"] == "2026-11-27T11:00:00.000Z"


def test_alerts_come_with_their_fix(run, numbers):
    """What is raised, since when, and what to do."""
    row = run("alerts").out.splitlines()[1]
    assert row.startswith("warning")
    assert row.rstrip().endswith("wait")


def test_t24_a_share_is_never_of_another_unit(run, runs):
    """156000 MiB of 350 GiB are 44 %, shown as GiB beside it (facts/fleet-bugs.md#t24)."""
    _, answer = runs.answers["GET /api/v1/fleet/clusters/usage"]
    first = answer["items"][0]
    first["numbers"] = {**USED, "memory": 156000.0}
    first["shareOf"] = {"cpuMilli": 8000, "memoryMib": 350 * 1024}
    assert run("top", "clusters").out.splitlines()[1].split()[4:6] == ["152.344GiB", "44"]
