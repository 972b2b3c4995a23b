"""The day's world: simulated Kubernetes, a real Prometheus that scrapes it, and `labfleet server`."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

for folder in ("e2e", "adapters_metrics"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

from promql_servers import serving, version
from server_process import ServerProcess, until

from kubernetes_simulator.shell.fixture import Running, running

RATE = 20.0
"""Fleet and simulated seconds in a real one: two looks at a cluster are 1.5 s apart."""
WINDOW = 10
"""Seconds over which rates are taken: real ones, as counters are."""
LABEL = "labfleet/simulation-id"
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE


class Kube:
    """The simulated cluster: by kubectl, as people use it, and by its own routes for the truth."""

    def __init__(self, it: Running) -> None:
        self.it = it
        self.environment = {**os.environ, "KUBECONFIG": str(it.kubeconfig)}

    def kubectl(self, *words: str, given: str = "") -> str:
        """Say what kubectl says; a refusal is a failure."""
        done = subprocess.run(
            ["kubectl", *words], env=self.environment, input=given, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout[-500:], done.stderr[-1000:])
        return done.stdout

    def apply(self, *manifests: Any) -> None:
        """Make what manifests say, by one kubectl."""
        listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
        self.kubectl("apply", "-f", "-", given=json.dumps(listed))

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask the simulator; a body makes it a POST."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Authorization": f"Bearer {self.it.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.it.url + path, data, head)
        with urllib.request.urlopen(request, context=ANY, timeout=20) as reply:
            return json.load(reply)

    def pods(self, namespace: str = "default") -> list[dict[str, Any]]:
        """Return all pods of a namespace."""
        found: list[dict[str, Any]] = self.ask(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def truth(self, run: str, window: float, at: float) -> dict[str, Any]:
        """Return what the pods of a run truly took together up to an instant, by figure."""
        chosen = quote(f"{LABEL}={run}")
        asked = f"labelSelector={chosen}&window={window:g}&at={at:.3f}"
        found: dict[str, Any] = self.ask(f"/_control/use?{asked}")
        return found


@dataclass
class Prometheus:
    """A real Prometheus that can be held, ended and started again on its port and data."""

    url: str
    process: subprocess.Popen[bytes]

    def hold(self) -> None:
        """Let it answer nothing, though its connections stay."""
        self.process.send_signal(signal.SIGSTOP)
        # Until it has stopped: one of its threads may still answer meanwhile.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a lost machine ends."""
        self.process.kill()
        self.process.wait(timeout=30)

    def start(self) -> None:
        """Start it again as it was."""
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(self.process.args, stdout=quiet, stderr=quiet)


@contextmanager
def scraping(folder: Path, target: str) -> Iterator[Prometheus]:
    """Give a Prometheus that scrapes the simulator each second."""
    print(version("prometheus"))
    with serving("prometheus", folder, target=target) as (url, process):
        found = Prometheus(url, process)
        try:
            yield found
        finally:
            if found.process is not process:
                found.go_on()
                found.process.terminate()
                found.process.wait(timeout=30)


@contextmanager
def simulated(folder: Path) -> Iterator[Kube]:
    """Give a simulated cluster of 40 CPUs whose runs go twenty times as fast as life."""
    sizes = ("--nodes", "5", "--node-cpu", "8", "--node-memory", "32Gi", "--seed", "16")
    with running(folder, *sizes, speed=RATE) as it:
        yield Kube(it)


def described(url: str, namespace: str, **more: Any) -> dict[str, Any]:
    """Return a Cluster that is looked at through the simulator and measured by a PromQL server."""
    source = {"name": "prometheus", "url": url, "windowSeconds": WINDOW}
    access = {"kubeconfig": {"file": "kubeconfig"}, "namespaces": [namespace]}
    spec = {"kubernetes": access, "metrics": [source], **more}
    return {"metadata": {"name": "default"}, "spec": spec}


def mode(server: ServerProcess) -> str:
    """Return how the cluster is decided on."""
    found: str = server.call("GET", "/api/v1/clusters/default")["status"]["mode"]
    return found


@contextmanager
def served(
    folder: Path, kube: Kube, cluster: dict[str, Any], rate: float
) -> Iterator[ServerProcess]:
    """Give a server whose cluster is measured."""
    folder.mkdir()
    options = ("--secrets-folder", str(kube.it.kubeconfig.parent))
    fast = {"LABFLEET_CLOCK_RATE": str(rate), "LABFLEET_CLOCK_EPOCH": str(int(time.time()))}
    with ServerProcess(folder, "", *options, **(fast if rate != 1.0 else {})) as server:
        # On a fast clock callers are slow: what they were let in for is kept for a while.
        patience = {"set": {"admission.takeUpSeconds": 7200}, "reason": "a busy machine"}
        server.call("POST", "/api/v1/settings/change", patience)
        server.call("POST", "/api/v1/clusters", cluster)
        until(lambda: mode(server) == "measured", "the first figures")
        yield server


def metric(server: ServerProcess, name: str, **labels: str) -> float:
    """Return the value of one of the server's metrics; it must be there."""
    status, page = server.ask("GET", "/metrics")
    assert status == 200
    for line in page.decode().splitlines():
        if line.startswith(name) and all(f'{key}="{one}"' in line for key, one in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name} with {labels}")
