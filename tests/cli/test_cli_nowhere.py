"""Answers that have no place, addresses and spans that are none: a sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from labfleet.cli.kit import human_units

FULL = "/dev/full"


def _run(*argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LABFLEET_TOKEN": "lf_a_b", "HOME": "/nonexistent"}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "labfleet", *argv],
        text=True,
        stderr=subprocess.PIPE,
        env=environment,
        timeout=30,
        check=False,
        **more,
    )


@pytest.mark.skipif(not os.path.exists(FULL), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [["completion", "bash"], ["context", "list"]])
def test_a_full_disk_under_stdout_is_told_in_a_sentence(command: list[str]):
    """`labfleet … > file` on a full disk ends with 1 and says why."""
    with open(FULL, "w", encoding="utf-8") as full:
        done = _run(*command, stdout=full)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("command", [["completion", "bash"], ["context", "list"]])
def test_a_closed_stdout_is_no_crash(command: list[str]):
    """`labfleet … >&-` does not fall over a stdout that is not there."""
    shell = 'exec "$0" -m labfleet "$@" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", shell, sys.executable, *command],
        text=True, stderr=subprocess.PIPE, timeout=30, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", ["http://[::1", "http://[", "http://a:99999", "ftp://x", "http://"])
def test_an_address_that_is_none_is_a_usage_error(url: str):
    """Whatever cannot be taken apart is told with an example."""
    done = _run("--url", url, "get", "workers", stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert "is not an http(s) address" in done.stderr


@pytest.mark.parametrize("text", ["99999999d", "9999999999999d", f"{'9' * 400}s"])
def test_a_span_longer_than_any_calendar_is_refused(text: str):
    """What no instant can be moved by is no duration."""
    with pytest.raises(ValueError, match="hundred years"):
        human_units.duration(text)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "told", "help_"),
    [
        ("https://lab.example.org/api/v1/workers?limit=500",
         "a redirect to https://lab.example.org/api/v1/workers\n",
         "give the address itself: --url https://lab.example.org."),
        ("https://u:pw@lab.example.org/fleet/api/v1/workers", "https://lab.example.org/fleet/api",
         "--url https://lab.example.org/fleet."),
        ("https://login.example.org/?rd=secret", "a redirect to https://login.example.org/\n",
         "such as a sign-in page"),
        ("/login", "a redirect to /login\n", "such as a sign-in page"),
        ("", "a redirect that names no address", "such as a sign-in page"),
        ("http://[", "a redirect that names no address", "such as a sign-in page"),
    ],
)  # fmt: skip
def test_a_redirect_says_where_to_and_what_to_do(run, stub, status, location, told, help_):
    """It is not followed, since the token is for one address; its query may hold a secret."""
    stub.faults, stub.location = [(status, "<html>moved</html>")], location
    done = run("get", "workers")
    assert done.code == 1
    assert f"Error: the server answered {status}, " in done.err
    assert told in done.err
    assert help_ in done.err
    assert "pw" not in done.err
    assert "secret" not in done.err
    assert len(stub.seen) == 1


def test_the_formats_end_with_no_heap_of_dots(run):
    """The three dots of custom-columns are part of its form."""
    done = run("get", "workers", "-o", "xml")
    assert done.err.splitlines()[1].endswith("custom-columns=TITLE:PATH,...")


def test_settings_that_nobody_has_changed_have_no_events_yet(run, stub):
    """They are there without having been made: no error, and where to see what holds."""
    done = run("events", "settings/fleet")
    assert (done.code, done.out) == (0, "")
    told = "settings/fleet: nothing was changed yet; labfleet settings shows what holds.\n"
    assert done.err == told
    assert run("events", "settings/fleet", "-o", "json").json["items"] == []
    assert run("events", "pool/none").code == 4
    assert run("events", "settings/other").code == 4
    asked = run("get", "settings/fleet")
    assert asked.code == 4
    assert "Nothing was set yet; labfleet settings shows what holds." in asked.err
