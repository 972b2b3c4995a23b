"""The runbook has a row for everything that may ask for somebody, and its commands exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from labfleet.cli.main import COMMANDS
from labfleet.resources import alerts, fleet_alerts, runbook, server_alerts
from labfleet.resources.pool import PoolPhase
from labfleet.resources.session import SessionPhase
from labfleet.resources.worker import WorkerPhase

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import reference

KINDS = {"Worker": WorkerPhase, "Session": SessionPhase, "Pool": PoolPhase}
ENTRIES = (*runbook.PHASES, *runbook.CONDITIONS, *server_alerts.SERVER_ALERTS.values())


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_phase_has_a_row_or_may_last(kind: str) -> None:
    """No phase can be stuck without the runbook saying what to do."""
    rows = {each.subject for each in runbook.PHASES if each.kind == kind}
    rest = {phase for owner, phase in runbook.RESTING if owner == kind}
    assert rows | rest == {str(phase) for phase in KINDS[kind]}
    assert not rows & rest


def test_every_condition_is_an_alert_or_has_a_row() -> None:
    """What the code can say of an object, the runbook explains."""
    said = {(kind, name) for kind, types in reference.conditions().items() for name in types}
    rows = {(each.kind, each.subject) for each in runbook.CONDITIONS}
    known = rows | {("Worker", name) for name in alerts.ALERTS}
    assert said - known == set()
    assert rows - said == set()


def test_what_is_raised_beside_workers_has_its_row() -> None:
    """A loud condition of another kind has cause, command and fix, and its kind can say it."""
    rows = {(each.kind, each.subject) for each in runbook.CONDITIONS}
    assert set(fleet_alerts.LOUD) <= rows
    assert {kind for kind, _ in fleet_alerts.LOUD} < set(fleet_alerts.KINDS)


def test_every_command_of_the_runbook_is_one() -> None:
    """Nobody is sent to a command that does not exist."""
    texts = [each.command for each in (*ENTRIES, *alerts.ALERTS.values())]
    texts += [each.fix for each in (*ENTRIES, *alerts.ALERTS.values())]
    named = {word for text in texts for word in re.findall(r"labfleet ([a-z-]+)", text)}
    assert named <= set(COMMANDS)


def test_every_row_says_what_helps() -> None:
    """A cause without a fix is half a row."""
    for each in (*ENTRIES, *alerts.ALERTS.values()):
        assert each.cause
        assert each.command
        assert each.fix
