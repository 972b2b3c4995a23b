"""CML servers over HTTP ("wire"): a transport for the real CML adapter, in virtual time.

One HTTP exchange is a connection, a request that arrives at the simulator's route table, and a
body that comes back in pieces. Connect, read and total deadlines count in virtual time, the body
is bounded, and every fault strikes before the effect or after it. This module opens no socket
and knows nothing of labs.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl, unquote

from cml_simulator.core.world import BootStage, Server, boot_stage
from cml_simulator.routes import dispatch
from cml_simulator.routes import web as simulated
from labfleet.adapters.cml.transport import Limits
from labfleet.adapters.http.transport import Deadlines, NotSent, Reply, ReplyLost
from labfleet.interfaces.lab_host import HostAddress
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.cml import CALL_PROFILE, CmlServers
from labfleet.rehearsal.worlds.wire import BEFORE, CHANGES

PIECE = 64 * 1024
"""Bytes of a body that arrive together."""
LATE = 15.0
"""Seconds after which an arriving request counts as late: the deadline of an effect."""
TROUBLE = b'{"code": 500, "description": "Internal server error"}'
BUSY = b'{"code": 429, "description": "Too many requests"}'
JSON = "application/json"
Failure = NotSent | ReplyLost


@dataclass(frozen=True, slots=True)
class ExchangeFault:
    """The fault of one exchange: `before` strikes before its effect, `after` strikes after it.

    `there` is seconds until the request arrives.
    """

    there: float
    before: str | None = None
    after: str | None = None


class CmlNetwork:
    """The network to all CML servers, shared by all callers; `connect` is the adapter's Connect."""

    def __init__(
        self,
        loop: Loop,
        rng: SeededRng,
        injector: FaultInjector,
        cml_servers: CmlServers,
        *,
        rate: float = 1.0,
    ) -> None:
        self.loop = loop
        self.injector = injector
        self.cml_servers = cml_servers
        self.world = contextvars.Context()
        self.calls = 0
        self._rng = rng
        self._rate = rate

    def connect(self, address: HostAddress, seen: str | None, limits: Limits) -> FakeConnections:
        """Return the transport of an address."""
        return FakeConnections(self, address, seen, limits)

    def latency(self) -> float:
        """Return seconds one way."""
        return self._rng.between(CALL_PROFILE.low, CALL_PROFILE.high) * self._rate

    def fate(self, *, changes: bool, patience: float) -> ExchangeFault:
        """Draw the fault of an exchange whose client waits `read` seconds for each read."""
        rng, injector = self._rng, self.injector
        times = CHANGES if changes else 1.0
        before = injector.first(BEFORE, times)
        there = self.latency()
        if injector.strikes("call_slow"):
            there += rng.between(1.0, patience)
        after = None
        if injector.strikes("call_lost_after", times):
            after = ("closed", "truncated", "timeout")[rng.below(3)]
        if injector.strikes("call_late", times):
            there += rng.between(patience, patience * 1.2)
        if before is not None:
            before = f"{before}/{rng.below(2)}"
        return ExchangeFault(there, before, after)


class FakeConnections:
    """Connections to one boot of one server."""

    def __init__(
        self, door: CmlNetwork, address: HostAddress, seen: str | None, limits: Limits
    ) -> None:
        self._door = door
        self._address = address
        self._ip = address.base_url.removeprefix("https://").partition(":")[0]
        self._pinned = address.tls.fingerprint or seen
        self._limits = limits
        self._free = asyncio.Semaphore(limits.connections)
        self._closed = False
        self._seen: str | None = seen

    @property
    def fingerprint(self) -> str | None:
        """The certificate last seen."""
        return self._seen

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        """Exchange one request; raises NotSent or ReplyLost."""
        if self._closed:
            raise NotSent("closed", "this boot of the server was forgotten")
        loop = self._door.loop
        until = loop.time() + deadlines.total
        try:
            async with asyncio.timeout_at(until):
                await self._free.acquire()
        except TimeoutError:
            raise NotSent("timeout", "no connection became free in time") from None
        try:
            deadlines = deadlines.within(until - loop.time())
            if deadlines.total <= 0:
                raise NotSent("timeout", "no time is left")
            asked = _asked(method, path, body, headers)
            return await self._exchange(asked, deadlines)
        finally:
            self._free.release()

    async def close(self) -> None:
        """Refuse what is asked from now."""
        self._closed = True

    async def _exchange(self, asked: simulated.Request, deadlines: Deadlines) -> Reply:
        door = self._door
        door.calls += 1
        if door.injector.holds("server_unreachable", self._ip):
            raise await _gone_by(deadlines, deadlines.connect, NotSent("timeout", "no connection"))
        changes = asked.method != "GET" and not asked.path.endswith("/authenticate")
        fate = door.fate(changes=changes, patience=min(deadlines.read, LATE))
        if fate.before is not None:
            struck = await _struck(fate.before, deadlines)
            if struck is not None:
                return struck
        exchange = Exchange(door, deadlines, self._limits.reply_bytes, fate.after)
        arrive = partial(self._arrive, exchange, asked)
        door.loop.call_later(fate.there, arrive, context=door.world)
        return await exchange.answer

    def _arrive(self, exchange: Exchange, asked: simulated.Request) -> None:
        """Let the request reach the server: its effect happens even if the client has given up."""
        cml_servers = self._door.cml_servers
        server = cml_servers.fleet.at_address(self._ip)
        now = cml_servers.now()
        stage = BootStage.OFF if server is None else boot_stage(server, now)
        if server is None or stage is BootStage.OFF:
            exchange.no_route()
            return
        if stage is BootStage.REFUSED:
            exchange.fail(NotSent("refused", "connection refused"))
            return
        found = certificate(server)
        if self._address.tls.mode == "pin" and self._pinned not in (None, found):
            exchange.fail(NotSent("certificate", "another certificate than the pinned one"))
            return
        self._seen = self._pinned = found
        server.tally.requests += 1
        if stage is BootStage.BAD_GATEWAY:
            reply = simulated.html_reply(502, "Bad Gateway")
        else:
            reply = dispatch.answer(server, asked, now)
        exchange.back(_headers(reply), reply)


