"""The interface of the HTTP client.

One request in, one bounded reply out, or one of two failures that say whether the server may
have seen the request, because a repeat depends on that. No retries, redirects, cookies, proxies
or environment. Deadlines are machine seconds (kernel/clock.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

Cause = Literal[
    "timeout", "no_route", "refused", "closed", "tls", "certificate", "truncated",
    "broken", "too_large",
]  # fmt: skip


class NotSent(Exception):
    """No byte of the request reached the server.

    Of a GET or HEAD that was sent again this holds of the second time: it says how the server is now.
    """

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class ReplyLost(Exception):
    """The request may have been carried out, but its reply is missing or unusable."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Machine seconds: for a connection (with TLS), between two reads, for all of it."""

    connect: float
    read: float
    total: float

    def within(self, seconds: float) -> Deadlines:
        """Return the same, with no more than this many seconds in total."""
        if seconds >= self.total:
            return self
        return replace(self, total=max(0.0, min(self.total, seconds)))


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. Header names are lower-case; the body is bounded by the transport."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Transport(Protocol):
    """Connections to one server."""

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate last accepted, lower-case hex; None before TLS or without."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadlines: Deadlines,
        *,
        headers: Mapping[str, str],
    ) -> Reply:
        """Exchange one request; path is quoted and starts below the server's base.

        `headers` must not change afterwards: a transport may keep what it made of them.
        Raises NotSent or ReplyLost, nothing else.
        """
        ...

    async def close(self) -> None:
        """Drop the connections; safe to repeat."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one server may take.

    `idle` is after how many machine seconds an unused connection is closed; `reply_bytes` is the
    most that a reply's body may have.
    """

    connections: int = 4
    idle: float = 75.0
    reply_bytes: int = 16 * 1024 * 1024
