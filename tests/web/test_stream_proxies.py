"""T34: the event stream through two proxies in a row that hold back what they forward.

The numbered case is a row of facts/fleet-bugs.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from browser import Browser
from loop_time import locks, seen

from labfleet.app import serving
from labfleet.app.settings import Settings

BUFFER = 4096
"""What a proxy collects before it passes anything on, as nginx does by default."""

Passes = Callable[[bytes], int]


def by_lines(held: bytes) -> int:
    """Pass on whole lines only."""
    return held.rfind(b"\n") + 1


def by_size(held: bytes) -> int:
    """Pass on a full buffer, and then all of it."""
    return len(held) if len(held) >= BUFFER else 0


@dataclass
class Proxy:
    """A proxy in front of a port; one that heeds `X-Accel-Buffering` eats the header, as nginx does."""

    upstream: int
    passes: Passes
    heeds: bool = False
    held: bytes = b""
    taken: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one request, and its reply by the rule."""
        head = await reader.readuntil(b"\r\n\r\n")
        there, out = await asyncio.open_connection("127.0.0.1", self.upstream)
        try:
            out.write(head)
            told = await there.readuntil(b"\r\n\r\n")
            free = self.heeds and b"x-accel-buffering: no" in told.lower()
            lines = [
                line for line in told.split(b"\r\n")
                if not self.heeds or not line.lower().startswith(b"x-accel-buffering")
            ]  # fmt: skip
            writer.write(b"\r\n".join(lines))
            while data := await there.read(65536):
                self.held += data
                self.taken += len(data)
                most = len(self.held) if free else self.passes(self.held)
                writer.write(self.held[:most])
                self.held = self.held[most:]
        finally:
            out.close()
            writer.close()


@asynccontextmanager
async def chain(browser: Browser, *rules: tuple[Passes, bool]) -> AsyncIterator[list[Proxy]]:
    """Serve the installation behind proxies, the first rule nearest to the server."""
    settings = Settings(port=0)
    bound = serving.listen(settings)
    listener = serving.server(browser.app, settings)
    serve = asyncio.get_running_loop().create_task(listener.serve(sockets=[bound]))
    port, proxies, servers = bound.getsockname()[1], list[Proxy](), list[asyncio.Server]()
    for passes, heeds in rules:
        proxies.append(Proxy(port, passes, heeds))
        servers.append(await asyncio.start_server(proxies[-1].serve, "127.0.0.1", 0))
        port = servers[-1].sockets[0].getsockname()[1]
    try:
        yield [*proxies, Proxy(port, by_lines)]
    finally:
        browser.app.shutdown()
        listener.should_exit = True
        for server in servers:
            server.close()
        await serve


@asynccontextmanager
async def client(browser: Browser, port: int, query: str) -> AsyncIterator[bytearray]:
    """Open the stream through the outermost proxy; what arrives is added to the result."""
    got = bytearray()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = await browser.token()
    writer.write(
        f"GET /api/v1/events?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )

    async def read() -> None:
        while data := await reader.read(65536):
            got.extend(data)

    task = asyncio.get_running_loop().create_task(read())
    try:
        yield got
    finally:
        writer.close()
        task.cancel()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "rules",
    [
        ((by_lines, False), (by_lines, False)),
        ((by_size, True), (by_lines, False)),
    ],
    ids=["both by lines", "one that heeds the header"],
)
async def test_events_pass_two_proxies_at_once(
    browser: Browser, rules: tuple[tuple[Passes, bool], ...]
) -> None:
    """Every event ends with its line, and the head asks not to be collected: nothing is held back."""
    async with (
        chain(browser, *rules) as proxies,
        client(browser, proxies[-1].upstream, "kinds=clusters&frames=objects,samples") as got,
    ):
        await seen(lambda: b"event: snapshot" in got and b"event: samples" in got)
        for name in ("a", "b"):
            await browser.world.make("Cluster", name, {"capacity": {"cpu": 1}})
            await seen(lambda name=name: f'"name":"{name}"'.encode() in got)
        assert [each.held for each in proxies] == [b"", b"", b""]


@pytest.mark.asyncio
async def test_padding_gets_events_through_proxies_that_collect_regardless(
    browser: Browser,
) -> None:
    """An inner proxy eats the header and both fill buffers: held back, and with `padding` at once."""
    rules = ((by_size, False), (by_size, False))
    async with chain(browser, *rules) as proxies:
        inner, _, last = proxies
        async with client(browser, last.upstream, "kinds=clusters") as got:
            await seen(lambda: b"event: snapshot" in inner.held)
            await locks()
            assert b"event:" not in got
        async with client(browser, last.upstream, "kinds=clusters&padding=8192") as got:
            await seen(lambda: b"event: snapshot" in got)
            for name in ("a", "b"):
                await browser.world.make("Cluster", name, {"capacity": {"cpu": 1}})
                await seen(lambda name=name: f'"name":"{name}"'.encode() in got)
