"""`labfleet apply` of many sessions: this revision beside an earlier one, in one run.

`python -m benchmarks.bulk_apply` takes the earlier revision's source from git, starts a server
(role api, SQLite, durable) and runs the command of each, in turn, round by round. Told are the wall
time of the command and the CPU time of command and server together, for objects that are new and
again for the same ones unchanged. The last line is one JSON object; the ratios are medians of
neighbours. `TARGET` is what a bulk apply may cost of the earlier one.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import measure

SUMMARY = "apply of 200 sessions by the command line, beside an earlier revision"
ROOT = Path(__file__).resolve().parents[1]
BEFORE = "a726f1c"
TARGET = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Side:
    """One revision: its source, its server, its address and token."""

    name: str
    source: Path
    server: subprocess.Popen[str]
    url: str
    token: str

    def apply(self, manifest: Path) -> dict[str, float]:
        """Run `labfleet apply`; return wall and CPU seconds of the command and of the server."""
        served, spent, begun = self._served(), _children(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "labfleet", "apply", "-f", str(manifest)],
            env=_environment(self.source, LABFLEET_URL=self.url, LABFLEET_TOKEN=self.token),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        wall = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr[-500:]}")
        command, server = _children() - spent, self._served() - served
        return {"wall_s": wall, "command_cpu_s": command, "server_cpu_s": server,
                "cpu_s": command + server}  # fmt: skip

    def _served(self) -> float:
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; exit 1 when the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bulk_apply", description=__doc__)
    parser.add_argument("--before", default=BEFORE, help=f"the earlier revision ({BEFORE})")
    parser.add_argument("--objects", type=int, default=200, help="sessions of one apply (200)")
    parser.add_argument("--rounds", type=int, default=3, help="of both sides (3)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="labfleet-bench-") as name:
        folder = Path(name)
        sides = [
            _side("before", _earlier(folder, given.before), folder),
            _side("now", ROOT / "src", folder),
        ]
        try:
            found = _rounds(sides, folder, given.objects, given.rounds)
        finally:
            for each in sides:
                each.server.terminate()
                each.server.wait()
    told = _told(found, given)
    print(json.dumps(told), flush=True)
    return 0 if told["met"] else 1


def _rounds(
    sides: list[Side], folder: Path, objects: int, rounds: int
) -> dict[str, list[dict[str, dict[str, float]]]]:
    """Return for `new` and `unchanged` the figures of each round, by side."""
    lab = folder / "lab.yaml"
    lab.write_text(definition())
    for each in sides:
        each.apply(lab)
    found: dict[str, list[dict[str, dict[str, float]]]] = {"new": [], "unchanged": []}
    for number in range(rounds):
        manifest = folder / f"sessions-{number}.yaml"
        manifest.write_text("---\n".join(session(number, each) for each in range(objects)))
        for what, figures in found.items():
            figures.append({each.name: each.apply(manifest) for each in sides})
            print(f"round {number}, {what}: {figures[-1]}", file=sys.stderr, flush=True)
    return found


def _told(found: dict[str, list[dict[str, dict[str, float]]]], given: Any) -> dict[str, Any]:
    rows, ratios = [], {}
    for what, figures in found.items():
        for name in ("before", "now"):
            middle = {
                key: round(statistics.median(each[name][key] for each in figures), 3)
                for key in figures[0][name]
            }
            rows.append({"name": f"{what}, {name}", "objects": given.objects, **middle})
        for key in ("wall_s", "cpu_s"):
            shares = [each["now"][key] / each["before"][key] for each in figures]
            ratios[f"{what}_{key}_now_to_before"] = round(statistics.median(shares), 3)
    met = all(ratios[f"new_{key}_now_to_before"] <= TARGET for key in ("wall_s", "cpu_s"))
    return {"benchmark": "bulk_apply", "before": given.before, "machine": measure.machine(),
            "rounds": given.rounds, "rows": rows, "ratios": ratios, "target": TARGET,
            "met": met}  # fmt: skip


def _earlier(folder: Path, revision: str) -> Path:
    """Return the source folder of an earlier revision, taken from git."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", revision, "src"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    place = folder / "before"
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place / "src"


def _side(name: str, source: Path, folder: Path) -> Side:
    """Start a revision's server and wait until it is ready."""
    data, token = folder / f"data-{name}", folder / f"{name}.token"
    server = subprocess.Popen(
        [sys.executable, "-m", "labfleet", "server", "--port", "0", "--roles", "api",
         "--data", str(data), "--admin-token-file", str(token), "--log-level", "error"],
        env=_environment(source), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None  # noqa: S101 - it was asked for
    ready = json.loads(server.stdout.readline())
    return Side(name, source, server, str(ready["url"]), token.read_text().strip())


def _environment(source: Path, **more: str) -> dict[str, str]:
    # Compiled code is kept, as where it is installed: else both would measure the compiler.
    kept = {
        key: value
        for key, value in os.environ.items()
        if not re.match("LABFLEET_|PYTHONDONTWRITEBYTECODE", key)
    }
    return {**kept, "PYTHONPATH": str(source), "LABFLEET_CONFIG": os.devnull + "-none", **more}


def _children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def definition() -> str:
    """Return the manifest of the lab that all sessions are of."""
    topology = (ROOT / "docs/tutorials/first-lab/two-routers.yaml").read_text()
    return (
        "kind: Definition\nmetadata: {name: lab}\nspec:\n  topology: "
        + json.dumps(topology) + "\n"
    )  # fmt: skip


def session(number: int, each: int) -> str:
    """Return the manifest of one session of a round."""
    return (
        f"kind: Session\nmetadata:\n  name: exam-{number}-{each}\n  labels: {{exam: r{number}}}\n"
        f"spec:\n  definition: lab\n  owner: student{each}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
