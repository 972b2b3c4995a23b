"""Which network is below this adapter, and all of the adapter's bounds.

The network is our own HTTP client (adapters/http) or, in a rehearsal, another Transport.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labfleet.adapters.http.peers import refuse_metadata
from labfleet.adapters.http.pool import HttpTransport
from labfleet.adapters.http.transport import Bounds, Deadlines, Transport
from labfleet.interfaces.lab_host import HostAddress

API = "/api/v0"


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


def connect(address: HostAddress, seen: str | None, limits: Limits) -> Transport:
    """Make the transport to the API of one boot of one server; opens nothing yet."""
    return HttpTransport(
        address.base_url.rstrip("/").removesuffix(API),
        address.tls,
        Bounds(limits.connections, limits.idle, limits.reply_bytes),
        below=f"{API}/",
        seen=seen,
        judge=refuse_metadata,
    )
