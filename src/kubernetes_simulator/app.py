"""The ASGI application: reads requests, asks the core, carries out faults, streams watches.

Bare ASGI over `routes`; time and sleep are arguments. It opens no socket.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from kubernetes_simulator.core.errors import ApiError, too_large, too_many
from kubernetes_simulator.core.faults import Fault, choose
from kubernetes_simulator.core.settling import settle
from kubernetes_simulator.core.world import World
from kubernetes_simulator.routes import control, dispatch
from kubernetes_simulator.routes.objects import Stream, too_old
from kubernetes_simulator.routes.web import BODY_LIMIT, Reply, Request, error_reply, text_reply

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]

ABORT = "kubernetes_simulator.abort"
"""Key in scope["extensions"] whose "cut" is a function (flush=...) that ends the connection."""
BOOKMARK_SECONDS = 30.0
MOST_WATCHES = 1_000
LONGEST_REST = 1.0
"""Real seconds after which time goes on though nothing is due."""
REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 429: "TooManyRequests", 500: "InternalError", 502: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Bell:
    """Wakes everybody who waits for it at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake those who wait now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until it rings, for so many seconds at most."""
        event = self._event
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


def _abort(scope: Scope, *, flush: bool = False) -> None:
    cut = scope.get("extensions", {}).get(ABORT, {}).get("cut")
    if cut is None:
        raise ConnectionAbortedError
    cut(flush=flush)


async def _read(scope: Scope, receive: Receive) -> Request:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionAbortedError
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise too_large("the request body", BODY_LIMIT)
        if not message.get("more_body"):
            break
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return Request(scope["method"], scope["path"], query, headers, bytes(body))


async def _write(send: Send, reply: Reply, *, part: float = 1.0) -> None:
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", str(len(reply.body)).encode()),
        (b"cache-control", b"no-cache, private"),
        *((name.encode(), value.encode()) for name, value in reply.headers),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = reply.body[: int(len(reply.body) * part)]
    await send({"type": "http.response.body", "body": body, "more_body": part < 1})


class App:
    """The API server of one cluster, its exporters and its control route."""

    def __init__(self, world: World, clock: Clock, sleep: Sleep) -> None:
        self.world, self._clock, self._sleep = world, clock, sleep
        self._bell, self._stirred = Bell(), Bell()
        self.watches = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await _read(scope, receive)
        except ApiError as error:
            await _write(send, error_reply(error))
            return
        except ConnectionAbortedError:
            return
        if request.path.startswith(control.BASE):
            await _write(send, control.answer(self.world, request, self._clock()))
            self._stir()
            return
        watch = request.query.get("watch", "").lower() in {"true", "1"}
        fault = choose(self.world.faults, request.method, request.path, watch=watch)
        wires = (scope, receive, send)
        if fault is None or fault.of_watch:
            await self._answer(request, fault, wires)
        else:
            await self._go_wrong(request, fault, wires)

    def _stir(self) -> None:
        """Let watches see what changed, and time be looked at anew."""
        self._bell.ring()
        self._stirred.ring()

    def _ask(self, request: Request) -> Reply | Stream:
        before = self.world.store.revision
        found = dispatch.answer(self.world, request, self._clock())
        if self.world.store.revision != before:
            self._stir()
        return found

    async def _answer(
        self, request: Request, fault: Fault | None, wires: tuple[Scope, Receive, Send]
    ) -> None:
        found = self._ask(request)
        if isinstance(found, Reply):
            await _write(wires[2], found)
        elif self.watches >= MOST_WATCHES:
            await _write(wires[2], error_reply(too_many("too many watches")))
        else:
            await self._stream(found, fault, wires)

    async def _go_wrong(
        self, request: Request, fault: Fault, wires: tuple[Scope, Receive, Send]
    ) -> None:
        scope, receive, send = wires
        match fault.kind:
            case "refuse":
                _abort(scope)
            case "hang":
                while (await receive())["type"] != "http.disconnect":
                    pass
            case "slow":
                await self._sleep(fault.delay)
                await self._answer(request, None, wires)
            case "close_after":
                self._ask(request)
                _abort(scope)
            case "truncated":
                found = self._ask(request)
                if isinstance(found, Reply):
                    await _write(send, found, part=0.5)
                _abort(scope, flush=True)
            case "html":
                await _write(send, text_reply("<html>Bad Gateway</html>", 502, "text/html"))
            case _:
                code = int(fault.kind)
                told = f"a fault of the simulator: {code}"
                wait = 1 if code == 429 else None
                await _write(send, error_reply(ApiError(code, REASONS[code], told, None, wait)))

    # -------------------------------------------------------------- watches

    async def _stream(
        self, stream: Stream, fault: Fault | None, wires: tuple[Scope, Receive, Send]
    ) -> None:
        scope, receive, send = wires
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        telling = _Telling(self.world, stream, fault, send, self._sleep)
        self.watches += 1
        try:
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._until_gone(receive, telling))
                ended = await self._tell(telling)
                listening.cancel()
        finally:
            self.watches -= 1
        if telling.gone:
            return
        if ended:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            _abort(scope)

    async def _until_gone(self, receive: Receive, telling: "_Telling") -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        telling.gone = True
        self._bell.ring()

    async def _tell(self, telling: "_Telling") -> bool:
        """Tell what is new until the end; return whether it is an orderly one."""
        stream, world = telling.stream, self.world
        cut, end = world.cut, self._clock() + stream.seconds
        mark = self._clock() + BOOKMARK_SECONDS
        going = await telling.tell(stream.first)
        while going and not telling.gone:
            try:
                news = stream.watch.news(world.store)
            except ApiError:
                await telling.tell([too_old(stream.watch, world.store.floor)])
                return True
            going = await telling.tell(news)
            now = self._clock()
            if world.cut != cut:
                return False
            if now >= end:
                if stream.bookmarks and going and not telling.silent:
                    await telling.tell([stream.watch.bookmark()])
                return telling.orderly
            if stream.bookmarks and now >= mark and not telling.silent:
                going = going and await telling.tell([stream.watch.bookmark()])
                mark = now + BOOKMARK_SECONDS
            seen = stream.watch.revision == world.store.revision and world.cut == cut
            if going and seen and not telling.gone:
                await self._bell.wait(max(0.0, min(end, mark) - now))
        return telling.orderly

    # -------------------------------------------------------------- time

    async def run(self) -> None:
        """Let time go on until cancelled: what falls due happens, and watches are told."""
        while True:
            before, now = self.world.store.revision, self._clock()
            settle(self.world, now)
            if self.world.store.revision != before:
                self._bell.ring()
            due = self.world.next_due
            rest = LONGEST_REST if due is None else min(LONGEST_REST, max(0.0, due - now))
            await self._stirred.wait(rest)


class _Telling:
    """One watch's lines on their way to its caller, and what a fault does to them."""

    def __init__(
        self, world: World, stream: Stream, fault: Fault | None, send: Send, sleep: Sleep
    ) -> None:
        self._world, self.stream, self._fault = world, stream, fault
        self._send, self._sleep = send, sleep
        self.told, self.gone, self.orderly, self.silent = 0, False, True, False

    async def tell(self, events: list[tuple[str, Any]]) -> bool:
        """Send events; return whether the watch goes on."""
        kind = self._fault.kind if self._fault is not None else ""
        for event in events:
            if self._fault is not None and self.told >= self._fault.events:
                if kind == "watch_cut":
                    self.orderly = False
                    return False
                if kind == "watch_gone":
                    self._fault = None
                    await self.tell([too_old(self.stream.watch, self._world.store.revision)])
                    return False
                self.silent = kind == "watch_silent"
            if self.silent:
                continue
            if kind == "watch_slow" and self._fault is not None:
                await self._sleep(self._fault.delay)
            if self.gone:
                return False
            await self._line(event)
            if kind == "watch_duplicate":
                await self._line(event)
            if event[0] == "ERROR":
                return False
        return True

    async def _line(self, event: tuple[str, Any]) -> None:
        resource = self.stream.watch.query.resource
        line = self.stream.form.event(resource, event, self._world.now, first=self.told == 0)
        self.told += 1
        await self._send({"type": "http.response.body", "body": line, "more_body": True})
