"""The server as a process: start, first token, orderly end, backup, what it warns of."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import pytest

from labfleet.app import serving, wiring
from labfleet.app.settings import Settings


class Server:
    """One `labfleet server` child."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labfleet", "server", "--data", str(folder), "--port", "0",
             "--log-format", "json", "--aws-endpoint-url", "http://127.0.0.1:9",
             "--admin-token-file", str(folder / "token"), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        self.told = json.loads(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)

    def call(self, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
        request = urllib.request.Request(self.told["url"] + path, method=method)
        request.add_header("Authorization", f"Bearer {(self.folder / 'token').read_text().strip()}")
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, content, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null")


CLUSTER = {
    "kind": "Cluster", "metadata": {"name": "c"}, "spec": {"capacity": {"cpu": 4}},
}  # fmt: skip


def test_the_server_ends_in_order_and_starts_again_with_everything(tmp_path: Path) -> None:
    """SIGTERM gives exit code 0; objects, token and the told identity outlive the process."""
    with Server(tmp_path) as first:
        assert first.call("/api/v1/clusters", "POST", CLUSTER)[0] == 201
        assert first.call("/readyz")[0] == 200
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(30) == 0
    with Server(tmp_path) as second:
        assert second.told["installation"] == first.told["installation"] != ""
        status, found = second.call("/api/v1/clusters/c")
        assert (status, found["metadata"]["name"]) == (200, "c")


def test_a_store_that_takes_no_writes_is_said_by_probe_alerts_metrics_and_log(
    tmp_path: Path,
) -> None:
    """Files of the server may not grow: writes are 503, `/readyz` stays 200 and says why."""
    with Server(tmp_path) as server:
        assert server.process.stderr is not None
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.call("/api/v1/clusters", "POST", CLUSTER)
        assert refused.value.code == 503
        refused.value.close()
        status, ready = server.call("/readyz")
        assert (status, ready["store"]) == (200, "read-only")
        assert ready["storeReason"]
        assert server.call("/api/v1/clusters")[0] == 200
        (row,) = server.call("/api/v1/fleet/alerts")[1]["items"]
        assert (row["condition"], row["since"]) == ("StoreReadOnly", ready["storeSince"])
        with urllib.request.urlopen(server.told["url"] + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert 'labfleet_store_state{state="read-only"} 1.0' in text
        assert "labfleet_store_refused_writes_total{" in text
        server.process.kill()
        lines = [line for line in server.process.stderr if b"store.trouble" in line]
        assert len(lines) == 1
        assert ready["storeSince"][:23].encode() in lines[0]


def test_backup_beside_a_running_server_restores_elsewhere(tmp_path: Path) -> None:
    """`labfleet backup` copies while the server runs; `restore` refuses to overwrite."""
    copy, place = tmp_path / "copy.backup", tmp_path / "b"
    with Server(tmp_path / "a") as server:
        server.call("/api/v1/clusters", "POST", CLUSTER)
        run = _run("backup", str(copy), "--data", str(tmp_path / "a"))
        assert run.returncode == 0, run.stderr
    assert _run("restore", str(copy), "--data", str(place)).returncode == 0
    assert _run("restore", str(copy), "--data", str(place)).returncode == 1
    (place / "token").write_text((tmp_path / "a" / "token").read_text())
    with Server(place) as again:
        assert again.call("/api/v1/clusters/c")[0] == 200


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labfleet", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_wrong_settings_and_a_taken_port_end_with_a_sentence(tmp_path: Path) -> None:
    """Exit 2 for a wrong setting, 1 for a port in use, and no traceback either way."""
    wrong = _run("server", "--data", str(tmp_path), "--roles", "cook")
    assert (wrong.returncode, "cook" in wrong.stderr) == (2, True)
    with Server(tmp_path / "a") as server:
        port = server.told["url"].rsplit(":", 1)[1]
        taken = _run("server", "--data", str(tmp_path / "b"), "--port", port)
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr
    assert "Traceback" not in taken.stderr + wrong.stderr


def test_a_wider_bind_without_tls_warns() -> None:
    """Loopback and TLS are quiet; an open door in the clear is said."""
    assert serving.warn_of_open_door(Settings()) is None
    assert serving.warn_of_open_door(Settings(host="0.0.0.0", tls_cert="c", tls_key="k")) is None
    said = serving.warn_of_open_door(Settings(host="0.0.0.0"))
    assert said is not None
    assert "without TLS" in said


def test_one_process_at_a_time_holds_a_role_of_a_local_store(tmp_path: Path) -> None:
    """The file lock is a proof only where all processes share the machine."""
    local = Settings(data=str(tmp_path))
    first = wiring.lock_role(local, "scheduler")
    assert first is not None
    assert wiring.lock_role(local, "scheduler") is None
    other = wiring.lock_role(local, "lab-controller")
    assert other is not None
    first.close()
    other.close()
    again = wiring.lock_role(local, "scheduler")
    assert again is not None
    again.close()
    assert wiring.lock_role(Settings(store="postgresql://x/y"), "scheduler") is None


@pytest.mark.parametrize("what", ["--help", "server --help", "demo --help", "backup --help"])
def test_help_is_help(what: str) -> None:
    """Every program explains itself and exits 0."""
    done = _run(*what.split())
    assert done.returncode == 0
    assert "usage" in done.stdout.lower()


def test_the_environment_is_read_by_the_roof_only(tmp_path: Path) -> None:
    """A misspelt LABFLEET variable of the CLI or of a secret is not ours to refuse."""
    env = {**os.environ, "LABFLEET_TOKEN": "x", "LABFLEET_ROLES": "nobody"}
    done = subprocess.run(
        [sys.executable, "-m", "labfleet", "server", "--data", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False, env=env,
    )  # fmt: skip
    assert (done.returncode, "nobody" in done.stderr) == (2, True)


def test_references_of_a_running_fleet_that_are_no_longer_allowed_are_told_at_start(
    tmp_path: Path,
) -> None:
    """An alert and a line in the log after the restart, and no later log-in is waited for."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    spec = {"machine": {"provider": {"kind": "aws", "amiId": "ami-1"},
                        "cml": {"adminPassword": {"env": "OLD_NAME"}}}}  # fmt: skip
    body = {"kind": "Template", "metadata": {"name": "metal"}, "spec": spec}
    alerts = "/api/v1/fleet/alerts"
    with Server(folder, "--secrets-variables", "OLD_NAME") as server:
        assert server.call("/api/v1/templates", "POST", body)[0] == 201
        assert server.call(alerts)[1]["items"] == []
        server.process.send_signal(signal.SIGTERM)
        _, said = server.process.communicate(timeout=30)
        assert b"reference.refused" not in said
    with Server(folder) as server:
        (row,) = server.call(alerts)[1]["items"]
        assert row["condition"] == "SecretsNotAllowed"
        assert "template/metal spec.machine.cml.adminPassword: variable OLD_NAME" in row["message"]
        server.process.send_signal(signal.SIGTERM)
        _, said = server.process.communicate(timeout=30)
    (line,) = [json.loads(each) for each in said.splitlines() if b"reference.refused" in each]
    assert (line["level"], line["object"]) == ("error", "template/metal")
    assert "secrets_variables" in line["detail"]
