"""What people read of simulations: `get simulations` and `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_stub import Stub
from desk import Desk
from live_api import LiveApi, live_api, place

from labfleet.cli import main
from labfleet.cli.commands import explain
from labfleet.cli.kit import human_units

FORECAST = {
    "resource": "memory_mib", "expected": 700.2, "bound": 5242.4, "coverage": 0.95,
    "evidence": "exact", "sentence": "From the closest of 12 runs of waku, times 1.20.",
}  # fmt: skip
TOOK = {**FORECAST, "resource": "duration_seconds", "bound": 1800.0, "expected": 0.4}


@pytest.fixture
def live() -> Iterator[LiveApi]:
    """The API with a cluster on which 8 CPU may be used."""
    with place() as at, live_api(at) as made:
        made.cluster()
        yield made


def test_explain_says_rule_risk_bounds_and_what_they_rest_on(
    live: LiveApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a denied run by the real API: each once, and the sentences stand in its lines too."""
    asked = {"chart": "waku", "cost": {"cpu": 40}}
    name = live.ask("POST", "/request_run", asked)["record"]
    base = Desk().environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)
    assert main.run(["explain", f"simulation/{name}"], base=base) == 0
    told = capsys.readouterr().out
    # A line goes on below, after as many spaces as a title has.
    said = told.replace("\n" + " " * 11, " ")
    assert f"simulation/{name}: DENIED since " in said
    (rule,) = (line for line in said.splitlines() if line.startswith("Rule: "))
    assert (
        rule == "Rule:      chance: above a target with probability 100.00%, at most 0.20% allowed"
    )
    assert "Predicted: at most 40 CPU in 95% of runs, most likely 40 CPU\n" in said
    assert "Evidence:  No comparable run yet; as declared.\n" in said
    assert "Evidence:  no past run is like it" in said
    assert said.count("needs 40 CPU") == 1
    assert "32 CPU (wants 40 CPU, free 8 CPU)" in said
    lines = live.ask("GET", f"/api/v1/simulations/{name}/explain")["lines"]
    assert "CPU: No comparable run yet; as declared." in lines
    assert "Asked again" not in said  # it never fits


def test_explain_says_the_load_now_and_when_a_denied_run_would_start(
    live: LiveApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the target, by what runs hold; once there is room again, that it fits."""
    base = Desk().environment(tmp_path, LABFLEET_URL=live.url, LABFLEET_TOKEN=live.token)
    ask = {"chart": "x", "cost": {"cpu": 6, "memory": "1Gi"}, "duration_seconds": 600}
    first = live.ask("POST", "/request_run", ask)["simulation_id"]
    name = live.ask("POST", "/request_run", ask)["record"]

    def told() -> str:
        assert main.run(["explain", f"simulation/{name}"], base=base) == 0
        return capsys.readouterr().out

    said = told()
    assert "\nLoad now:  6 CPU of 8 CPU, 1GiB memory of " in said
    assert ", by the bounds of 1 run\n" in said
    assert "\nAsked again: with a queue it starts at 2026-11-27 09:10Z" in said
    lines = live.ask("GET", f"/api/v1/simulations/{name}/explain")["lines"]
    assert any(each.startswith("On cluster default 1 run may need 6 CPU") for each in lines)
    assert any(each.startswith("Asked for again now, with a queue it starts") for each in lines)
    live.ask("POST", "/simulation_complete", {"simulation_id": first})
    said = told()
    assert "\nLoad now:  0 CPU of 8 CPU" in said
    assert "\nAsked again: it fits now\n" in said


def test_a_forecast_is_told_in_the_units_of_people(run, stub: Stub) -> None:
    """Rounded up as demand is, a duration as a duration; without a forecast there is no line."""
    answer = {"phase": "RUNNING", "summary": "x", "prediction": {"forecasts": [FORECAST, TOOK]},
              "decision": {"outcome": "approved", "rule": "declared"}}  # fmt: skip
    stub.answers["GET /api/v1/simulations/sim-1/explain"] = (200, answer)
    said = run("explain", "simulation/sim-1").out
    assert "Rule:      declared\n" in said
    assert "Predicted: at most 5.12GiB memory in 95% of runs, most likely 701MiB memory\n" in said
    assert "Predicted: takes at most 30m in 95% of runs, most likely 0.4s\n" in said
    answer["evidence"] = [f"memory: {FORECAST['sentence']}", "no past run is like it"]
    said = run("explain", "simulation/sim-1").out
    assert said.count("From the closest of 12 runs") == 1
    assert "Evidence:  no past run is like it\n" in said
    answer["prediction"] = None
    assert "Predicted" not in run("explain", "simulation/sim-1").out


@pytest.mark.parametrize("bound", [None, "x"])
def test_what_is_no_forecast_is_not_shown_as_one(bound) -> None:
    """An unknown bound is never 0."""
    # private _forecast: the one place that reads a forecast
    assert explain._forecast({"resource": "cpu_milli", "bound": bound}) == ""


def test_a_list_of_simulations_fits_80_columns(run, stub: Stub) -> None:
    """Amounts have their units, so that titles need none; CSV has the fields as they are."""
    requested = {"cpuMilli": 12500, "memoryMib": 30000}
    stub.put("Simulation", "sim-24e4a4e01ef1426fad59", spec={"cluster": "default", "owner": "ada"},
             status={"phase": "COMPLETED", "decision": {"requested": requested}})  # fmt: skip
    stub.put("Simulation", "sim-3", spec={"cluster": "default"}, status={"phase": "QUEUED"})
    said = run("get", "simulations").out.splitlines()
    assert said[0].split() == ["NAME", "PHASE", "CLUSTER", "CPU", "MEMORY", "OWNER", "AGE"]
    assert said[1].split()[3:5] == ["12.5", "29.297GiB"]
    assert said[2].split()[3:5] == ["-", "-"]
    assert max(len(line) for line in said) <= 80
    rows = run("get", "simulations", "-o", "csv").out.splitlines()
    assert "CPU(m),MEMORY(MiB)" in rows[0]
    assert ",12500,30000," in rows[1]


def test_a_wide_list_of_simulations_says_the_risk_and_the_reason(run, stub: Stub) -> None:
    """As per cent, and a dash where the rule knows none."""
    decision = {"risk": 0.2975, "reason": "NoCapacityAvailable"}
    stub.put("Simulation", "sim-1", spec={}, status={"phase": "QUEUED", "decision": decision})
    stub.put("Simulation", "sim-2", spec={}, status={"phase": "QUEUED"})
    head, first, second = run("get", "simulations", "-o", "wide").out.splitlines()
    at = head.split().index("RISK")
    assert head.split()[at + 1] == "REASON"
    assert first.split()[at : at + 2] == ["29.75%", "NoCapacityAvailable"]
    assert second.split()[at : at + 2] == ["-", "-"]


@pytest.mark.parametrize(
    ("key", "value", "cell"),
    [("cpuMilli", 4000, "4"), ("cpuMilli", 250, "0.25"), ("memoryMib", 900, "900MiB"),
     ("storageMib", 2048, "2GiB"), ("networkKbps", 1500, "1.5Mbit/s"), ("cpuMilli", None, "-"),
     ("memoryMib", 0, "0MiB")],
)  # fmt: skip
def test_a_cell_has_its_unit(key, value, cell) -> None:
    """An unknown amount is a dash, and never 0."""
    assert human_units.cell(key, value) == cell
