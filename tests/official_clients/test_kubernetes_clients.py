"""Clients of Kubernetes that we did not write run their calls against the simulator.

kubectl is the one of this machine; the Python clients live in environments of their own under
var/clients (scripts/official-clients.sh makes them). helm cannot be had here. What they call is in
docs/reference/kubernetes-simulator.md, which is written from these files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubectl_calls import CALLS, FILES
from test_clients import lines, place

from kubernetes_simulator.shell.fixture import Running, running

HERE = Path(__file__).resolve().parent
SPEED = 20.0
CLIENTS = ("lightkube", "kubernetes-asyncio", "kr8s")

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


CREATED = (
    "namespace made", "configmap cm --from-literal=a=b --from-literal=c=d",
    "secret generic s --from-literal=a=b", "serviceaccount bot",
    "deployment d --image=nginx:1 --replicas=0 --port=80", "deployment two --image=a:1 --image=b:2",
    "job j --image=busybox:1 -- sleep 5", "role r --verb=get,list --resource=pods,pods/log",
    "clusterrole cr --verb=get --non-resource-url=/metrics",
    "clusterrole sum --aggregation-rule=a=b",
    "rolebinding rb --role=r --serviceaccount=default:bot --user=me",
    "clusterrolebinding crb --clusterrole=cr --group=us", "service clusterip c --tcp=80:8080",
    "service nodeport n --tcp=80:http", "service externalname e --external-name=a.b",
    "poddisruptionbudget p --selector=app=web --min-available=50%",
    "poddisruptionbudget q --selector=app=web --max-unavailable=1",
)  # fmt: skip


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


def test_what_kubectl_sends_is_stored_whole(cluster: Running, tmp_path: Path) -> None:
    """What a command would create by its own account is all in what is stored, field by field.

    kubectl sends these bodies as protobuf, so that this holds the table of field numbers.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on this machine")
    env = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def said(line: str, *more: str) -> Any:
        words, _, behind = line.partition(" -- ")
        argv = [kubectl, "create", *words.split(), *more, "-o", "json"]
        argv += ["--", *behind.split()] if behind else []
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
        return json.loads(done.stdout)

    for line in CREATED:
        wanted, made = said(line, "--dry-run=client"), said(line)
        assert missing(wanted, made) == [], line


def missing(wanted: Any, made: Any, path: str = "") -> list[str]:
    """Return the paths of what is wanted and is not there, or is another value."""
    if wanted in (None, {}, []):
        return []
    if isinstance(wanted, dict) and isinstance(made, dict):
        return [
            each for key in wanted for each in missing(wanted[key], made.get(key), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(made, list) and len(wanted) == len(made):
        pairs = zip(wanted, made, strict=True)
        return [each for at, (a, b) in enumerate(pairs) for each in missing(a, b, f"{path}[{at}]")]
    return [] if wanted == made else [f"{path}: {wanted!r} is {made!r}"]
