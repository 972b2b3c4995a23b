"""CSV is for programs and spreadsheets: instants, seconds, empty cells; no words for people."""

from __future__ import annotations

import csv
import io
import re

import pytest

AT, DUE = "2026-11-27T11:00:00Z", "2026-11-27T13:30:00.000Z"
FIX = "`labfleet resume --pool demo`, then wait"
READING = {
    "worker": "w-1", "verdict": "idle", "told": FIX, "idleMinutes": 12.4, "timeoutMinutes": 60,
    "stopAt": AT, "keptBy": [], "autoStopped": False,
    "signals": [{"name": "labs", "verdict": "idle", "value": None, "at": AT, "told": FIX}],
}  # fmt: skip
NUMBER = {"value": 45.2, "fresh": False, "ageSeconds": 125.0, "source": "cml"}
ANSWERS = {
    "fleet/alerts": {"items": [
        {"severity": "info", "object": "pool/demo", "condition": "Paused", "since": AT,
         "measured": None, "message": FIX, "fix": FIX}]},
    "fleet/leaders": {"items": [
        {"role": "scheduler", "state": "led", "holder": None, "term": 3, "renewedSeconds": 2.6},
        {"role": "janitor", "state": "free", "holder": "", "term": 0, "renewedSeconds": None}]},
    "fleet/vitals": {"items": [
        {"worker": "w-1", "phase": "ACTIVE", "health": "Healthy", "sessions": 1,
         "numbers": {"cpu": NUMBER}, "alerts": []},
        {"worker": "w-2", "phase": "PENDING", "health": "Unknown", "sessions": 0}]},
    "fleet/idle": {"items": [READING, {**READING, "idleMinutes": None, "stopAt": None}]},
    "workers/w-1/idle": READING,
    "tokens": {"items": [{"id": "t1", "role": "user", "owner": "ada", "created": AT,
                          "expires": DUE, "revoked": None}]},
    "fleet/garbage": {"enabled": True, "suspects": [
        {"suspect": {"kind": "instance", "id": "i-1", "name": None, "due": DUE, "why": FIX,
                     "next": FIX}, "region": None, "ageSeconds": 7260}]},
    "fleet/discovery": {"enabled": True, "scans": [
        {"region": "r", "last_run_at": None, "discovered": 0, "imported": 0, "foreign": 0,
         "last_error": None}, {"region": "s", "last_run_at": AT, "discovered": 2,
                               "imported": 1, "foreign": 1}]},
    "settings/effective": {"settings": [
        {"setting": "discovery.template", "value": None, "unit": "", "source": "default",
         "variable": None, "default": None}], "pauses": []},
    "sessions/s-1/events": {"items": [
        {"revision": 1, "type": "ADDED", "at": AT, "actor": "ada", "reason": "", "message": None,
         "requestId": None, "phase": None, "uid": "u"}]},
    "workers/w-1/explain": {"phase": "ACTIVE", "blockers": [
        {"kind": "Session", "name": "s-1", "phase": "RUNNING", "owner": None, "until": None,
         "why": FIX, "help": FIX},
        {"kind": "Session", "name": "s-2", "phase": "RUNNING", "until": DUE}]},
}  # fmt: skip
PLAIN = '"labfleet resume --pool demo, then wait"'
ROWS = {
    ("alerts",): [f"info,pool/demo,Paused,2026-11-27T11:00:00Z,,{PLAIN},{PLAIN}"],
    ("leaders",): ["scheduler,led,,3,3,no", "janitor,free,,0,,no"],
    ("top",): ["w-1,ACTIVE,Healthy,45,,,,,,,1,125,cml,", "w-2,PENDING,Unknown,,,,,,,,0,,,"],
    ("idle",): [f"w-1,idle,744,3600,2026-11-27T11:00:00Z,,{PLAIN}",
                f"w-1,idle,,3600,,,{PLAIN}"],
    ("explain", "worker/w-1", "--idle"): [f"labs,idle,,3600,{PLAIN}"],
    ("token", "list"): ["t1,user,ada,2026-11-27T11:00:00Z,2026-11-27T13:30:00.000Z,"],
    ("garbage",): [f"instance,i-1,,,7260,2026-11-27T13:30:00.000Z,{PLAIN},{PLAIN}"],
    ("discovery",): ["r,,0,0,0,0,", "s,2026-11-27T11:00:00Z,2,1,1,0,"],
    ("settings",): ["discovery.template,,,default,"],
    ("events", "session/s-1"): ["1,2026-11-27T11:00:00Z,ADDED,,ada,,,,u"],
    ("explain", "worker/w-1"): [f"session/s-1,RUNNING,,,{PLAIN},{PLAIN}",
                                "session/s-2,RUNNING,,2026-11-27T13:30:00.000Z,,"],
    ("context", "list"): ["*,lab,http://127.0.0.1:8470,default,"],
    ("get", "sessions"): [],
}  # fmt: skip


@pytest.fixture
def all_of(run, stub):
    """A server with something in every table, much of it unknown."""
    for path, answer in ANSWERS.items():
        stub.answers[f"GET /api/v1/{path}"] = (200, answer)
    stub.put("Session", "s-1", status={"phase": "RUNNING", "end": DUE, "access": {}})
    run("context", "set", "lab")
    return stub


@pytest.mark.parametrize("argv", ROWS)
def test_a_csv_is_for_programs_on_every_command(run, all_of, argv):
    """Nothing is an empty cell, an instant is one, an age is in seconds, no command is marked."""
    done = run(*argv, "-o", "csv")
    assert done.code == 0
    for line in ROWS[argv]:
        assert f"{line}\n" in done.out
    table = done.out.rpartition("\n\n")[2]
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    assert "-" not in cells
    assert "`" not in table
    assert not re.search(r"\d[smhd] ago|\(in \d", table)


def test_lists_of_words_and_numbers_are_no_json(run, stub):
    """Ports are joined with commas, as in the table; records stay JSON, and no ports are nothing."""
    from labfleet.cli.kit import output

    # private _raw: a csv cell of an object, which needs no object here
    assert output._raw([2000, 2001]) == "2000,2001"
    assert output._raw([]) == output._raw({}) == output._raw(None) == ""
    assert output._raw([{"a": 1}]) == '[{"a":1}]'
    assert (output._raw(True), output._raw(0), output._raw("x")) == ("true", "0", "x")


def test_a_fix_that_is_a_command_can_be_run(run, stub):
    """Pasted from the cell it is the command alone, without marks and the full stop."""
    raised = {**ANSWERS["fleet/alerts"]["items"][0], "fix": "`labfleet resume`."}
    stub.answers["GET /api/v1/fleet/alerts"] = (200, {"items": [raised]})
    assert run("alerts", "-o", "csv").out.endswith(",labfleet resume\n")
    assert "`labfleet resume`." in run("alerts").out


def test_people_still_read_how_far_away_it_is(run, all_of):
    """The tables for people are as they were."""
    said = run("alerts").out
    assert "2026-11-27 11:00:00Z (1h ago)" in said
    assert "`labfleet resume --pool demo`" in said
    assert run("token", "list").out.split()[6:11] == ["t1", "user", "ada", "1h", "2026-11-27"]
    assert "45?" in run("top").out
    assert "2m cml" in run("top").out
