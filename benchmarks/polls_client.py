"""One poller in a process of its own: each worker three GETs in sequence, many workers at once.

Arguments: which poller, workers, port, how many at once, CPU (-1: any). `cycle` on stdin runs one
and prints its figures; an end of stdin ends it. The pollers:

- ours: CmlHosts and LabHost's three methods, typed records: the product's own path;
- aiohttp: one bare session and json.loads, as perf-peers/poll/bench_poll.py has it;
- limit: a bare Protocol for each worker, a hand parser and msgspec, no checks at all.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from labfleet.adapters.cml.hosts import CmlHosts
from labfleet.adapters.cml.transport import connect
from labfleet.interfaces.lab_host import HostAddress

PATHS = ("/api/v0/system_stats", "/api/v0/system_health", "/api/v0/licensing")


def ip(number: int) -> str:
    """The address of a simulated worker."""
    return f"127.0.{1 + number // 250}.{1 + number % 250}"


def trusting() -> ssl.SSLContext:
    """A context that looks at nothing: the least that a peer can do."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


class Ours:
    """The product's path."""

    def __init__(self, count: int, port: int) -> None:
        self.hosts = CmlHosts(connect)
        self.addresses = [
            HostAddress(
                worker=f"w-{number:05d}",
                base_url=f"https://{ip(number)}:{port}",
                boot=f"i-{number:017x}/2026-11-28T03:00:00Z",
                username="admin",
                password="a long password",
            )
            for number in range(count)
        ]

    async def poll(self, number: int) -> None:
        host = self.hosts.at(self.addresses[number])
        stats = await host.system_stats()
        health = await host.system_health()
        licence = await host.licensing()
        if stats.cpu_count != 48 or not health.valid or licence.node_capacity != 200:
            raise RuntimeError("another answer than the simulator gave")

    async def close(self) -> None:
        await self.hosts.close()


class Aiohttp:
    """One bare session."""

    def __init__(self, count: int, port: int) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, limit_per_host=0, keepalive_timeout=600, ssl=trusting()
            ),
            timeout=aiohttp.ClientTimeout(60),
        )
        self.bases = [f"https://{ip(number)}:{port}" for number in range(count)]

    async def poll(self, number: int) -> None:
        for path in PATHS:
            async with self.session.get(self.bases[number] + path) as reply:
                json.loads(await reply.read())

    async def close(self) -> None:
        await self.session.close()


class Line(asyncio.Protocol):
    """One connection of the limit."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        size = int(self.buffer[self.buffer.index(b"Content-Length: ") + 16 : head])
        if len(self.buffer) >= head + 4 + size:
            body = self.buffer[head + 4 : head + 4 + size]
            self.buffer = self.buffer[head + 4 + size :]
            self.waiter.set_result(body)


class Limit:
    """A bare Protocol for each worker."""

    def __init__(self, count: int, port: int) -> None:
        self.port = port
        self.trust = trusting()
        self.lines: dict[int, Line] = {}
        self.decode = msgspec.json.Decoder().decode

    async def poll(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        line = self.lines.get(number)
        if line is None or line.transport.is_closing():
            _, line = await loop.create_connection(
                Line, ip(number), self.port, ssl=self.trust, server_hostname=""
            )
            self.lines[number] = line
        for path in PATHS:
            line.waiter = loop.create_future()
            line.transport.write(f"GET {path} HTTP/1.1\r\nhost: {ip(number)}\r\n\r\n".encode())
            self.decode(await line.waiter)

    async def close(self) -> None:
        for line in self.lines.values():
            line.transport.close()


POLLERS: dict[str, Any] = {
    "ours": Ours,
    "aiohttp": Aiohttp,
    "limit: bare Protocol": Limit,
}


def memory() -> int:
    """Return this process's resident bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def cycle(poller: Any, count: int, width: int) -> dict[str, Any]:
    """Poll everybody once."""
    turn = asyncio.Semaphore(width)
    errors: list[str] = []

    async def one(number: int) -> None:
        async with turn:
            try:
                await poller.poll(number)
            except Exception as problem:
                errors.append(repr(problem)[:200])

    cpu, begun = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(count)))
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "errors": len(errors), "first_error": (errors or [None])[0]}


async def serve(name: str, count: int, port: int, width: int) -> None:
    poller = POLLERS[name](count, port)
    gc.collect()
    before = memory()
    print(json.dumps({"ready": True}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        found = await cycle(poller, count, width)
        print(json.dumps({**found, "grown": memory() - before}), flush=True)
    await poller.close()


if __name__ == "__main__":
    name, count, port, width, cpu = sys.argv[1], *map(int, sys.argv[2:6])
    if cpu >= 0:
        os.sched_setaffinity(0, {cpu})
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(serve(name, count, port, width))