class Exchange:
    """The client's side of one exchange: its deadlines, and what has come back so far."""

    def __init__(
        self, door: CmlNetwork, deadlines: Deadlines, most: int, after: str | None
    ) -> None:
        self.answer: asyncio.Future[Reply] = door.loop.create_future()
        self._door = door
        self._deadlines = deadlines
        self._most = most
        self._after = after
        self._begun = door.loop.time()
        self._body = bytearray()
        self._later(deadlines.total, self.fail, ReplyLost("timeout", "no reply in time"))
        self._reading = self._later(
            deadlines.read, self.fail, ReplyLost("timeout", "nothing came to read")
        )

    def no_route(self) -> None:
        """Nobody answers the connection: it ends by its deadline."""
        left = self._begun + self._deadlines.connect - self._door.loop.time()
        self._later(max(0.0, left), self.fail, NotSent("timeout", "no connection"))

    def back(self, headers: dict[str, str], reply: simulated.Reply) -> None:
        """Send a reply back, piece by piece; or lose it."""
        if self._after == "timeout":
            return
        if self._after == "closed":
            lost = ReplyLost("closed", "the connection was closed")
            self._later(self._door.latency(), self.fail, lost)
            return
        pieces = [reply.body[at : at + PIECE] for at in range(0, len(reply.body), PIECE)] or [b""]
        if self._after == "truncated":
            pieces = [pieces[0][: len(pieces[0]) // 2]]
        self._later(self._door.latency(), self._piece, pieces, headers, reply.status)

    def fail(self, problem: Failure) -> None:
        """End the exchange without a reply."""
        if not self.answer.done():
            self.answer.set_exception(problem)

    def _piece(self, pieces: list[bytes], headers: dict[str, str], status: int) -> None:
        if self.answer.done():
            return
        self._reading.cancel()
        self._body += pieces.pop(0)
        if len(self._body) > self._most:
            self.fail(ReplyLost("too_large", "the reply is larger than allowed"))
        elif self._after == "truncated":
            self.fail(ReplyLost("truncated", "the reply broke off"))
        elif not pieces:
            self.answer.set_result(Reply(status, headers, bytes(self._body)))
        else:
            lost = ReplyLost("timeout", "nothing more came to read")
            self._reading = self._later(self._deadlines.read, self.fail, lost)
            self._later(self._door.latency(), self._piece, pieces, headers, status)

    def _later(
        self, delay: float, call: Callable[..., None], *given: object
    ) -> asyncio.TimerHandle:
        return self._door.loop.call_later(delay, call, *given, context=self._door.world)


def certificate(server: Server) -> str:
    """Return the fingerprint of a server's certificate: it stays with the disk."""
    return hashlib.sha256(f"certificate of {server.id}".encode()).hexdigest()


def _asked(
    method: str, path: str, body: bytes | None, headers: Mapping[str, str]
) -> simulated.Request:
    bare, _, query = path.partition("?")
    return simulated.Request(
        method,
        f"{dispatch.BASE}/{unquote(bare)}",
        dict(parse_qsl(query, keep_blank_values=True)),
        {name.lower(): value for name, value in headers.items()},
        body or b"",
    )


def _headers(reply: simulated.Reply) -> dict[str, str]:
    told = {"server": "nginx"}
    if reply.status != 204:
        told["content-type"] = reply.content_type
        told["content-length"] = str(len(reply.body))
    return told


async def _gone_by(deadlines: Deadlines, seconds: float, problem: Failure) -> Failure:
    """Return the problem once the deadline that reveals it has passed."""
    if seconds >= deadlines.total and isinstance(problem, ReplyLost):
        problem = ReplyLost(problem.cause, "no reply in time")
    await asyncio.sleep(min(seconds, deadlines.total))
    return problem


async def _struck(word: str, deadlines: Deadlines) -> Reply | None:
    """Let a request go wrong before it has any effect."""
    kind, _, sort = word.partition("/")
    hard = sort == "1"
    if kind == "call_throttle":
        await asyncio.sleep(CALL_PROFILE.low)
        return Reply(429, {"content-type": JSON, "retry-after": "2"}, BUSY)
    if kind == "call_error":
        await asyncio.sleep(CALL_PROFILE.high)
        if hard:
            page = simulated.html_reply(502, "Bad Gateway")
            return Reply(page.status, _headers(page), page.body)
        return Reply(500, {"content-type": JSON}, TROUBLE)
    if kind == "call_refused":
        await asyncio.sleep(CALL_PROFILE.low)
        raise NotSent("refused" if hard else "no_route", "no connection")
    if hard:
        await asyncio.sleep(CALL_PROFILE.low)
        raise ReplyLost("closed", "the connection was closed")
    raise await _gone_by(deadlines, deadlines.read, ReplyLost("timeout", "nothing came to read"))
