"""Runs the ready peers of `shared/perf-peers` as child processes and reads what they print.

They lie outside the checkout and are never copied; an absent or failing one is skipped loudly.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Plan

_RATE = re.compile(
    r"^(?P<name>.+?)\s+(?P<rate>\d+)/s p50\s+(?P<p50>[\d.]+)ms p99\s+(?P<p99>[\d.]+)ms"
    r"\s+py-cpu\s+(?P<cpu>\d+)us/op"
)
_PLACED = re.compile(r"^(?P<name>.+ W=.+?)\s+(?P<cpu>\d+) placements/cpu-s\s+(?P<wall>\d+)/s wall")
_STREAMED = re.compile(
    r"^(?P<name>\S.+?)\s+all\s+(?P<last>[\d.]+)ms \(best [\d.]+\)\s+cpu\s+(?P<cpu>[\d.]+)us/client"
    r"\s+(?P<kib>-?[\d.]+) KiB/client\s+burst\s+(?P<burst>\d+) ev/s"
)


def state(plan: Plan, folder: Path, name: str, *, seconds: float) -> dict[str, dict[str, Any]]:
    """Run the durable-commit peers whose names contain `name`; return their rows by name."""
    script = _script(plan, "state/bench_state.py", name)
    if script is None:
        return {}
    (folder / "fs").mkdir(exist_ok=True)
    # The script imports aiosqlite before the parts that do not use it; an empty module will do.
    (folder / "aiosqlite.py").touch()
    text = _run(plan, [sys.executable, str(script), str(seconds), name], _environment(folder))
    found = {}
    for line in (text or "").splitlines():
        if match := _RATE.match(line):
            found[match["name"].strip()] = {
                "name": f"peer: {match['name'].strip()}",
                "per_second": float(match["rate"]),
                "cpu_us_per_operation": float(match["cpu"]),
                "p50_ms": float(match["p50"]),
                "p99_ms": float(match["p99"]),
            }
    if text is not None and not found:
        plan.skip(f"peer {name!r}: it printed no figures")
    return found


def placements(plan: Plan, name: str) -> list[dict[str, Any]]:
    """Run the placement cores whose names contain `name`; they need numpy."""
    script = _script(plan, "core/sched_core.py", "placement cores")
    if script is None:
        return []
    with plan.place() as folder:
        text = _run(plan, [plan.peer_python, str(script), name], _environment(folder))
    return [
        {
            "name": match["name"].strip(),
            "per_cpu_second": float(match["cpu"]),
            "per_second": float(match["wall"]),
        }
        for match in map(_PLACED.match, (text or "").splitlines())
        if match and match["name"].strip().endswith(name)
    ]


def streams(plan: Plan, clients: int, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Run the stream peers with so many clients; they need uvicorn and a free port 18081."""
    script = _script(plan, "sse/bench_sse.py", "streams")
    if script is None:
        return []
    with plan.place() as place:
        environment = {**_environment(place), "VENV": sys.prefix}
        command = [sys.executable, str(script), str(clients), "1", *names]
        text = _run(plan, command, environment)
    found = [
        {
            "name": match["name"].strip(),
            "last_ms": float(match["last"]),
            "cpu_us_per_client": float(match["cpu"]),
            "kib_per_client": float(match["kib"]),
            "burst_events_per_second": float(match["burst"]),
        }
        for match in map(_STREAMED.match, (text or "").splitlines())
        if match
    ]
    for name in names:
        if text is not None and not any(each["name"] == name for each in found):
            plan.skip(f"peer {name!r}: it printed no figures")
    return found


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ, "PERF_BASE": str(folder), "GATE": "0", "PG": "0", "REPS": "1", "SECS": "0.7",
        "PYTHONPATH": str(folder),
    }  # fmt: skip


def _script(plan: Plan, part: str, what: str) -> Path | None:
    if plan.peers is None or not plan.peers.is_dir():
        plan.skip(f"peer {what!r}: no peers in {plan.peers}; give --peers DIR")
        return None
    path = plan.peers / part
    if not path.exists():
        plan.skip(f"peer {what!r}: {path} is not there")
        return None
    return path


def _run(plan: Plan, command: list[str], environment: dict[str, str]) -> str | None:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        plan.skip(f"peer {command[1]}: {problem}")
        return None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        plan.skip(f"peer {command[1]}: exit {done.returncode}: {last}")
    return done.stdout
