"""The load generator of `decide`: a process of its own with 64 kept connections, as cheap as it can.

Arguments: CPU to run on (-1: any), port, connections, token (`-`: none), and what to send: `runs`
(requests and completions of upstream 004) or `fixed` (one body again and again, for the peers).
`{"seconds": S}` or `{"decisions": N}` on stdin lets every connection ask, wait and ask again for so
long; the reply has what was decided, latencies, and this process's own CPU. An end of stdin ends it.

After every second request the run that has lived longest is completed, and whenever more than
ACTIVE live. So a cluster in which just about ACTIVE fit denies half of what is asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import uvloop

from benchmarks.measure import quantile

ACTIVE = 100
CHARTS = 20
NODES = 50
"""The most nodes of a request."""
VARIETY = 4096
FIXED = (
    b'{"requester":"alice@example.org","lab_id":"ccna-17","chart":"chart-42","nodes":12,"cpu":8.5,'
    b'"memory_mb":16384,"duration_min":90,"priority":5,"tags":["exam","eu"]}'
)
"""A body that the peers approve."""
MILLI, MIB, KBPS = 400.0, 512.0, 300.0
"""What one node takes in the mean; each chart has a factor of its own."""


def factor(chart: int) -> float:
    """Return how much a node of this chart takes, beside the mean."""
    return 0.6 + 0.8 * chart / (CHARTS - 1)


def asked(rng: random.Random) -> tuple[dict[str, Any], dict[str, float]]:
    """Return a request, and what its run will be seen to have used."""
    chart = rng.randrange(CHARTS)
    nodes = rng.randint(1, NODES)
    body = {
        "chart": f"chart-{chart:02d}",
        "nodecount": nodes,
        "message_rate": rng.choice((1, 10, 50)),
        "shards": rng.randint(1, 4),
        "mode": rng.choice(("relay", "lightpush", "filter")),
    }
    size = nodes * factor(chart) * rng.lognormvariate(0.0, 0.1)
    used = {
        "peak_cpu_delta": round(size * MILLI / 1000, 3),
        "peak_memory_delta": round(size * MIB / 1024, 3),
        "peak_network_delta": round(size * KBPS / 1000, 3),
    }
    return body, used


def post(path: str, body: bytes, token: str) -> bytes:
    """Return a whole request."""
    who = "" if token == "-" else f"Authorization: Bearer {token}\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Load:
    """What all connections share."""

    def __init__(self, kind: str, token: str) -> None:
        self.runs = kind == "runs"
        self.token = token
        self.live: deque[tuple[bytes, bytes]] = deque()
        self.end = 0.0
        self.left = 0
        self.owed = 0
        self.idle = asyncio.Event()
        self._asks = self._bodies()
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.decisions = self.completions = self.working = 0
        self.outcomes: Counter[str] = Counter()
        self.latencies: list[float] = []
        self.problems: Counter[str] = Counter()
        self.idle.clear()

    def _bodies(self) -> Iterator[tuple[bytes, bytes]]:
        if not self.runs:
            return cycle([(post("/request_run", FIXED, self.token), b"")])
        rng = random.Random(1996)
        pairs = [asked(rng) for _ in range(VARIETY)]
        return cycle([
            (post("/request_run", json.dumps(body).encode(), self.token), json.dumps(used).encode())
            for body, used in pairs
        ])  # fmt: skip

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next request and what its run uses; None when this stretch is over."""
        if time.perf_counter() >= self.end or self.left <= 0:
            return None
        self.left -= 1
        self.owed += 1
        return next(self._asks)

    def completion(self) -> bytes | None:
        """Return the request that ends the oldest run, if it is time to."""
        if not self.live or (len(self.live) <= ACTIVE and self.owed < 2):
            return None
        self.owed = 0
        name, used = self.live.popleft()
        body = b'{"simulation_id":"%s","status":"completed","observed":%s}' % (name, used)
        return post("/simulation_complete", body, self.token)


class Connection(asyncio.Protocol):
    """One caller: asks, waits for the answer, asks again."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.buffer = b""
        self.used = b""
        self.asking = False
        self.closed = False
        self.since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so, unless it was closed here: no server may end one that is in use."""
        if not self.closed:
            self.load.problems["connection lost"] += 1
            self.stop()

    def close(self) -> None:
        """End it."""
        self.closed = True
        self.transport.close()

    def step(self) -> None:
        """Send what is next: the end of a run that is one too many, or a request."""
        load = self.load
        ending = load.completion() if load.runs else None
        if ending is not None:
            self.asking = False
            self.transport.write(ending)
            return
        found = load.next()
        if found is None:
            self.stop()
            return
        self.asking = True
        self.since = time.perf_counter()
        sent, self.used = found
        self.transport.write(sent)

    def stop(self) -> None:
        """Rest until the next stretch."""
        self.load.working -= 1
        if self.load.working <= 0:
            self.load.idle.set()

    def data_received(self, data: bytes) -> None:
        """Take a reply in once it is whole, and go on."""
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        length = int(head[at:].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self.buffer = b""
        self.answer(head, body)
        self.step()

    def answer(self, head: bytes, body: bytes) -> None:
        """Count one reply."""
        load = self.load
        if not head.startswith(b"HTTP/1.1 20"):
            load.problems[f"{head[:20].decode()} {body[:200].decode()}"] += 1
        elif not self.asking:
            load.completions += 1
        else:
            load.decisions += 1
            load.latencies.append(time.perf_counter() - self.since)
            if load.runs:
                self.decided(body)

    def decided(self, body: bytes) -> None:
        """Count how it was decided, and keep the run of an approval."""
        said = _text(body, b'"decision":"')
        self.load.outcomes[said.decode()] += 1
        if said == b"approved":
            self.load.live.append((_text(body, b'"simulation_id":"'), self.used))


def _text(body: bytes, key: bytes) -> bytes:
    return body.partition(key)[2].partition(b'"')[0]


async def drive(port: int, connections: int, load: Load) -> None:
    """Do what each line of stdin says, over connections of its own: servers close idle ones."""
    loop = asyncio.get_running_loop()
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        wanted = json.loads(line)
        callers = [
            (await loop.create_connection(lambda: Connection(load), "127.0.0.1", port))[1]
            for _ in range(connections)
        ]
        load.begin()
        cpu, begun = time.process_time(), time.perf_counter()
        load.end = begun + wanted.get("seconds", 60.0)
        load.left = wanted.get("decisions", 2**31)
        load.working = len(callers)
        for each in callers:
            each.step()
        await load.idle.wait()
        wall = time.perf_counter() - begun
        ordered = sorted(load.latencies) or [0.0]
        found = {
            "decisions": load.decisions, "completions": load.completions, "wall": wall,
            "cpu": time.process_time() - cpu, "outcomes": load.outcomes, "live": len(load.live),
            "p50": quantile(ordered, 0.5), "p99": quantile(ordered, 0.99),
            "problems": load.problems,
        }  # fmt: skip
        for each in callers:
            each.close()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    cpu_, port_, connections_, token_, kind_ = sys.argv[1:]
    if int(cpu_) >= 0:
        os.sched_setaffinity(0, {int(cpu_)})
    uvloop.run(drive(int(port_), int(connections_), Load(kind_, token_)))
