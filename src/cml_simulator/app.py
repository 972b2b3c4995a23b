"""The ASGI application: reads requests, asks the core, carries out faults, writes replies.

Bare ASGI over `routes`; time and sleep are arguments, and which server answers is decided by the
address a connection came in on. It opens no socket and starts no task.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

from cml_simulator.core.errors import CmlError
from cml_simulator.core.faults import Fault, choose
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.inputs import Clock
from cml_simulator.core.world import BootStage, Server, boot_stage
from cml_simulator.routes import control, dispatch
from cml_simulator.routes.web import Reply, Request, error_reply, html_reply

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Sleep = Callable[[float], Awaitable[None]]

BODY_LIMIT = 32 * 1024 * 1024
ABORT = "cml_simulator.abort"
"""Key in scope["extensions"] whose "cut" is a function (flush=...) that resets or closes the connection."""

TEXTS = {
    "500": "Internal server error on {path}. Contact support.",
    "400": "The request cannot be carried out.",
    "404": "Not Found",
    "401": "Invalid or expired authentication token",
    "403": "User does not have permission for this operation.",
    "409": "Another operation is in progress.",
}


PAGES = {
    "502": (502, "Bad Gateway"),
    "503": (503, "Service Temporarily Unavailable"),
    "504": (504, "Gateway Time-out"),
    "html": (200, "Welcome"),
}


class TooBig(Exception):
    """A body over the limit."""


def _abort(scope: Scope, *, flush: bool = False) -> None:
    reset = scope.get("extensions", {}).get(ABORT, {}).get("cut")
    if reset is None:
        raise ConnectionAbortedError
    reset(flush=flush)


async def _read(scope: Scope, receive: Receive) -> Request:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionAbortedError
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise TooBig
        if not message.get("more_body"):
            break
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return Request(scope["method"], scope["path"], query, headers, bytes(body))


async def _write(send: Send, reply: Reply, *, part: float = 1.0) -> None:
    headers = [(b"server", b"nginx")]
    if reply.date is not None:
        headers.append((b"date", formatdate(max(reply.date, 0.0), usegmt=True).encode()))
    if reply.status != 204:
        headers.append((b"content-type", reply.content_type.encode()))
        headers.append((b"content-length", str(len(reply.body)).encode()))
    start = {"type": "http.response.start", "status": reply.status, "headers": headers}
    await send(start)
    body = reply.body[: int(len(reply.body) * part)]
    await send({"type": "http.response.body", "body": body, "more_body": part < 1})


class ControlApp:
    """The ASGI application of `/_control`."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet, self._clock = fleet, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await _read(scope, receive)
        except TooBig:
            await _write(send, html_reply(413, "Request Entity Too Large"))
            return
        except ConnectionAbortedError:
            return
        await _write(send, control.answer(self._fleet, request, self._clock()))


class CmlApp:
    """The ASGI application of every CML server of a fleet.

    With `control` it also answers `/_control` (one server alone on one port).
    """

    def __init__(
        self, fleet: Fleet, clock: Clock, sleep: Sleep, control: ControlApp | None = None
    ) -> None:
        self._fleet, self._clock, self._sleep, self._control = fleet, clock, sleep, control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._control is not None and scope["path"].startswith(control.BASE):
            await self._control(scope, receive, send)
            return
        server = self._fleet.at_address(scope["server"][0])
        if server is None or boot_stage(server, self._clock()) in {
            BootStage.OFF,
            BootStage.REFUSED,
        }:
            _abort(scope)
            return
        try:
            request = await _read(scope, receive)
        except TooBig:
            await _write(send, html_reply(413, "Request Entity Too Large"))
            return
        except ConnectionAbortedError:
            return
        if boot_stage(server, self._clock()) is BootStage.BAD_GATEWAY:
            self._note(server, request, 502, None)
            await _write(send, html_reply(502, "Bad Gateway"))
            return
        rules = (*server.faults, *self._fleet.faults)
        fault = choose(rules, request.method, request.path)
        if fault is None:
            await _write(send, self._answer(server, request, None))
        else:
            await self._act(server, request, fault, (scope, receive, send))

    def _answer(self, server: Server, request: Request, fault: Fault | None) -> Reply:
        reply = dispatch.answer(server, request, self._clock())
        self._note(server, request, reply.status, fault)
        return reply

    def _note(self, server: Server, request: Request, status: int, fault: Fault | None) -> None:
        server.tally.requests += 1
        server.journal.append(
            {
                "at": self._clock(),
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "status": status,
                "fault": fault.kind if fault else None,
            }
        )

    async def _act(
        self,
        server: Server,
        request: Request,
        fault: Fault,
        wires: tuple[Scope, Receive, Send],
    ) -> None:
        scope, receive, send = wires
        match fault.kind:
            case "refuse" | "close_before":
                self._note(server, request, 0, fault)
                _abort(scope)
            case "hang":
                self._note(server, request, 0, fault)
                while (await receive())["type"] != "http.disconnect":
                    pass
            case "slow":
                await self._sleep(fault.delay)
                await _write(send, self._answer(server, request, fault))
            case "close_after":
                self._answer(server, request, fault)
                _abort(scope)
            case "truncated":
                await _write(send, self._answer(server, request, fault), part=0.5)
                _abort(scope, flush=True)
            case "502" | "503" | "504" | "html":
                status, title = PAGES[fault.kind]
                self._note(server, request, status, fault)
                await _write(send, html_reply(status, title))
            case "text":
                reply = self._answer(server, request, fault)
                await _write(send, Reply(reply.status, reply.body, "text/plain"))
            case "empty":
                self._note(server, request, 200, fault)
                await _write(send, Reply(200))
            case "500" | "400" | "401" | "403" | "404" | "409":
                status = int(fault.kind)
                self._note(server, request, status, fault)
                text = fault.description or TEXTS[fault.kind].format(path=request.path)
                await _write(send, error_reply(CmlError(status, text)))
