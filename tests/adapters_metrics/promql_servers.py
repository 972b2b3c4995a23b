"""Real Prometheus and real VictoriaMetrics from Debian's packages: a temp folder, a loopback port.

Found where Debian installs them, or where scripts/test-real.sh unpacked the packages.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from held_port import held_port

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "var" / "debian" / "usr" / "bin"
NAMES = ("prometheus", "victoria-metrics")
SECONDS = 40.0


def program(name: str) -> str | None:
    """Return where a program is, or None."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{UNPACKED}")


def version(name: str) -> str:
    """Return what a program calls itself."""
    found = program(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not here: `make test-real` unpacks it below var/")
    done = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=True, timeout=20
    )
    told = (done.stdout + done.stderr).strip().splitlines()
    return told[0] if told else f"{name} tells no version; test-real names its package"


SCRAPE = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
"""
JOB = """
- job_name: %s
  scheme: https
  tls_config: {insecure_skip_verify: true}
  metrics_path: /metrics/%s
  static_configs: [{targets: ["%s"]}]
"""
PAGES = ("cadvisor", "kube-state")


@contextmanager
def serving(
    name: str, folder: Path, history: str = "", target: str = ""
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Give the URL and the process of a server that has a history and scrapes a target.

    The history is text in the exposition's form, each line with its instant in milliseconds; the
    target is the Kubernetes simulator.
    """
    config = folder / "scrape.yml"
    jobs = [JOB % (page, page, target) for page in PAGES if target]
    config.write_text(SCRAPE + ("".join(jobs) or "  []\n"))
    with ExitStack() as kept:
        port = kept.enter_context(held_port())
        url = f"http://127.0.0.1:{port}"
        if name == "prometheus":
            _backfill(folder, history)
            options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                       f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        else:
            options = [f"-promscrape.config={config}", f"-storageDataPath={folder / 'data'}",
                       f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s"]  # fmt: skip
        log = kept.enter_context((folder / "log").open("w"))
        running = subprocess.Popen([program(name) or name, *options], stdout=log, stderr=log)
        try:
            _wait(f"{url}/-/ready" if name == "prometheus" else f"{url}/health", running, folder)
            if name != "prometheus" and history:
                _post(f"{url}/api/v1/import/prometheus", history.encode())
                _post(f"{url}/internal/force_flush", b"")
            yield url, running
        finally:
            running.send_signal(signal.SIGCONT)  # it may be held
            running.terminate()
            running.wait(timeout=30)


def _backfill(folder: Path, history: str) -> None:
    """Make blocks of a history, as promtool does; its lines want seconds."""
    (folder / "data").mkdir()
    if not history:
        return
    lines = []
    for line in history.splitlines():
        series, value, at = line.rsplit(" ", 2)
        lines.append(f"{series.replace(', ', ',')} {value} {int(at) / 1000}")
    text = folder / "history.om"
    text.write_text("\n".join([*lines, "# EOF", ""]))
    made = subprocess.run(
        [program("promtool") or "promtool", "tsdb", "create-blocks-from", "openmetrics",
         str(text), str(folder / "data")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr


def _wait(url: str, running: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + SECONDS
    while True:
        assert running.poll() is None, (folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < until, (folder / "log").read_text()[-2000:]
            time.sleep(0.1)


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=20) as reply:
        assert reply.status in {200, 204}
