"""`hand-over` and `take`: what people read, and whose the session then is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from live_api import LiveApi
from test_cli_book import at_port, live

__all__ = ["at_port", "live"]


@pytest.fixture
def cli(live: LiveApi, run: Callable[..., Any]) -> Callable[..., Any]:
    """Run a command against the installation."""

    def go(*argv: str, token: str | None = None) -> Any:
        there = {"LABFLEET_URL": live.url, "LABFLEET_TOKEN": token or live.token}
        return run(*argv, env=there)

    return go


def test_an_operator_gives_a_session_at_once(cli: Any, live: LiveApi) -> None:
    """It is the other person's, with the address that was said, and a repeated command is harmless."""
    live.do(live.api.world.session("s1", owner="ana", studentEmail="ana@x.org"))
    for _ in range(2):
        done = cli("hand-over", "s1", "--to", "bo", "--email", "bo@x.org", "--set", "POD=7")
        assert (done.code, done.out) == (0, "session/s1 is bo's now\n")
    spec = live.ask("GET", "/api/v1/sessions/s1")["spec"]
    assert (spec["owner"], spec["studentEmail"], spec["environment"]) == (
        "bo", "bo@x.org", {"POD": "7"},
    )  # fmt: skip
    shown = cli("hand-over", "session/s1", "--to", "cy", "-o", "json")
    assert json.loads(shown.out)["spec"]["owner"] == "cy"
    assert live.ask("GET", "/api/v1/sessions/s1")["spec"]["studentEmail"] is None


def test_what_cannot_be_given_or_taken_is_said(cli: Any, live: LiveApi) -> None:
    """A wrong value, an unknown session and one that is offered to nobody are errors of their own."""
    live.do(live.api.world.session("s1", owner="ana"))
    wrong = cli("hand-over", "s1", "--to", "bo", "--set", "POD")
    assert (wrong.code, "no NAME=VALUE" in wrong.err) == (2, True)
    assert cli("hand-over", "s9", "--to", "bo").code == cli("take", "s9").code == 4
    alone = cli("take", "s1")
    assert (alone.code, "is offered to" in alone.err) == (4, True)
