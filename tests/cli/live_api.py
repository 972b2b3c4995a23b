"""The real API in memory on a loopback port, in a thread of its own, with faults on demand."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "service"), str(TESTS / "api")]
from api_caller import Api
from api_caller import api as opened

T = TypeVar("T")
BUSY = b'{"title": "busy", "status": 503, "reason": "Busy", "detail": "the server is busy"}'


@dataclass
class LiveApi:
    """`seen` is what was asked; paths in `refused` get 503; `before` runs ahead of a path's reply."""

    loop: asyncio.AbstractEventLoop
    api: Api
    url: str = ""
    token: str = ""
    seen: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    before: dict[str, Callable[[LiveApi], Awaitable[Any]]] = field(default_factory=dict)

    def do(self, work: Awaitable[T]) -> T:
        """Return what a coroutine gives in the server's loop."""

        async def waited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(waited(), self.loop).result(10)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of a call that succeeds, asked beside the socket."""
        reply = self.do(self.api.call(method, path, body))
        assert reply.status < 300, reply.raw
        return reply.json

    def cluster(self, cpu: int = 10) -> None:
        """Make the cluster `default`, with a target of 80 % of these CPU and much memory."""
        self.do(self.api.world.make("Cluster", "default", {
            "capacity": {"cpu": cpu, "memory": "1000Gi"}}))  # fmt: skip

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, the oldest first."""
        found = self.ask("GET", "/api/v1/simulations")["items"]
        return sorted(found, key=lambda each: each["metadata"]["uid"])

    def phases(self) -> list[str]:
        """Return the phase of every run, the oldest first."""
        return [each["status"]["phase"] for each in self.runs()]

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        path = scope["path"]
        self.seen.append(path)
        for start, work in list(self.before.items()):
            if path.startswith(start):
                del self.before[start]
                await work(self)
        if path in self.refused:
            kind = [(b"content-type", b"application/problem+json")]
            await send({"type": "http.response.start", "status": 503, "headers": kind})
            await send({"type": "http.response.body", "body": BUSY})
            return
        await self.api.app(scope, receive, send)


@dataclass
class Place:
    """A loopback port on which one installation after the other is served."""

    loop: asyncio.AbstractEventLoop
    url: str = ""
    live: LiveApi | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass one request on to the installation of now."""
        assert self.live is not None
        await self.live.serve(scope, receive, send)


@contextmanager
def place() -> Iterator[Place]:
    """Listen until the end; to listen anew for each test would cost it a fifth of a second."""
    ready, box = threading.Event(), []

    async def serve() -> None:
        made = Place(asyncio.get_running_loop())
        server = uvicorn.Server(uvicorn.Config(
            made, host="127.0.0.1", port=0, ws="none", lifespan="off", log_config=None))  # fmt: skip
        serving = asyncio.get_running_loop().create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.001)
        made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        box.append((made, server))
        ready.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(20)
    made, server = box[0]
    try:
        yield made
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)


@contextmanager
def live_api(at: Place) -> Iterator[LiveApi]:
    """Serve an empty installation until the end; a defect in it fails the test."""
    ready, over = threading.Event(), asyncio.Event()

    async def hold() -> None:
        async with opened() as api:
            at.live = LiveApi(at.loop, api, at.url, await api.token("admin"))
            ready.set()
            await over.wait()

    held = asyncio.run_coroutine_threadsafe(hold(), at.loop)
    try:
        assert ready.wait(20)
        assert at.live is not None
        yield at.live
        assert at.live.api.defects == []
    finally:
        at.loop.call_soon_threadsafe(over.set)
        held.result(20)
        at.live = None
