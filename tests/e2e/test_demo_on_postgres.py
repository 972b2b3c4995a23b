"""The main job on PostgreSQL, where a successor waits its predecessor's lease out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "stores"))

from postgres_server import PostgresServer


@pytest.mark.real
@pytest.mark.timeout(2000)
def test_the_main_job_and_a_kill_on_postgres(tmp_path: Path) -> None:
    """Nothing is left over on PostgreSQL either, with the server killed in the middle."""
    with PostgresServer() as server:
        done = subprocess.run(
            [sys.executable, "-m", "labfleet", "demo", "--once", "--json", "--data",
             str(tmp_path), "--store", server.new_database(), "--patience", "900", "--kill", "1", "--seed", "2"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["ok"]
    assert told["server_kills"] == 1
    assert not (tmp_path / "labfleet.db").exists()
