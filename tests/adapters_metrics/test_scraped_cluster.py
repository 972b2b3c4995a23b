"""Real Prometheus and real VictoriaMetrics scrape the simulator; the meter says what is true."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from promql_servers import NAMES, program, serving, version
from real_meter import measured

from kubernetes_simulator.shell.fixture import Running, running
from labfleet.interfaces.cluster_meter import ClusterUsage
from labfleet.kernel import errors
from labfleet.resources.cluster_access import RUN_LABEL

pytestmark = pytest.mark.real
SECONDS = 10
"""The window of rates: scrapes come every second, and a test does not last two minutes."""
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE


def call(it: Running, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    head = {"Authorization": f"Bearer {it.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(it.url + path, data, head)
    with urllib.request.urlopen(request, context=ANY, timeout=20) as reply:
        return json.load(reply)


def start(it: Running, name: str, run: str, cpu: str) -> None:
    """Start a pod that takes so much CPU, and 100 MiB at the end, which is two minutes from now."""
    note = "kubernetes-simulator/"
    said = {"cpu": cpu, "memory": "100Mi", "network-in": "1M", "network-out": "250k", "ramp": "0",
            "disk": "50Mi", "duration": "60m"}  # fmt: skip
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "100m"}}}
    body = {
        "metadata": {
            "name": name,
            "labels": {RUN_LABEL: run} if run else {},
            "annotations": {f"{note}{key}": value for key, value in said.items()},
        },
        "spec": {"containers": [container]},
    }
    call(it, "/api/v1/namespaces/default/pods", body)


def until(look: Callable[[], ClusterUsage], holds: Callable[[ClusterUsage], bool]) -> ClusterUsage:
    """Measure until it holds; how long that takes is pytest-timeout's business."""
    while not holds(found := look()):
        time.sleep(0.5)
    return found


def truth(it: Running, window: int, *pods: str) -> dict[str, float]:
    """Return what pods truly take together: the mean over a window of what is counted."""
    uses = [call(it, f"/_control/pods/default/{each}/use?window={window}") for each in pods]
    return {
        "cpu": sum(each["cpu"]["mean"] for each in uses) * 1000,
        "received": sum(each["received"]["mean"] for each in uses) * 8 / 1000,
        "memory": sum(each["memory"]["now"] for each in uses) / 2**20,
        "disk": sum(each["disk"]["now"] for each in uses) / 2**20,
    }


def test_what_is_measured_is_what_is_true(tmp_path: Path) -> None:
    """By both servers beside each other: of a run of two pods, of all others and of the nodes."""
    if missing := [each for each in NAMES if program(each) is None]:
        pytest.skip(
            f"no {' and no '.join(missing)}: scripts/test-real.sh unpacks Debian's packages"
        )
    with running(tmp_path, "--seed", "7", speed=30.0) as it, ExitStack() as kept:
        target = it.url.removeprefix("https://")
        servers = []
        for name in NAMES:
            print(version(name))
            (tmp_path / name).mkdir()
            servers.append(kept.enter_context(serving(name, tmp_path / name, target=target)))
        for pod, run, cpu in (("a-0", "run-a", "500m"), ("a-1", "run-a", "1"), ("x", "", "250m")):
            start(it, pod, run, cpu)
        looks = [partial(measured, url, window=SECONDS) for url, _ in servers]
        for look in looks:
            until(look, lambda found: "cpu_milli" in found.now.get("run-a", {}))
        time.sleep(SECONDS)  # until the window is full: the truth over less of it is less
        for look in looks:
            compared(it, look())
        for url, process in servers:
            held_and_ended(url, process)


def compared(it: Running, found: ClusterUsage) -> None:
    """What a server tells is what is true: rates within five percent."""
    real, others = truth(it, SECONDS, "a-0", "a-1"), truth(it, SECONDS, "x")
    run = found.now["run-a"]
    assert run["cpu_milli"] == pytest.approx(real["cpu"], rel=0.05)
    assert run["network_in_kbps"] == pytest.approx(real["received"], rel=0.05)
    # They grow; the last scrape was a second or two ago.
    assert run["memory_mib"] == pytest.approx(real["memory"], rel=0.1)
    assert run["storage_mib"] == pytest.approx(real["disk"], rel=0.1)
    assert found.others["cpu_milli"] == pytest.approx(others["cpu"], rel=0.05)
    assert found.load["cpu_milli"] >= (real["cpu"] + others["cpu"]) * 0.95
    assert set(found.nodes) == {"node-1", "node-2", "node-3"}
    assert found.gaps == {}


def held_and_ended(url: str, process: Any) -> None:
    """A server that hangs, answers again, and is gone: an error, figures, an error."""
    process.send_signal(signal.SIGSTOP)
    # The signal is only on its way: a server of several threads may still answer before it stops.
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(errors.Unreachable, match="no answer in time"):
        measured(url, seconds=1.0)
    process.send_signal(signal.SIGCONT)
    assert measured(url).load
    process.terminate()
    process.wait(timeout=30)
    with pytest.raises(errors.Unreachable, match="refused"):
        measured(url)
