"""Durable decisions through HTTP: requests without cost, judged by chance, each fsynced.

The server is the product (`labfleet server`, roles api and scheduler, SQLite with fsync on), alone
on one CPU; 64 kept connections of one load generator are on another. 100 runs are active, about
half of the requests are denied, and each approved one is followed by the completion of the
oldest run with what it used. A decision is one answered request: completions are work on top
of it, whose CPU is counted against the decisions. A store of its own for each round and size.

Beside it, in the same rounds: a bare Litestar POST, and perf-peers' plain service (FastAPI,
SQLAlchemy, aiosqlite, 1,000 workers) in the interpreter that --peer-python names. `work` is how
many objects of the cache and rows of history one decision touches, one request at a time.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import runs_system as system
from benchmarks.measure import Plan, Sample, ratio, row
from benchmarks.polls import Child

SUMMARY = "durable decisions through HTTP, 10 and 10,000 rows of history, beside a bare POST"
CONNECTIONS = 64
ROWS = (10, 10_000)
ROUNDS = 5
SECONDS = 2.0
PLAIN_WORKERS = 1000
WARM = 600
"""Decisions before anything is measured: by then as many runs live as will."""
NODES, TRIED, HALF = (100.0, 1_000_000.0), 8, 0.45
LIMIT = "limit: bare Litestar POST"
PLAIN = "peer: FastAPI + SQLAlchemy, 1,000 workers"
MEANING = (
    "a decision is one answered request_run; simulation_complete is not counted as one, its CPU "
    "is; CPU is the server's own, all threads; the history grows while it is measured, since "
    "completions teach"
)


def measure(plan: Plan) -> dict[str, Any]:
    """Return decisions per CPU second by rows of history, and ratios to what ran beside it."""
    rounds = plan.rounds if plan.smoke else max(ROUNDS, plan.rounds)
    load = os.getloadavg()
    with plan.place() as place, ExitStack() as stack:
        round_ = _Round(plan, place, stack)
        stretches = [round_.run(number) for number in range(rounds)]
        work = {str(rows): round_.work(rows) for rows in ROWS}
    names = [_name(rows) for rows in ROWS]
    rates = {
        name: [each[name]["decisions"] / each[name]["server_cpu"] for each in stretches]
        for name in stretches[0]
    }
    found = {name: statistics.median(each) for name, each in rates.items()}
    return {
        "per_cpu_s": {str(rows): round(found[_name(rows)], 1) for rows in ROWS},
        "of_litestar": _paired(rates, names[-1], LIMIT),
        "of_plain": _paired(rates, names[-1], PLAIN),
        "work": work,
        "of_10_rows": _paired(rates, names[-1], names[0]),
        "meaning": MEANING,
        "connections": CONNECTIONS,
        "load_before": load,
        "load_after": os.getloadavg(),
        "rows": [_row(name, [each[name] for each in stretches]) for name in stretches[0]],
        "peers": [],
        "ratios": {
            "ours_to_litestar": _paired(rates, names[-1], LIMIT),
            "ours_to_plain": _paired(rates, names[-1], PLAIN),
        },
    }


def _name(rows: int) -> str:
    return f"decisions, {rows:,} rows of history"


def _paired(rates: dict[str, list[float]], ours: str, other: str) -> float | None:
    """Return the median of the ratios of neighbours; None when the other one did not run."""
    if other not in rates:
        return None
    pairs = zip(rates[ours], rates[other], strict=True)
    return ratio(statistics.median(mine / its for mine, its in pairs), 1.0)


def _row(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    samples = [Sample(each["decisions"], each["wall"], each["server_cpu"]) for each in found]
    middle = found[len(found) // 2]
    outcomes: dict[str, int] = {}
    for each in found:
        for what, count in each["outcomes"].items():
            outcomes[what] = outcomes.get(what, 0) + count
    more: dict[str, Any] = {
        "p50_ms": round(middle["p50"] * 1e3, 3),
        "p99_ms": round(middle["p99"] * 1e3, 3),
        "load_generator_cpu_s": round(sum(each["cpu"] for each in found), 3),
        "completions": sum(each["completions"] for each in found),
        **outcomes,
    }
    if outcomes:
        more["live"] = middle["live"]
    return row(name, samples, **more)


class _Round:
    """What takes turns: the peers, started once, and the product, started anew each time."""

    def __init__(self, plan: Plan, place: Path, stack: ExitStack) -> None:
        self._plan = plan
        self._place = place
        self._server_cpu, self._load_cpu = system.cpus()
        self._seconds = plan.seconds if plan.smoke else max(SECONDS, plan.seconds)
        self._peers: dict[str, tuple[system.Served, Child]] = {}
        self._nodes = {rows: self._enough(rows) for rows in ROWS}
        for rows, nodes in self._nodes.items():
            made = plan.size(rows, min(rows, 50))
            system.prepare(place / f"ready-{rows}", made, system.capacity(nodes))
        bare = system.asgi("benchmarks.bare_post:app", sys.executable, self._server_cpu)
        self._begin(stack, LIMIT, stack.enter_context(bare))
        self._begin_plain(stack)

    def _begin(self, stack: ExitStack, name: str, served: system.Served) -> None:
        child = self._load(served, "fixed")
        stack.callback(child.end)
        self._peers[name] = served, child

    def _begin_plain(self, stack: ExitStack) -> None:
        plan = self._plan
        if plan.smoke or plan.peers is None:
            return
        script = plan.peers / "e2e" / "app_plain.py"
        if not script.exists():
            plan.skip(f"{PLAIN}: {script} is not there; give --peers DIR")
            return
        (self._place / "fs").mkdir()
        try:
            served = stack.enter_context(
                system.asgi(
                    "app_plain:app", plan.peer_python, self._server_cpu, folder=script.parent,
                    environment={"W": str(PLAIN_WORKERS), "PERF_BASE": str(self._place)},
                )
            )  # fmt: skip
        except (OSError, RuntimeError) as problem:
            plan.skip(f"{PLAIN}: {problem}; --peer-python needs fastapi, sqlalchemy, aiosqlite")
            return
        self._begin(stack, PLAIN, served)

    def _load(self, served: system.Served, kind: str, connections: int = CONNECTIONS) -> Child:
        return Child("runs_client", self._load_cpu, served.port, connections, served.token, kind)

    def _enough(self, rows: int) -> float:
        """Return for how many nodes a cluster must have room so that it denies half of all requests.

        By halves: in a larger one ACTIVE runs live and too few are denied, in a smaller one as many
        are denied and fewer live.
        """
        least, most = NODES
        if self._plan.smoke:
            return 2000.0
        ready = self._place / f"tried-{rows}"
        system.prepare(ready, rows, system.capacity(most))
        with self._product(ready, ready) as (served, child):
            system.asks(child, decisions=WARM)
            for _ in range(TRIED):
                nodes = (least * most) ** 0.5
                served.resize(system.capacity(nodes))
                system.asks(child, decisions=WARM // 4)
                found = system.asks(child, decisions=WARM // 4)
                if found["outcomes"].get("denied", 0) < HALF * found["decisions"]:
                    most = nodes
                else:
                    least = nodes
        return (least * most) ** 0.5

    def run(self, number: int) -> dict[str, dict[str, Any]]:
        """Return one stretch of each, in an order that turns round each time."""
        turns: dict[str, Callable[[], dict[str, Any]]] = {
            name: lambda pair=pair: self._stretch(*pair) for name, pair in self._peers.items()
        }
        for rows in ROWS:
            turns[_name(rows)] = lambda rows=rows: self._ours(rows, f"{rows}-{number}")
        names = list(turns) if number % 2 else list(turns)[::-1]
        found = {name: turns[name]() for name in names}
        return {name: found[name] for name in turns}

    def _stretch(self, served: system.Served, child: Child) -> dict[str, Any]:
        system.asks(child, seconds=self._seconds / 4)
        before = served.cpu()
        found = system.asks(child, seconds=self._seconds)
        return {**found, "server_cpu": served.cpu() - before}

    @contextmanager
    def _product(
        self, folder: Path, ready: Path, *, counting: bool = False
    ) -> Iterator[tuple[system.Served, Child]]:
        """Run the product and its load generator; a counting one is asked one by one."""
        copy = None if folder == ready else ready
        cpu = -1 if counting else self._server_cpu
        how = system.COUNTING if counting else system.PRODUCT
        with system.product(folder, cpu, ready=copy, how=how) as served:
            child = self._load(served, "runs", 1 if counting else CONNECTIONS)
            try:
                yield served, child
            finally:
                child.end()

    def _ours(self, rows: int, name: str) -> dict[str, Any]:
        with self._product(self._place / name, self._place / f"ready-{rows}") as (served, child):
            system.asks(child, decisions=self._plan.size(WARM, 40))
            return self._stretch(served, child)

    def work(self, rows: int) -> float:
        """Return how many objects and rows one decision touches, the median of many."""
        folder, ready = self._place / f"counted-{rows}", self._place / f"ready-{rows}"
        with self._product(folder, ready, counting=True) as (served, child):
            system.asks(child, decisions=self._plan.size(WARM, 10))
            found = []
            for _ in range(self._plan.size(60, 4)):
                before = served.touched()
                system.asks(child, decisions=1)
                found.append(served.touched() - before)
        return statistics.median(found)
