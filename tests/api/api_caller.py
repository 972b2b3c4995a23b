"""Calls an ASGI application in process: whole replies, and streams event by event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from fleet_world import MEMORY, World
from fleet_world import world as opened
from prometheus_client import CONTENT_TYPE_LATEST
from split_roles import Controller, beside

from labfleet.api import application
from labfleet.api.core import refusals
from labfleet.api.front import Done, Front
from labfleet.api.streams.ring import Ring
from labfleet.interfaces.telemetry import Samples
from labfleet.resources.meta import Key
from labfleet.resources.telemetry import ProviderPoint, Sample
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.tokens import Tokens

ADMIN = Principal("first", Role.ADMIN, "ada")


@dataclass
class Reply:
    """Status, headers, body."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


def scope_of(method: str, target: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return an ASGI scope as uvicorn makes it."""
    parts = urlsplit(target)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(parts.path, errors="replace"),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }


@dataclass
class Stream:
    """An open event stream; `next` gives (event, id, data)."""

    task: asyncio.Task[None]
    chunks: asyncio.Queue[bytes]
    leaving: asyncio.Event
    head: dict[str, Any] = field(default_factory=dict)
    _text: str = ""

    async def block(self) -> str:
        """Return the next block of the stream, as it was sent."""
        while "\n\n" not in self._text:
            async with asyncio.timeout(5):
                chunk = await self.chunks.get()
            if not chunk:
                return ""
            self._text += chunk.decode()
        found, _, self._text = self._text.partition("\n\n")
        return found

    async def next(self) -> tuple[str, str, Any]:
        """Return the next event, passing over comments and bare ids; ("end", ...) at the end."""
        while True:
            block = await self.block()
            if not block:
                return "end", "", None
            lines = dict(
                line.split(": ", 1) for line in block.split("\n") if line and line[0] != ":"
            )
            if "data" in lines:
                name = lines.get("event", "message")
                return name, lines.get("id", ""), json.loads(lines["data"])


@dataclass
class Api:
    """The application over a small installation, and tokens for each role."""

    world: World
    app: Front
    tokens: Tokens
    ring: Ring
    done: list[Done]
    defects: list[BaseException]
    waiting: dict[str, str | None]
    controller: Controller | None = None
    secrets: dict[str, str] = field(default_factory=dict)

    async def measured(self, *samples: Sample) -> None:
        """Measure, in the process that does, and return once the API's process knows it."""
        for sample in samples:
            self._samples.put(sample)
        await self._given()

    async def metered(self, worker: Key, *points: ProviderPoint) -> None:
        """The same for what the provider measured."""
        self._samples.put_points(worker, points)
        await self._given()

    @property
    def _samples(self) -> Samples:
        apart = self.controller
        return self.world.services.samples if apart is None else apart.samples

    async def _given(self) -> None:
        if self.controller is not None:
            await self.controller.given(self.world.services)

    async def token(self, role: str, owner: str = "") -> str:
        """Return a token of a role; made at the first call."""
        name = f"{role}/{owner}"
        if name not in self.secrets:
            made = await self.tokens.create(ADMIN, role=role, owner=owner or role)
            self.secrets[name] = made.text
        return self.secrets[name]

    async def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        role: str | None = "admin",
        owner: str = "",
        raw: bytes | None = None,
        past: bool = False,
        **headers: str,
    ) -> Reply:
        """Call once; `body` goes as JSON. `past` ASGI, as the server does with a whole request."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        if role is not None:
            sent.setdefault("Authorization", f"Bearer {await self.token(role, owner)}")
        content = raw
        if body is not None:
            content = json.dumps(body).encode()
        if content is not None:
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            sent.setdefault("Content-Type", kind)
        scope = scope_of(method, target, sent)
        if past:
            direct = self.app.direct[scope["raw_path"]]
            status, told, made = await self.app.answer(direct, scope["headers"], content or b"")
            found = Reply(status, {k.decode(): v.decode("latin-1") for k, v in told}, made)
        else:
            found = await exchange(self.app, scope, content or b"")
        self.was_stated(method, target, found.status)
        return found

    async def call_raw_headers(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]]
    ) -> Reply:
        """Call once with headers as they come off the wire, where a name may come twice."""
        found = await exchange(self.app, {**scope_of(method, target, {}), "headers": headers}, b"")
        self.was_stated(method, target, found.status)
        return found

    def was_stated(self, method: str, target: str, status: int) -> None:
        """Fail when a route replied a status that neither its statement nor the document has."""
        path = unquote(urlsplit(target).path, errors="replace")
        for route in self.app.routes.values():
            shape = re.sub(r"\\{\w+:str\\}", "[^/]+", re.escape(route.path))
            if route.method == method and re.fullmatch(shape, path):
                # 421 is the answer to who asked for another server: no route of ours was asked.
                stated = refusals.statuses(route) | {route.status, *route.also, 421, 500}
                assert status in stated, f"{route.name} replied {status}, not one of {stated}"
                return

    @asynccontextmanager
    async def stream(
        self,
        target: str = "/api/v1/events",
        *,
        role: str = "admin",
        owner: str = "",
        stall: asyncio.Event | None = None,
        **headers: str,
    ) -> AsyncIterator[Stream]:
        """Open an event stream; `stall` holds each send until it is set."""
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        sent["Authorization"] = f"Bearer {await self.token(role, owner)}"
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        leaving = asyncio.Event()
        head: dict[str, Any] = {}
        started = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await leaving.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
                started.set()
                return
            if stall is not None:
                await stall.wait()
            chunks.put_nowait(message.get("body", b""))

        scope = scope_of("GET", target, sent)
        task = asyncio.get_running_loop().create_task(self.app(scope, receive, send))
        async with asyncio.timeout(5):
            await started.wait()
        try:
            yield Stream(task, chunks, leaving, head)
        finally:
            leaving.set()
            if stall is not None:
                stall.set()
            async with asyncio.timeout(5):
                await task


async def exchange(app: Any, scope: dict[str, Any], content: bytes, chunk: int = 1 << 20) -> Reply:
    """Send one request and return the whole reply."""
    pieces = [content[at : at + chunk] for at in range(0, len(content), chunk)] or [b""]
    head: dict[str, Any] = {}
    body = bytearray()

    async def receive() -> dict[str, Any]:
        if not pieces:
            await asyncio.sleep(3600)
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            head.update(message)
        else:
            body.extend(message.get("body", b""))

    async with asyncio.timeout(20):
        await app(scope, receive, send)
    headers = {k.decode().lower(): v.decode("latin-1") for k, v in head["headers"]}
    return Reply(head["status"], headers, bytes(body))


@asynccontextmanager
async def api(*, url: str = MEMORY, **ring_bounds: int) -> AsyncIterator[Api]:
    """Open an installation with its application.

    Over a database that processes can share, the controllers run in a process of their own.
    """
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(opened(url=url))
        controller = None
        if url != MEMORY:
            controller = await stack.enter_async_context(beside(world, url))
        ring = Ring(world.store, **ring_bounds)
        world.follow(ring)
        tokens = Tokens(world.store, world.clock, world.ids)
        done: list[Done] = []
        defects: list[BaseException] = []
        waiting: dict[str, str | None] = {"api": None}
        app = application.build(
            world.services,
            tokens,
            ring,
            readiness=lambda: waiting,
            metrics=lambda: (b"up 1\n", CONTENT_TYPE_LATEST),
            done=done.append,
            on_defect=lambda _, error: defects.append(error),
        )
        frames = asyncio.get_running_loop().create_task(app.events.latest.run())
        world.listeners.append(frames)
        while not ring.ready:
            await asyncio.sleep(0)
        yield Api(world, app, tokens, ring, done, defects, waiting, controller)
