"""What the demo says in a terminal of 80 columns, and how little at its end."""

from __future__ import annotations

import io

import pytest

from labfleet.app.demo import cast, command, screen
from labfleet.app.demo.play import Scene

URL = "http://127.0.0.1:12345"


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
         "workers_provisioned", "workers_terminated", "instances_left", "licences_left", "labs_left",
         "ports_left", "invariant_violations", "simulated_s", "wall_s"), 0
    )  # fmt: skip
    theirs = {f"exam-{number}": "no room" for number in range(120)}
    screen.Screen(quiet=False, stream=shown).result(
        {**counts, "ok": True, "refusals": {}, "failures": {}, "violations": [],
         "sessions_of_visitors": 200, "failures_of_visitors": theirs}
    )  # fmt: skip
    assert "besides 200 that you asked for" in shown.getvalue()
    assert len(shown.getvalue().splitlines()) < 8


def test_ten_hours_fit_and_two_days_are_told_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    """--minutes 600 is within the limit that its definitions get; more than a day is refused."""
    made = cast.definition("x", "lab: {}", minutes=command.options(["--minutes", "600"]).minutes)
    assert made["spec"]["defaultDurationMinutes"] == 600
    assert made["spec"]["maxDurationMinutes"] >= 600
    with pytest.raises(SystemExit):
        command.options(["--minutes", "3000"])
    assert "at most a day, 1440 minutes" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--help"])
def test_the_programs_help_ends_with_examples(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`labfleet demo --help` shows command lines, each on its own line."""
    with pytest.raises(SystemExit):
        command.options([flag])
    assert "  labfleet demo --once --json\n" in capsys.readouterr().out
