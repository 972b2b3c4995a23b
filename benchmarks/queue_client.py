"""The load generator of `queue`: Kueue's workloads as requests, in a process of its own.

Arguments: CPU to run on (-1: any), port, connections, token. Its one line on stdin is what to do
(the jobs and their pace, as JSON); the reply says how long it took and how full the queues were. Each
queue's workloads are asked for at their pace, whatever waits already; a queued one begins when the
event stream says that it is approved, runs for its time, and is then reported as completed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from typing import Any

import msgspec
import uvloop

from benchmarks.runs_client import post

MAKE = ("small", "medium", "large")
TRIES = 20
"""How often a request is sent that the server is too busy for; it is counted how many were."""
PAUSE = 0.5
"""Seconds before it is sent again."""


LONGEST = 900.0
"""Seconds after which the test has failed, whatever is still waited for."""


class Busy(Exception):
    """The server asks to come again: 429 or 503."""


class _Named(msgspec.Struct):
    name: str


class _Phase(msgspec.Struct):
    phase: str = ""


class _Simulation(msgspec.Struct):
    metadata: _Named
    status: _Phase


class _Event(msgspec.Struct):
    object: _Simulation


class Job(msgspec.Struct):
    """One workload: whose it is, what it takes, and when it asked, began and ended."""

    size: str
    queue: str
    cluster: str
    units: int
    seconds: float
    priority: int
    asked: float = 0.0
    began: float = 0.0
    ended: float = 0.0


class Pool:
    """Kept connections that send one request each at a time; requests wait in a line for one."""

    def __init__(self, token: str, port: int) -> None:
        self.token = token
        self.port = port
        self.opening: set[asyncio.Task[None]] = set()
        self.free: list[Connection] = []
        self.line: list[tuple[bytes, asyncio.Future[dict[str, Any]]]] = []
        self.first = 0

    async def open(self) -> None:
        """Open one more connection."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.port)

    def reopen(self) -> None:
        """Open one in place of one that was closed."""
        task = asyncio.get_running_loop().create_task(self.open())
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)

    def send(self, path: str, body: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Return the future of a reply; it raises when the server refuses."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.line.append((post(path, json.dumps(body).encode(), self.token), answer))
        self.feed()
        return answer

    def feed(self) -> None:
        """Give what waits to connections that are free."""
        while self.free and self.first < len(self.line):
            request, answer = self.line[self.first]
            self.first += 1
            self.free.pop().ask(request, answer)
        if self.first > 1000:
            del self.line[: self.first]
            self.first = 0


class Connection(asyncio.Protocol):
    """One kept connection."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Wait for work."""
        self.transport = transport
        self.pool.free.append(self)
        self.pool.feed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the pool, which opens another: servers close connections that were idle."""
        if self in self.pool.free:
            self.pool.free.remove(self)
            self.pool.reopen()
        elif not self.answer.done():
            self.answer.set_exception(RuntimeError(f"a connection in use was lost: {exc}"))

    def ask(self, request: bytes, answer: asyncio.Future[dict[str, Any]]) -> None:
        """Send a request."""
        self.answer = answer
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take a reply in once it is whole."""
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[at:].partition(b"\r\n")[0]):
            return
        self.buffer = b""
        self.pool.free.append(self)
        if self.answer.done():
            return  # The test is over: nobody waits for it.
        if head.startswith(b"HTTP/1.1 20"):
            self.answer.set_result(json.loads(body))
        elif head.startswith((b"HTTP/1.1 429", b"HTTP/1.1 503")):
            self.answer.set_exception(Busy(body[:300].decode()))
        else:
            self.answer.set_exception(RuntimeError(body[:300].decode()))
        self.pool.feed()


