"""Clients of Kubernetes that we did not write run their calls against the simulator.

kubectl is the one of this machine; the Python clients live in environments of their own under
var/clients (scripts/official-clients.sh makes them). helm cannot be had here. What they call is in
docs/reference/kubernetes-simulator.md, which is written from these files.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubectl_calls import CALLS, FILES
from test_clients import lines, place

from kubernetes_simulator.shell.fixture import Running, running

HERE = Path(__file__).resolve().parent
SPEED = 20.0
CLIENTS = ("lightkube", "kubernetes-asyncio", "kr8s")

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Running]:
    """A cluster of three nodes in a process of its own."""
    with running(tmp_path, "--seed", "5", speed=SPEED) as found:
        yield found


@pytest.mark.parametrize("name", CLIENTS)
def test_a_python_client_is_served(cluster: Running, tmp_path: Path, name: str) -> None:
    """Every group of calls of the client works, and it says so group by group."""
    script = HERE / f"run_{name.replace('-', '_')}.py"
    argv = [place(name) / "python", script, cluster.kubeconfig, cluster.control]
    said = lines(argv, tmp_path)
    assert len(said) == script.read_text().count("@check\n")


def test_kubectl_is_served(cluster: Running, tmp_path: Path) -> None:
    """Every command line of the table says what it must, in order, on one cluster."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    env = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    wrong = []
    for calls in CALLS.values():
        for line, wanted in calls:
            words = shlex.split(re.sub(r"@(\w+)", rf"{tmp_path}/\1", quoted(line)))
            done = subprocess.run(
                [kubectl, "-n", "t", *words],
                env=env, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            said = done.stdout + done.stderr
            if not re.search(wanted if "|" in wanted else re.escape(wanted), said):
                wrong.append((line, said[-600:]))
    assert not wrong, wrong


def quoted(line: str) -> str:
    """Return a command line whose JSON is one word."""
    return re.sub(r" (\{.*\}|\[.*\])$", r" '\1'", line)
