"""The runbook has a row for everything that may ask for somebody, and its commands exist."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from labfleet.cli.main import COMMANDS
from labfleet.resources import alerts, fleet_alerts, runbook, server_alerts
from labfleet.resources.conditions import Condition
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key
from labfleet.resources.pool import PoolPhase
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import WorkerPhase

PHASES = {"Worker": WorkerPhase, "Session": SessionPhase, "Pool": PoolPhase}
ENTRIES = [each for row in KINDS.values() for each in row.runbook]
ENTRIES += server_alerts.SERVER_ALERTS.values()


@pytest.mark.parametrize("kind", list(PHASES))
def test_every_phase_has_a_row_or_may_last(kind: str) -> None:
    """No phase can be stuck without the runbook saying what to do."""
    rows = {each.subject for each in runbook.phases(KINDS[kind])}
    rest = set(KINDS[kind].resting)
    assert rows | rest == {str(phase) for phase in PHASES[kind]}
    assert not rows & rest


def test_every_condition_is_an_alert_or_has_a_row() -> None:
    """What the code can say of an object, the runbook explains, once."""
    for row in KINDS.values():
        said = set() if row.conditions is None else set(row.conditions)
        rows = {each.subject for each in runbook.conditions(row)}
        known = rows | (set(alerts.ALERTS) if row.name == "Worker" else set())
        assert said == known, row.name


def test_what_is_raised_beside_workers_has_its_row() -> None:
    """A loud condition of another kind has cause, command and fix."""
    for name in fleet_alerts.kinds():
        for each in KINDS[name].loud:
            assert runbook.of_condition(name, each.condition).fix


ADVICE = [(row, each) for row in KINDS.values() for each in row.advice]


def test_each_advice_stands_for_a_row_and_a_reason() -> None:
    """What is said for one reason replaces the row of a phase or condition that there is."""
    for row, each in ADVICE:
        assert each.subject in {entry.subject for entry in row.runbook}, each
        assert each.reason
        assert each.cause
        assert each.fix


def test_every_command_of_the_runbook_is_one() -> None:
    """Nobody is sent to a command that does not exist."""
    texts = [each.command for each in (*ENTRIES, *alerts.ALERTS.values())]
    texts += [each.fix for each in (*ENTRIES, *alerts.ALERTS.values())]
    texts += [each.fix for _, each in ADVICE]
    named = {word for text in texts for word in re.findall(r"labfleet ([a-z-]+)", text)}
    assert named <= set(COMMANDS)


def test_no_alert_and_no_advice_is_raised_with_a_placeholder() -> None:
    """What is shown of an object names it: commands can be run as they stand."""
    at = datetime(2026, 11, 27, tzinfo=UTC)
    shown = [
        server_alerts.of_server("x", name, since=at, reason="R", message="m", about="worker/w1")
        for name in server_alerts.SERVER_ALERTS
    ]
    for row in alerts.ALERTS.values():
        fact = Condition(type=row.condition, status=row.when, reason="R", last_transition_time=at)
        shown += alerts.raised(Key("Worker", "default", "w1"), [fact])
    texts = [each.command + each.fix for each in shown]
    for name in fleet_alerts.kinds():
        for loud in KINDS[name].loud:
            row = runbook.of_condition(name, loud.condition)
            texts.append((row.command + row.fix).replace("NAME", "x"))
    assert len(shown) == len(server_alerts.SERVER_ALERTS) + len(alerts.ALERTS)
    for text in texts:
        assert not re.search(r"\b(KIND|NAME|POOL|OBJECT|WORKER|REGION)\b", text), text


def test_every_row_says_what_helps() -> None:
    """A cause without a fix is half a row."""
    for each in (*ENTRIES, *alerts.ALERTS.values()):
        assert each.cause
        assert each.command
        assert each.fix
