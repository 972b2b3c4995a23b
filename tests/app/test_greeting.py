"""What a person who starts the server by hand is told: few lines, and what comes next."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from labfleet.app import greeting
from labfleet.app.metrics import Metrics
from labfleet.app.settings import Settings
from labfleet.app.watchers import Watcher
from labfleet.engine.supervisor import State

URL = "http://127.0.0.1:8470"


def test_the_first_start_gives_commands_that_work_as_they_stand() -> None:
    """Address, token and where the data is: nothing is left to look for in the log above."""
    said = greeting.lines(Settings(data="/srv/var"), URL, token="lf_a_b", token_file=None)
    text = "\n".join(said)
    assert f"{URL}/ and keeps its data in /srv/var" in text
    assert f"export LABFLEET_URL={URL}" in text
    assert "export LABFLEET_TOKEN=lf_a_b" in text
    assert "labfleet apply -f" in text
    assert all(len(line) < 100 for line in said)


def test_a_token_in_a_file_is_named_by_its_file() -> None:
    """Later starts and token files show no token."""
    again = greeting.lines(Settings(), URL, token="", token_file=None)
    assert any("LABFLEET_TOKEN=..." in line for line in again)
    kept = greeting.lines(Settings(), URL, token="lf_a_b", token_file="/etc/admin.token")
    assert "  export LABFLEET_TOKEN_FILE=/etc/admin.token" in kept
    assert not any("lf_a_b" in line for line in kept)


def test_a_process_without_the_api_promises_none() -> None:
    """Other roles have no address to export."""
    (line,) = greeting.lines(Settings(roles=("scheduler",)), "", token="", token_file=None)
    assert "scheduler, without the API" in line


def test_a_start_at_which_all_is_well_is_quiet() -> None:
    """Roles that wait, stand by and run are no news until a lead was lost."""
    structlog.reset_defaults()
    with capture_logs() as told:
        watcher = Watcher(Metrics())
        for state in (State.WAITING, State.STANDBY, State.RUNNING):
            watcher.role_changed("pool", state, None, 0.0)
        watcher.role_changed("pool", State.BACKING_OFF, None, 1.0)
        watcher.lead_lost("scheduler", 1)
        watcher.role_changed("pool", State.STANDBY, None, 0.0)
    assert [each["log_level"] for each in told] == ["debug"] * 3 + ["info", "warning", "info"]
