"""What the demo says in a terminal of 80 columns, and how little at its end."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from labfleet.app.demo import cast, command, screen
from labfleet.app.demo.play import Scene, Stuck

URL = "http://127.0.0.1:12345"
README = Path(__file__).parents[2] / "README.md"
RUNS = (
    "simulations_approved", "simulations_learned", "simulations_denied", "simulations_queued",
    "simulations_crashed", "pods_left",
)  # fmt: skip


def test_the_address_has_a_line_of_its_own() -> None:
    """Cut at 80 columns, every picture still shows the whole address, whatever the act is."""
    act = "running; look around, Ctrl-C takes it all down in order"
    # private _picture: what is drawn, without a terminal
    lines = screen._picture(Scene(act=act, url=URL, kills=3))
    assert URL in [line[:79] for line in lines]
    assert act in lines[0][:79]


def test_a_cause_is_one_line_however_many_it_is_true_of() -> None:
    """120 sessions that expired for the same reason are one line with three of their names."""
    found = {f"exam-{number}": "no worker had room" for number in range(120)}
    (line,) = screen.grouped("failed", found | {})
    assert line == "  failed exam-0, exam-1, exam-2 and 117 more: no worker had room"
    many = {f"s-{number}": f"cause {number}" for number in range(50)}
    assert len(screen.grouped("failed", many)) == screen.CAUSES + 1


def test_sessions_of_visitors_are_no_fault_of_the_demo() -> None:
    """They are counted and told apart; the verdict is on what the demo asked for."""
    shown = io.StringIO()
    counts = dict.fromkeys(
        ("sessions_completed", "sessions_requested", "sessions_refused", "sessions_failed",
         "sessions_cancelled",
         "workers_provisioned", "workers_terminated", "instances_left", "licences_left", "labs_left",
         "ports_left", "invariant_violations", "simulated_s", "wall_s", *RUNS), 0
    )  # fmt: skip
    theirs = {f"exam-{number}": "no room" for number in range(120)}
    screen.Screen(quiet=False, stream=shown).result(
        {**counts, "ok": True, "refusals": {}, "failures": {}, "violations": [],
         "sessions_of_visitors": 200, "failures_of_visitors": theirs}
    )  # fmt: skip
    assert "besides 200 that you asked for" in shown.getvalue()
    assert len(shown.getvalue().splitlines()) < 9


def test_ten_hours_fit_and_two_days_are_told_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    """--minutes 600 is within the limit that its definitions get; more than a day is refused."""
    made = cast.definition("x", "lab: {}", minutes=command.options(["--minutes", "600"]).minutes)
    assert made["spec"]["defaultDurationMinutes"] == 600
    assert made["spec"]["maxDurationMinutes"] >= 600
    with pytest.raises(SystemExit):
        command.options(["--minutes", "3000"])
    assert "at most a day, 1440 minutes" in capsys.readouterr().err


def test_the_readmes_sample_is_what_80_columns_show() -> None:
    """Drawn anew from what it says, the sample is the same: header, counts, rows and cuts."""
    block = README.read_text().split("```text\n")[1].partition("```")[0].rstrip("\n")
    shown = block.split("\n")
    scene = Scene(act=shown[0].removeprefix("Labfleet demo — "), url=shown[1])
    for line in shown:
        if found := re.search(r"simulations .*?(\d+) COMPLETED", line):
            scene.simulations = [_run("", "COMPLETED", "x: default cost")] * int(found[1])
        if not line.startswith("  "):
            continue
        _, name, phase, words = line.split(None, 3)
        if name.startswith("sim-"):
            scene.simulations.append(_run(name, phase, words))
            continue
        where, _, message = words.partition(" ")
        session = phase != "ACTIVE"
        status = {"phase": phase, "worker": where,
                  "message": message.lstrip() if session else words}  # fmt: skip
        row = {"metadata": {"name": name}, "status": status}
        (scene.sessions if session else scene.workers).append(row)
    # private _picture: as above
    assert screen.fitted(screen._picture(scene), 79, 40) == shown
    assert not re.search(r"\b1 sessions", block)


def _run(name: str, phase: str, words: str) -> dict[str, Any]:
    """A run of which these words are said."""
    family, said = words.split(": ")
    spec: dict[str, Any] = {"params": {"chart": family}}
    status: dict[str, Any] = {"phase": phase}
    if said in {"waits for room", "was queued"}:
        spec |= {"queue": "default", "cost": {"cpuMilli": 1000}}
    elif said == "declared cost":
        spec["cost"] = {"cpuMilli": 1000}
    elif said == "learned cost":
        forecast = {"resource": "cpu_milli", "evidence": "exact", "runs": ["sim-a"]}
        status["prediction"] = {"forecasts": [forecast]}
    elif said == "too large":
        status["decision"] = {"reason": "NeverFits"}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def test_a_run_is_told_by_what_it_was_judged_in_few_words() -> None:
    """Where its cost came from, whether it waits or waited, and how it ended; within 80 columns."""
    told = [
        ("QUEUED", "mesh: waits for room"), ("RUNNING", "mesh: was queued"),
        ("RUNNING", "mesh: declared cost"), ("APPROVED", "waku: default cost"),
        ("RUNNING", "waku: learned cost"), ("FAILED", "nimlibp2p: its pods failed"),
        ("DENIED", "waku: too large"),
    ]  # fmt: skip
    runs = [_run(f"sim-{'0' * 20}", phase, words) for phase, words in told]
    assert [screen.run_words(each) for each in runs] == [words for _, words in told]
    reported = {**runs[5], "status": {"phase": "FAILED", "reported": True}}
    assert screen.run_words(reported) == "nimlibp2p: failed"
    scene = Scene(simulations=[{**each, "spec": {**each["spec"]}} for each in runs])
    # private _picture: as above
    assert max(map(len, screen._picture(scene))) < 80


def test_live_runs_are_shown_before_those_that_are_over() -> None:
    """Where more are to be shown than fit, what runs and waits is not cut off."""
    over = [_run(f"sim-{number}", "FAILED", "x: its pods failed") for number in range(9)]
    scene = Scene(simulations=[*over, _run("sim-live", "RUNNING", "x: learned cost")])
    # private _picture: as above
    rows = [line for line in screen._picture(scene) if line.startswith("  ")]
    assert len(rows) == screen.RUNS
    assert "sim-live" in rows[0]


@pytest.mark.parametrize("flag", ["--help"])
def test_the_programs_help_ends_with_examples(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`labfleet demo --help` shows command lines, each on its own line."""
    with pytest.raises(SystemExit):
        command.options([flag])
    assert "  labfleet demo --once --json\n" in capsys.readouterr().out


