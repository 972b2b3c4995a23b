"""Posts events to addresses that users named: the Deliveries interface over aiohttp.

It knows HTTP and addresses, not events. The resolver that aiohttp uses for a connection checks
each address right before, so that a name that resolves differently the second time (DNS
rebinding) cannot evade the check. No redirects, no proxies of the environment, no
cookies, and no byte of the reply's body is read (facts/fleet-bugs.md#t45).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from labfleet.interfaces.outside import Answered
from labfleet.kernel import errors
from labfleet.kernel.addresses import is_public

Resolve = AbstractResolver


class PublicOnly(AbstractResolver):
    """Resolves names, and refuses a name of which any address is not public."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses; OSError when there are none, Denied for a private one."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        made: list[ResolveResult] = []
        for kind, _, proto, _, place in found:
            address = str(place[0])
            if not is_public(address):
                raise errors.Denied(_refusal(host, address), reason="PrivateAddress")
            made.append(
                {
                    "hostname": host, "host": address, "port": int(place[1]), "family": kind,
                    "proto": proto, "flags": socket.AI_NUMERICHOST,
                }
            )  # fmt: skip
        return made

    async def close(self) -> None:
        """Hold nothing."""


def _refusal(host: str, address: str) -> str:
    return (
        f"{host} is at {address}, which is not a public address;"
        " an admin may set spec.allowPrivate for a receiver inside"
    )


class HttpDeliveries:
    """Two sessions, made on first use: one for public addresses only, one for all."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        """Take another resolver for the public addresses only in tests."""
        self._resolver = resolver or PublicOnly()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        allow_private: bool,
    ) -> Answered:
        """Return the answer to one POST, as the interface says."""
        limits = aiohttp.ClientTimeout(total=seconds)
        try:
            place = URL(url)
        except ValueError:
            raise errors.Invalid("the URL is not one that can be called") from None
        if not allow_private:
            _judge_literal(place)
        try:
            async with self._session(allow_private).post(
                place, data=body, headers=dict(headers), timeout=limits, allow_redirects=False
            ) as reply:
                return Answered(reply.status, retry_after(reply.headers))
        except errors.Denied:
            raise
        except TimeoutError:
            told = f"no answer within {seconds:g} s"
            raise errors.Temporary(told, reason="Timeout") from None
        except aiohttp.InvalidURL:
            raise errors.Invalid("the URL is not one that can be called") from None
        except (aiohttp.ClientError, OSError) as problem:
            inner = problem.__cause__ or problem.__context__
            if isinstance(inner, errors.Denied):
                raise inner from None
            raise errors.Unreachable(_told(problem)) from None

    async def close(self) -> None:
        """Close both sessions."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _session(self, allow_private: bool) -> aiohttp.ClientSession:  # noqa: FBT001 - a key
        found = self._sessions.get(allow_private)
        if found is None:
            resolver = None if allow_private else self._resolver
            connector = aiohttp.TCPConnector(
                resolver=resolver, use_dns_cache=False, limit=32, limit_per_host=4
            )
            found = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
            self._sessions[allow_private] = found
        return found


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After asks for; None without one that can be read.

    A date counts from the reply's own Date, so that a receiver whose clock is wrong asks for what
    it means; one that can name an instant has a clock and sends its Date (RFC 9110, 6.6.1).
    """
    asked = headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked[:9])
    try:
        wait = _instant(asked) - _instant(headers.get("Date", ""))
    except (TypeError, ValueError, OverflowError):
        return None  # not a date, or none at all
    return max(0.0, wait.total_seconds())


def _instant(text: str) -> datetime:
    """Return an HTTP-date in any of its three forms, of which one names no zone and means UTC."""
    found = parsedate_to_datetime(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _judge_literal(url: URL) -> None:
    """Refuse an address literal in the URL, which needs no resolver.

    The host is parsed as aiohttp parses it, because a host that looks like a name elsewhere may
    become an address there (`①②⑦.⓪.⓪.①`, `127。0。0。1`).
    """
    host = (url.raw_host or "").rstrip(".")
    try:
        public = is_public(host)
    except ValueError:
        return
    if not public:
        raise errors.Denied(_refusal(host, host), reason="PrivateAddress")


def _told(problem: Exception) -> str:
    """Return a failed connection in words; the library's name the same address three times."""
    if isinstance(problem, aiohttp.ClientConnectorError) and problem.os_error.errno:
        number = problem.os_error.errno
        if number == errno.ECONNREFUSED:
            return "the connection was refused"
        if not isinstance(problem, aiohttp.ClientConnectorDNSError | aiohttp.ClientSSLError):
            return f"no route ({errno.errorcode.get(number, number)})"
    return f"{type(problem).__name__}: {problem}"[:300]
