"""What strangers typed and what reads it: spreadsheets and terminals get no commands from it."""

from __future__ import annotations

import csv
import io
import json

import pytest

FORMULA = '=HYPERLINK("http://x","click")'
ESCAPES = "a\x1b[2Jb\x9b31m\u202ec"


@pytest.fixture
def strange(stub):
    """A session whose owner wrote a formula, and one whose owner wrote escapes."""
    stub.put(
        "Session", "s-1", spec={"definition": "lab", "owner": FORMULA}, status={"phase": "READY"}
    )
    stub.put(
        "Session", "s-2", spec={"definition": "lab", "owner": ESCAPES}, status={"phase": "READY"}
    )
    stub.answers["GET /api/v1/sessions/s-1/events"] = (200, {"items": [
        {"revision": 1, "type": "ADDED", "at": "2026-11-27T11:58:00Z", "actor": FORMULA, "reason": "Created",
         "message": "@SUM(1)", "requestId": "-r", "phase": None, "uid": "u"}]})  # fmt: skip
    stub.answers["GET /api/v1/settings/effective"] = (200, {"settings": [
        {"setting": "discovery.regions", "value": [ESCAPES], "unit": None, "source": "settings",
         "default": ["+1"], "variable": None}], "pauses": [{"text": ESCAPES}]})  # fmt: skip
    stub.answers["GET /api/v1/workers/w-1/series"] = (200, {
        "worker": "w-1", "since": "2026-11-27T11:00:00Z", "until": "2026-11-27T12:00:00Z", "step": 60,
        "metrics": {"cpu": {"unit": "=percent", "points": [
            {"at": "2026-11-27T11:30:00Z", "count": 1, "min": -5, "mean": -5, "max": -5}]}}})  # fmt: skip
    return stub


@pytest.mark.parametrize(
    "argv",
    [("get", "sessions"), ("events", "session/s-1"), ("settings",), ("top", "worker", "w-1")],
)
def test_no_cell_of_a_csv_is_a_formula(run, strange, argv):
    """Every command that writes CSV neutralises what a spreadsheet would compute."""
    done = run(*argv, "-o", "csv")
    assert done.code == 0
    cells = [cell for row in csv.reader(io.StringIO(done.out)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in tuple("=+@\t\r")]
    assert not [cell for cell in cells if cell[:1] == "-" and cell[1:2].isalpha()]
    assert any(cell.startswith("'") for cell in cells)


def test_numbers_and_json_are_untouched(run, strange):
    """A negative number stays one, and programs get the text that was stored."""
    rows = list(csv.reader(io.StringIO(run("top", "worker", "w-1", "-o", "csv").out)))
    assert rows[1][1:5] == ["-5", "-5", "-5", "-5"]
    assert run("get", "session/s-1", "-o", "json").json["spec"]["owner"] == FORMULA
    assert run("get", "session/s-1", "-o", "jsonpath={.spec.owner}").out == FORMULA + "\n"


@pytest.mark.parametrize(
    "argv",
    [
        ("get", "sessions", "-o", "csv"), ("get", "sessions"), ("get", "sessions", "-o", "yaml"),
        ("get", "sessions", "-o", "json"), ("get", "session/s-2", "-o", "jsonpath={.spec.owner}"),
        ("get", "sessions", "-o", "jsonpath={.items[*].spec.owner}"), ("describe", "session/s-2", "--no-events"),
        ("get", "sessions", "-o", "custom-columns=O:.spec.owner"), ("settings",), ("settings", "-o", "wide"),
        ("settings", "-o", "csv"),
    ],
)  # fmt: skip
def test_no_format_prints_escapes_to_a_terminal(run, strange, argv):
    """On a terminal no format moves the cursor or turns the text around."""
    done = run(*argv, "--color", "never", out_tty=True)
    assert done.code == 0
    assert not {"\x1b", "\x9b", "\u202e"} & set(done.out + done.err)


def test_a_pipe_gets_the_text_as_it_is(run, strange):
    """Data for programs is not changed where nobody watches."""
    said = run("get", "session/s-2", "-o", "jsonpath={.spec.owner}").out
    assert said == ESCAPES + "\n"
    assert run("get", "session/s-2", "-o", "json").json["spec"]["owner"] == ESCAPES


def test_an_error_prints_no_escapes(run, strange):
    """A server's refusal may repeat what somebody typed."""
    strange.faults = [(400, json.dumps({"detail": ESCAPES}))]
    done = run("get", "workers")
    assert (done.code, "\x1b" in done.err) == (2, False)
