"""How many leads does a server lose while something else keeps this machine's CPUs busy?

`python -m benchmarks.lost_leads -- COMMAND...` runs a server (SQLite, or `--postgres URL`) beside
a command and counts the lines `lead.lost` of the server's log. `make soak` runs its rehearsals so.
The last line is JSON; exit 1 when a lead was lost, else that of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

READY_SECONDS = 120.0
ROLES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, count, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lost_leads", description=__doc__)
    parser.add_argument("--postgres", help="URL of an empty PostgreSQL database")
    parser.add_argument("command", nargs="+", help="what keeps the CPUs busy")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "server.log"
        server = _server(Path(name), log, options.postgres)
        try:
            _until_led(log)
            begun = time.monotonic()
            done = subprocess.run(options.command, check=False).returncode
            minutes = (time.monotonic() - begun) / 60
            alive = server.poll() is None
        finally:
            server.terminate()
            server.wait(60)
        counted = count(log.read_text("utf-8").splitlines())
    found = {
        "minutes": round(minutes, 1), "load": round(os.getloadavg()[1], 1), "server": alive,
        "command": done, **counted,
    }  # fmt: skip
    print(json.dumps(found))
    return 1 if counted["lost"] or not alive else done


def count(lines: Sequence[str]) -> dict[str, Any]:
    """Return how often a lead was taken and lost in a server's log, and which roles lost it."""
    taken, lost = [], []
    for line in lines:
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("event") == "lead.taken":
            taken.append(said["role"])
        elif said.get("event") == "lead.lost":
            lost.append(said["role"])
    return {"taken": len(taken), "lost": len(lost), "roles": sorted(set(lost))}


def _server(folder: Path, log: Path, postgres: str | None) -> subprocess.Popen[bytes]:
    store = [] if postgres is None else ["--store", postgres]
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "labfleet", "server", "--data", str(folder), *store,
             "--port", "0", "--log-format", "json", "--aws-endpoint-url", "http://127.0.0.1:9",
             "--admin-token-file", str(folder / "token")],
            stdout=subprocess.DEVNULL, stderr=file,
        )  # fmt: skip


def _until_led(log: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while count(log.read_text("utf-8").splitlines())["taken"] < ROLES:
        if time.monotonic() > end:
            raise TimeoutError(log.read_text("utf-8")[-2000:])
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
