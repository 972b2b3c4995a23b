"""A real Prometheus and a real VictoriaMetrics scrape the simulator and see what is true."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from held_port import held_port
from kube_cluster import pod

from kubernetes_simulator.shell.fixture import Running, running

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "var" / "debian" / "usr" / "bin"
WINDOW = 10
NAMES = ("prometheus", "victoria-metrics")
SCRAPE = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- {{job_name: cadvisor, scheme: https, tls_config: {{insecure_skip_verify: true}},
   metrics_path: /metrics/cadvisor, static_configs: [{{targets: ["{target}"]}}]}}
- {{job_name: state, scheme: https, tls_config: {{insecure_skip_verify: true}},
   metrics_path: /metrics/kube-state, static_configs: [{{targets: ["{target}"]}}]}}
"""
JOINED = (
    "sum by (label_run) (rate(container_cpu_usage_seconds_total{{container!=''}}[{w}s])"
    " * on (namespace, pod) group_left (label_run) kube_pod_labels{{label_run='{run}'}})"
)
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def program(name: str) -> str:
    """Return where a program is; skip loudly when it is nowhere."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{UNPACKED}")
    if found is None:
        pytest.skip(f"no {name}: scripts/test-real.sh unpacks Debian's")
    return found


@contextmanager
def server(name: str, folder: Path, target: str) -> Iterator[str]:
    """Run a server that scrapes the simulator every second; give its URL."""
    config = folder / "scrape.yml"
    config.write_text(SCRAPE.format(target=target))
    path = program(name)
    with held_port() as port, (folder / "log").open("w") as log:
        address = f"127.0.0.1:{port}"
        options = {
            "prometheus": [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                           f"--web.listen-address={address}"],
            "victoria-metrics": [f"-promscrape.config={config}",
                                 f"-storageDataPath={folder / 'data'}",
                                 f"-httpListenAddr={address}", "-search.latencyOffset=0s"],
        }[name]  # fmt: skip
        process = subprocess.Popen([path, *options], stdout=log, stderr=log)
        try:
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


def ask(url: str, query: str) -> list[Any]:
    """Return the rows of an instant query; none while the server does not answer yet."""
    body = urllib.parse.urlencode({"query": query}).encode()
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query", body, timeout=10) as reply:
            return json.load(reply)["data"]["result"]
    except (urllib.error.URLError, OSError):
        return []


def until(question: Any, text: str) -> Any:
    """Ask until the answer is something."""
    deadline = time.monotonic() + 60
    while not (found := question()):
        assert time.monotonic() < deadline, text
        time.sleep(0.2)
    return found


def call(cluster: Running, path: str, body: Any = None) -> Any:
    """Ask the simulator."""
    data = None if body is None else json.dumps(body).encode()
    head = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(cluster.url + path, data, head)
    with urllib.request.urlopen(request, context=ANY, timeout=10) as reply:
        return json.load(reply)


def test_what_is_scraped_is_what_is_true(tmp_path: Path) -> None:
    """By both servers beside each other: the peak of each run's rate is the truth's, within 5 %."""
    with running(tmp_path, "--seed", "3", speed=30.0) as cluster, ExitStack() as kept:
        target = cluster.url.removeprefix("https://")
        urls = []
        for name in NAMES:
            program(name)
            (tmp_path / name).mkdir()
            urls.append(kept.enter_context(server(name, tmp_path / name, target)))
        for url in urls:
            until(partial(ask, url, "machine_cpu_cores"), f"{url} scrapes nothing")
        for number in range(3):
            body = pod(f"p{number}", cpu="100m", duration="600s", memory="100Mi",
                       network_in="1M", ramp="0.2")  # fmt: skip
            note = "kubernetes-simulator/"
            body["metadata"]["annotations"] |= {
                f"{note}cpu": f"{(number + 1) * 500}m", f"{note}memory": f"{100 + number}Mi",
            }  # fmt: skip
            body["metadata"]["labels"] = {"run": f"r{number}"}
            call(cluster, "/api/v1/namespaces/default/pods", body)
        over = "count(kube_pod_status_phase{phase='Succeeded'} == 1) == 3"
        for url in urls:
            until(partial(ask, url, over), "the pods do not end")
            for number in range(3):
                compared(cluster, url, number)


def compared(cluster: Running, url: str, number: int) -> None:
    """What a server tells of a pod is what is true: CPU, memory and network."""

    def told(query: str) -> float:
        return float(ask(url, query)[0]["value"][1])

    truth = call(cluster, f"/_control/pods/default/p{number}/use?window={WINDOW}")
    cpu = told(f"max_over_time(({JOINED.format(w=WINDOW, run=f'r{number}')})[60s:1s])")
    assert cpu == pytest.approx(truth["cpu"]["peak"], rel=0.05)
    of = f"pod='p{number}'"
    held = told(f"max_over_time(container_memory_working_set_bytes{{{of},container='main'}}[60s])")
    assert held == pytest.approx((100 + number) * 2**20, rel=0.05)
    rate = f"rate(container_network_receive_bytes_total{{{of}}}[{WINDOW}s])"
    network = told(f"max_over_time({rate}[60s:1s])")
    assert network == pytest.approx(truth["received"]["peak"], rel=0.05)
