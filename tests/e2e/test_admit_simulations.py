"""The page that leads from nothing to an admitted run: its commands are run as they stand."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "admit-simulations.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return str(held.getsockname()[1])


def test_a_stranger_gets_an_admitted_run_and_one_that_is_learned(tmp_path: Path) -> None:
    """Simulator, server, cluster, kubectl and admit: the run is seen, measured and learned."""
    api, cluster = free_port(), free_port()
    shell = "".join(text for name, text in FENCE.findall(PAGE.read_text("utf-8")) if name == "sh")
    shell = shell.replace("8470", api).replace("6443", cluster)
    shell = shell.replace("labfleet server", f"labfleet server --port {api}")
    script = tmp_path / "page.sh"
    script.write_text("set -e\ntrap 'kill $(jobs -p)' EXIT\n" + shell)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if "LABFLEET" not in name}
    environment = kept | {"PATH": path, "LABFLEET_URL": f"http://127.0.0.1:{api}"}
    done = subprocess.run(
        ["bash", str(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "cluster/default: measured since" in said
    assert "It has 24 CPU / 96 GiB" in said
    assert "ended: completed." in said
    # Family, name, duration, CPUs and MiB: its caller reported no use, so it was measured.
    assert re.search(r"waku +sim-\S+ .* [0-9]+\.[0-9]{2} +[0-9]+ ", done.stdout), said[-3000:]
    assert "NeverFits" in said, said[-3000:]
