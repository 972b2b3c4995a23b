"""The fallback network: one aiohttp session with few connections for one boot of one server.

For a server that `http_transport` does not get on with (decision 0015). A client of its own for
each server, because shared pools are quadratic in hosts. It knows TLS and sockets, not CML.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp
from aiohttp.abc import ResolveResult
from yarl import URL

from labfleet.adapters.cml import tls
from labfleet.adapters.cml.transport import (
    Cause,
    Deadlines,
    Limits,
    NotSent,
    Reply,
    ReplyLost,
    refuse_metadata,
)
from labfleet.interfaces.lab_host import HostAddress

# nginx keeps idle connections for a minute, uvicorn for five seconds; leaving first avoids
# the race in which a request meets a connection that the server is closing.
KEEP_IDLE_S = 4.0
CHUNK = 65536


class Watch(aiohttp.Fingerprint):
    """Looks at each connection's certificate before a byte is sent over it.

    Aiohttp calls `check` for every new connection, whatever context did the handshake.
    """

    def __init__(self, pin: tls.Pin) -> None:
        super().__init__(bytes(32))  # its own digest is not used: check is replaced
        self.pin = pin

    def check(self, transport: asyncio.Transport) -> None:
        """Remember the certificate; ServerFingerprintMismatch when it is not the pinned."""
        channel = transport.get_extra_info("ssl_object")
        if channel is not None and not self.pin.accepts(channel.getpeercert(binary_form=True)):
            raise aiohttp.ServerFingerprintMismatch(
                bytes.fromhex(self.pin.pinned or ""), bytes.fromhex(self.pin.seen or ""), "", 0
            )


class _Servers(aiohttp.ThreadedResolver):
    """Resolves names of servers, and no name to a metadata service."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses; NotSent for a metadata service's."""
        found = await super().resolve(host, port, family)
        for each in found:
            refuse_metadata(each["host"])
        return found


def connect(address: HostAddress, seen: str | None, limits: Limits) -> AiohttpTransport:
    """Make the transport of one server; opens nothing yet."""
    return AiohttpTransport(address, seen, limits)


class AiohttpTransport:
    """A Transport over TCP, TLS and HTTP/1.1."""

    def __init__(self, address: HostAddress, seen: str | None, limits: Limits) -> None:
        self._base = address.base_url.rstrip("/").removesuffix("/api/v0") + "/api/v0/"
        self._tls = address.tls
        self._limits = limits
        self._pin: tls.Pin | None = None
        self._first = seen
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate last seen this boot."""
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
        progress = SimpleNamespace(sent=False, waiting=True)
        try:
            async with asyncio.timeout(deadlines.total):
                return await self._exchange(
                    method, path, body, deadlines, headers=headers, progress=progress
                )
        except (NotSent, ReplyLost):
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause, detail = explain(error)
            if cause == "timeout" and progress.waiting:
                detail = "no free connection in time"
            if cause == "certificate" and self._pin is not None:
                detail = f"certificate {self._pin.seen} is not the expected one"
            kind = ReplyLost if progress.sent else NotSent
            raise kind(cause, detail) from error

    async def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
        progress: SimpleNamespace,
    ) -> Reply:
        session = self._open()
        async with session.request(
            method,
            URL(self._base + path, encoded=True),
            data=body if body is None or len(body) <= CHUNK else io.BytesIO(body),
            headers={"Accept-Encoding": "identity", **headers},
            allow_redirects=False,
            ssl=tls.trust(self._tls),
            timeout=aiohttp.ClientTimeout(sock_connect=deadlines.connect, sock_read=deadlines.read),
            trace_request_ctx=progress,
        ) as response:
            content = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK):
                content += chunk
                if len(content) > self._limits.reply_bytes:
                    raise ReplyLost("too_large", "the reply is larger than allowed")
            names = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, names, bytes(content))

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise NotSent("closed", "this boot of the server was forgotten")
        if not self._base.startswith(("https://", "http://")):
            raise NotSent("no_route", "the base URL is neither https nor http")
        if self._session is None:
            pin = self._pin = tls.Pin.of(self._tls, self._first)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=Watch(pin),
                    limit=self._limits.connections,
                    keepalive_timeout=KEEP_IDLE_S,
                    resolver=_Servers(),
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                skip_auto_headers=("Content-Type", "User-Agent"),
                trace_configs=[tracer()],
            )
        return self._session

    async def close(self) -> None:
        """Close the session and its connections."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def tracer() -> aiohttp.TraceConfig:
    """Return hooks that note how far a request came."""

    async def connecting(_session: object, scene: SimpleNamespace, _params: object) -> None:
        scene.trace_request_ctx.waiting = False

    async def sent(_session: object, scene: SimpleNamespace, _params: object) -> None:
        scene.trace_request_ctx.waiting = False
        scene.trace_request_ctx.sent = True

    made = aiohttp.TraceConfig()
    made.on_connection_create_start.append(connecting)
    made.on_request_headers_sent.append(sent)
    return made


def explain(error: Exception) -> tuple[Cause, str]:
    """Return the cause of an outside error, and a sentence without its text.

    The text of outside errors is left out: it can quote what was sent.
    """
    table: tuple[tuple[type[Exception], Cause, str], ...] = (
        (aiohttp.ServerFingerprintMismatch, "certificate", "another certificate"),
        (aiohttp.ClientConnectorCertificateError, "certificate", "certificate not trusted"),
        (aiohttp.ClientConnectorSSLError, "tls", "the TLS handshake failed"),
        (aiohttp.ClientConnectorDNSError, "no_route", "the name does not resolve"),
        (aiohttp.ClientPayloadError, "truncated", "the reply broke off"),
        (aiohttp.InvalidURL, "no_route", "the base URL is not usable"),
        (aiohttp.ClientResponseError, "broken", "the reply is not HTTP"),
        (TimeoutError, "timeout", "no answer in time"),
        (aiohttp.ClientConnectionError, "closed", "the connection was closed"),
        (ValueError, "no_route", "the base URL is not usable"),
    )
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        number = error.os_error.errno
        if number == errno.ECONNREFUSED:
            return "refused", "the connection was refused"
        if number not in (errno.ECONNRESET, errno.EPIPE) and type(error) in (
            aiohttp.ClientConnectorError,
            aiohttp.ClientConnectorDNSError,
        ):
            return "no_route", f"no route ({errno.errorcode.get(number, number)})"
    for kind, cause, detail in table:
        if isinstance(error, kind):
            return cause, detail
    return "closed", "the connection failed"