def test_a_cut_is_marked() -> None:
    """Nothing just stops: neither a line at the last column, nor the lines at the last row."""
    assert screen.fitted(["abcdef", "abcde"], 5, 3) == ["abcd…", "abcde"]
    assert screen.fitted(["a", "b", "c"], 5, 3) == ["a", "b", "c"]
    assert screen.fitted(["a", "b", "c", "d"], 5, 3) == ["a", "b", "…"]


def test_the_end_counts_every_session() -> None:
    """What is completed, refused, failed and cancelled is all that was asked for."""
    shown = io.StringIO()
    ends = {"sessions_completed": 214, "sessions_refused": 1, "sessions_failed": 0,
            "sessions_cancelled": 6, "sessions_requested": 221}  # fmt: skip
    rest = dict.fromkeys(
        ("workers_provisioned", "workers_terminated", "instances_left", "licences_left",
         "labs_left", "ports_left", "invariant_violations", "simulated_s", "wall_s", *RUNS), 0
    )  # fmt: skip
    screen.Screen(quiet=False, stream=shown).result(
        {**ends, **rest, "ok": True, "refusals": {}, "failures": {}, "violations": []}
    )
    told = "214 of 221 sessions completed, 1 refused, 0 failed, 6 cancelled; "
    assert told in shown.getvalue()


@pytest.mark.parametrize(
    ("argv", "session"),
    [(["--once"], 5), (["--once", "--minutes", "600"], 300),
     (["--once", "--minutes", "600", "--speed", "1"], 36_000), (["--minutes", "600"], 0)],
)  # fmt: skip
def test_the_patience_is_longer_than_what_it_waits_for(argv: list[str], session: float) -> None:
    """It follows from length and speed: two rounds of sessions, and an hour of machines' time."""
    found = command.options(argv)
    assert found.patience >= 300 + 2 * session + 3600 / found.speed - 0.001


def test_a_patience_that_cannot_be_enough_is_refused_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With what to change; without --once nothing waits for a session's whole length."""
    with pytest.raises(SystemExit):
        command.options(["--once", "--minutes", "600", "--patience", "300"])
    told = capsys.readouterr().err
    assert "600 minutes at speed 120 takes 300 s" in told
    assert "--minutes or --speed" in told
    assert command.options(["--minutes", "600", "--patience", "60"]).patience == 60


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_in_an_error_is_one_that_is_there(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs in a temporary folder are not named, since it is gone by then."""

    def stuck(_: object) -> None:
        raise Stuck("sessions did not end within 9 s; --patience gives it longer")

    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command.Play, "open", stuck)
    folder = tmp_path / "demo"
    assert command.main(["--once", *(["--data", str(folder)] if kept else [])]) == 1
    told = capsys.readouterr().err
    assert "--patience" in told
    assert (f"logs: {folder}" in told) is kept
    assert ("logs are not kept; --data DIR keeps them" in told) is not kept
    assert "/tmp/labfleet-demo-" not in told
