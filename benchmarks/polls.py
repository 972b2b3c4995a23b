"""One process polls 5,000 simulated workers, three GETs each over TLS, warm connections.

Ours is the product's own path: CmlHosts, LabHost's methods, login, lanes, breaker, typed records.
Beside it, each in a process of its own on the same CPU, taking turns cycle by cycle: bare
aiohttp with json.loads, and a bare Protocol as limit.
The simulated servers are one process on another CPU (`polls_server`); `first` is a cycle with
every handshake (ours with a login), `again` one after the servers closed every connection.
Memory is the growth of resident bytes after the warm cycles, by worker.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import Plan, ratio

SUMMARY = "one process polls 5,000 workers, three GETs each over TLS, beside bare aiohttp"
WORKERS = 5000
WIDTH = 1000
GETS = 3
DELAY_MS = 20.0
ROOT = Path(__file__).resolve().parents[1]
NAMES = ("ours", "aiohttp", "limit: bare Protocol")


class Child:
    """A process that answers each line on its stdin with a line of JSON."""

    def __init__(self, module: str, *arguments: object) -> None:
        command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.hello = self._hear()

    def _hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a child ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, word: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self._hear()

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def measure(plan: Plan) -> dict[str, Any]:
    """Return a row for each poller and the ratios of warm cycles to bare aiohttp's."""
    wanted = plan.size(WORKERS, 20)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(wanted, (hard - 500) // len(NAMES))  # the server holds everybody's connections
    if count < wanted:
        plan.skip(f"{wanted} workers: {hard} descriptors allow {count}")
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    mine, its = (cpus[0], cpus[-1]) if len(cpus) > 1 else (-1, -1)
    server = Child("polls_server", its, 1.0 if plan.smoke else DELAY_MS)
    pollers: dict[str, Child] = {}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    load = os.getloadavg()
    try:
        for name in NAMES:
            pollers[name] = Child("polls_client", name, count, server.hello, WIDTH, mine)
            found[name] = {"first": [pollers[name].ask("cycle")], "warm": [], "again": []}
        for number in range(plan.rounds + 1):
            for name in NAMES if number % 2 else NAMES[::-1]:
                each = pollers[name].ask("cycle")
                if number:  # the round before them is for the processes to settle
                    found[name]["warm"].append(each)
        for name in NAMES:
            server.ask("drop")
            found[name]["again"].append(pollers[name].ask("cycle"))
        asked = server.ask("count")
    finally:
        for child in (*pollers.values(), server):
            child.end()
    rows = [_row(name, count, each) for name, each in found.items()]
    warm = {each["name"]: each for each in rows}
    ratios = {}
    for other in NAMES[1:]:
        for what in ("warm_s", "cpu_us_per_get"):
            to = ratio(warm["ours"][what], warm[other][what])
            ratios[f"ours_to_{other}, {what}"] = to
        ratios[f"ours_to_{other}, kib_per_worker"] = ratio(
            warm["ours"]["kib_per_worker"], warm[other]["kib_per_worker"]
        )
    errors = sum(each["errors"] for each in rows)
    if errors:
        raise RuntimeError(f"{errors} polls failed: {_problem(found)}")
    return {
        "workers": count, "gets_per_worker": GETS, "in_flight": WIDTH, "delay_ms": DELAY_MS,
        "requests": asked, "load_before": load, "load_after": os.getloadavg(),
        "rows": rows, "peers": [], "ratios": ratios,
    }  # fmt: skip


def _problem(found: dict[str, dict[str, list[dict[str, Any]]]]) -> str | None:
    each = [one for kinds in found.values() for many in kinds.values() for one in many]
    return next((one["first_error"] for one in each if one["errors"]), None)


def _row(name: str, count: int, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    warm = found["warm"]
    wall = statistics.median(each["wall"] for each in warm)
    cpu = statistics.median(each["cpu"] for each in warm)
    [first], [again] = found["first"], found["again"]
    return {
        "name": name,
        "warm_s": round(wall, 3),
        "per_second": round(count * GETS / wall, 1),
        "cpu_us_per_get": round(cpu / count / GETS * 1e6, 1),
        "warm_best_s": round(min(each["wall"] for each in warm), 3),
        "first_s": round(first["wall"], 3),
        "first_cpu_us_per_worker": round(first["cpu"] / count * 1e6, 1),
        "again_s": round(again["wall"], 3),
        "again_cpu_us_per_worker": round(again["cpu"] / count * 1e6, 1),
        "kib_per_worker": round(warm[-1]["grown"] / count / 1024, 1),
        "rounds": len(warm),
        "errors": sum(each["errors"] for many in found.values() for each in many),
    }
