"""One change to 1,000 clients of the event stream, over real sockets.

The server is a child process (`stream_server`): a commit to SQLite, the feed, the ring, and one
write for each client. `delivery` counts from the moment the ring has the event to the last
client's read; `whole` counts from before the commit. CPU is the server's. Then a burst of 20.

The peers are perf-peers' bare ASGI ring on uvicorn and a bare Protocol, with 250-byte events
(ours is given in `event_bytes`); each is alone on one CPU, the clients on another. Their burst
is 20 requests one after the other, ours 20 commits at once: no ratio is made of it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.measure import Plan, quantile, ratio, run

SUMMARY = "one change, and a burst of 20, to 1,000 clients of the event stream"
CLIENTS = 1000
BURST = 20
PATIENCE = 20.0
PEERS = ("bare ASGI, shared ring/uvicorn", "bare Protocol (limit)")
ROOT = Path(__file__).resolve().parents[1]


def measure(plan: Plan) -> dict[str, Any]:
    """Return one row for ours, one for each peer, and the ratios of CPU and of latency."""
    count = plan.size(CLIENTS, 10)
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    try:
        if len(before) > 1:
            os.sched_setaffinity(0, {max(before)})
        with plan.place() as folder:
            ours = run(_ours(plan, folder, count, min(before) if len(before) > 1 else -1))
    finally:
        if before:
            os.sched_setaffinity(0, before)
    others = [] if plan.smoke else peers.streams(plan, count, PEERS)
    ratios: dict[str, Any] = {}
    for each in others:
        name = each["name"]
        ratios[f"last_client_times_{name}"] = ratio(ours["delivery_last_ms"], each["last_ms"])
        cpu = ratio(ours["cpu_us_per_client"], each["cpu_us_per_client"])
        ratios[f"cpu_per_client_times_{name}"] = cpu
    return {"clients": count, "rows": [ours], "peers": others, "ratios": ratios}


class _Client(asyncio.Protocol):
    """Counts what comes; parses nothing more than it must."""

    def __init__(self, all_: _Clients, request: bytes) -> None:
        self._all = all_
        self._request = request
        self._tail = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        # What was cut off by the last read is looked at again, but counted only once.
        text = self._tail + data
        greeted, changed = text.count(b"retry: 1000"), text.count(b"event: MODIFIED")
        self._tail = text[-14:] if b"event: MODIFIED" not in text[-14:] else b""
        if any(b"HTTP/1.1 %d" % status in text for status in (401, 429, 503)):
            self._all.refused += 1
        self._all.greeted += greeted
        if changed:
            self._all.arrived.append((now, changed))
            self._all.size += len(data)


class _Clients:
    """All clients: connecting with one of the requests each, in turn; counting."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = requests
        self.greeted = self.refused = self.size = 0
        self.arrived: list[tuple[float, int]] = []
        self.transports: list[Any] = []

    async def connect(self, port: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        for first in range(0, count, 100):
            made = await asyncio.gather(*(
                loop.create_connection(functools.partial(_Client, self, request), "127.0.0.1", port)
                for request in self._some(first, min(first + 100, count))
            ))  # fmt: skip
            self.transports += [transport for transport, _ in made]
        await self._until(lambda: self.greeted + self.refused >= count, "greetings")
        if self.refused:
            raise RuntimeError(f"{self.refused} of {count} streams were refused")

    def _some(self, first: int, end: int) -> list[bytes]:
        return [self.requests[number % len(self.requests)] for number in range(first, end)]

    async def got(self, events: int) -> list[float]:
        """Return the instants of arrival once so many events came."""
        await self._until(lambda: sum(n for _, n in self.arrived) >= events, f"{events} events")
        times, self.arrived = [at for at, _ in self.arrived], []
        return times

    async def _until(self, holds: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} in {PATIENCE} s")
            await asyncio.sleep(0.002)


async def _ours(plan: Plan, folder: Path, count: int, cpu: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.stream_server", str(folder / "store.db"), str(cpu)]
    command.append(str(count))
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    tell, hear = child.stdin, child.stdout
    assert tell is not None
    assert hear is not None
    try:
        ready = json.loads(await asyncio.to_thread(hear.readline))

        async def emit(events: int) -> dict[str, Any]:
            tell.write(f"{events}\n")
            tell.flush()
            said: dict[str, Any] = json.loads(await asyncio.to_thread(hear.readline))
            return said

        clients = _Clients([
            b"GET /api/v1/events?snapshot=false HTTP/1.1\r\nHost: bench\r\n"
            b"Authorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n" % token.encode()
            for token in ready["tokens"]
        ])  # fmt: skip
        idle = _pss(child.pid)
        begun = time.monotonic()
        await clients.connect(ready["port"], count)
        connected = time.monotonic() - begun
        await asyncio.sleep(0.3)
        loaded = _pss(child.pid)
        rounds = [await _one(emit, clients, count, 1) for _ in range(plan.size(9, 2))]
        event_bytes = clients.size // max(1, count * len(rounds))
        bursts = [await _one(emit, clients, count, BURST) for _ in range(plan.rounds)]
        for transport in clients.transports:
            transport.abort()
    finally:
        tell.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        hear.close()
    return {
        "name": f"event stream, {count} clients",
        "event_bytes": event_bytes,
        "connect_s": round(connected, 3),
        "delivery_last_ms": round(middle(r["last"] for r in rounds) * 1e3, 2),
        "delivery_half_ms": round(middle(r["half"] for r in rounds) * 1e3, 2),
        "whole_last_ms": round(middle(r["whole"] for r in rounds) * 1e3, 2),
        "cpu_us_per_client": round(middle(r["cpu"] for r in rounds) / count * 1e6, 2),
        "kib_per_client": None
        if idle is None or loaded is None
        else round((loaded - idle) / count, 1),
        "burst_events_per_second": round(middle(BURST * count / r["last"] for r in bursts)),
        "burst_cpu_us_per_event": round(middle(r["cpu"] for r in bursts) / count / BURST * 1e6, 2),
        "rounds": len(rounds),
    }


def middle(values: Iterable[float]) -> float:
    """Return the median, or the upper one of two."""
    return quantile(sorted(values), 0.5)


async def _one(emit: Any, clients: _Clients, count: int, events: int) -> dict[str, float]:
    """Let the server commit some changes; return seconds to the last client and CPU seconds."""
    clients.arrived = []
    said = await emit(events)
    times = sorted(await clients.got(events * count))
    after = await emit(0)
    return {
        "last": times[-1] - said["in_ring"],
        "half": times[len(times) // 2] - said["in_ring"],
        "whole": times[-1] - said["begun"],
        "cpu": after["cpu"] - said["cpu"],
    }


def _pss(pid: int) -> float | None:
    """Return the proportional memory of a process in KiB; None off Linux."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next(float(line.split()[1]) for line in lines if line.startswith("Pss:"))
