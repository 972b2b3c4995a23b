"""The entrance: a few kept connections to one server.

Our own client, because most of the cost of polling a fleet lies between the socket and the JSON
(facts/performance.md#polling-clients, decision 0015). It knows sockets, TLS and HTTP/1.1, not what is asked.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from labfleet.adapters.http import tls
from labfleet.adapters.http.connection import Connection, Request
from labfleet.adapters.http.transport import (
    Bounds,
    Cause,
    Deadlines,
    NotSent,
    Reply,
    ReplyLost,
)
from labfleet.resources.machine import TlsSettings

FRESH_S = 4.0
"""A change is sent only over a connection used within these seconds: uvicorn closes idle ones
after five seconds, nginx after a minute, and a request sent at that moment is lost."""
READS = frozenset({"GET", "HEAD"})
"""Methods that may use any kept connection, and are sent again once when it was closed."""
TAILS = 2
"""Sets of headers whose lines are kept: a caller speaks with a token or without one."""
UNSAFE = re.compile(r"[^\x21-\x7e]")
UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


@functools.lru_cache(maxsize=1024)
def quoted(path: str) -> bool:
    """Tell whether a path may stand in a request line as it is."""
    return UNSAFE.search(path) is None


def anywhere(address: str) -> None:
    """Let a connection go to any address."""
    del address


class HttpTransport:
    """A Transport over TCP, TLS and HTTP/1.1; opens nothing before the first request.

    Paths are appended to the base URL's path and `below`. `seen` is the certificate seen earlier.
    `judge` raises NotSent for the address of a peer that may not be spoken to. `authority` are
    certificates (PEM) by which the server's is verified, instead of the policy's file.
    """

    __slots__ = (
        "_all", "_authority", "_base", "_below", "_bounds", "_busy", "_closed", "_first", "_head", "_host",
        "_idle", "_judge", "_pin", "_port", "_prefix", "_secure", "_session", "_sweeper", "_tails",
        "_tls", "_trust", "_waiting",
    )  # fmt: skip

    def __init__(
        self,
        base_url: str,
        policy: TlsSettings,
        bounds: Bounds,
        *,
        below: str = "/",
        seen: str | None = None,
        judge: Callable[[str], None] = anywhere,
        authority: str | None = None,
    ) -> None:
        self._base = base_url
        self._below = below
        self._tls = policy
        self._bounds = bounds
        self._judge = judge
        self._authority = authority
        self._first = seen
        self._pin: tls.Pin | None = None
        self._trust: ssl.SSLContext | None = None
        self._session: ssl.SSLSession | None = None
        self._host, self._port, self._secure = "", 0, True
        self._prefix = ""
        self._head = ""
        self._tails: dict[int, tuple[Mapping[str, str], str]] = {}
        self._all: set[Connection] = set()
        self._idle: list[Connection] = []
        self._busy = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate last accepted."""
        return self._first if self._pin is None else self._pin.seen or self._first

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        """Exchange one request; NotSent or ReplyLost."""
        if self._pin is None or self._closed:
            self._open()
        head = self._written(method, path, body, headers)
        loop = asyncio.get_running_loop()
        until = loop.time() + deadlines.total
        request = Request(method, head, body, until, deadlines.read)
        if self._busy < self._bounds.connections and not self._waiting:
            self._busy += 1
        else:
            await self._turn(until)
        try:
            kept = self._kept(loop, method)
            if kept is not None:
                try:
                    return await self._over(kept, request)
                except ReplyLost as lost:
                    if method not in READS or lost.cause != "closed" or kept.fed:
                        raise
                    self._drop_idle()
            return await self._over(await self._connected(deadlines, until), request)
        finally:
            self._give_back()

    async def _over(self, connection: Connection, request: Request) -> Reply:
        """Exchange over one connection, and keep it when it is whole."""
        reply = await connection.exchange(request)
        if connection.reusable and not self._closed:
            self._keep(connection)
        else:
            connection.close()
        return reply

    async def close(self) -> None:
        """Close the connections; calls on their way fail as closed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        if self._all:
            for connection in list(self._all):
                connection.close()
            await asyncio.sleep(0)  # lets the sockets close before the loop does

    # --- the request's bytes -----------------------------------------------------------------

    def _open(self) -> None:
        """Read the address and the policy, once; NotSent when they are not usable."""
        self._refuse_when_closed()
        if not self._base.startswith(("https://", "http://")):
            raise NotSent("no_route", "the base URL is neither https nor http")
        try:
            parts = urlsplit(self._base)
            host, port = parts.hostname or "", parts.port
            host = host if host.isascii() else host.encode("idna").decode("ascii")
        except ValueError:
            host, port = "", None
            parts = urlsplit("")
        if not host or UNSAFE.search(host) or UNSAFE.search(parts.path):
            raise NotSent("no_route", "the base URL is not usable")
        pin = tls.Pin.of(self._tls, self._first)
        self._secure = parts.scheme == "https"
        usual = 443 if self._secure else 80
        self._host, self._port = host, usual if port is None else port
        name = f"[{host}]" if ":" in host else host
        self._prefix = parts.path.rstrip("/") + self._below
        shown = name if self._port == usual else f"{name}:{self._port}"
        self._head = f"Host: {shown}\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"
        self._pin = pin

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise NotSent("closed", "the connections to this server were given up")

    def _written(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        """Return the request's head."""
        if not quoted(path):
            raise NotSent("broken", "the path is not quoted")
        size = ""
        if body is not None:
            size = f"Content-Length: {len(body)}\r\n"
        elif method in ("POST", "PUT", "PATCH"):
            size = "Content-Length: 0\r\n"
        text = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._tail(headers)}{size}\r\n"
        return text.encode("latin-1")

    def _tail(self, headers: Mapping[str, str]) -> str:
        """Return the lines of the headers; those of the same object are not written anew."""
        known = self._tails.get(id(headers))
        if known is not None:
            return known[1]
        if any(UNSAFE.search(k) or UNSAFE_VALUE.search(v) for k, v in headers.items()):
            raise NotSent("broken", "a header cannot be sent")
        tail = self._head + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if len(self._tails) == TAILS:
            self._tails.clear()
        self._tails[id(headers)] = (headers, tail)  # held, so that no other takes its id
        return tail

    # --- waiting for a connection ------------------------------------------------------------

    async def _turn(self, until: float) -> None:
        """Wait in line for one of the connections; NotSent when it does not come in time."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(until):
                await turn
        except BaseException as problem:
            if turn.done() and not turn.cancelled():
                self._give_back()  # the turn came at the moment of the time-out
            else:
                self._waiting.remove(turn)
            if isinstance(problem, TimeoutError):
                raise NotSent("timeout", "no free connection in time") from None
            raise

    def _give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

    # --- connections -------------------------------------------------------------------------

    def _kept(self, loop: asyncio.AbstractEventLoop, method: str) -> Connection | None:
        """Return an idle connection that this request may use, the one used last first."""
        while self._idle:
            connection = self._idle.pop()
            age = loop.time() - connection.idle_since
            if connection.ready and age < (self._bounds.idle if method in READS else FRESH_S):
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        loop = connection.loop
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._bounds.idle, self._sweep)

    def _sweep(self) -> None:
        """Close what was idle too long; look again when the next one will be."""
        loop = asyncio.get_running_loop()
        self._sweeper = None
        oldest = loop.time() - self._bounds.idle + 0.001
        for connection in [each for each in self._idle if each.idle_since <= oldest]:
            self._idle.remove(connection)
            connection.close()
        if self._idle:
            due = min(each.idle_since for each in self._idle) + self._bounds.idle
            self._sweeper = loop.call_at(due, self._sweep)

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _gone(self, connection: Connection) -> None:
        """Forget a connection that is over; its TLS session stays."""
        if connection in self._all:  # one that was refused leaves no session
            self._session = connection.session(self._trust) or self._session
            self._all.remove(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connected(self, deadlines: Deadlines, until: float) -> Connection:
        """Return a new connection; NotSent when there is none in time."""
        self._refuse_when_closed()
        loop = asyncio.get_running_loop()
        connection = Connection(loop, self._bounds.reply_bytes, self._gone)
        try:
            async with asyncio.timeout_at(min(until, loop.time() + deadlines.connect)):
                await self._establish(loop, connection)
            self._refuse_when_closed()
        except BaseException as problem:
            connection.abort()
            if isinstance(problem, OSError | ValueError):
                cause, detail = explain(problem)
                raise NotSent(cause, detail) from problem
            raise
        self._all.add(connection)
        return connection

    async def _establish(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        """Connect, shake hands, and look at the certificate before anything is sent."""
        if self._secure:
            self._renew_trust()
        link, _ = await loop.create_connection(lambda: connection, self._host, self._port)
        self._judge(str((link.get_extra_info("peername") or ("",))[0]))
        if not self._secure or self._trust is None:
            return
        channel = await connection.secure(self._trust, self._host, self._session)
        pin = self._pin
        if pin is not None and not pin.accepts(channel.certificate):
            self._session = None
            shown = tls.digest(channel.certificate)
            raise NotSent("certificate", f"certificate {shown} is not the expected {pin.pinned}")

    def _renew_trust(self) -> None:
        """Read the policy's CA file again; one that was replaced ends what the old one allowed."""
        found = tls.trust(self._tls, self._authority)
        if found is not self._trust:
            self._trust, self._session = found, None
            self._drop_idle()


def explain(error: Exception) -> tuple[Cause, str]:
    """Return the cause of an error before anything was sent, and a sentence without its text.

    The text of outside errors is left out: it can quote what was sent.
    """
    table: tuple[tuple[type[Exception], Cause, str], ...] = (
        (ssl.SSLCertVerificationError, "certificate", "certificate not trusted"),
        (ssl.SSLError, "tls", "the TLS handshake failed"),
        (TimeoutError, "timeout", "no answer in time"),
        (ConnectionRefusedError, "refused", "the connection was refused"),
        (ConnectionError, "closed", "the connection was closed"),
        (socket.gaierror, "no_route", "the name does not resolve"),
        (ValueError, "no_route", "the base URL is not usable"),
    )
    for kind, cause, detail in table:
        if isinstance(error, kind):
            return cause, detail
    number = error.errno if isinstance(error, OSError) else None
    return "no_route", f"no route ({errno.errorcode.get(number or 0, number)})"
