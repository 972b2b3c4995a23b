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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from held_port import held_port
from kube_cluster import pod

from kubernetes_simulator.shell.fixture import Running, running

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "var" / "debian" / "usr" / "bin"
WINDOW = 10
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


@pytest.mark.parametrize("name", ["prometheus", "victoria-metrics"])
def test_what_is_scraped_is_what_is_true(tmp_path: Path, name: str) -> None:
    """The peak of each run's rate is the truth's own mean over the window, within five percent."""
    program(name)
    with running(tmp_path, "--seed", "3", speed=30.0) as cluster:
        target = cluster.url.removeprefix("https://")
        with server(name, tmp_path, target) as url:
            until(lambda: ask(url, "machine_cpu_cores"), (tmp_path / "log").read_text()[-2000:])
            for number in range(3):
                body = pod(f"p{number}", cpu="100m", duration="900s", memory="100Mi",
                           network_in="1M", ramp="0.2")  # fmt: skip
                note = "kubernetes-simulator/"
                body["metadata"]["annotations"] |= {
                    f"{note}cpu": f"{(number + 1) * 500}m", f"{note}memory": f"{100 + number}Mi",
                }  # fmt: skip
                body["metadata"]["labels"] = {"run": f"r{number}"}
                call(cluster, "/api/v1/namespaces/default/pods", body)
            over = "count(kube_pod_status_phase{phase='Succeeded'} == 1) == 3"
            until(lambda: ask(url, over), "the pods do not end")
            for number in range(3):
                query = JOINED.format(w=WINDOW, run=f"r{number}")
                rows = ask(url, f"max_over_time(({query})[60s:1s])")
                path = f"/_control/pods/default/p{number}/use?window={WINDOW}"
                truth = call(cluster, path)
                assert float(rows[0]["value"][1]) == pytest.approx(truth["cpu"]["peak"], rel=0.05)
                held = f"max_over_time(container_memory_working_set_bytes{{pod='p{number}',container='main'}}[60s])"
                seen = float(ask(url, held)[0]["value"][1])
                assert seen == pytest.approx((100 + number) * 2**20, rel=0.05)
                rate = f"max_over_time(rate(container_network_receive_bytes_total{{pod='p{number}'}}[{WINDOW}s])[60s:1s])"
                seen = float(ask(url, rate)[0]["value"][1])
                assert seen == pytest.approx(truth["received"]["peak"], rel=0.05)
