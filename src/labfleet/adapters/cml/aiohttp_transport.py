"""The real network: one aiohttp session with few connections for one boot of one server.

A client of its own for each server, because shared pools are quadratic in hosts and aiohttp
is the cheapest of the ready ones (perf.md 6). It knows TLS and sockets, not CML.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import hashlib
import re
import ssl
from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp
from yarl import URL

from labfleet.adapters.cml.transport import (
    Cause,
    Deadlines,
    Limits,
    NotSent,
    Reply,
    ReplyLost,
)
from labfleet.interfaces.lab_host import HostAddress
from labfleet.resources.machine import TlsSettings

# nginx keeps idle connections for a minute, uvicorn for five seconds; leaving first avoids
# the race in which a request meets a connection that the server is closing.
KEEP_IDLE_S = 4.0
CHUNK = 65536


class Watch(aiohttp.Fingerprint):
    """Looks at each connection's certificate before a byte is sent over it.

    `pinned` None accepts any certificate; `keep_first` pins the first one seen. Aiohttp
    calls `check` for every new connection, whatever context did the handshake.
    """

    def __init__(self, pinned: str | None, *, keep_first: bool) -> None:
        super().__init__(bytes(32))  # its own digest is not used: check is replaced
        self.pinned = pinned
        self.keep_first = keep_first
        self.seen: str | None = None

    def check(self, transport: asyncio.Transport) -> None:
        """Remember the certificate; ServerFingerprintMismatch when it is not the pinned."""
        channel = transport.get_extra_info("ssl_object")
        if channel is None:
            return
        self.seen = hashlib.sha256(channel.getpeercert(binary_form=True)).hexdigest()
        if self.pinned is None and self.keep_first:
            self.pinned = self.seen
        if self.pinned is not None and self.seen != self.pinned:
            raise aiohttp.ServerFingerprintMismatch(
                bytes.fromhex(self.pinned), bytes.fromhex(self.seen), "", 0
            )


@functools.lru_cache(maxsize=64)
def context(mode: str, ca_file: str | None) -> ssl.SSLContext:
    """Return the TLS context of a policy; OSError when the CA file cannot be read.

    Not ssl.create_default_context: that obeys SSL_CERT_FILE and SSLKEYLOGFILE, and no
    environment may change how a server is trusted (cml-api.md F2, F10).
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode != "verify":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif ca_file is not None:
        made.load_verify_locations(cafile=ca_file)
    else:
        compiled = ssl.get_default_verify_paths()
        made.load_verify_locations(capath=compiled.openssl_capath)
        with contextlib.suppress(OSError):  # many systems have only one of the two
            made.load_verify_locations(cafile=compiled.openssl_cafile)
    return made


def fingerprint_of(tls: TlsSettings) -> str | None:
    """Return the wanted fingerprint as plain hex; NotSent when it is no SHA-256 in hex."""
    if tls.fingerprint is None:
        return None
    plain = re.sub(r"[:\s]", "", tls.fingerprint).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", plain):
        raise NotSent("certificate", "the configured fingerprint is not a SHA-256 in hex")
    return plain


def connect(address: HostAddress, seen: str | None, limits: Limits) -> AiohttpTransport:
    """Make the transport of one server; opens nothing yet."""
    return AiohttpTransport(address, seen, limits)


class AiohttpTransport:
    """A Transport over TCP, TLS and HTTP/1.1."""

    def __init__(self, address: HostAddress, seen: str | None, limits: Limits) -> None:
        self._base = address.base_url.rstrip("/").removesuffix("/api/v0") + "/api/v0/"
        self._tls = address.tls
        self._limits = limits
        self._watch: Watch | None = None
        self._first = seen
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate last seen this boot."""
        return self._first if self._watch is None else self._watch.seen or self._first

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
            if cause == "certificate" and self._watch is not None:
                detail = f"certificate {self._watch.seen} is not the expected one"
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
            data=body,
            headers={"Accept-Encoding": "identity", **headers},
            allow_redirects=False,
            ssl=context(self._tls.mode, self._tls.ca_file),
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
            pinning = self._tls.mode == "pin"
            pinned = (fingerprint_of(self._tls) or self._first) if pinning else None
            self._watch = Watch(pinned, keep_first=pinning)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._watch,
                    limit=self._limits.connections,
                    keepalive_timeout=KEEP_IDLE_S,
                    resolver=aiohttp.ThreadedResolver(),
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
        (ssl.SSLError, "certificate", "the CA file is not usable"),
        (FileNotFoundError, "certificate", "the CA file does not exist"),
        (PermissionError, "certificate", "the CA file may not be read"),
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
