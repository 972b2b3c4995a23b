"""The asynchronous client of AWS, which we did not write, runs against the simulator unchanged.

It pins another botocore than ours, so it lives in an environment of its own under var/clients.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aws_simulator.fixture import running

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def python() -> Path:
    """Return the interpreter of aiobotocore's environment; skip loudly when it cannot be made."""
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "official-clients.sh"), "aiobotocore"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    found = ROOT / "var" / "clients" / "aiobotocore" / "bin" / "python"
    if not found.exists() or done.returncode != 0:
        pytest.skip(f"no environment of aiobotocore: {(done.stderr or done.stdout)[-300:]}")
    return found


def test_aiobotocore_runs_its_life_cycle():
    """Launches by token, pages, status, tags, refusals, metrics: every step is fine."""
    interpreter = python()
    with running(seed=3) as aws:
        done = subprocess.run(
            [interpreter, HERE / "run_aiobotocore.py", aws.url, aws.image, aws.subnets[0]],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        total = aws.summary()["instances_total"]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in said if not line["ok"]] == []
    assert (len(said), total) == (7, 7)
