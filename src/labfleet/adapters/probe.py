"""Tries TCP ports of labs from here, as a user would (facts/cml-issues.md#f40).

It connects and hangs up; it sends nothing, knows nothing of labs and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass

from labfleet.kernel import addresses

ADDRESSES = 4
"""How many addresses of a name are tried, within the one deadline."""


@dataclass(frozen=True, slots=True)
class TcpProbe:
    """A PortProbe by TCP connect; `deadline` is machine seconds for the whole attempt."""

    deadline: float = 3.0

    async def answers(self, address: str, port: int) -> bool:
        """Tell whether a TCP connection is accepted in time; never raises for a dead port.

        Refused, unroutable, silent and impossible (number outside 1-65535) are all False, and so
        is an address where no server of labs can be, such as that of a cloud's metadata: a name
        may lead there, and is resolved once for the check and the connection.
        """
        if not address or not 0 < port < 65536:
            return False
        try:
            async with asyncio.timeout(self.deadline):
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM)
                hosts = list(dict.fromkeys(str(each[4][0]) for each in found))[:ADDRESSES]
                return await _first(hosts, port)
        except OSError:  # TimeoutError and name errors are OSErrors too
            return False


async def _first(hosts: list[str], port: int) -> bool:
    """Tell whether one of a name's addresses accepts a connection."""
    for host in hosts:
        if not addresses.may_host(host):
            continue
        with contextlib.suppress(ConnectionError, OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return True
    return False
