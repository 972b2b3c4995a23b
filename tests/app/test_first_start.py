"""A first start that goes wrong: nothing half made, and one sentence each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labfleet.app import serving
from labfleet.app.settings import Settings
from labfleet.kernel import errors


def _start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "labfleet", "server", "--port", "0", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy(),
    )  # fmt: skip


def test_a_token_that_could_not_be_written_was_never_made(tmp_path: Path) -> None:
    """A wrong --admin-token-file locked everybody out: the next start showed no token."""
    data, kept = str(tmp_path / "data"), tmp_path / "token"
    with _start("--data", data, "--admin-token-file", str(tmp_path / "no" / "token")) as first:
        _, said = first.communicate(timeout=30)
    assert first.returncode == 1
    assert "cannot write the admin token" in said
    assert "Traceback" not in said
    with _start("--data", data, "--admin-token-file", str(kept)) as second:
        assert second.stdout is not None
        assert json.loads(second.stdout.readline())["ready"]
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=30)
    assert kept.read_text().startswith("lf_")


def test_a_data_folder_that_is_a_file_is_told_as_what_it_is(tmp_path: Path) -> None:
    """Only trouble with the address is called trouble with the address."""
    file = tmp_path / "file"
    file.write_text("")
    with _start("--data", str(file)) as server:
        _, said = server.communicate(timeout=30)
    assert server.returncode == 1
    assert str(file) in said
    assert "listen" not in said


def test_tls_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    """The server said that it was ready, at an https address that never answered."""
    broken = tmp_path / "cert.pem"
    broken.write_text("no certificate")
    for cert in (broken, tmp_path / "absent.pem"):
        with pytest.raises(errors.Invalid, match=cert.name):
            serving.check_tls(Settings(tls_cert=str(cert), tls_key=str(cert)))
