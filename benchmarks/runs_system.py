"""The servers that `decide` and `queue` measure, each a process alone on its CPU.

The product is `labfleet server` itself with the roles api and scheduler, over a SQLite file with
fsync on and a history that was put there before.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from benchmarks import samples
from benchmarks.measure import run
from benchmarks.polls import ROOT
from benchmarks.runs_client import KBPS, MIB, MILLI, asked
from labfleet.app.settings import Settings
from labfleet.interfaces import store as stores
from labfleet.resources import history, kinds
from labfleet.resources.amounts import Amounts
from labfleet.resources.cluster import Cluster, ClusterSpec
from labfleet.resources.history import Run, RunKind, Source, Use
from labfleet.resources.meta import Metadata

PATIENCE = 60.0
PRODUCT = ("-m", "labfleet", "server")
COUNTING = ("-m", "benchmarks.runs_server", "--")
READY = {"chart": "first", "nodecount": 1}


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs."""

    process: subprocess.Popen[str]
    port: int
    token: str = "-"

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far, as its own getrusage has them."""
        # Linux gives each process a clock of its CPU time (clock_getcpuclockid(3)).
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def send(self, method: str, path: str, body: object) -> Any:
        """Send one request; return the reply's JSON. Raises HTTPError for any but a 2xx."""
        request = Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), method=method,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )  # fmt: skip
        with urlopen(request, timeout=PATIENCE) as reply:
            return json.loads(reply.read())

    def resize(self, has: Amounts) -> None:
        """Give the cluster another capacity."""
        named = {
            "cpuMilli": has.cpu_milli, "memoryMib": has.memory_mib, "networkKbps": has.network_kbps,
        }  # fmt: skip
        self.send("PATCH", "/api/v1/clusters/default", {"spec": {"capacity": named}})

    def touched(self) -> int:
        """Return how many objects it has handed out, of a counting one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline())["touched"])


def capacity(nodes: float) -> Amounts:
    """Return what a cluster has in which so many nodes of charts fit."""
    return Amounts(
        cpu_milli=int(nodes * MILLI), memory_mib=int(nodes * MIB), network_kbps=int(nodes * KBPS)
    )


def prepare(folder: Path, rows: int, has: Amounts) -> None:
    """Make a store with a cluster `default` and so many rows of history, none of them reported."""
    folder.mkdir(mode=0o700, parents=True)
    run(_prepared(Settings(data=str(folder)).store_url, rows, has))


async def _prepared(url: str, rows: int, has: Amounts) -> None:
    obj = Cluster(
        metadata=Metadata(name="default", uid="uid-default", generation=1),
        spec=ClusterSpec(capacity=has),
    )
    writes: list[stores.Write] = [stores.Put(obj.key, "uid-default", kinds.encode(obj))]
    rng = random.Random(4)
    writes += [stores.Teach(_past(rng, number)) for number in range(rows)]
    async with samples.opened(url) as store:
        for first in range(0, len(writes), 200):
            cause = stores.Cause("bench", samples.START)
            await store.commit(stores.Commit(cause, tuple(writes[first : first + 200])))


def _past(rng: random.Random, number: int) -> Run:
    """Return a past run of the same charts and sizes as those that will be asked for."""
    params, used = asked(rng)
    use = {
        "cpu_milli": used["peak_cpu_delta"] * 1000,
        "memory_mib": used["peak_memory_delta"] * 1024,
        "network_out_kbps": used["peak_network_delta"] * 1000,
    }
    seconds = rng.uniform(60, 1200)
    return Run(
        kind=RunKind.SIMULATION,
        uid=f"past-{number}",
        name=f"past-{number}",
        family=params["chart"],
        owner="bench",
        place="default",
        parameters=history.typed(params),
        allocation=dict(zip(
            ("cpu_milli", "memory_mib", "network_kbps"),
            (int(2 * params["nodecount"] * each) for each in (MILLI, MIB, KBPS)), strict=True,
        )),
        use={name: Use(peak=value) for name, value in use.items()},
        duration_seconds=seconds,
        source=Source.IMPORTED,
        started_at=samples.START,
        ended_at=samples.START + timedelta(seconds=seconds),
    )  # fmt: skip


@contextmanager
def product(
    folder: Path, cpu: int, *, ready: Path | None = None, how: Sequence[str] = PRODUCT
) -> Iterator[Served]:
    """Run the product over a folder, copied from `ready` before; `how` is what Python runs."""
    if ready is not None:
        shutil.copytree(ready, folder)
    token = folder / "token"
    command = [
        sys.executable, *how, "--data", str(folder), "--port", "0", "--roles", "api,scheduler",
        "--admin-token-file", str(token), "--log-level", "error",
    ]  # fmt: skip
    with _child(command, cpu, environment={}) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline() or '{"url": "http://ended:0"}')
        port = urlsplit(said["url"]).port or 0
        if not port:
            raise RuntimeError(f"the server ended with {process.wait()}")
        served = Served(process, port, token.read_text(encoding="ascii").strip())
        _await_decider(served)
        yield served


def _await_decider(served: Served) -> None:
    """Return once a request was decided: the role has to lead, and the first one loads numpy."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = served.send("POST", "/request_run", READY)
        except HTTPError as problem:
            if problem.code != 503 or time.monotonic() > end:
                raise
            time.sleep(0.2)
            continue
        if found["simulation_id"] is not None:
            # Of its family nothing is known, so it holds a tenth of the cluster.
            ended = {"simulation_id": found["simulation_id"], "status": "cancelled"}
            served.send("POST", "/simulation_complete", ended)
        return


@contextmanager
def asgi(
    app: str, python: str, cpu: int, *, folder: Path = ROOT, environment: Mapping[str, str] = {}
) -> Iterator[Served]:
    """Run an ASGI application under uvicorn, as perf-peers does."""
    command = [
        python, "-m", "uvicorn", app, "--app-dir", str(folder), "--port", "0", "--host",
        "127.0.0.1", "--no-access-log", "--loop", "uvloop", "--http", "httptools",
    ]  # fmt: skip
    with _child(command, cpu, environment=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        yield Served(process, _port(process.stderr))


def _port(said: IO[str]) -> int:
    """Return the port that uvicorn says it listens on."""
    lines: list[str] = []
    for line in said:
        lines.append(line)
        if "running on http://" in line:
            return int(line.rpartition(":")[2].split()[0])
    raise RuntimeError(f"the peer ended: {(lines or ['no message'])[-1].strip()}")


@contextmanager
def _child(
    command: Sequence[str], cpu: int, *, environment: Mapping[str, str], stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=stderr, text=True,
    )  # fmt: skip
    try:
        if cpu >= 0:
            # Before it has made any thread: those inherit it.
            os.sched_setaffinity(process.pid, {cpu})
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def cpus() -> tuple[int, int]:
    """Return the CPU of the server and that of the load; -1 where there is only one."""
    found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (found[0], found[-1]) if len(found) > 1 else (-1, -1)


def asks(child: Any, **wanted: Any) -> dict[str, Any]:
    """Let a load generator do one stretch; raise when a request failed."""
    found: dict[str, Any] = child.ask(json.dumps(wanted))
    if found["problems"]:
        raise RuntimeError(f"requests failed: {found['problems']}")
    return found
