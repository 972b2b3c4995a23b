"""`license` and `console`: asked, waited for, refused; a token is never taken or repeated."""

from __future__ import annotations

from typing import Any

import pytest

PATH = "/api/v1/workers/w-1"
ORDER = {"id": "o-1", "verb": "renew", "by": "ada", "askedAt": "2026-11-27T11:59:00Z"}


@pytest.fixture
def fleet(stub):
    """A worker whose verbs are answered."""
    stub.put("Worker", "w-1", status={"phase": "READY"})
    asked = {"metadata": {"name": "w-1"}, "spec": {"licence": {"id": "o-1"}}}
    for verb in ("register", "deregister", "renew"):
        stub.answers[f"POST {PATH}/{verb}-licence"] = (202, asked)
    return stub


def told(stub, state: str, message: str = "", name: str = "o-1") -> None:
    """Let the server say how far the order is."""
    order = {**ORDER, "id": name, "state": state, "since": None, "message": message}
    licence = {"registration": "COMPLETED", "licensed": True, "order": order}
    stub.answers[f"GET {PATH}/licence"] = (200, licence)


def test_a_reference_is_sent_and_nothing_is_waited_for(run, fleet):
    """What was asked is said; the command ends at once."""
    done = run("license", "register", "w-1", "--token", "env=LABFLEET_SECRET_T", "--product", "P")
    assert (done.code, done.out) == (0, "worker/w-1: register was asked for\n")
    sent = fleet.calls("POST")[-1].body
    assert sent == {
        "token": {"env": "LABFLEET_SECRET_T"}, "product": "P", "again": False, "force": False,
    }  # fmt: skip


@pytest.mark.parametrize("given", ["MDAyNDIxNzQtc2VjcmV0", "token=abc", "env:abcd"])
def test_a_token_itself_is_not_taken_and_not_repeated(run, fleet, given):
    """It would stand in a terminal's log, and then in others."""
    done = run("license", "register", "w-1", "--token", given)
    assert done.code == 2
    assert given not in done.err + done.out
    assert fleet.calls("POST") == []


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("refused", 7)])
def test_waiting_ends_with_the_order(run, fleet, state, code):
    """Done is 0; refused is 7, with the reason."""
    told(fleet, state, "CML said so")
    done = run("license", "renew", "w-1", "--wait")
    assert done.code == code
    assert "CML said so" in done.err


def test_waiting_is_bounded_and_follows_its_own_order(run, fleet):
    """Exit 8 when it lasts too long; somebody else's order ends the waiting."""
    told(fleet, "calling")
    assert run("license", "renew", "w-1", "--wait", "--timeout", "3s").code == 8
    told(fleet, "done", name="another")
    done = run("license", "renew", "w-1", "--wait")
    assert (done.code, "something else" in done.err) == (3, True)


def test_force_asks_before_it_ends_labs(run, fleet):
    """Where nobody can answer nothing is done without --yes."""
    fleet.put("Session", "s-1", spec={"owner": "kim"},
              status={"phase": "RUNNING", "worker": "w-1"})  # fmt: skip
    done = run("license", "deregister", "w-1", "--force")
    assert (done.code, "s-1 of kim" in done.err) == (2, True)
    assert fleet.calls("POST") == []
    assert run("license", "deregister", "w-1", "--force", "--yes").code == 0
    assert fleet.calls("POST")[-1].body == {"force": True}


def test_status_says_how_it_stands_and_what_was_asked(run, fleet):
    """Unknown values are left out; json is what the server said."""
    told(fleet, "asked", "instead of the registration that it has")
    done = run("license", "status", "w-1")
    assert "Registration: COMPLETED" in done.out
    assert "Licensed: yes" in done.out
    assert "renew by ada: asked (instead of" in done.out
    assert "Smart account" not in done.out
    assert run("license", "status", "w-1", "-o", "json").json["order"]["id"] == "o-1"


def console(stub, **said: Any) -> None:
    """Let the server say what was read, and that somebody asks at noon."""
    asked = {"metadata": {"name": "w-1"}, "spec": {"consoleAsked": "2026-11-27T12:00:00Z"}}
    stub.answers[f"POST {PATH}/console"] = (202, asked)
    given = {"worker": "w-1", "boot": "i-1@x", "readAt": "2026-11-27T12:00:05Z", "text": "",
             "reason": "", "answered": "2026-11-27T12:00:00Z", **said}  # fmt: skip
    stub.answers[f"GET {PATH}/logs"] = (200, given)


def test_console_prints_what_was_read_now(run, fleet):
    """The answer to this asking, not an older text."""
    console(fleet, text="login:")
    done = run("console", "w-1")
    assert (done.code, done.out) == (0, "login:\n")
    console(fleet, text="old", answered="2026-11-27T11:00:00Z")
    late = run("console", "w-1", "--timeout", "3s")
    assert (late.code, late.out) == (8, "")


def test_console_says_what_a_provider_does_not_give(run, fleet):
    """People's own servers have none: an error with the reason."""
    console(fleet, reason="people's own servers have no console that can be read from here")
    done = run("console", "w-1")
    assert (done.code, done.out) == (3, "")
    assert "own servers" in done.err
