"""The interface of the HTTP transport below this adapter.

One request in, one bounded reply out, or one of two failures that say whether the server may
have seen the request, because a repeat depends on that. No retries, redirects, cookies, proxies
or environment. Deadlines are machine seconds (kernel/clock.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from labfleet.interfaces.lab_host import HostAddress

Cause = Literal[
    "timeout", "no_route", "refused", "closed", "tls", "certificate", "truncated",
    "broken", "too_large",
]  # fmt: skip


class NotSent(Exception):
    """No byte of the request reached the server."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


_EC2_METADATA = ipaddress.ip_address("fd00:ec2::254")


def refuse_metadata(address: object) -> None:
    """Raise NotSent when a name led to a metadata service: no CML server lives there.

    Source: facts/fleet-bugs.md#t45.

    Admission rules refuse such an address in a spec; here a name was resolved to one.
    """
    try:
        judged = ipaddress.ip_address(str(address).split("%", 1)[0])
    except ValueError:
        return
    judged = getattr(judged, "ipv4_mapped", None) or judged
    if judged.is_link_local or judged == _EC2_METADATA:
        raise NotSent("no_route", "the name leads to a link-local or metadata address")


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
    """Connections to one boot of one server."""

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate last seen, lower-case hex; None before TLS or without."""
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
        """Exchange one request; path is quoted and starts below `/api/v0/`.

        `headers` must not change afterwards: a transport may keep what it made of them.
        Raises NotSent or ReplyLost, nothing else.
        """
        ...

    async def close(self) -> None:
        """Drop the connections; safe to repeat."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """All bounds of the adapter in one place: machine seconds, bytes and counts.

    `read`, `write`, `upload` and `probe` are the deadlines of whole calls, a new login and
    the one repeat included. After `breaker_failures` link failures in a row a server is
    left alone for `breaker_rest` seconds. An unused connection is closed after `idle` seconds.
    """

    read: Deadlines = Deadlines(connect=5, read=15, total=30)
    write: Deadlines = Deadlines(connect=5, read=30, total=45)
    upload: Deadlines = Deadlines(connect=5, read=90, total=120)
    probe: Deadlines = Deadlines(connect=3, read=5, total=8)
    connections: int = 4
    idle: float = 75.0
    reply_bytes: int = 16 * 1024 * 1024
    request_bytes: int = 20 * 1024 * 1024
    breaker_failures: int = 5
    breaker_rest: float = 10.0
    labs: int = 1000
    observe_nodes: int = 64
    observe_total: float = 60.0


Connect = Callable[[HostAddress, str | None, Limits], Transport]
"""Makes the transport of an address; the text is the certificate seen earlier this boot."""
