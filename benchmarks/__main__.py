"""`python -m benchmarks`: runs the benchmarks and prints JSON, one object a line.

Each benchmark prints its object when it is done; the last line is one object with all. What
is said to people goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import measure

NAMES = (
    "admission", "autoscaling", "aws_list", "commits", "decide", "fleet", "listing", "placements", "polls",
    "prediction", "queue", "queue_core", "reconciles", "stream", "web",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; exit 1 when a benchmark failed."""
    options = _options(arguments)
    if options.list:
        for name in NAMES:
            print(f"{name:12s} {import_module(f'benchmarks.{name}').SUMMARY}")
        return 0
    _more_files()
    results: dict[str, Any] = {}
    for name in options.only or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = _one(name, options)
        if results[name]["noisy"] and not options.smoke:
            print(f"NOISY: {name}: others were busy; read its CPU figures", file=sys.stderr)
        print(json.dumps(results[name]), flush=True)
    failed = sorted(name for name, each in results.items() if "error" in each)
    whole = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "smoke": options.smoke,
        "machine": measure.machine(),
        "failed": failed,
        "benchmarks": results,
    }
    print(json.dumps(whole), flush=True)
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument(
        "--only", action="append", choices=NAMES, help="run just this one (again for more)"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--rounds", type=int, default=None, help="repeats of each figure (median)")
    parser.add_argument("--seconds", type=float, default=None, help="length of one stretch")
    parser.add_argument(
        "--peers", type=Path, default=ROOT.parent / "shared" / "perf-peers",
        help="folder of ready peers (default ../shared/perf-peers)",
    )  # fmt: skip
    parser.add_argument(
        "--peer-python", default=sys.executable,
        help="interpreter for the placement peers, one with numpy (default: this one)",
    )  # fmt: skip
    parser.add_argument(
        "--quiet", type=float, default=20.0,
        help="wait up to so many seconds for an idle machine before each benchmark",
    )  # fmt: skip
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--postgres", help="URL of a PostgreSQL database to measure too")
    parser.add_argument("--data", type=Path, help="folder of recorded runs (CSV, see README)")
    parser.add_argument("--trace", type=Path, help="one CSV of runs instead of those in --data")
    parser.add_argument("--rules", type=_words, default=(), help="admission: only these rules")
    parser.add_argument("--pools", type=_words, default=(), help="admission: only these GB")
    parser.add_argument(
        "--orders", type=lambda text: tuple(map(int, _words(text))), default=(),
        help="admission: only these shuffles, such as 1,2 (default 5 to 12)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, which is always done")
    parser.add_argument("--dir", type=Path, default=None, help="where files under test lie")
    return parser.parse_args(arguments)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    folder = options.dir or _durable_folder()
    plan = measure.Plan(
        smoke=options.smoke,
        seconds=options.seconds or (0.05 if options.smoke else 1.0),
        rounds=options.rounds or (1 if options.smoke else 3),
        peers=None if options.no_peers else options.peers,
        peer_python=options.peer_python,
        postgres=options.postgres,
        data=options.data,
        trace=options.trace,
        rules=options.rules,
        pools=options.pools,
        orders=options.orders,
        folder=folder,
    )
    busy = measure.quiet(0.0 if options.smoke else options.quiet)
    fsync = measure.fsync_probe(folder, plan.size(400, 5))
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        found = import_module(f"benchmarks.{name}").measure(plan)
    except Exception as problem:
        print(f"FAILED: {name}: {problem!r}", file=sys.stderr, flush=True)
        found = {"rows": [], "peers": [], "ratios": {}, "error": repr(problem)}
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    after = measure.fsync_probe(folder, plan.size(400, 5))
    return {
        "benchmark": name,
        "smoke": options.smoke,
        "python": measure.machine()["python"],
        "wall_s": round(wall, 3),
        "cpu_s": round(cpu, 3),
        "noisy": measure.noisy(busy, fsync, after),
        "others_busy_before": busy,
        "fsync": fsync,
        "fsync_after": after,
        **found,
        "skipped": plan.skipped,
    }


def _durable_folder() -> Path:
    """Return the temporary folder, or the current one where that is memory and syncs nothing."""
    folder = Path(tempfile.gettempdir())
    return Path.cwd() if measure.file_system(folder) == "tmpfs" else folder


def _more_files() -> None:
    """Allow as many descriptors as the host lets us: every streaming client holds one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))


if __name__ == "__main__":
    sys.exit(main())