class Events(asyncio.Protocol):
    """The event stream: tells which simulations are approved."""

    def __init__(self, token: str, tell: Any) -> None:
        self.token = token
        self.tell = tell
        self.tail = b""
        self.decoder = msgspec.json.Decoder(_Event)

    def connection_made(self, transport: Any) -> None:
        """Ask for the stream."""
        transport.write(
            b"GET /api/v1/events?kinds=Simulation&snapshot=false HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Authorization: Bearer %s\r\n\r\n" % self.token.encode()
        )

    def data_received(self, data: bytes) -> None:
        """Read the events that are whole."""
        *whole, self.tail = (self.tail + data).split(b"\n\n")
        for each in whole:
            _, found, text = each.partition(b"\ndata: ")
            if found:
                seen = self.decoder.decode(text).object
                if seen.status.phase == "APPROVED":
                    self.tell(seen.metadata.name)


class Test:
    """One run of the test."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.queued: dict[str, asyncio.Event] = {}
        self.approved: set[str] = set()
        self.outcomes: Counter[str] = Counter()
        self.again = 0

    async def sent(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a reply; what the server is too busy for is sent again, as run scripts do."""
        for _ in range(TRIES):
            try:
                return await self.pool.send(path, body)
            except Busy:
                self.again += 1
                await asyncio.sleep(PAUSE)
        return await self.pool.send(path, body)

    def told(self, name: str) -> None:
        """Note that a simulation is approved: its reply may come after this."""
        self.approved.add(name)
        waiting = self.queued.pop(name, None)
        if waiting is not None:
            waiting.set()

    async def job(self, job: Job, at: float) -> None:
        """Ask at an instant, wait for the approval, run, report the end."""
        await asyncio.sleep(at - time.monotonic())
        job.asked = time.monotonic()
        reply = await self.sent("/request_run", {
            "chart": job.size, "cluster": job.cluster, "queue": job.queue or True,
            "priority": job.priority, "duration_seconds": max(1, round(job.seconds)),
            "cost": {"cpu": job.units, "memory": 0},
        })  # fmt: skip
        self.outcomes[reply["decision"]] += 1
        name = reply["simulation_id"]
        if reply["decision"] == "queued" and name not in self.approved:
            waiting = self.queued[name] = asyncio.Event()
            await waiting.wait()
        elif reply["decision"] == "denied":
            raise RuntimeError(f"denied: {reply['message']}")
        job.began = time.monotonic()
        await asyncio.sleep(job.seconds)
        await self.sent("/simulation_complete", {"simulation_id": name})
        job.ended = time.monotonic()

    async def run(self, jobs: list[Job], every: dict[str, float]) -> float:
        """Run all jobs, each size of each queue at its pace; return seconds until the last end."""
        begun = time.monotonic() + 0.1
        counts: Counter[tuple[str, str, str]] = Counter()
        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as group:
            for job in jobs:
                whose = (job.queue, job.cluster, job.size)
                group.create_task(self.job(job, begun + counts[whose] * every[job.size]))
                counts[whose] += 1
        return time.monotonic() - begun


async def main(port: int, connections: int, token: str) -> None:
    """Connect, read what to do, do it, say what came of it."""
    loop = asyncio.get_running_loop()
    pool = Pool(token, port)
    test = Test(pool)
    for _ in range(connections):
        await pool.open()
    await loop.create_connection(lambda: Events(token, test.told), "127.0.0.1", port)
    print(json.dumps({"connected": connections}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        jobs = [msgspec.convert(each, Job) for each in wanted["jobs"]]
        cpu = time.process_time()
        wall = await test.run(jobs, wanted["every"])
        held = sum(each.units * (each.ended - each.began) for each in jobs)
        worked = sum(each.units * each.seconds for each in jobs)
        waits = {
            size: [each.began - each.asked for each in jobs if each.size == size] for size in MAKE
        }
        print(json.dumps({
            "wall": wall, "cpu": time.process_time() - cpu, "held": held, "worked": worked,
            "waits": {size: sum(each) / max(1, len(each)) for size, each in waits.items()},
            "outcomes": test.outcomes, "again": test.again, "jobs": len(jobs), "problems": {},
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    cpu_, port_, connections_, token_ = sys.argv[1:]
    if int(cpu_) >= 0:
        os.sched_setaffinity(0, {int(cpu_)})
    uvloop.run(main(int(port_), int(connections_), token_))
