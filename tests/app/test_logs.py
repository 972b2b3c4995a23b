"""Logs: stable events in JSON, and never a secret."""

from __future__ import annotations

import json

import pytest

from labfleet.app import logs
from labfleet.app.metrics import Metrics
from labfleet.app.watchers import Watcher
from labfleet.engine.controller import Outcome
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
