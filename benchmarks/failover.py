"""How long does nobody lead after `kill -9`? Two servers on PostgreSQL, one of them killed, again.

`python -m benchmarks.failover --postgres URL` gives each kill in seconds of the wall: until the
survivor holds the lead of every role (`lead`), and until it has decided something about a session
that was created at the moment of the kill (`decided`). It kills at moments spread over the time
between two renewals. The last line is JSON; exit 1 when the median of `lead` is over the lease.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import measure

ROLES = ("scheduler", "worker-controller", "lab-controller")
LEASE = 15.0
PATIENCE = 180.0
TOPOLOGY = """
lab: {title: one, version: 0.1.0}
nodes:
- {id: n0, label: r1, node_definition: iosv, x: 0, y: 0, interfaces: []}
links: []
"""


class Server:
    """One `labfleet server` with all roles."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.log = (folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labfleet", "server", "--data", str(folder), "--store", url,
             "--port", "0", "--log-format", "json", "--aws-endpoint-url", "http://127.0.0.1:9",
             "--admin-token-file", str(folder.parent / "token")],
            stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API as the first admin."""
        token = (self.folder.parent / "token").read_text("utf-8").strip()
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, method=method)
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refused:
            raise RuntimeError(f"{method} {path}: {refused.read()[:500]!r}") from None

    def kill(self) -> None:
        """End it as a lost machine ends."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    parser.add_argument("--postgres", required=True, help="URL of an empty PostgreSQL database")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    rows = []
    with (
        tempfile.TemporaryDirectory() as name,
        psycopg.connect(options.postgres, autocommit=True) as leases,
    ):
        folder = Path(name)
        (folder / "0").mkdir()
        leader = Server(folder / "0", options.postgres)
        leader.call("POST", "/api/v1/definitions", {
            "metadata": {"name": "one"}, "spec": {"topology": TOPOLOGY},
        })  # fmt: skip
        _until(lambda: _led(leases, {}))
        for number in range(1, options.kills + 1):
            (folder / str(number)).mkdir()
            standby = Server(folder / str(number), options.postgres)
            time.sleep(5.0 + rng.uniform(0.0, LEASE / 4))
            rows.append(_one(number, leader, standby, leases))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            leader = standby
        leader.kill()
    return verdict(rows)


def _one(number: int, leader: Server, standby: Server, leases: Any) -> dict[str, Any]:
    """Kill the leader and return what it took."""
    tokens = dict(leases.execute("SELECT name, token FROM leases").fetchall())
    leader.kill()
    begun = time.monotonic()
    path = "/api/v1/sessions"
    made = standby.call("POST", path, {
        "metadata": {"name": f"s{number}"}, "spec": {"definition": "one"},
    })  # fmt: skip
    _until(lambda: _led(leases, tokens))
    lead = time.monotonic() - begun
    before = made["metadata"]["resourceVersion"]
    _until(
        lambda: standby.call("GET", f"{path}/s{number}")["metadata"]["resourceVersion"] != before
    )
    return {
        "kill": number,
        "lead": round(lead, 2),
        "decided": round(time.monotonic() - begun, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def _led(leases: Any, before: dict[str, int]) -> bool:
    """Tell whether every role has a leader, and not the one that had these tokens."""
    rows = leases.execute("SELECT name, holder, token FROM leases").fetchall()
    led = {name for name, holder, token in rows if holder and token > before.get(name, 0)}
    return led.issuperset(ROLES)


def _until(reached: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError("nobody leads")
        time.sleep(0.05)


def verdict(rows: list[dict[str, Any]]) -> int:
    """Print the figures of all kills; return 1 when the median is over the lease."""
    found: dict[str, Any] = {"kills": len(rows), "lease": LEASE, "machine": measure.machine()}
    for name in ("lead", "decided"):
        values = sorted(row[name] for row in rows)
        found[name] = {
            "median": round(statistics.median(values), 2), "least": values[0], "worst": values[-1],
        }  # fmt: skip
    print(json.dumps(found))
    return 1 if found["lead"]["median"] > LEASE else 0


if __name__ == "__main__":
    sys.exit(main())
