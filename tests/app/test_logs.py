"""Logs: stable events in JSON, and never a secret."""

from __future__ import annotations

import json

import pytest

from labfleet.app import logs
from labfleet.app.metrics import Metrics
from labfleet.app.watchers import Watcher
from labfleet.engine.controller import Outcome
from labfleet.engine.supervisor import State
from labfleet.resources.meta import Key


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]):
    """Return what was logged so far, one object a line."""
    logs.configure(fmt="json", level="debug")

    def read() -> list[dict[str, object]]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return read


def test_values_that_sound_secret_are_hidden(lines) -> None:
    """A password or token given as a value never reaches the output."""
    logs.configure(fmt="json", level="debug")
    logs.get("x").info("said", password="hunter2", licence_token="abc", user="u")
    (line,) = lines()
    assert line["password"] == line["licence_token"] == "[hidden]"
    assert line["user"] == "u"


def test_a_lost_lead_is_one_plain_line(lines) -> None:
    """A warning without an error or a trace, counted; a role of a standby is no failure."""
    metrics = Metrics()
    watcher = Watcher(metrics)
    watcher.lead_taken("scheduler", 7)
    watcher.lead_lost("scheduler", 7)
    watcher.role_changed("upkeep", State.STANDBY, None, 0.0)
    told = lines()
    assert [(line["event"], line["level"]) for line in told] == [
        ("lead.taken", "info"), ("lead.lost", "warning"), ("role", "info"),
    ]  # fmt: skip
    assert (told[1]["role"], told[1]["term"]) == ("scheduler", 7)
    assert not any("exception" in line for line in told)
    text = metrics.text()[0]
    assert b'labfleet_leads_lost_total{role="scheduler"} 1.0' in text
    assert b"labfleet_role_restarts_total{" not in text


def test_usual_outcomes_are_quiet_and_bugs_are_loud(lines) -> None:
    """Done is debug, trouble a warning, a bug an error with its trace; each is counted."""
    metrics = Metrics()
    watcher = Watcher(metrics)
    key = Key("Worker", "default", "w1")
    watcher.reconciled("worker", key, Outcome.DONE, 0.01, None)
    watcher.reconciled("worker", key, Outcome.TEMPORARY, 0.01, ValueError("x"))
    watcher.reconciled("worker", key, Outcome.BUG, 0.01, ValueError("boom"))
    told = lines()
    assert [line["level"] for line in told] == ["debug", "warning", "error"]
    assert "boom" in str(told[2]["exception"])
    text, kind = metrics.text()
    assert b'labfleet_reconciles_total{controller="worker",outcome="bug"} 1.0' in text
    assert kind.startswith("text/plain")
