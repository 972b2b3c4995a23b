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
